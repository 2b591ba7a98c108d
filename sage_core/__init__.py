"""sage-rag core: segment text, select chunks by score, check answers. Knows no framework.

After the paper "SAGE: A Framework of Precise Retrieval for RAG" (arXiv 2503.01713). Names are loaded when
first used: importing this package loads nothing but itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sage_core.embedding.minilm import MiniLMEmbedder
    from sage_core.embedding.protocol import Embedder
    from sage_core.embedding.sentence_transformer import SentenceTransformerEmbedder
    from sage_core.errors import InputError, LLMError, MissingExtraError, ModelError, SageError, StoreError
    from sage_core.feedback import (
        Done,
        FeedbackConfig,
        FeedbackLoop,
        FeedbackResult,
        Generate,
        Judge,
        Search,
        Verdict,
        arun_loop,
        parse_verdict,
        run_loop,
    )
    from sage_core.llm import ChatModel, Completion, Message, OpenAIChat
    from sage_core.llm.usage import Price, TokenUsage, cost, cost_efficiency
    from sage_core.ranking import CrossEncoderReranker, HybridReranker, RemoteReranker, Reranker
    from sage_core.segmentation import Boundary, BoundaryModel, Layout, SegmentationView, Segmenter
    from sage_core.selection.config import SelectionConfig
    from sage_core.selection.cut import Selection, gradient_cut, select
    from sage_core.selection.scales import Scale
    from sage_core.selection.view import SelectionView, selection_view
    from sage_core.settings import SageSettings
    from sage_core.text.sentences import split_sentences
    from sage_core.text.spans import Span
    from sage_core.text.tokens import CallableCounter, TokenCounter, get_counter
    from sage_core.verify import LocalJudge

__all__ = [
    "Boundary",
    "BoundaryModel",
    "CallableCounter",
    "ChatModel",
    "Completion",
    "CrossEncoderReranker",
    "Done",
    "Embedder",
    "FeedbackConfig",
    "FeedbackLoop",
    "FeedbackResult",
    "Generate",
    "HybridReranker",
    "InputError",
    "Judge",
    "LLMError",
    "Layout",
    "LocalJudge",
    "Message",
    "MiniLMEmbedder",
    "MissingExtraError",
    "ModelError",
    "OpenAIChat",
    "Price",
    "RemoteReranker",
    "Reranker",
    "SageError",
    "SageSettings",
    "Scale",
    "Search",
    "SegmentationView",
    "Segmenter",
    "Selection",
    "SelectionConfig",
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

_HOMES = {
    "sage_core.embedding.minilm": ("MiniLMEmbedder",),
    "sage_core.embedding.protocol": ("Embedder",),
    "sage_core.embedding.sentence_transformer": ("SentenceTransformerEmbedder",),
    "sage_core.errors": (
        "InputError",
        "LLMError",
        "MissingExtraError",
        "ModelError",
        "SageError",
        "StoreError",
    ),
    "sage_core.feedback": (
        "Done",
        "FeedbackConfig",
        "FeedbackLoop",
        "FeedbackResult",
        "Generate",
        "Judge",
        "Search",
        "Verdict",
        "arun_loop",
        "parse_verdict",
        "run_loop",
    ),
    "sage_core.llm": (
        "ChatModel",
        "Completion",
        "Message",
        "OpenAIChat",
    ),
    "sage_core.llm.usage": (
        "Price",
        "TokenUsage",
        "cost",
        "cost_efficiency",
    ),
    "sage_core.ranking": (
        "CrossEncoderReranker",
        "HybridReranker",
        "RemoteReranker",
        "Reranker",
    ),
    "sage_core.segmentation": (
        "Boundary",
        "BoundaryModel",
        "Layout",
        "SegmentationView",
        "Segmenter",
    ),
    "sage_core.selection.config": ("SelectionConfig",),
    "sage_core.selection.cut": (
        "Selection",
        "gradient_cut",
        "select",
    ),
    "sage_core.selection.scales": ("Scale",),
    "sage_core.selection.view": (
        "SelectionView",
        "selection_view",
    ),
    "sage_core.settings": ("SageSettings",),
    "sage_core.text.sentences": ("split_sentences",),
    "sage_core.text.spans": ("Span",),
    "sage_core.text.tokens": (
        "CallableCounter",
        "TokenCounter",
        "get_counter",
    ),
    "sage_core.verify": ("LocalJudge",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("sage-rag")
        except PackageNotFoundError:  # run from a source tree that was never installed
            return "0+unknown"
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
