"""Embedding models: texts to unit vectors."""

from sage_core.embedding.minilm import DEFAULT_EMBEDDER, MiniLMEmbedder
from sage_core.embedding.protocol import Embedder, unit_rows

__all__ = ["DEFAULT_EMBEDDER", "Embedder", "MiniLMEmbedder", "unit_rows"]
