"""sage-rag for LangChain: `SageTextSplitter`, `SageCompressor`, `SageRetriever` and `SageChain`.

    from sage_langchain import SageRetriever, SageTextSplitter, create_sage_chain

Names are loaded when first used, so that importing this package alone costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sage_langchain.chain import SageChain, create_sage_chain
    from sage_langchain.compressor import SageCompressor
    from sage_langchain.embeddings import MiniLMEmbeddings
    from sage_langchain.grounding import SageGrounding, marks_of
    from sage_langchain.inspection import inspect, inspect_many
    from sage_langchain.pruner import SagePruner
    from sage_langchain.retriever import SageRetriever
    from sage_langchain.scored_search import ScoredVectorStoreRetriever
    from sage_langchain.text_splitter import SageTextSplitter

__all__ = [
    "MiniLMEmbeddings",
    "SageChain",
    "SageCompressor",
    "SageGrounding",
    "SagePruner",
    "SageRetriever",
    "SageTextSplitter",
    "ScoredVectorStoreRetriever",
    "create_sage_chain",
    "inspect",
    "inspect_many",
    "marks_of",
]

_HOMES = {
    "MiniLMEmbeddings": "embeddings",
    "SageChain": "chain",
    "SageCompressor": "compressor",
    "SageGrounding": "grounding",
    "SagePruner": "pruner",
    "SageRetriever": "retriever",
    "SageTextSplitter": "text_splitter",
    "ScoredVectorStoreRetriever": "scored_search",
    "create_sage_chain": "chain",
    "inspect": "inspection",
    "inspect_many": "inspection",
    "marks_of": "grounding",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_HOMES[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("langchain_core", "langchain_text_splitters"):
            raise
        from sage_core.errors import MissingExtraError

        raise MissingExtraError("sage_langchain", "langchain") from error
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
