"""sage-rag for LangChain: `SageTextSplitter`, `SageCompressor`, `SageRetriever` and `SageChain`.

    from sage_langchain import SageRetriever, SageTextSplitter, create_sage_chain

Names are loaded when first used, so that importing this package alone costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sage_core._lazy import lazy_names

if TYPE_CHECKING:
    from sage_langchain.chain import SageChain, create_sage_chain
    from sage_langchain.compressor import SageCompressor
    from sage_langchain.embeddings import MiniLMEmbeddings
    from sage_langchain.grounding import SageGrounding
    from sage_langchain.inspection import ainspect, inspect
    from sage_langchain.retriever import SageRetriever
    from sage_langchain.text_splitter import SageTextSplitter

__all__ = [
    "MiniLMEmbeddings",
    "SageChain",
    "SageCompressor",
    "SageGrounding",
    "SageRetriever",
    "SageTextSplitter",
    "ainspect",
    "create_sage_chain",
    "inspect",
]

_HOMES = {
    "chain": "SageChain create_sage_chain",
    "compressor": "SageCompressor",
    "embeddings": "MiniLMEmbeddings",
    "grounding": "SageGrounding",
    "inspection": "ainspect inspect",
    "retriever": "SageRetriever",
    "text_splitter": "SageTextSplitter",
}
__getattr__, __dir__ = lazy_names(
    __name__, _HOMES, ("langchain_core", "langchain_text_splitters"), "langchain"
)
