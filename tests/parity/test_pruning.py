"""Pruning is the same in the core and in both frameworks, and keeps exact places."""

import asyncio
from typing import Any

import pytest
from langchain_core.documents import Document
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import ImageNode, NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode

from sage_core.errors import InputError
from sage_core.verify import SentencePruner
from sage_langchain import SageCompressor, SageRetriever, create_sage_chain
from sage_langchain import SagePruner as DocumentPruner
from sage_llamaindex import SageNodePostprocessor, SagePruner, SageQueryEngine
from tests.fakes.langchain import ListReranker, ScriptedChat

QUESTION = "When does the ferry leave for the island?"
TEXTS = [
    "The ferry leaves for the island at seven. Painters came to the coast in 1890. They liked the light.",
    "# Harbor\n\nSeals rest on the banks of the harbor. The ferry passes them slowly.\n\n- No dogs.\n- No fires.",
    "Bees need many flowers in spring. Nobody keeps them on the island now. The ferry brings honey.",
    "Die Fähre fährt um sieben Uhr, und das ist nicht spät für die Leute auf der Insel und im Hafen.",
]
SCORES = [0.9, 0.4, 0.05, 0.04]
FERRY = (
    "The ferry leaves for the island at seven. Painters came to the coast in 1890. They liked the light of the "
    "evening. The ferry leaves the island again at noon."
)
KEPT = ["The ferry leaves for the island at seven.", "The ferry leaves the island again at noon."]
SOURCE = f"Intro.\n\n{FERRY}"


def node(
    text: str = FERRY, start: int | None = SOURCE.index(FERRY), score: float | None = 0.9
) -> NodeWithScore:
    end = None if start is None else start + len(text)
    made = TextNode(text=text, id_="n1", start_char_idx=start, end_char_idx=end, metadata={"file": "a.md"})
    made.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="doc")
    return NodeWithScore(node=made, score=score)


def document(text: str = FERRY, **metadata: Any) -> Document:
    return Document(text, id="a", metadata={"file": "a.md", "start_index": SOURCE.index(FERRY), **metadata})


@pytest.mark.parametrize("threshold", [0.01, 0.1, 1.0])
def test_the_same_slices_with_their_places(threshold: float) -> None:
    pruned = SentencePruner(threshold=threshold).prune(QUESTION, TEXTS, SCORES, "probability")
    expected = [(s.of(t), s.start) for p, t in zip(pruned, TEXTS, strict=True) for s in p.kept]
    documents = [document(t, relevance_score=s, start_index=0) for t, s in zip(TEXTS, SCORES, strict=True)]
    before = [d.model_copy(deep=True) for d in documents]
    pruner = DocumentPruner(threshold=threshold)
    found = pruner.compress_documents(documents, QUESTION)
    assert [(d.page_content, d.metadata["start_index"]) for d in found] == expected
    assert documents == before and {d.metadata["file"] for d in found} == {"a.md"}
    assert pruner.transform_documents(documents, query=QUESTION) == found
    assert asyncio.run(pruner.atransform_documents(documents, query=QUESTION)) == found
    assert asyncio.run(pruner.acompress_documents(documents, QUESTION)) == found
    nodes = [node(t, 0, s) for t, s in zip(TEXTS, SCORES, strict=True)]
    ours = SagePruner(threshold=threshold, scale="probability")
    kept = ours.postprocess_nodes(nodes, query_str=QUESTION)
    assert [(n.text, n.node.start_char_idx) for n in kept] == expected
    assert {(n.node.metadata["file"], n.node.ref_doc_id) for n in kept} == {("a.md", "doc")}
    assert [n.text for n in nodes] == TEXTS and nodes[0].node.node_id == "n1"
    awaited = asyncio.run(ours.apostprocess_nodes(nodes, query_str=QUESTION))
    assert [n.text for n in awaited] == [n.text for n in kept]
    whole = DocumentPruner(threshold=threshold).compress_documents([document()], QUESTION)
    for piece in whole:
        start = piece.metadata["start_index"]
        assert SOURCE[start : start + len(piece.page_content)] == piece.page_content
    for piece in SagePruner(threshold=threshold).postprocess_nodes([node()], query_str=QUESTION):
        assert (
            SOURCE[piece.node.start_char_idx : piece.node.end_char_idx] == piece.text and piece.score == 0.9
        )


