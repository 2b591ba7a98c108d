"""Each private attribute of LangChain that is read, on the version that is installed."""

from langchain_core.vectorstores import InMemoryVectorStore

from sage_langchain import _private
from tests.fakes.langchain import WordEmbeddings
from tests.fakes.searched import Documents, Passage, chroma

PASSAGES = [Passage("At seven.", "Ferry"), Passage("At nine.", "Mill")]


def test_of_stores() -> None:
    memory = InMemoryVectorStore(WordEmbeddings())
    assert _private.relevance_function(memory) is None
    assert _private.docstore_of(memory) is None


def test_of_chroma() -> None:
    store = Documents(PASSAGES, chroma).store
    assert _private.chroma_collection(store).count() == 2
    convert = _private.relevance_function(store)
    assert convert is not None and convert(0.25) > convert(0.75), "it reports distances"


def test_what_a_retriever_tells_traces() -> None:
    params = _private.tracing_params(InMemoryVectorStore(WordEmbeddings()).as_retriever())
    assert params["ls_vector_store_provider"] == "InMemoryVectorStore"
