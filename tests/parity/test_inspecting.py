"""`inspect` over what both frameworks themselves offer, and over ours: real embeddings."""

import asyncio
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import Document as LlamaDocument
from llama_index.core import VectorStoreIndex
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import (
    SentenceWindowNodeParser,
)
from llama_index.core.postprocessor import MetadataReplacementPostProcessor, SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import TextNode
from llama_index_instrumentation import get_dispatcher

import sage_langchain
import sage_llamaindex
from sage_core.errors import InputError
from sage_core.inspecting import Inspection, Passage, Step
from sage_core.selection import SelectionConfig
from sage_langchain import MiniLMEmbeddings, SageCompressor, create_sage_chain
from sage_llamaindex import MiniLMEmbedding, SageNodePostprocessor, SageQueryEngine
from tests.fakes.langchain import ScriptedChat
from tests.fakes.llamaindex import ScriptedLLM, grade
from tests.parity.asking import Given

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
INVENTED = "The ferry leaves at seven in the morning. Seals eat 300 herrings a day."
QUERIES = "timetable of the ferry\nprice of tickets"


class Searched(NamedTuple):
    """The same texts in both frameworks."""

    index: VectorStoreIndex
    documents: list[Document]
    store: InMemoryVectorStore


@pytest.fixture(scope="module")
def over() -> Searched:
    nodes = [TextNode(text=t, id_=f"n{i}", metadata={"file_name": "island.md"}) for i, t in enumerate(TEXTS)]
    documents = [
        Document(t, metadata={"source": "island.md", "title": "Island"}, id=f"d{i}")
        for i, t in enumerate(TEXTS)
    ]
    store = InMemoryVectorStore.from_documents(documents, MiniLMEmbeddings())
    return Searched(VectorStoreIndex(nodes, embed_model=MiniLMEmbedding()), documents, store)


def inspect(target: Any, question: Any = QUESTION, **settings: Any) -> Inspection:
    of_llamaindex = type(target).__module__.startswith(("llama_index", "sage_llamaindex")) or isinstance(
        target, Given
    )
    return (sage_llamaindex if of_llamaindex else sage_langchain).inspect(target, question, **settings)


def steps(found: Inspection) -> list[str]:
    return [step.name for step in found.steps]


def fusion(over: Searched, **settings: Any) -> QueryFusionRetriever:
    parts = [over.index.as_retriever(similarity_top_k=5), Given(over.index.as_retriever().retrieve("bees"))]
    settings = {
        "llm": MockLLM(),
        "num_queries": 1,
        "mode": "reciprocal_rerank",
        "use_async": False,
        **settings,
    }
    return QueryFusionRetriever(parts, similarity_top_k=3, **settings)


def classic(name: str) -> Any:
    return getattr(pytest.importorskip("langchain_classic.retrievers"), name)


def expressions(over: Searched) -> Any:
    llm, prompt = (
        FakeListChatModel(responses=[INVENTED]),
        ChatPromptTemplate.from_template("{context}\n{question}"),
    )
    found = over.store.as_retriever(search_kwargs={"k": 2}) | (lambda ds: ds[0].page_content)
    return {"context": found, "question": RunnablePassthrough()} | prompt | llm | StrOutputParser()


def cutoff(over: Searched) -> Any:
    similar = [SimilarityPostprocessor(similarity_cutoff=0.5)]
    return over.index.as_query_engine(llm=MockLLM(), similarity_top_k=4, node_postprocessors=similar)


def compression(over: Searched) -> Any:
    ours = SageCompressor(selection=SelectionConfig(min_k=1))
    inner = over.store.as_retriever(search_kwargs={"k": 6})
    return classic("ContextualCompressionRetriever")(base_retriever=inner, base_compressor=ours)