def test_what_has_no_places_or_no_text_passes() -> None:
    pieces = SagePruner(threshold=0.2).postprocess_nodes([node(start=None, score=None)], query_str=QUESTION)
    assert [p.text for p in pieces] == KEPT and all(p.node.start_char_idx is None for p in pieces)
    assert len({p.node_id for p in pieces}) == 2
    given = [NodeWithScore(node=ImageNode(text="", image_url="x"), score=0.5), NodeWithScore(node=TextNode())]
    found = SagePruner(threshold=0.2).postprocess_nodes(given, query_str=QUESTION)
    assert DocumentPruner().compress_documents([Document("")], QUESTION) == [Document("")]
    assert [f.node for f in found] == [g.node for g in given]


def test_a_header_before_the_text_is_taken_off_first() -> None:
    given = document(f"Timetable\n{FERRY}", header="Timetable")
    found = DocumentPruner(threshold=0.2).compress_documents([given], QUESTION)
    assert [d.page_content for d in found] == KEPT and "header" not in found[0].metadata
    assert [d.metadata["start_index"] for d in found] == [SOURCE.index(text) for text in KEPT]


def test_settings_are_checked_and_saved_and_a_question_is_needed() -> None:
    for make in (SagePruner, DocumentPruner):
        with pytest.raises(InputError, match="threshold"):
            make(threshold=3)
        with pytest.raises(InputError, match="cutoff"):
            make(cutoff=0.2)
    with pytest.raises(InputError, match="question"):
        SagePruner().postprocess_nodes([node()])
    with pytest.raises(InputError, match="question"):
        DocumentPruner().transform_documents([document()])
    assert SagePruner().postprocess_nodes([]) == []
    pruner = SagePruner.from_dict(SagePruner(threshold=0.2, scale="probability").to_dict())
    assert (pruner.threshold, pruner.scale, pruner._pruner.threshold) == (0.2, "probability", 0.2)
    assert SageNodePostprocessor.from_dict(SageNodePostprocessor(prune=True).to_dict()).prune is True
    assert DocumentPruner().model_copy(update={"threshold": 0.5})._pruner.threshold == 0.5


def test_in_retrievers_and_pipelines_of_langchain() -> None:
    classic = pytest.importorskip("langchain_classic.retrievers")
    compressors = pytest.importorskip("langchain_classic.retrievers.document_compressors")
    pipeline = compressors.DocumentCompressorPipeline(
        transformers=[SageCompressor(reranker=ListReranker([0.9])), DocumentPruner(threshold=0.2)]
    )
    assert [d.page_content for d in pipeline.compress_documents([document()], QUESTION)] == KEPT
    inner = SageRetriever(base_retriever=lambda _: [document()], reranker=ListReranker([0.9]))
    around = classic.ContextualCompressionRetriever(
        base_retriever=inner, base_compressor=DocumentPruner(threshold=0.2)
    )
    assert [d.page_content for d in around.invoke(QUESTION)] == KEPT


class Fixed(BaseRetriever):
    """Returns the same nodes for every question."""

    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return [node()]


@pytest.mark.parametrize("feedback", ["off", "before_stream"])
def test_an_engine_answers_from_the_slices(monkeypatch: pytest.MonkeyPatch, feedback: str) -> None:
    hard = lambda _, scale: SagePruner(threshold=0.2, scale=scale)  # noqa: E731
    monkeypatch.setattr(SageNodePostprocessor, "pruner", hard)
    ours = SageNodePostprocessor(prune=True, scale="probability")
    engine = SageQueryEngine.from_args(
        Fixed(), llm=MockLLM(), node_postprocessors=[ours], feedback=feedback, critic="local"
    )
    for response in (engine.query(QUESTION), asyncio.run(engine.aquery(QUESTION))):
        assert [n.text for n in response.source_nodes] == KEPT and "Painters" not in str(response)


def test_a_chain_answers_from_the_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sage_langchain.chain.SagePruner", lambda: DocumentPruner(threshold=0.2))
    model = ScriptedChat(replies=["At seven."])
    retriever = SageRetriever(base_retriever=lambda _: [document()], reranker=ListReranker([0.9]))
    output = create_sage_chain(model, retriever, prune=True, max_calls=1).invoke(QUESTION)
    assert [d.page_content for d in output["context"]] == KEPT
    assert "Painters" not in "\n".join(str(m.content) for m in model.seen[0])


def test_off_by_default() -> None:
    assert SageNodePostprocessor().pruner("probability") is None
    assert [n.text for n in SageNodePostprocessor().postprocess_nodes([node()], query_str=QUESTION)] == [
        FERRY
    ]
