"""sage-rag core: segment text, select chunks by score, check answers. Knows no framework.

After the paper "SAGE: A Framework of Precise Retrieval for RAG" (arXiv 2503.01713). Importing this package
loads numpy and the standard library; models, stores and clients are loaded when first used.
"""

from importlib.metadata import PackageNotFoundError, version

from sage_core.answering import Answerer, ExtractiveAnswerer, LLMAnswerer
from sage_core.embedding.sentence_transformer import Embedder, SentenceTransformerEmbedder
from sage_core.errors import InputError, LLMError, MissingExtraError, ModelError, SageError, StoreError
from sage_core.feedback import (
    Done,
    FeedbackConfig,
    FeedbackLoop,
    FeedbackResult,
    Generate,
    Judge,
    Verdict,
    arun_loop,
    parse_verdict,
    run_loop,
)
from sage_core.llm import ChatModel, Completion, Message, OpenAIChat
from sage_core.llm.pricing import PriceList
from sage_core.llm.usage import Price, TokenUsage, cost, cost_efficiency
from sage_core.pipeline.results import Answer, Candidate, Retrieval
from sage_core.pipeline.sage import Sage, SageConfig
from sage_core.ranking import CrossEncoderReranker, HybridReranker, RemoteReranker, Reranker
from sage_core.segmentation import Boundary, BoundaryModel, Layout, SegmentationView, Segmenter
from sage_core.selection.cut import Scale, Selection, gradient_cut, select
from sage_core.selection.view import SelectionView, selection_view
from sage_core.store.chroma_store import ChromaStore
from sage_core.text.sentences import split_sentences
from sage_core.text.spans import Span
from sage_core.text.tokens import CallableCounter, TokenCounter, get_counter

try:
    __version__ = version("sage-rag")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"

__all__ = [
    "Answer",
    "Answerer",
    "Boundary",
    "BoundaryModel",
    "CallableCounter",
    "Candidate",
    "ChatModel",
    "ChromaStore",
    "Completion",
    "CrossEncoderReranker",
    "Done",
    "Embedder",
    "ExtractiveAnswerer",
    "FeedbackConfig",
    "FeedbackLoop",
    "FeedbackResult",
    "Generate",
    "HybridReranker",
    "InputError",
    "Judge",
    "LLMAnswerer",
    "LLMError",
    "Layout",
    "Message",
    "MissingExtraError",
    "ModelError",
    "OpenAIChat",
    "Price",
    "PriceList",
    "RemoteReranker",
    "Reranker",
    "Retrieval",
    "Sage",
    "SageConfig",
    "SageError",
    "Scale",
    "SegmentationView",
    "Segmenter",
    "Selection",
    "SelectionView",
    "SentenceTransformerEmbedder",
    "Span",
    "StoreError",
    "TokenCounter",
    "TokenUsage",
    "Verdict",
    "arun_loop",
    "cost",
    "cost_efficiency",
    "get_counter",
    "gradient_cut",
    "parse_verdict",
    "run_loop",
    "select",
    "selection_view",
    "split_sentences",
]
