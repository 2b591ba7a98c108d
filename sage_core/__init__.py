"""sage-rag core: segment text, select chunks by score, check answers. Knows no framework.

After the paper "SAGE: A Framework of Precise Retrieval for RAG" (arXiv 2503.01713). Names are loaded when
first used: importing this package loads nothing but itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sage_core._lazy import lazy_names

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
    from sage_core.llm.usage import TokenUsage
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
    "get_counter",
    "gradient_cut",
    "parse_verdict",
    "run_loop",
    "select",
    "selection_view",
    "split_sentences",
]

_HOMES = {
    "embedding.minilm": "MiniLMEmbedder",
    "embedding.protocol": "Embedder",
    "embedding.sentence_transformer": "SentenceTransformerEmbedder",
    "errors": "InputError LLMError MissingExtraError ModelError SageError StoreError",
    "feedback": "Done FeedbackConfig FeedbackLoop FeedbackResult Generate Judge Search Verdict "
    "arun_loop parse_verdict run_loop",
    "llm": "ChatModel Completion Message OpenAIChat",
    "llm.usage": "TokenUsage",
    "ranking": "CrossEncoderReranker HybridReranker RemoteReranker Reranker",
    "segmentation": "Boundary BoundaryModel Layout SegmentationView Segmenter",
    "selection.config": "SelectionConfig",
    "selection.cut": "Selection gradient_cut select",
    "selection.scales": "Scale",
    "selection.view": "SelectionView selection_view",
    "settings": "SageSettings",
    "text.sentences": "split_sentences",
    "text.spans": "Span",
    "text.tokens": "CallableCounter TokenCounter get_counter",
    "verify": "LocalJudge",
}
_load, __dir__ = lazy_names(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("sage-rag")
        except PackageNotFoundError:  # run from a source tree that was never installed
            return "0+unknown"
    return _load(name)
