"""Methods of answering questions about documents: SAGE, its ablations, and what it is compared with."""

from sage_eval.methods.chunking import FixedChunker, make_chunker
from sage_eval.methods.factory import SharedWork, make_method, method_names
from sage_eval.methods.summaries import ExtractiveSummarizer, LLMSummarizer

__all__ = [
    "ExtractiveSummarizer",
    "FixedChunker",
    "LLMSummarizer",
    "SharedWork",
    "make_chunker",
    "make_method",
    "method_names",
]
