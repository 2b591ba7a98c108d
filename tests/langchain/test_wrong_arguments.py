"""Arguments of other classes and of the wrong kind: each error says what to give instead."""

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from sage_core.errors import InputError
from sage_langchain import SageChain, SageCompressor, SageRetriever, SageTextSplitter, create_sage_chain


class Empty(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return []


@pytest.mark.parametrize(
    ("name", "named"),
    [("separators",) * 2, ("breakpoint_threshold_type", "`threshold`"), ("chunk_sise", "'chunk_size'")],
)
def test_unknown_arguments_of_the_splitter(name, named):
    for make in (SageTextSplitter, lambda **given: SageTextSplitter(100, **given)):
        with pytest.raises(TypeError, match=named):
            make(**{name: 1})


def test_texts_are_no_documents():
    splitter = SageTextSplitter()
    for use in (splitter.split_documents, lambda texts: list(splitter.lazy_split_documents(texts))):
        with pytest.raises(InputError, match="create_documents"):
            use(["text"])
    assert splitter.split_documents([Document("text")])[0].page_content == "text"


def test_a_retriever_is_no_vector_store():
    with pytest.raises(InputError, match="base_retriever"):
        SageRetriever.from_vectorstore(Empty())


def test_a_name_is_no_model_and_a_typo_is_told():
    with pytest.raises(InputError, match="'gpt'"):
        create_sage_chain("gpt", Empty())
    with pytest.raises(InputError, match="'max_rounds'"):
        create_sage_chain(lambda _: "answer", Empty(), max_round=3)


def told(make, **given):
    with pytest.raises(InputError) as caught:
        make(**given)
    assert "pydantic" not in str(caught.value) and "\n" not in str(caught.value)
    return str(caught.value)


def test_errors_of_fields_are_one_line():
    assert (
        told(SageCompressor, minimum_k=3)
        == "SageCompressor has no argument 'minimum_k'; did you mean 'min_k'?"
    )
    assert (
        told(SageCompressor, min_k="many") == "min_k of SageCompressor should be a valid integer, not 'many'"
    )
    assert told(SageRetriever, base_retriver=1).endswith("did you mean 'base_retriever'?")
    assert told(SageRetriever, base_retriever=Empty(), minimum_k=3).endswith("did you mean 'min_k'?")
    assert "SageChain needs retriever=" in told(SageChain, llm=lambda _: "answer")
    assert (
        told(SageCompressor().model_copy, update={"max_k": 0})
        == "max_k must be at least 1, not 0; None stands for no limit"
    )
