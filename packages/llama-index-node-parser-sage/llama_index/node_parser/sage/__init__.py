"""sage-rag's node parser for LlamaIndex; the class is `sage_llamaindex`'s own."""

from sage_llamaindex import SageNodeParser

__all__ = ["SageNodeParser"]
