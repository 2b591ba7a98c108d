"""Nothing relevant, where it was asked for: no passage is sent and no LLM asked, at every door."""

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import LLMMetadata
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from sage_core.errors import InputError
from sage_core.selection import FixedK, SelectionConfig
from sage_core.text.tokens import get_counter
from sage_langchain import MiniLMEmbeddings, SageCompressor, create_sage_chain
from sage_langchain import SageRetriever as LangChainRetriever
from sage_llamaindex import MiniLMEmbedding, SageNodePostprocessor, SageQueryEngine, feedback_of
from sage_llamaindex import SageRetriever as LlamaIndexRetriever
from sage_llamaindex.postprocessor import tokens_of
from tests.fakes.doors import at_door
from tests.fakes.langchain import ScriptedChat
from tests.fakes.llamaindex import ScriptedLLM, grade
from tests.parity.asking import SENDING

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


@pytest.fixture(scope="module")
def index() -> VectorStoreIndex:
    return VectorStoreIndex([TextNode(text=t) for t in TEXTS], embed_model=MiniLMEmbedding())


@pytest.fixture(scope="module")
def store() -> InMemoryVectorStore:
    return InMemoryVectorStore.from_texts(TEXTS, MiniLMEmbeddings())


def sent(
    door: str, index: VectorStoreIndex, store: InMemoryVectorStore, question: str, **settings: Any
) -> int:
    return len(SENDING[door](question, index, store, **settings))


@pytest.mark.parametrize("door", SENDING)
def test_nothing_is_sent_only_if_it_was_asked_for(
    door: str, index: VectorStoreIndex, store: InMemoryVectorStore
) -> None:
    assert sent(door, index, store, OTHER) and sent(door, index, store, RELEVANT)
    for asked in ({"empty_below": 0.02}, {"empty_below": "auto"}, {"empty_below": "auto", "min_k": 3}):
        assert not sent(door, index, store, OTHER, **asked)
        assert sent(door, index, store, RELEVANT, **asked)
    assert not sent(door, index, store, RELEVANT, empty_below=0.999)


def test_an_order_without_scores_never_denies(index: VectorStoreIndex, store: InMemoryVectorStore) -> None:
    asked: dict[str, Any] = {"selection": SelectionConfig(empty_below=0.999)}
    nodes = [NodeWithScore(node=n.node) for n in index.as_retriever(similarity_top_k=12).retrieve(OTHER)]
    assert SageNodePostprocessor(**asked).postprocess_nodes(nodes, query_str=OTHER)
    plain = store.as_retriever(search_kwargs={"k": 12})
    retriever = LangChainRetriever(base_retriever=plain, base_compressor=SageCompressor(**asked))
    assert retriever.invoke(OTHER)
    chain = create_sage_chain(ScriptedChat(replies=["no", grade(9)]), retriever, critic_method="prompt")
    assert chain.invoke(OTHER)["answer"] == "no"
    engine = SageQueryEngine.from_args(Unscored(index), llm=ScriptedLLM.of(["no"], [grade(9)]), **asked)
    assert str(engine.query(OTHER)) == "no"


class Unscored(BaseRetriever):
    """A retriever whose nodes have no scores."""

    def __init__(self, index: VectorStoreIndex) -> None:
        super().__init__()
        self._inner = index.as_retriever(similarity_top_k=12)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=n.node) for n in self._inner.retrieve(query_bundle)]


async def test_a_blank_question_is_an_error(index: VectorStoreIndex, store: InMemoryVectorStore) -> None:
    mine, theirs = LlamaIndexRetriever.from_index(index), LangChainRetriever.from_vectorstore(store)
    chain = create_sage_chain(ScriptedChat(replies=[]), theirs)
    for ask in (mine.retrieve, theirs.invoke, chain.invoke, lambda text: theirs.invoke({"input": text})):
        with pytest.raises(InputError, match="blank"):
            ask(" \n")
    for aask in (mine.aretrieve, theirs.ainvoke, chain.ainvoke):
        with pytest.raises(InputError, match="blank"):
            await aask("")
    # What is looked for may be a vector.
    assert mine.retrieve(QueryBundle("", embedding=MiniLMEmbedding().get_query_embedding(RELEVANT)))


async def test_a_result_says_how_sure_it_is(index: VectorStoreIndex, store: InMemoryVectorStore) -> None:
    for asked, doubted in ((RELEVANT, False), (OTHER, True)):
        engine = SageQueryEngine.from_index(index, llm=ScriptedLLM.of(["an answer"], [grade(9)]))
        response = await engine.aquery(asked)
        chain = create_sage_chain(ScriptedChat(replies=["a", grade(9)]), store, critic_method="prompt")
        output = await chain.ainvoke(asked)
        for outcome in (response.metadata["sage"], output["sage"]["selection"]):
            assert outcome["low_confidence"] is doubted
            assert (outcome["best_probability"] < 0.02) is doubted


