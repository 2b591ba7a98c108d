"""A door takes few settings more than what a user of the framework calls in its place."""

import inspect
from typing import Any

import pytest
from langchain_text_splitters import TextSplitter, TokenTextSplitter
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.query_engine import RetrieverQueryEngine, RetryQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever, VectorIndexRetriever

import sage_langchain as langchain
import sage_llamaindex as llamaindex

pytest.importorskip("langchain_classic")
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_classic.chains.retrieval import create_retrieval_chain
from langchain_classic.retrievers.contextual_compression import ContextualCompressionRetriever
from langchain_classic.retrievers.document_compressors.cross_encoder_rerank import CrossEncoderReranker
from langchain_classic.retrievers.self_query.base import SelfQueryRetriever

PAIRS: list[tuple[Any, ...]] = [
    (llamaindex.SageNodeParser, SentenceSplitter),
    (llamaindex.SageNodePostprocessor, LLMRerank),
    (llamaindex.SageRetriever, QueryFusionRetriever),
    (llamaindex.SageRetriever.from_index, VectorIndexRetriever),
    (llamaindex.SageQueryEngine, RetrieverQueryEngine),
    (llamaindex.SageQueryEngine.from_args, RetrieverQueryEngine.from_args),
    (llamaindex.SageGroundedEngine, RetryQueryEngine),
    (langchain.SageTextSplitter, TokenTextSplitter, TextSplitter),
    (langchain.SageCompressor, CrossEncoderReranker),
    (langchain.SageRetriever, ContextualCompressionRetriever),
    (langchain.SageRetriever.from_vectorstore, SelfQueryRetriever.from_llm),
    (langchain.create_sage_chain, create_retrieval_chain, create_stuff_documents_chain),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0].__qualname__)
def test_at_most_two_settings_more(pair: tuple[Any, ...]) -> None:
    def settings(made: Any) -> int:
        kinds = [parameter.kind.name for parameter in inspect.signature(made).parameters.values()]
        return len(kinds) - kinds.count("VAR_KEYWORD") - kinds.count("VAR_POSITIONAL")

    ours, *theirs = map(settings, pair)
    assert 2 < ours <= sum(theirs) + 2