ONE: Any = SelectionConfig(min_k=1)
TARGETS: dict[str, tuple[Callable[[Searched], Any], list[str], int]] = {
    "vectors, LlamaIndex": (lambda o: o.index.as_retriever(similarity_top_k=4), ["VectorIndexRetriever"], 4),
    "vectors": (lambda o: o.store.as_retriever(search_kwargs={"k": 3}), ["VectorStoreRetriever"], 3),
    "fusion": (fusion, ["VectorIndexRetriever", "Given", "QueryFusionRetriever"], 3),
    "cutoff": (cutoff, ["VectorIndexRetriever", "SimilarityPostprocessor"], 1),
    "compression": (compression, ["VectorStoreRetriever", "ContextualCompressionRetriever"], 1),
    "expressions": (expressions, ["VectorStoreRetriever"], 2),
    "chat": (
        lambda o: ContextChatEngine.from_defaults(o.index.as_retriever(similarity_top_k=2), llm=MockLLM()),
        ["VectorIndexRetriever"], 2,
    ),
    "function": (lambda o: RunnableLambda(lambda _: o.documents[:2], name="mine"), ["mine"], 2),
    "ours, LlamaIndex": (
        lambda o: sage_llamaindex.SageRetriever.from_index(o.index, selection=ONE),
        ["VectorIndexRetriever", "SageNodePostprocessor.rerank", "SageRetriever > SageNodePostprocessor"], 1,
    ),
    "ours": (
        lambda o: sage_langchain.SageRetriever.from_vectorstore(o.store, selection=ONE),
        ["CandidateSearch", "sage_rerank", "SageRetriever > sage_select"], 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TARGETS)
def test_the_steps_and_what_is_sent(name: str, over: Searched) -> None:
    make, expected, sent = TARGETS[name]
    found = inspect(make(over))
    assert steps(found) == expected
    assert len(found.sent) == len(found.steps[-1].passages) == sent
    assert found.tokens == sum(p.tokens for p in found.sent) > 0
    assert found.question == QUESTION and EVIDENCE in found.text
    first, last = found.steps[0], found.steps[-1]
    if last is not first:
        assert f"{len({*last.incoming})} in, {sent} out" in last.title
        assert {*last.dropped} == {*last.incoming} - {p.number for p in last.passages}
    way = found.way(EVIDENCE).split("; ")
    assert len(way) == len(found.steps) and way[-1].endswith(f"of {sent} in {last.name}")
    lost = next((p.text for p in first.passages if p.number in last.dropped), None)
    if lost is not None and not any(lost in p.text for p in last.passages):
        assert found.way(lost).split("; ")[-1].startswith(f"not in {last.name}")
    if "ours" in name or name == "compression":
        assert "rank 2 falls to" in found.reason == last.reason and last.scale == "probability"
        assert "cut: rank 2 falls to" in found.text


def test_a_step_has_its_settings_scores_numbers_and_the_prompt(over: Searched) -> None:
    retriever = over.index.as_retriever(similarity_top_k=4)
    found = inspect(retriever)
    (step,) = found.steps
    assert (
        step.settings == "similarity_top_k=4"
        and step.incoming == step.moves == ()
        and "4 found" in step.title
    )
    assert [p.number for p in found.sent] == [1, 2, 3, 4]
    assert [p.score for p in found.sent] == [n.score for n in retriever.retrieve(QUESTION)]
    assert found.sent[0].prompt.startswith("file_name: island.md")
    assert "island.md | Island" in inspect(over.store.as_retriever()).text
    found = inspect(cutoff(over))
    assert found.steps[1].settings == "similarity_cutoff=0.5" and found.answer and EVIDENCE in found.answer
    assert EVIDENCE in found.prompts[-1] and TEXTS[1] not in found.prompts[-1]


def test_the_same_text_has_one_number(over: Searched) -> None:
    other = InMemoryVectorStore.from_texts([TEXTS[0], TEXTS[2]], MiniLMEmbeddings())
    both = [s.as_retriever(search_kwargs={"k": 2}) for s in (over.store, other)]
    found = inspect(classic("EnsembleRetriever")(retrievers=both))
    assert len(found.steps[-1].passages) == len({p.number for step in found.steps for p in step.passages}) < 4


def test_what_grows_keeps_its_number_and_what_is_merged_is_new(over: Searched) -> None:
    merged = Step("merge", (Passage("both", number=3),), incoming=(1, 2))
    assert merged.moves == ("new",) and merged.dropped == (1, 2)
    parser = SentenceWindowNodeParser.from_defaults(window_size=1)
    nodes = parser.get_nodes_from_documents([LlamaDocument(text=" ".join(TEXTS))])
    retriever = VectorStoreIndex(nodes, embed_model=MiniLMEmbedding()).as_retriever(similarity_top_k=2)
    window = MetadataReplacementPostProcessor("window")
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM(), node_postprocessors=[window])
    found = inspect(engine)
    before, after = (step.passages[0] for step in found.steps)
    assert before.number == after.number == 1
    assert before.text in after.text and len(after.text) > len(before.text)


def test_queries_that_are_made_are_shown(over: Searched) -> None:
    found = inspect(fusion(over, llm=ScriptedLLM.of([QUERIES]), num_queries=3))
    assert {*QUERIES.splitlines()} <= {
        s.question for s in found.steps
    } and "asked: price of tickets" in found.text
    assert len(found.prompts) == 1 and QUESTION in found.prompts[0]
    llm, inner = FakeListChatModel(responses=[QUERIES]), over.store.as_retriever(search_kwargs={"k": 2})
    found = inspect(classic("MultiQueryRetriever").from_llm(inner, llm))
    assert [s.question for s in found.steps][:2] == QUERIES.splitlines()
    assert len(found.prompts) == 1 and QUESTION in found.prompts[0]


