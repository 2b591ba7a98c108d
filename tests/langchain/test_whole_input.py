"""What reaches the inner retriever: the whole input of a chain, or the question alone."""

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

from sage_core.errors import InputError
from sage_core.feedback import FeedbackConfig
from sage_langchain import SageCompressor, SageRetriever, create_sage_chain
from tests.fakes.langchain import ListReranker, ScriptedChat, WordEmbeddings
from tests.fakes.models import WordReranker, grade
from tests.langchain.test_chain import DOCUMENTS, SCORES, retriever

HISTORY = {"input": "and at night?", "chat_history": [HumanMessage("What do bees do?")]}


class Recording(BaseRetriever):
    """A retriever that keeps what it was asked."""

    seen: Any  # pydantic would copy a list

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        self.seen.append(query)
        return DOCUMENTS


def sage(inner: Any) -> SageRetriever:
    return SageRetriever(base_retriever=inner, base_compressor=SageCompressor(reranker=WordReranker()))


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_history_aware_retrieval(is_async):
    chains = pytest.importorskip("langchain_classic.chains")
    seen: list[Any] = []
    prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("chat_history"), ("human", "{input}")])
    rewriter = FakeListChatModel(responses=["What do bees do at night?"])
    aware = chains.create_history_aware_retriever(rewriter, Recording(seen=seen), prompt)
    chain = create_sage_chain(ScriptedChat(replies=["they sleep", grade(9)]), sage(aware))
    out = await chain.ainvoke(HISTORY) if is_async else chain.invoke(HISTORY)
    assert out["answer"] == "they sleep" and out["input"] == "and at night?"
    assert seen == ["What do bees do at night?"]
    # LangChain's own chain hands a retriever the question alone.
    with pytest.raises(InputError, match="put what rewrites the question around this retriever"):
        await sage(aware).ainvoke("and at night?") if is_async else sage(aware).invoke("and at night?")


def wrapped_retrievers(seen: list[Any]) -> list[Any]:
    inner = Recording(seen=seen)
    function = lambda question: inner.invoke(question)  # noqa: E731
    return [
        inner,
        inner.with_config(tags=["a"]),
        inner.with_retry(),
        inner.with_fallbacks([inner]),
        inner.configurable_alternatives(ConfigurableField(id="r"), default_key="a"),
        function,
        sage(inner),
        sage(function),
    ]


@pytest.mark.parametrize("which", range(8))
async def test_retrievers_and_plain_functions_are_given_the_question(which):
    seen: list[Any] = []
    over = sage(wrapped_retrievers(seen)[which])
    over.invoke(HISTORY)
    await over.ainvoke(HISTORY)
    assert seen == ["and at night?"] * 2


@pytest.mark.parametrize(
    "wrap",
    [
        lambda r: r,
        lambda r: r.with_config(tags=["a"]),
        lambda r: r.with_retry(),
        lambda r: r.with_fallbacks([r]),
        sage,
        lambda r: sage(r).with_retry(),
    ],
)
async def test_other_runnables_are_given_the_whole_mapping(wrap):
    seen: list[Any] = []

    def find(given: Any) -> list[Document]:
        seen.append(given)
        return DOCUMENTS

    over = sage(wrap(RunnableLambda(find)))
    over.invoke(HISTORY)
    await over.ainvoke(HISTORY, k=2)
    over.invoke("and at night?")
    assert seen == [HISTORY, HISTORY, "and at night?"]


@pytest.mark.parametrize(("gives", "named"), [(None, "NoneType"), (["text"], "str")])
def test_a_function_that_gives_no_documents_is_named(gives, named):
    with pytest.raises(InputError, match=f"base_retriever.*{named}"):
        sage(lambda question: gives).invoke("bees")


# What the chain can and cannot use


class Failing(SageRetriever):
    def _get_relevant_documents(self, query: str, **kwargs: Any) -> list[Document]:
        raise ConnectionError("the store is away")


async def test_a_plain_alternative_is_asked_as_itself():
    store = InMemoryVectorStore(WordEmbeddings())
    store.add_documents(DOCUMENTS)
    either = retriever().configurable_alternatives(
        ConfigurableField(id="r"), default_key="a", b=store.as_retriever(search_kwargs={"k": 3})
    )
    config: Any = {"configurable": {"r": "b"}}
    chain = create_sage_chain(ScriptedChat(replies=["a", grade(9), "b", grade(9)]), either)
    for out in (chain.invoke(HISTORY, config), await chain.ainvoke(HISTORY, config)):
        assert len(out["context"]) == 3 and all("relevance_score" in d.metadata for d in out["context"])


@pytest.mark.parametrize("configured", [False, True])
def test_what_a_fallback_gives_is_ranked(configured):
    store = InMemoryVectorStore(WordEmbeddings())
    store.add_documents(DOCUMENTS)
    plain = Recording(seen=[]) if configured else store.as_retriever()
    failing, config = Failing(base_retriever=Recording(seen=[])).with_fallbacks([plain]), {}
    if configured:
        one = ConfigurableField(id="r")
        failing = retriever().configurable_alternatives(one, default_key="a", b=failing)
        config = {"configurable": {"r": "b"}}
    chain = create_sage_chain(ScriptedChat(replies=["a", grade(9)]), failing)
    out = chain.invoke("bees?", config)
    assert out["answer"] == "a" and out["context"]
    assert all("relevance_score" in d.metadata for d in out["context"])


@pytest.mark.parametrize("k", [0, -1, 2.5, "2", True])
def test_k_is_a_whole_number(k):
    with pytest.raises(InputError, match=r"\bk\b"):
        SageRetriever(base_retriever=Recording(seen=[]), k=k)
    over = SageRetriever(
        base_retriever=Recording(seen=[]), base_compressor=SageCompressor(reranker=ListReranker(SCORES))
    )
    with pytest.raises(InputError, match=r"\bk\b"):
        over.invoke("bees", k=k)


def test_plain_functions_are_models_and_a_sentence_is_a_no_answer():
    chain = create_sage_chain(
        lambda messages: "function says so",
        retriever(),
        critic=lambda messages: grade(9),
        loop=FeedbackConfig(no_answer=("NOT FOUND",)),
    )
    out = chain.invoke("bees?")
    assert (out["answer"], out["sage"]["score"]) == ("function says so", 9)
    assert chain.loop.no_answer == ("NOT FOUND",)
