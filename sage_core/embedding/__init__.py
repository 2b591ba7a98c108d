"""Embedding models: texts to unit vectors."""

from sage_core.embedding.named import named_embedder
from sage_core.embedding.openai import OpenAIEmbedder
from sage_core.embedding.protocol import Embedder, unit_rows
from sage_core.embedding.sentence_transformer import DEFAULT_EMBEDDER, SentenceTransformerEmbedder

__all__ = [
    "DEFAULT_EMBEDDER",
    "Embedder",
    "OpenAIEmbedder",
    "SentenceTransformerEmbedder",
    "named_embedder",
    "unit_rows",
]
