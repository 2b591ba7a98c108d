"""What every door sends of an index or a store: something always, passages, no more than was asked for."""

import functools
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from langchain_core.documents import Document
from langchain_core.load import dumps, loads
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter
from llama_index.core import Document as LlamaDocument
from llama_index.core import VectorStoreIndex
from llama_index.core.llms import LLMMetadata
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import (
    IndexNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)

from sage_core.errors import InputError
from sage_core.selection import FixedK, SelectionConfig
from sage_core.text.tokens import get_counter
from sage_langchain import MiniLMEmbeddings, SageCompressor, SageTextSplitter, create_sage_chain
from sage_langchain import SageRetriever as LangChainRetriever
from sage_llamaindex import (
    MiniLMEmbedding,
    SageNodePostprocessor,
    SageQueryEngine,
    feedback_of,
)
from sage_llamaindex import SageRetriever as LlamaIndexRetriever
from tests.core.test_passages import SENTENCES
from tests.fakes.langchain import ScriptedChat, WordEmbeddings
from tests.fakes.llamaindex import ScriptedLLM, grade, trace_of
from tests.parity.asking import SENDING, Door, Given, Searched, Sent

TEXTS = [
    "The ferry leaves the island at seven in the morning.",
    "On Sundays the ferry leaves at nine.",
    "Tickets cost nine crowns; children travel free.",
    "Bees live on the roof of the library.",
    "Their honey is sold in autumn.",
    "The library opens at ten and lends books for four weeks.",
    "Seals live in the harbor and come back every spring.",
    "The lighthouse was built in 1870.",
    "Its lamp is electric now.",
    "The mayor keeps goats behind the town hall.",
    "Bread is baked on the island twice a week.",
    "A doctor comes over from the mainland on Mondays.",
]
RELEVANT, OTHER = "When does the ferry leave?", "What is the capital of Peru?"

MOORED = "How many boats may moor at the Salt Jetty in winter?"
ANSWER = "In winter at most eleven boats may moor at the Salt Jetty."
LONG = "\n\n".join(
    f"## Part {n}\n\n" + " ".join(f"{sentence} So it was in year {n}." for sentence in SENTENCES)
    for n in range(1, 7)
).replace("So it was in year 4. The ferry of the north quay", f"{ANSWER} The ferry of the north quay")
assert LONG.count(ANSWER) == 1

DOORS = pytest.mark.parametrize("door", SENDING.values(), ids=SENDING)
AWAITED = pytest.mark.parametrize("awaited", [False, True], ids=["at once", "awaited"])


def index_of(texts: list[str]) -> VectorStoreIndex:
    return VectorStoreIndex([TextNode(text=t) for t in texts], embed_model=MiniLMEmbedding())


@pytest.fixture(scope="module")
def short() -> Searched:
    return Searched(index_of(TEXTS), InMemoryVectorStore.from_texts(TEXTS, MiniLMEmbeddings()))


@functools.cache
def parts(size: int = 400) -> tuple[list[Any], list[Document]]:
    """One document in nodes of stock splitters, which overlap."""
    document = LlamaDocument(text=LONG, doc_id="d", metadata={"title": "Harbor"})
    nodes = SentenceSplitter(chunk_size=size, chunk_overlap=60).get_nodes_from_documents([document])
    splitter = RecursiveCharacterTextSplitter(chunk_size=1_600, chunk_overlap=250, add_start_index=True)
    documents = splitter.split_documents([Document(LONG, metadata={"source": "d", "title": "Harbor"})])
    return nodes, [d.model_copy(update={"id": str(i)}) for i, d in enumerate(documents)]


@pytest.fixture(scope="module")
def long() -> Searched:
    nodes, documents = parts()
    store = InMemoryVectorStore(WordEmbeddings())
    store.add_documents(documents)
    return Searched(VectorStoreIndex(nodes, embed_model=MiniLMEmbedding()), store)


def tokens(sent: list[Sent]) -> int:
    return sum(get_counter("bert").count_many([s.text for s in sent]))


def none(sent: list[Sent]) -> bool:
    return not sent


