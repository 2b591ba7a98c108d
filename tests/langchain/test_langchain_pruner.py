"""`SagePruner` among LangChain's transformers, compressors and retrievers."""

import asyncio

import pytest
from langchain_core.documents import Document

from sage_core.errors import InputError
from sage_langchain import SageCompressor, SagePruner, SageRetriever, create_sage_chain
from tests.fakes.langchain import ListReranker, ScriptedChat

QUESTION = "When does the ferry leave for the island?"
FERRY = (
    "The ferry leaves for the island at seven. Painters came to the coast in 1890. They liked the light of the "
    "evening. The ferry leaves the island again at noon."
)
KEPT = ["The ferry leaves for the island at seven.", "The ferry leaves the island again at noon."]


def documents() -> list[Document]:
    source = f"Intro.\n\n{FERRY}"
    return [
        Document(FERRY, id="a", metadata={"source": "a.md", "start_index": source.index(FERRY)}),
        Document(
            "Die Fähre fährt um sieben Uhr, und das ist nicht spät für die Leute auf der Insel und im Hafen."
        ),
        Document(""),
    ]


def test_a_document_becomes_exact_slices_with_their_places():
    given = documents()
    before = [d.model_copy(deep=True) for d in given]
    found = SagePruner(threshold=0.2).compress_documents(given, QUESTION)
    assert given == before
    assert [d.page_content for d in found] == [*KEPT, given[1].page_content, ""]
    source = f"Intro.\n\n{FERRY}"
    for document in found[:2]:
        start = document.metadata["start_index"]
        assert source[start : start + len(document.page_content)] == document.page_content
        assert document.metadata["source"] == "a.md"


def test_a_header_before_the_text_is_taken_off_first():
    source = f"Intro.\n\n{FERRY}"
    metadata = {"start_index": source.index(FERRY), "header": "Timetable"}
    found = SagePruner(threshold=0.2).compress_documents(
        [Document(f"Timetable\n{FERRY}", metadata=metadata)], QUESTION
    )
    assert [d.page_content for d in found] == KEPT
    for document in found:
        start = document.metadata["start_index"]
        assert source[start : start + len(document.page_content)] == document.page_content
        assert "header" not in document.metadata


def test_as_a_transformer_it_needs_the_question():
    pruner = SagePruner(threshold=0.2)
    expected = pruner.compress_documents(documents(), QUESTION)
    assert pruner.transform_documents(documents(), query=QUESTION) == expected
    assert asyncio.run(pruner.atransform_documents(documents(), query=QUESTION)) == expected
    assert asyncio.run(pruner.acompress_documents(documents(), QUESTION)) == expected
    with pytest.raises(InputError, match="question"):
        pruner.transform_documents(documents())


def test_in_retrievers_and_pipelines():
    classic = pytest.importorskip("langchain_classic.retrievers", reason="langchain-classic is not installed")
    pipeline = pytest.importorskip("langchain_classic.retrievers.document_compressors")
    compressor = pipeline.DocumentCompressorPipeline(
        transformers=[SageCompressor(reranker=ListReranker([0.9])), SagePruner(threshold=0.2)]
    )
    assert [d.page_content for d in compressor.compress_documents([Document(FERRY)], QUESTION)] == KEPT
    around = classic.ContextualCompressionRetriever(
        base_retriever=SageRetriever(
            base_retriever=lambda _: [Document(FERRY)], reranker=ListReranker([0.9])
        ),
        base_compressor=SagePruner(threshold=0.2),
    )
    assert [d.page_content for d in around.invoke(QUESTION)] == KEPT


def test_settings_are_checked():
    with pytest.raises(InputError):
        SagePruner(threshold=3)
    with pytest.raises(InputError):
        SagePruner(treshold=0.1)
    assert SagePruner().model_copy(update={"threshold": 0.5})._pruner.threshold == 0.5


def test_a_chain_prunes_by_the_threshold(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sage_langchain.chain.SagePruner", lambda: SagePruner(threshold=0.2))
    model = ScriptedChat(replies=["At seven."])
    retriever = SageRetriever(base_retriever=lambda _: [Document(FERRY)], reranker=ListReranker([0.9]))
    found = create_sage_chain(model, retriever, prune=True, max_calls=1).invoke({"input": QUESTION})
    assert [d.page_content for d in found["context"]] == KEPT
    assert "Painters" not in "\n".join(str(m.content) for m in model.seen[0])
