"""An application built on sage-rag: files, a store, questions, reports and the command line.

`Sage` does all of it in one object. Names are loaded when first used: importing this package loads nothing
but itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sage_core._lazy import lazy_names

if TYPE_CHECKING:
    from sage_app.answers import Answerer, ExtractiveAnswerer, LLMAnswerer
    from sage_app.models import OpenAIChat
    from sage_app.pipeline.results import Answer, Candidate, Retrieval
    from sage_app.pipeline.sage import Sage
    from sage_app.pipeline.settings import SageConfig, SageSettings
    from sage_app.store import ChromaStore, FolderStore, Store

__all__ = [
    "Answer",
    "Answerer",
    "Candidate",
    "ChromaStore",
    "ExtractiveAnswerer",
    "FolderStore",
    "LLMAnswerer",
    "OpenAIChat",
    "Retrieval",
    "Sage",
    "SageConfig",
    "SageSettings",
    "Store",
]

_HOMES = {
    "answers": "Answerer ExtractiveAnswerer LLMAnswerer",
    "models": "OpenAIChat",
    "pipeline.results": "Answer Candidate Retrieval",
    "pipeline.sage": "Sage",
    "pipeline.settings": "SageConfig SageSettings",
    "store": "ChromaStore FolderStore Store",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