def within_30(sent: list[Sent]) -> bool:
    return TEXTS[0] in [s.text for s in sent] and tokens(sent) <= 30


def passages(sent: list[Sent]) -> bool:
    """Exact slices with their places, no sentence twice, few of them."""
    for text, _, start in sent:
        assert start is not None and LONG[start : start + len(text)] == text
    places = sorted((s.start, s.start + len(s.text)) for s in sent if s.start is not None)
    # A sentence in which a node of a stock splitter ends is whole in the next one.
    assert all("." not in LONG[b[0] : a[1]] for a, b in pairwise(places))
    assert len({s.id for s in sent}) == len(sent)
    return any(ANSWER in s.text for s in sent) and tokens(sent) <= 500


def whole_nodes(sent: list[Sent]) -> bool:
    nodes, documents = parts()
    whole = {n.text for n in nodes} | {d.page_content for d in documents}
    return bool(sent) and {s.text for s in sent} <= whole


class Case(NamedTuple):
    """Settings of a door, a question, and what must hold of what is sent."""

    expected: Callable[[list[Sent]], bool]
    question: str = OTHER
    searched: str = "short"
    settings: dict[str, Any] = {}  # noqa: RUF012


CASES = {
    "something is sent": Case(bool),
    "nothing below the usual number": Case(none, settings={"empty_below": "auto", "min_k": 3}),
    "a ceiling in tokens": Case(within_30, RELEVANT, settings={"max_context_tokens": 30}),
    "passages": Case(passages, MOORED, "long"),
    "whole nodes": Case(whole_nodes, MOORED, "long", {"passages": "off"}),
}


@DOORS
@AWAITED
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_sent(door: Door, awaited: bool, case: Case, request: pytest.FixtureRequest) -> None:
    searched = request.getfixturevalue(case.searched)
    assert case.expected(door(case.question, searched, awaited, **case.settings))


@DOORS
@AWAITED
@pytest.mark.parametrize("question", ["", " \n"])
def test_a_blank_question_is_an_error(door: Door, awaited: bool, question: str, short: Searched) -> None:
    if door in (SENDING["postprocessor"], SENDING["compressor"]):
        pytest.skip("what was searched without a question is ranked without one")
    with pytest.raises(InputError, match=r"blank|question"):
        door(question, short, awaited)


def test_what_is_looked_for_may_be_a_vector(short: Searched) -> None:
    looked_for = QueryBundle("", embedding=MiniLMEmbedding().get_query_embedding(RELEVANT))
    assert LlamaIndexRetriever.from_index(short.index).retrieve(looked_for)
    engine = SageQueryEngine.from_args(Given(TEXTS), llm=ScriptedLLM.of())
    assert str(engine.query(looked_for)) == "an answer"


# What is denied, and what is not

DENYING: dict[str, Any] = {"selection": SelectionConfig(empty_below=0.999)}


def test_an_order_without_scores_never_denies() -> None:
    ours = SageNodePostprocessor(**DENYING)
    llm = ScriptedLLM.of(["no"])
    assert (
        str(SageQueryEngine.from_args(Given(TEXTS), llm=llm, node_postprocessors=[ours]).query(OTHER)) == "no"
    )
    retriever = LangChainRetriever(
        base_retriever=lambda _: [Document(text) for text in TEXTS],
        base_compressor=SageCompressor(**DENYING),
    )
    assert (
        create_sage_chain(ScriptedChat(replies=["no", grade(9)]), retriever).invoke(OTHER)["answer"] == "no"
    )


def test_what_another_part_rewrote_is_not_denied(short: Searched) -> None:
    """The documents bear on the question that was searched, not on "and then?"."""

    def rewritten(_: Any) -> list[Document]:
        found = short.store.similarity_search_with_score(RELEVANT, k=12)
        return [d.model_copy(update={"metadata": {"score": score}}) for d, score in found]

    retriever = LangChainRetriever(
        base_retriever=RunnableLambda(rewritten), base_compressor=SageCompressor(**DENYING)
    )
    assert retriever.invoke({"input": "and to Peru?", "chat_history": [RELEVANT]})
    assert not retriever.invoke("and to Peru?"), "the question itself is denied"


