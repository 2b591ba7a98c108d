"""sage-rag core: segment text, select chunks by score, check answers. Knows no framework.

After the paper "SAGE: A Framework of Precise Retrieval for RAG" (arXiv 2503.01713). Importing this package
loads numpy and the standard library; models, stores and clients are loaded when first used.
"""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from sage_core.answering import Answerer, ExtractiveAnswerer, LLMAnswerer, LocalJudge
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
from sage_core.llm.pricing import PriceList
from sage_core.llm.usage import Price, TokenUsage, cost, cost_efficiency
from sage_core.pipeline.config import SageConfig
from sage_core.pipeline.results import Answer, Candidate, Retrieval
from sage_core.pipeline.sage import Sage
from sage_core.pipeline.settings import SageSettings
from sage_core.ranking import CrossEncoderReranker, HybridReranker, RemoteReranker, Reranker
from sage_core.segmentation import Boundary, BoundaryModel, Layout, SegmentationView, Segmenter
from sage_core.selection.config import SelectionConfig
from sage_core.selection.cut import Scale, Selection, gradient_cut, select
from sage_core.selection.view import SelectionView, selection_view
from sage_core.store import ChromaStore, FolderStore, Store
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
    "FolderStore",
    "Generate",
    "HybridReranker",
    "InputError",
    "Judge",
    "LLMAnswerer",
    "LLMError",
    "Layout",
    "LocalJudge",
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
    "Store",
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

_MOVED_MODULES = {
    "assembly": "pipeline.context",
    "chunks": "store.chunks",
    "files": "documents.discovery",
    "identity": "store.identity",
    "ingest": "pipeline.ingest",
    "pricing": "llm.pricing",
    "rag": "pipeline.sage",
    "results": "pipeline.results",
    "retrieving": "pipeline.retriever",
    "scores": "selection.scales",
    "segmentation.corpus": "segmentation.training.corpus",
    "segmentation.metrics": "segmentation.training.metrics",
    "selection_rules": "selection.rules",
    "selection_view": "selection.view",
    "sentences": "text.sentences",
    "spans": "text.spans",
    "tokens": "text.tokens",
    "usage": "llm.usage",
}


class _MovedModules(MetaPathFinder, Loader):
    """Imports modules of version 0.1 from where they are now, with a DeprecationWarning."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        old = fullname.removeprefix(f"{__name__}.")
        return ModuleSpec(fullname, self) if old != fullname and old in _MOVED_MODULES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        new = f"{__name__}.{_MOVED_MODULES[spec.name.removeprefix(f'{__name__}.')]}"
        message = f"{spec.name} is now {new}; the old name goes with the next release"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        module = import_module(new)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Undo what the import system wrote over: the module was executed under its new name."""
        spec = module.__spec__
        assert spec is not None
        module.__spec__ = spec.loader_state


class _Package(ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        # Importing the old module sage_core.selection_view must not hide the function of that name.
        if name != "selection_view" or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
sys.meta_path.append(_MovedModules())
