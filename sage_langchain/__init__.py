"""sage-rag for LangChain: `SageTextSplitter`, `SageCompressor`, `SageRetriever` and `SageChain`."""

from sage_langchain.chain import SageChain, create_sage_chain
from sage_langchain.compressor import SageCompressor
from sage_langchain.retriever import SageRetriever
from sage_langchain.scored_search import ScoredVectorStoreRetriever
from sage_langchain.text_splitter import SageTextSplitter

__all__ = [
    "SageChain",
    "SageCompressor",
    "SageRetriever",
    "SageTextSplitter",
    "ScoredVectorStoreRetriever",
    "create_sage_chain",
]
