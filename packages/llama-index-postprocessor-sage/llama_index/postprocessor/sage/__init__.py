"""sage-rag's node postprocessor for LlamaIndex; the class is `sage_llamaindex`'s own."""

from sage_llamaindex import SageNodePostprocessor

__all__ = ["SageNodePostprocessor"]
