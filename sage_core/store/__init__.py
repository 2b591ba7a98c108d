"""The store: documents, their chunks and vectors on disk, searched by vector."""

from sage_core.store.chroma_store import ChromaStore

__all__ = ["ChromaStore"]
