"""Embedding models: texts to unit vectors."""

from sage_core.embedding.minilm import DEFAULT_EMBEDDER, MiniLMEmbedder
from sage_core.embedding.named import local_embedder, named_embedder
from sage_core.embedding.openai import OpenAIEmbedder
from sage_core.embedding.protocol import Embedder, unit_rows
from sage_core.embedding.sentence_transformer import SentenceTransformerEmbedder

__all__ = [
    "DEFAULT_EMBEDDER",
    "Embedder",
    "MiniLMEmbedder",
    "OpenAIEmbedder",
    "SentenceTransformerEmbedder",
    "local_embedder",
    "named_embedder",
    "unit_rows",
]
