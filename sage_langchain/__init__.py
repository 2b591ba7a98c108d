"""sage-rag for LangChain: `SageTextSplitter`, `SageCompressor`, `SageRetriever` and `SageChain`."""

try:
    from sage_langchain.chain import SageChain, create_sage_chain
    from sage_langchain.compressor import SageCompressor
    from sage_langchain.embeddings import MiniLMEmbeddings
    from sage_langchain.retriever import SageRetriever
    from sage_langchain.scored_search import ScoredVectorStoreRetriever
    from sage_langchain.text_splitter import SageTextSplitter
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("langchain_core", "langchain_text_splitters"):
        raise
    from sage_core.errors import MissingExtraError

    raise MissingExtraError("sage_langchain", "langchain") from error

__all__ = [
    "MiniLMEmbeddings",
    "SageChain",
    "SageCompressor",
    "SageRetriever",
    "SageTextSplitter",
    "ScoredVectorStoreRetriever",
    "create_sage_chain",
]
