"""Methods of answering questions about documents: SAGE, its ablations, and what it is compared with."""

from sage_core.evaluation.methods.chunking import FixedChunker, SentenceChunker, make_chunker
from sage_core.evaluation.methods.factory import SharedWork, make_method, method_names
from sage_core.evaluation.methods.retrieval import Plan, RetrievalMethod
from sage_core.evaluation.methods.summaries import ExtractiveSummariser, LLMSummariser, Summariser
from sage_core.evaluation.methods.tree import TreeOptions, TreeSource
from sage_core.evaluation.methods.whole_document import WholeDocumentMethod

__all__ = [
    "ExtractiveSummariser",
    "FixedChunker",
    "LLMSummariser",
    "Plan",
    "RetrievalMethod",
    "SentenceChunker",
    "SharedWork",
    "Summariser",
    "TreeOptions",
    "TreeSource",
    "WholeDocumentMethod",
    "make_chunker",
    "make_method",
    "method_names",
]