def test_what_a_chain_gives_as_its_context_was_sent_whatever_was_searched_since(over: Searched) -> None:
    first, second = (over.store.as_retriever(search_kwargs={"k": k}) for k in (3, 1))
    chain = RunnablePassthrough.assign(context=itemgetter("input") | first)
    found = inspect(chain.assign(more=itemgetter("input") | second), {"input": QUESTION})
    assert [len(step.passages) for step in found.steps] == [3, 1] and len(found.sent) == 3


def test_an_answer_has_its_marks(over: Searched) -> None:
    engine = over.index.as_query_engine(llm=ScriptedLLM.of([INVENTED]), similarity_top_k=2)
    for found in (inspect(engine), inspect(expressions(over))):
        assert [m.support for m in found.marks if m.text.strip()] == ["supported", "not found"]
        assert found.answer == INVENTED and EVIDENCE in found.prompts[0] and QUESTION in found.prompts[0]


def our_engine(over: Searched) -> SageQueryEngine:
    llm = ScriptedLLM.of(["a draft", "at seven"], [grade(3, 1), grade(9)])
    retriever = over.index.as_retriever(similarity_top_k=6)
    ours = [SageNodePostprocessor(selection=ONE)]
    return SageQueryEngine.from_args(retriever, llm=llm, node_postprocessors=ours)


def our_chain(over: Searched) -> Any:
    llm = ScriptedChat(replies=["a draft", grade(3, 1), "at seven", grade(9)])
    return create_sage_chain(llm, over.store, selection=ONE)


@pytest.mark.parametrize("make", [our_engine, our_chain])
def test_each_round_is_shown(make: Any, over: Searched) -> None:
    found = inspect(make(over))
    rounds = [len(s.passages) for s in found.steps if s.name in ("SageQuestion.select", "sage_select")]
    assert rounds[0] < rounds[1] == len(found.sent) and len(rounds) == 2
    assert found.answer == "at seven" and len(found.prompts) == 4


@pytest.mark.parametrize(
    "make", [TARGETS[n][0] for n in TARGETS if "vectors" in n or "ours" in n] + [our_chain]
)
async def test_awaited_it_shows_the_same_and_two_at_once_are_kept_apart(make: Any, over: Searched) -> None:
    expected, theirs = inspect(make(over)), over.index.as_query_engine(llm=MockLLM(), similarity_top_k=4)
    target: Any = make(over)
    package: Any = sage_langchain if hasattr(target, "invoke") else sage_llamaindex
    one, other = await asyncio.gather(
        package.ainspect(target, QUESTION), sage_llamaindex.ainspect(theirs, "What lives on the roof?")
    )
    assert steps(one) == steps(expected) and one.answer == expected.answer
    assert [p.text for p in one.sent] == [p.text for p in expected.sent] and one.prompts == expected.prompts
    assert steps(other) == ["VectorIndexRetriever"] and len(other.sent) == 4


def test_errors_are_those_of_the_retriever_and_nothing_stays_behind(over: Searched) -> None:
    root = get_dispatcher("root")
    before = (len(root.span_handlers), len(root.event_handlers))
    with pytest.raises(TypeError, match="not iterable"):
        inspect(Given(5))  # type: ignore[arg-type]
    assert (len(root.span_handlers), len(root.event_handlers)) == before
    with pytest.raises(ZeroDivisionError):
        inspect(RunnableLambda(lambda _: 1 / 0))
    for target in (over.index, over.store):
        with pytest.raises(InputError, match="as_retriever"):
            inspect(target)


@pytest.mark.parametrize(("sent", "lost"), [((2, 3), False), ((1, 3), True), ((1,), True)])
def test_a_step_of_the_page_is_open_if_something_was_lost(
    sent: tuple[int, ...], lost: bool, tmp_path: Path
) -> None:
    step = Step("step", tuple(Passage(f"text {n}", number=n) for n in sent), incoming=(1, 5))
    page = Inspection("Q?", "ours", (step,), step.passages).save_html(tmp_path / "page.html").read_text()
    assert ('class="fold" open' in page) is ("Not returned" in page) is lost


def test_the_page_is_one_inert_file(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script> The ferry \x1b[2J leaves."
    found = inspect(VectorStoreIndex([TextNode(text=evil)], embed_model=MiniLMEmbedding()).as_retriever())
    page = found.save_html(tmp_path / "page.html").read_text()
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "\x1b" not in page + found.text and "default-src" in page and 'src="' not in page
