"""Embedding models: texts to unit vectors."""

from sage_core.embedding.openai import OpenAIEmbedder
from sage_core.embedding.protocol import Embedder, unit_rows
from sage_core.embedding.sentence_transformer import DEFAULT_EMBEDDER, SentenceTransformerEmbedder

__all__ = ["DEFAULT_EMBEDDER", "Embedder", "OpenAIEmbedder", "SentenceTransformerEmbedder", "unit_rows"]
