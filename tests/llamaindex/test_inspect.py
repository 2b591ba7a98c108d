"""`inspect` over what LlamaIndex itself offers: real embeddings, no part of ours."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import (
    HierarchicalNodeParser,
    SentenceSplitter,
    SentenceWindowNodeParser,
    get_leaf_nodes,
)
from llama_index.core.postprocessor import MetadataReplacementPostProcessor, SimilarityPostprocessor
from llama_index.core.retrievers import AutoMergingRetriever, QueryFusionRetriever, VectorIndexRetriever
from llama_index.core.schema import QueryBundle, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

from sage_core.errors import InputError
from sage_core.inspecting import Inspection
from sage_core.selection import SelectionConfig
from sage_llamaindex import MiniLMEmbedding, SageQueryEngine, SageRetriever, ainspect, inspect
from tests.fakes.llamaindex import ScriptedLLM, grade

TEXTS = (
    "The ferry leaves the island at seven in the morning. On Sundays it leaves at nine.",
    "Tickets cost nine crowns. Children travel free.",
    "Bees live on the roof of the library. Their honey is sold in autumn.",
    "The library opens at ten. It lends books for four weeks.",
    "Seals live in the harbor. They come back every spring.",
    "The lighthouse was built in 1870. Its lamp is now electric.",
)
QUESTION = "When does the ferry leave?"
EVIDENCE = "leaves the island at seven"


@pytest.fixture(scope="module")
def embedding() -> MiniLMEmbedding:
    return MiniLMEmbedding()


@pytest.fixture(scope="module")
def index(embedding: MiniLMEmbedding) -> VectorStoreIndex:
    nodes = [
        TextNode(text=text, id_=f"n{i}", metadata={"file_name": "island.md", "part": "ab"[i % 2]})
        for i, text in enumerate(TEXTS)
    ]
    return VectorStoreIndex(nodes, embed_model=embedding)


def steps(found: Inspection) -> list[str]:
    return [step.name for step in found.steps]


def part(name: str) -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key="part", value=name)])


def test_vector_search_has_scores_tokens_and_what_is_shared(index: VectorStoreIndex) -> None:
    found = inspect(index.as_retriever(similarity_top_k=4), QUESTION)
    assert steps(found) == ["VectorIndexRetriever"]
    [step] = found.steps
    assert step.settings == "similarity_top_k=4"
    assert step.incoming == step.moves == () and "4 found" in step.title
    assert [p.number for p in found.sent] == [1, 2, 3, 4]
    direct = index.as_retriever(similarity_top_k=4).retrieve(QUESTION)
    assert [p.score for p in found.sent] == [n.score for n in direct]
    assert EVIDENCE in found.text
    assert found.sent[0].prompt.startswith("file_name: island.md")
    assert found.tokens == sum(p.tokens for p in found.sent) > 40


def test_bm25(index: VectorStoreIndex) -> None:
    bm25 = pytest.importorskip("llama_index.retrievers.bm25")
    retriever = bm25.BM25Retriever.from_defaults(docstore=index.docstore, similarity_top_k=3)
    found = inspect(retriever, QUESTION)
    assert steps(found) == ["BM25Retriever"]
    assert found.sent[0].id == "n0" and found.sent[0].score > found.sent[1].score


@pytest.mark.parametrize("use_async", [False, True])
def test_fusion_shows_each_search_and_what_moved(index: VectorStoreIndex, use_async: bool) -> None:
    bm25 = pytest.importorskip("llama_index.retrievers.bm25")
    parts = [
        index.as_retriever(similarity_top_k=5),
        bm25.BM25Retriever.from_defaults(docstore=index.docstore, similarity_top_k=3),
    ]
    fusion = QueryFusionRetriever(
        parts, llm=MockLLM(), num_queries=1, mode="reciprocal_rerank", similarity_top_k=3, use_async=use_async
    )
    found = inspect(fusion, QUESTION)
    assert sorted(steps(found)[:2]) == ["BM25Retriever", "VectorIndexRetriever"]
    assert steps(found)[2] == "QueryFusionRetriever"
    last = found.steps[-1]
    assert len(last.incoming) == 8 and len(last.passages) == 3
    assert {*last.dropped} == {*last.incoming} - {p.number for p in last.passages} and last.dropped
    assert "5 in, 3 out" in last.title
    assert last.passages[0].score == pytest.approx(2 / 60)


def test_queries_that_a_fusion_makes_are_shown(index: VectorStoreIndex) -> None:
    llm = ScriptedLLM.of(["timetable of the ferry\nprice of tickets"])
    fusion = QueryFusionRetriever(
        [index.as_retriever(similarity_top_k=2)], llm=llm, num_queries=3, similarity_top_k=3, use_async=False
    )
    found = inspect(fusion, QUESTION)
    assert [s.question for s in found.steps] == ["", "timetable of the ferry", "price of tickets", ""]
    assert "asked: price of tickets" in found.text
    assert len(found.prompts) == 1 and QUESTION in found.prompts[0]


def test_auto_merging_says_what_the_parent_holds(embedding: MiniLMEmbedding) -> None:
    parser = HierarchicalNodeParser.from_defaults(
        node_parser_ids=["large", "small"],
        node_parser_map={
            "large": SentenceSplitter(chunk_size=120, chunk_overlap=0),
            "small": SentenceSplitter(chunk_size=20, chunk_overlap=0),
        },
    )
    nodes = parser.get_nodes_from_documents([Document(text=" ".join(TEXTS[:3]))])
    docstore = SimpleDocumentStore()
    docstore.add_documents(nodes)
    storage = StorageContext.from_defaults(docstore=docstore)
    leaves = VectorStoreIndex(get_leaf_nodes(nodes), storage_context=storage, embed_model=embedding)
    merging = AutoMergingRetriever(leaves.as_retriever(similarity_top_k=6), storage)
    found = inspect(merging, QUESTION)
    assert steps(found) == ["VectorIndexRetriever", "AutoMergingRetriever"]
    merged = found.steps[-1]
    assert merged.moves == ("new",) and merged.dropped == merged.incoming


def test_sentence_window_keeps_the_number_when_the_text_grows(embedding: MiniLMEmbedding) -> None:
    parser = SentenceWindowNodeParser.from_defaults(window_size=1)
    nodes = parser.get_nodes_from_documents([Document(text=" ".join(TEXTS))])
    windows = VectorStoreIndex(nodes, embed_model=embedding)
    replace = MetadataReplacementPostProcessor(target_metadata_key="window")
    found = inspect(windows.as_retriever(similarity_top_k=2), QUESTION, node_postprocessors=[replace])
    assert steps(found) == ["VectorIndexRetriever", "MetadataReplacementPostProcessor"]
    before, after = (step.passages[0] for step in found.steps)
    assert before.number == after.number == 1
    assert before.text in after.text and len(after.text) > len(before.text)


def test_a_cutoff_is_a_step_with_its_setting(index: VectorStoreIndex) -> None:
    engine = index.as_query_engine(
        llm=MockLLM(),
        similarity_top_k=4,
        node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.5)],
    )
    found = inspect(engine, QUESTION)
    assert steps(found) == ["VectorIndexRetriever", "SimilarityPostprocessor"]
    assert found.steps[1].settings == "similarity_cutoff=0.5"
    assert "4 in, 1 out" in found.steps[1].title and len(found.sent) == 1
    assert EVIDENCE in found.prompts[-1] and TEXTS[1] not in found.prompts[-1]
    assert found.answer and EVIDENCE in found.answer


def test_an_answer_has_its_marks(index: VectorStoreIndex) -> None:
    llm = ScriptedLLM.of(["The ferry leaves at seven in the morning. Seals eat 300 herrings a day."])
    found = inspect(index.as_query_engine(llm=llm, similarity_top_k=2), QUESTION)
    claims = [(m.support, m.passage) for m in found.marks if m.text.strip()]
    assert claims[0] == ("supported", 0) and claims[1][0] == "unsupported"
    assert 'class="unsupported"' in found._repr_html_()


def test_a_chat_engine(index: VectorStoreIndex) -> None:
    chat = ContextChatEngine.from_defaults(retriever=index.as_retriever(similarity_top_k=2), llm=MockLLM())
    found = inspect(chat, QUESTION)
    assert len(found.sent) == 2 and EVIDENCE in found.prompts[-1]


def test_our_retriever_says_where_it_cut(index: VectorStoreIndex) -> None:
    found = inspect(SageRetriever.from_index(index, selection=SelectionConfig(min_k=1)), QUESTION)
    assert steps(found) == [
        "VectorIndexRetriever",
        "SageNodePostprocessor.rerank",
        "SageRetriever > SageNodePostprocessor",
    ]
    ranked, cut = found.steps[1:]
    assert len(ranked.passages) == 6 and ranked.scale == cut.scale == "probability"
    assert "rank 2 falls to" in found.reason and found.reason == cut.reason
    assert "cut: rank 2 falls to" in found.text


def test_our_engine_shows_each_round(index: VectorStoreIndex) -> None:
    llm = ScriptedLLM.of(["a draft", "at seven"], [grade(3, 1), grade(9)])
    engine = SageQueryEngine.from_args(
        index.as_retriever(similarity_top_k=6), llm=llm, selection=SelectionConfig(min_k=1)
    )
    found = inspect(engine, QUESTION)
    assert [name for name in steps(found) if name == "SageQuestion.select"] == ["SageQuestion.select"] * 2
    first, second = (len(s.passages) for s in found.steps if s.name == "SageQuestion.select")
    assert first < second == len(found.sent)
    assert found.answer == "at seven"


def test_the_page_is_one_inert_file(embedding: MiniLMEmbedding, tmp_path: Path) -> None:
    evil = "<script>alert(1)</script> The ferry \x1b[2J leaves."
    hostile = VectorStoreIndex([TextNode(text=evil)], embed_model=embedding)
    found = inspect(hostile.as_retriever(), QUESTION)
    page = found.save_html(tmp_path / "page.html").read_text()
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "\x1b" not in page + found.text
    assert "default-src" in page and 'src="' not in page


def test_other_questions_at_the_same_time_are_not_mixed_in(index: VectorStoreIndex) -> None:
    retriever, found = index.as_retriever(similarity_top_k=3), {}
    stop = threading.Event()

    def others() -> None:
        while not stop.is_set():
            retriever.retrieve("Where do bees live?")

    def ask(question: str) -> None:
        found[question] = [inspect(retriever, question) for _ in range(5)]

    noise = threading.Thread(target=others)
    askers = [threading.Thread(target=ask, args=(q,)) for q in (QUESTION, "When was it built?")]
    for thread in (noise, *askers):
        thread.start()
    for thread in askers:
        thread.join()
    stop.set()
    noise.join()
    for question, runs in found.items():
        assert len(runs) == 5
        for run in runs:
            assert len(run.steps) == 1 and not run.steps[0].question, question


def test_nothing_stays_behind(index: VectorStoreIndex) -> None:
    from llama_index_instrumentation import get_dispatcher

    root = get_dispatcher("root")
    before = (len(root.span_handlers), len(root.event_handlers))
    with pytest.raises(ValueError, match="broken"):
        inspect(Broken(), QUESTION)
    assert (len(root.span_handlers), len(root.event_handlers)) == before


class Broken(VectorIndexRetriever):
    def __init__(self) -> None:
        super().__init__(VectorStoreIndex([], embed_model=MiniLMEmbedding()))

    def _retrieve(self, query_bundle: QueryBundle) -> Any:
        raise ValueError("broken")


def test_what_cannot_be_inspected_is_named(index: VectorStoreIndex) -> None:
    with pytest.raises(InputError, match="as_retriever"):
        inspect(index, QUESTION)


async def test_awaited_it_shows_the_same_and_two_at_once_are_kept_apart(index: VectorStoreIndex) -> None:
    def engine() -> SageQueryEngine:
        return SageQueryEngine.from_index(index, llm=ScriptedLLM.of(["At seven."], [grade(9)]))

    stock = index.as_retriever(similarity_top_k=4)
    for make in (lambda: stock, lambda: SageRetriever.from_index(index), engine):
        expected = inspect(make(), QUESTION)
        one, other = await asyncio.gather(
            ainspect(make(), QUESTION), ainspect(stock, "What lives on the roof?")
        )
        assert steps(one) == steps(expected) and one.answer == expected.answer
        assert [p.text for p in one.sent] == [p.text for p in expected.sent]
        assert one.text == expected.text
        assert steps(other) == ["VectorIndexRetriever"] and len(other.sent) == 4
