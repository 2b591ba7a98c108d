"""Methods of answering questions about documents: SAGE, its ablations, and what it is compared with."""

from sage_eval.methods.chunking import FixedChunker, SentenceChunker, make_chunker
from sage_eval.methods.factory import SharedWork, make_method, method_names
from sage_eval.methods.retrieval import Plan, RetrievalMethod
from sage_eval.methods.summaries import ExtractiveSummarizer, LLMSummarizer, Summarizer
from sage_eval.methods.tree import TreeOptions, TreeSource
from sage_eval.methods.whole_document import WholeDocumentMethod

__all__ = [
    "ExtractiveSummarizer",
    "FixedChunker",
    "LLMSummarizer",
    "Plan",
    "RetrievalMethod",
    "SentenceChunker",
    "SharedWork",
    "Summarizer",
    "TreeOptions",
    "TreeSource",
    "WholeDocumentMethod",
    "make_chunker",
    "make_method",
    "method_names",
]
