"""Models that the application asks: any server with OpenAI's interface, and embedding models by name."""

from sage_app.models.embedders import SentenceTransformerEmbedder, as_vectors, named_embedder
from sage_app.models.served import OpenAIChat, OpenAIEmbedder

__all__ = ["OpenAIChat", "OpenAIEmbedder", "SentenceTransformerEmbedder", "as_vectors", "named_embedder"]