async def test_a_result_says_how_sure_it_is(short: Searched) -> None:
    for asked, doubted in ((RELEVANT, False), (OTHER, True)):
        engine = SageQueryEngine.from_index(short.index, llm=ScriptedLLM.of(["an answer"], [grade(9)]))
        response = await engine.aquery(asked)
        chain = create_sage_chain(ScriptedChat(replies=["a", grade(9)]), short.store)
        output = await chain.ainvoke(asked)
        for outcome in (response.metadata["sage"], output["sage"]["selection"]):
            assert outcome["low_confidence"] is doubted
            assert (outcome["best_probability"] < 0.02) is doubted


@pytest.mark.parametrize("streaming", [False, True])
async def test_an_engine_says_so_without_its_llm(
    short: Searched, streaming: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "sage_core")
    llm, selection = ScriptedLLM.of(["at seven"], [grade(9)]), SelectionConfig(empty_below="auto")
    engine = SageQueryEngine.from_index(short.index, llm=llm, streaming=streaming, selection=selection)
    for response in (engine.query(OTHER), await engine.aquery(OTHER)):
        text = await response.get_response() if hasattr(response, "async_response_gen") else response
        assert str(text) == "The documents do not say."
        result = feedback_of(response)
        assert result is not None and result.stop_reason == "nothing_relevant" and not result.usage.calls
        assert "the best has a probability of 0.00" in result.selection.reason
    assert not llm.asked("answer") and not llm.asked("critic")
    assert "(empty_below=0.02); empty_below=None always keeps some of the 12 candidates" in caplog.text


def test_it_is_said_in_the_language_of_the_question() -> None:
    german = [f"Die Fähre Nummer {i} legt um sieben ab und kommt am Abend zurück." for i in range(12)]
    asked = "Wie heißt die Hauptstadt von Peru und wer regiert sie?"
    denying = {"selection": SelectionConfig(empty_below="auto")}
    engine = SageQueryEngine.from_index(index_of(german), llm=ScriptedLLM.of(), **denying)
    store = InMemoryVectorStore.from_texts(german, MiniLMEmbeddings())
    chain = create_sage_chain(ScriptedChat(replies=[]), store, **denying)
    said = "In den Dokumenten steht das nicht."
    assert str(engine.query(asked)) == chain.invoke(asked)["answer"] == said