@pytest.mark.parametrize("streaming", [False, True])
async def test_an_engine_says_so_without_its_llm(
    index: VectorStoreIndex, streaming: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "sage_core")
    llm = ScriptedLLM.of(["at seven"], [grade(9)])
    engine = SageQueryEngine.from_index(
        index, llm=llm, streaming=streaming, selection=SelectionConfig(empty_below="auto")
    )
    for response in (engine.query(OTHER), await engine.aquery(OTHER)):
        text = await response.get_response() if hasattr(response, "async_response_gen") else response
        assert str(text) == "The documents do not say."
        result = feedback_of(response)
        assert result is not None and result.stop_reason == "nothing_relevant"
        assert "the best has a probability of 0.00" in result.selection.reason
    assert not llm.asked("answer") and not llm.asked("critic")
    assert "(empty_below=0.02); empty_below=None always keeps some of the 12 candidates" in caplog.text
    assert str(engine.query(RELEVANT)) == "at seven"


def test_it_is_said_in_the_language_of_the_question() -> None:
    german = [
        f"Die Fähre Nummer {i} legt um sieben von der Insel ab und kommt am Abend zurück." for i in range(12)
    ]
    asked, said = (
        "Wie heißt die Hauptstadt von Peru und wer regiert sie?",
        "In den Dokumenten steht das nicht.",
    )
    index = VectorStoreIndex([TextNode(text=t) for t in german], embed_model=MiniLMEmbedding())
    engine = SageQueryEngine.from_index(
        index, llm=ScriptedLLM.of(), selection=SelectionConfig(empty_below="auto")
    )
    assert str(engine.query(asked)) == said
    store = InMemoryVectorStore.from_texts(german, MiniLMEmbeddings())
    chain = create_sage_chain(ScriptedChat(replies=[]), store, selection=SelectionConfig(empty_below="auto"))
    assert chain.invoke(asked)["answer"] == said


def test_what_another_part_rewrote_is_not_denied(store: InMemoryVectorStore) -> None:
    """The documents bear on the question that was searched, not on "and then?"."""
    rewritten = RunnableLambda(lambda values: store.similarity_search(RELEVANT, k=12))
    inputs = {"input": "and to Peru?", "chat_history": [RELEVANT]}
    retriever = LangChainRetriever(
        base_retriever=rewritten,
        base_compressor=SageCompressor(selection=SelectionConfig(empty_below="auto")),
    )
    assert retriever.invoke(inputs)
    chain = create_sage_chain(ScriptedChat(replies=["no", grade(9)]), retriever, critic_method="prompt")
    assert chain.invoke(inputs)["answer"] == "no"


def test_scores_that_are_no_probabilities_never_deny(store: InMemoryVectorStore) -> None:
    ranked: list[Any] = [Document(t, metadata={"score": 1e-6 * i}) for i, t in enumerate(TEXTS)]
    for scale in ("cosine", "unbounded"):
        assert SageCompressor(
            score_key="score", scale=scale, selection=SelectionConfig(empty_below=0.5)
        ).compress_documents(ranked, OTHER)


def test_a_ceiling_in_tokens_holds_at_both_doors(index: VectorStoreIndex, store: InMemoryVectorStore) -> None:
    nodes = LlamaIndexRetriever.from_index(index, max_context_tokens=30).retrieve(RELEVANT)
    documents = LangChainRetriever.from_vectorstore(store, max_context_tokens=30).invoke(RELEVANT)
    assert TEXTS[0] in [n.text for n in nodes] and TEXTS[0] in [d.page_content for d in documents]
    assert len(nodes) < len(LlamaIndexRetriever.from_index(index).retrieve(RELEVANT))
    assert sum(tokens_of(nodes)) <= 30
    assert sum(get_counter("bert").count_many([d.page_content for d in documents])) <= 30


class SmallLLM(ScriptedLLM):
    """An LLM that says how much it reads."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(context_window=1_000, num_output=10)


@pytest.mark.parametrize(("given", "most"), [({}, 500), ({"max_context_tokens": 300}, 300)])
def test_half_of_a_small_window_is_a_ceiling(given: dict[str, int], most: int) -> None:
    settings: dict[str, Any] = {"rule": FixedK(12), **given}
    texts = [f"{text} " * 8 for text in TEXTS]  # 1,200 tokens
    index = VectorStoreIndex([TextNode(text=t) for t in texts], embed_model=MiniLMEmbedding())
    engine = SageQueryEngine.from_index(
        index, llm=SmallLLM.of(["At seven."], [grade(9)]), **at_door(**settings)
    )
    nodes = engine.query(RELEVANT).source_nodes
    assert most / 2 < sum(tokens_of(nodes)) <= most
    store = InMemoryVectorStore.from_texts(texts, MiniLMEmbeddings())
    for window, limit in ((1_000, most), (8_000, given.get("max_context_tokens", 1_600))):
        chat = ScriptedChat(replies=["At seven.", grade(9)], profile={"max_input_tokens": window})
        documents = create_sage_chain(chat, store, **at_door(**settings)).invoke(RELEVANT)["context"]
        tokens = sum(get_counter("bert").count_many([d.page_content for d in documents]))
        assert limit / 2 < tokens <= limit
