"""A question that the documents say nothing of: no passage is sent and no LLM asked, at every door."""

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import VectorStoreIndex
from llama_index.core.llms import LLMMetadata
from llama_index.core.schema import QueryBundle, TextNode

from sage_core.errors import InputError
from sage_core.selection import FixedK
from sage_core.text.tokens import get_counter
from sage_core.verify import LocalJudge
from sage_langchain import MiniLMEmbeddings, SageCompressor, create_sage_chain
from sage_langchain import SageRetriever as LangChainRetriever
from sage_llamaindex import MiniLMEmbedding, SageNodePostprocessor, SageQueryEngine, feedback_of
from sage_llamaindex import SageRetriever as LlamaIndexRetriever
from sage_llamaindex.postprocessor import tokens_of
from tests.fakes.langchain import ScriptedChat
from tests.fakes.llamaindex import ScriptedLLM, grade

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


def test_retrievers_return_nothing_unless_told(index: VectorStoreIndex, store: InMemoryVectorStore) -> None:
    for asked in (
        lambda question, **s: LlamaIndexRetriever.from_index(index, **s).retrieve(question),
        lambda question, **s: LangChainRetriever.from_vectorstore(store, **s).invoke(question),
    ):
        assert asked(RELEVANT) and not asked(OTHER)
        assert asked(OTHER, empty_below=None) and asked(OTHER, min_k=1)
        assert not asked(RELEVANT, empty_below=0.99)


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


def test_postprocessor_and_compressor(index: VectorStoreIndex, store: InMemoryVectorStore) -> None:
    nodes = index.as_retriever(similarity_top_k=12).retrieve(OTHER)
    assert SageNodePostprocessor().postprocess_nodes(nodes, query_str=OTHER) == []
    found = store.similarity_search(OTHER, k=12)
    assert SageCompressor().compress_documents(found, OTHER) == []


@pytest.mark.parametrize("streaming", [False, True])
async def test_an_engine_says_so_without_its_llm(index: VectorStoreIndex, streaming: bool) -> None:
    llm = ScriptedLLM.of(["at seven"], [grade(9)])
    engine = SageQueryEngine.from_index(index, llm=llm, streaming=streaming)
    for response in (engine.query(OTHER), await engine.aquery(OTHER)):
        text = await response.get_response() if hasattr(response, "async_response_gen") else response
        assert str(text) == "The documents do not say."
        result = feedback_of(response)
        assert result is not None and result.stop_reason == "nothing_relevant"
        assert "the best has a probability of 0.00" in result.selection.reason
    assert not llm.asked("answer") and not llm.asked("critic")
    assert str(engine.query(RELEVANT)) == "at seven"


async def test_a_chain_says_so_without_its_llm(store: InMemoryVectorStore) -> None:
    llm = ScriptedChat(replies=["at seven", grade(9)])
    chain = create_sage_chain(llm, store, critic_method="prompt")
    for output in (chain.invoke(OTHER), await chain.ainvoke(OTHER)):
        assert (output["answer"], output["context"]) == ("The documents do not say.", [])
        assert output["sage"]["stop_reason"] == "nothing_relevant"
        assert output["sage"]["selection"]["candidates"] == len(TEXTS)
    assert llm.seen == []
    assert chain.invoke(RELEVANT)["answer"] == "at seven"


def test_it_is_said_in_the_language_of_the_question() -> None:
    german = [
        f"Die Fähre Nummer {i} legt um sieben von der Insel ab und kommt am Abend zurück." for i in range(12)
    ]
    asked, said = (
        "Wie heißt die Hauptstadt von Peru und wer regiert sie?",
        "In den Dokumenten steht das nicht.",
    )
    index = VectorStoreIndex([TextNode(text=t) for t in german], embed_model=MiniLMEmbedding())
    assert str(SageQueryEngine.from_index(index, llm=ScriptedLLM.of()).query(asked)) == said
    store = InMemoryVectorStore.from_texts(german, MiniLMEmbeddings())
    assert create_sage_chain(ScriptedChat(replies=[]), store).invoke(asked)["answer"] == said