class SmallLLM(ScriptedLLM):
    """An LLM that says how much it reads."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(context_window=1_000, num_output=10)


@pytest.mark.parametrize(("settings", "most"), [({}, 500), ({"max_context_tokens": 300}, 300)])
def test_half_of_a_small_window_is_a_ceiling(settings: dict[str, Any], most: int) -> None:
    settings = {"selection": SelectionConfig(rule=FixedK(12)), **settings}
    texts = [f"{text} " * 8 for text in TEXTS]  # 1,200 tokens
    engine = SageQueryEngine.from_index(index_of(texts), llm=SmallLLM.of(["At seven."]), **settings)
    count = get_counter("bert").count
    assert most / 2 < sum(count(n.text) for n in engine.query(RELEVANT).source_nodes) <= most
    store = InMemoryVectorStore.from_texts(texts, MiniLMEmbeddings())
    chat = ScriptedChat(replies=["At seven.", grade(9)], profile={"max_input_tokens": 1_000})
    documents = create_sage_chain(chat, store, **settings).invoke(RELEVANT)["context"]
    assert most / 2 < sum(count(d.page_content) for d in documents) <= most


# Passages as nodes and documents of the frameworks


def in_list(long: Searched) -> list[NodeWithScore]:
    return long.index.as_retriever(similarity_top_k=60).retrieve(MOORED)


def test_passages_that_touch_are_one(long: Searched) -> None:
    many = SelectionConfig(min_context_tokens=450)
    nodes = SageNodePostprocessor(selection=many).postprocess_nodes(in_list(long), query_str=MOORED)
    documents = LangChainRetriever.from_vectorstore(long.store, selection=many).invoke(MOORED)
    for sent in (
        [(n.node.metadata["node_id"], n.node.start_char_idx, n.text) for n in nodes],
        [(d.metadata.get("node_id", d.id), d.metadata["start_index"], d.page_content) for d in documents],
    ):
        assert len(sent) > 2
        for (node, start, text), (other, after, _) in pairwise(sorted(sent)):
            assert node != other or LONG[start + len(text) : after].strip()


def test_a_passage_is_safe_behind_us(long: Searched) -> None:
    given = [n.model_copy(deep=True) for n in in_list(long)]
    for found in given:
        found.node.relationships[NodeRelationship.PARENT] = RelatedNodeInfo(node_id="whole")
        found.node.metadata["window"] = LONG
    before = [found.node.model_dump_json() for found in given]
    sent = SageNodePostprocessor().postprocess_nodes(given, query_str=MOORED)
    assert [found.node.model_dump_json() for found in given] == before
    for found in sent:
        node, parent = found.node, found.node.metadata["node_id"]
        assert set(node.relationships) == {NodeRelationship.SOURCE} and node.embedding is None
        assert "window" not in node.metadata and parent in {n.node.node_id for n in given}
        assert "node_id" in node.excluded_llm_metadata_keys and "node_id" in node.excluded_embed_metadata_keys
        assert node.start_char_idx is None, "children count in their parent"
        assert json.loads(node.to_json())["class_name"] == "TextNode"


SOME = SelectionConfig(min_context_tokens=600)


@pytest.mark.parametrize("mode", ["refine", "accumulate"])
def test_an_llm_that_is_called_for_each_node_is_called_no_oftener_and_each_call_counts(mode: str) -> None:
    index = VectorStoreIndex(parts(1_024)[0], embed_model=MiniLMEmbedding())
    asked, llm = LlamaIndexRetriever.from_index(index, selection=SOME), ScriptedLLM.of([ANSWER], [grade(9)])
    response = SageQueryEngine.from_args(asked, llm=llm, response_mode=mode).query(MOORED)
    sent = asked.retrieve(MOORED)
    held = {n.node.metadata["node_id"] for n in sent}
    assert len(held) == len(response.source_nodes) < len(sent)
    assert all(n.node.text in "\n".join(p.node.text for p in response.source_nodes) for n in sent)
    assert trace_of(response).usage.calls == len(llm.asked("answer")) + 1 > 2


def test_a_prompt_has_passages_in_the_document_s_order_and_names_it_once(long: Searched) -> None:
    asked = LlamaIndexRetriever.from_index(long.index, selection=SOME)
    llm = ScriptedLLM.of([ANSWER], [grade(9)])
    shown = [n.node for n in SageQueryEngine.from_args(asked, llm=llm).query(MOORED).source_nodes]
    starts = [node.start_char_idx for node in shown]
    assert len(starts) > 2 and starts == sorted(starts)
    texts = [node.get_content(metadata_mode=MetadataMode.LLM) for node in shown]
    assert ["title: Harbor" in text for text in texts] == [True] + [False] * (len(texts) - 1)
    # Whoever reads a retriever's passages may put them in another order.
    found = [n.node.get_content(metadata_mode=MetadataMode.LLM) for n in asked.retrieve(MOORED)]
    assert all("title: Harbor" in text for text in found)
    retriever = LangChainRetriever.from_vectorstore(long.store, selection=SOME)
    chain = create_sage_chain(ScriptedChat(replies=[ANSWER, grade(9)]), retriever)
    given = [d.metadata["start_index"] for d in chain.invoke(MOORED)["context"]]
    assert len(given) > 1 and given == sorted(given)


def test_the_same_passage_has_the_same_id_for_other_questions_and_fusion_keeps_it(long: Searched) -> None:
    retriever = LlamaIndexRetriever.from_index(long.index)
    cuts = {n.node.node_id: n.node.text for n in retriever.retrieve(MOORED)}
    both: Any = [retriever, retriever]
    fused = QueryFusionRetriever(
        both, llm=ScriptedLLM.of(), num_queries=1, similarity_top_k=20, use_async=False
    )
    assert {n.node.node_id for n in fused.retrieve(MOORED)} == {*cuts}
    for question in ("Who may moor at the jetty?", "What is free for children?"):
        for found in retriever.retrieve(question):
            assert cuts.setdefault(found.node.node_id, found.node.text) == found.node.text


@pytest.mark.parametrize("text", [LONG, ""])
def test_nodes_that_lead_elsewhere_stay_whole(text: str, long: Searched) -> None:
    given = [NodeWithScore(node=IndexNode(text=text, index_id="other"), score=0.9), *in_list(long)]
    ranked = SageNodePostprocessor().rerank(given, QueryBundle(MOORED)).nodes
    assert len(ranked) > len(given), "the others are cut"
    assert [n.node.text for n in ranked if isinstance(n.node, IndexNode)] == [text]


def test_short_nodes_are_the_caller_s_own(long: Searched) -> None:
    mine = NodeWithScore(node=TextNode(text=ANSWER), score=0.5)
    sent = SageNodePostprocessor().postprocess_nodes([mine, *in_list(long)], query_str=MOORED)
    assert any(n.node.node_id == mine.node.node_id and n.node.text == ANSWER for n in sent)


@pytest.mark.parametrize("select", [True, False])
def test_documents_are_saved_as_any_other(select: bool, long: Searched) -> None:
    found = LangChainRetriever.from_vectorstore(long.store).invoke(MOORED, select=select)
    assert json.loads(json.dumps([d.metadata for d in found])) == [d.metadata for d in found]
    again = loads(dumps(found), allowed_objects="core")
    assert [d.page_content for d in again] == [d.page_content for d in found]


# Whatever is asked, no door loses what plain search over the same index finds.

ROOT = Path(__file__).parents[2]
ROWS = [
    json.loads(line)
    for line in (ROOT / "notebooks/island_questions.jsonl").read_text(encoding="utf-8").splitlines()
]
FORMS = (
    "{}",
    "Write an email to Mr Fairweather-Oduya that answers him: {}",
    "What does Priscilla Vandermeer say: {}",
)


def plain(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.slow
def test_nothing_that_plain_search_finds_is_lost() -> None:
    """An engine and a chain send what their retrievers send."""
    guides = [
        Document(p.read_text("utf-8"), metadata={"source": p.name})
        for p in sorted((ROOT / "demo/documents").glob("*.[mt][dx]*"))
    ]
    pieces = SageTextSplitter(add_start_index=True).split_documents(guides)
    nodes = [TextNode(text=p.page_content, metadata={"file_name": p.metadata["source"]}) for p in pieces]
    searched = Searched(
        VectorStoreIndex(nodes, embed_model=MiniLMEmbedding()),
        InMemoryVectorStore.from_documents(pieces, MiniLMEmbeddings()),
    )
    mine = LlamaIndexRetriever.from_index(searched.index)
    theirs = LangChainRetriever.from_vectorstore(searched.store)
    doors: dict[str, Callable[[str], list[str]]] = {
        "LlamaIndex retriever": lambda q: [n.text for n in mine.retrieve(q)],
        "postprocessor": lambda q: [s.text for s in SENDING["postprocessor"](q, searched)],
        "LangChain retriever": lambda q: [d.page_content for d in theirs.invoke(q)],
        "compressor": lambda q: [s.text for s in SENDING["compressor"](q, searched)],
    }
    lost: list[tuple[str, str]] = []
    hits = 0
    for i, row in enumerate(ROWS[::2]):
        question, quote = FORMS[i % len(FORMS)].format(row["question"]), plain(row["evidence"][0]["quote"])
        found = quote in plain(searched.store.similarity_search(question, k=1)[0].page_content)
        hits += found
        for name, ask in doors.items():
            sent = plain(" ".join(ask(question)))
            if not sent or (found and quote not in sent):
                lost.append((name, row["id"]))
    assert hits >= 8, "else this says nothing"
    assert lost == []
