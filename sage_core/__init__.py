"""sage-rag core: segment text, select chunks by score, check answers. Knows no framework.

After the paper "SAGE: A Framework of Precise Retrieval for RAG" (arXiv 2503.01713). Names are loaded when
first used: importing this package loads nothing but itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sage_core._lazy import lazy_names

if TYPE_CHECKING:
    from sage_core._version import __version__ as __version__
    from sage_core.embedding.minilm import MiniLMEmbedder
    from sage_core.embedding.protocol import Embedder
    from sage_core.errors import InputError, LLMError, MissingExtraError, ModelError, SageError, StoreError
    from sage_core.feedback import FeedbackConfig, FeedbackResult, Verdict
    from sage_core.llm import Message
    from sage_core.llm.usage import TokenUsage
    from sage_core.ranking import HybridReranker, Reranker
    from sage_core.segmentation import Layout, Segmenter
    from sage_core.selection.config import SelectionConfig
    from sage_core.selection.cut import Selection, select
    from sage_core.text.spans import Span
    from sage_core.text.tokens import CallableCounter, TokenCounter, get_counter
    from sage_core.verify import LocalJudge

__all__ = [
    "CallableCounter",
    "Embedder",
    "FeedbackConfig",
    "FeedbackResult",
    "HybridReranker",
    "InputError",
    "LLMError",
    "Layout",
    "LocalJudge",
    "Message",
    "MiniLMEmbedder",
    "MissingExtraError",
    "ModelError",
    "Reranker",
    "SageError",
    "Segmenter",
    "Selection",
    "SelectionConfig",
    "Span",
    "StoreError",
    "TokenCounter",
    "TokenUsage",
    "Verdict",
    "get_counter",
    "select",
]

_HOMES = {
    "_version": "__version__",
    "embedding.minilm": "MiniLMEmbedder",
    "embedding.protocol": "Embedder",
    "errors": "InputError LLMError MissingExtraError ModelError SageError StoreError",
    "feedback": "FeedbackConfig FeedbackResult Verdict",
    "llm": "Message",
    "llm.usage": "TokenUsage",
    "ranking": "HybridReranker Reranker",
    "segmentation": "Layout Segmenter",
    "selection.config": "SelectionConfig",
    "selection.cut": "Selection select",
    "text.spans": "Span",
    "text.tokens": "CallableCounter TokenCounter get_counter",
    "verify": "LocalJudge",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