def test_what_another_part_rewrote_is_not_denied(store: InMemoryVectorStore) -> None:
    """The documents bear on the question that was searched, not on "and then?"."""
    rewritten = RunnableLambda(lambda values: store.similarity_search(RELEVANT, k=12))
    inputs = {"input": "and to Peru?", "chat_history": [RELEVANT]}
    retriever = LangChainRetriever(base_retriever=rewritten)
    assert retriever.invoke(inputs)
    chain = create_sage_chain(ScriptedChat(replies=["no", grade(9)]), retriever, critic_method="prompt")
    assert chain.invoke(inputs)["answer"] == "no"


def test_scores_that_are_no_probabilities_never_deny(store: InMemoryVectorStore) -> None:
    ranked: list[Any] = [Document(t, metadata={"score": 1e-6 * i}) for i, t in enumerate(TEXTS)]
    for scale in ("cosine", "unbounded", "logit"):
        assert SageCompressor(score_key="score", scale=scale).compress_documents(ranked, OTHER)


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
    engine = SageQueryEngine.from_index(index, llm=SmallLLM.of(["At seven."], [grade(9)]), **settings)
    nodes = engine.query(RELEVANT).source_nodes
    assert most / 2 < sum(tokens_of(nodes)) <= most
    store = InMemoryVectorStore.from_texts(texts, MiniLMEmbeddings())
    for window, limit in ((1_000, most), (8_000, given.get("max_context_tokens", 1_600))):
        chat = ScriptedChat(replies=["At seven.", grade(9)], profile={"max_input_tokens": window})
        documents = create_sage_chain(chat, store, **settings).invoke(RELEVANT)["context"]
        tokens = sum(get_counter("bert").count_many([d.page_content for d in documents]))
        assert limit / 2 < tokens <= limit


DOUBTED = "Who invented the electric telegraph?"
"""Of the lamp of the lighthouse, which is electric, the ranking makes .24; the local judge sees no answer."""


async def test_what_the_passages_do_not_answer_asks_no_llm(
    index: VectorStoreIndex, store: InMemoryVectorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm, chat = ScriptedLLM.of(["Morse"], [grade(9)]), ScriptedChat(replies=["Morse", grade(9)])
    engine, chain = SageQueryEngine.from_index(index, llm=llm), create_sage_chain(chat, store)
    for response in (engine.query(DOUBTED), await engine.aquery(DOUBTED)):
        result = feedback_of(response)
        assert result is not None and (str(response), result.rounds) == ("The documents do not say.", ())
        assert result.stop_reason == "nothing_relevant" and not response.source_nodes
        assert result.selection.reason.startswith("nothing relevant: an answer in the passages has")
    for output in (chain.invoke(DOUBTED), await chain.ainvoke(DOUBTED), _joined(chain.stream(DOUBTED))):
        assert (output["answer"], output["context"]) == ("The documents do not say.", [])
        assert output["sage"]["stop_reason"] == "nothing_relevant"
    assert not llm.asked("answer") and not chat.seen
    # Retrieval sends what it sent; who wants an answer in any case is given one.
    assert LlamaIndexRetriever.from_index(index).retrieve(DOUBTED)
    assert str(SageQueryEngine.from_index(index, llm=llm, empty_below=None).query(DOUBTED)) == "Morse"
    assert str(engine.query("What is said of the electric lamp in this text?")) == "Morse"
    assert str(engine.query("Was the electric telegraph invented in a lighthouse?")) == "Morse"

    def broken(*_: object) -> float:
        raise OSError("no weights")

    monkeypatch.setattr(LocalJudge, "answerable", broken)
    assert str(engine.query(DOUBTED)) == "Morse"


def _joined(chunks: Iterator[dict[str, Any]]) -> dict[str, Any]:
    return {key: value for chunk in chunks for key, value in chunk.items()}
