"""An application built on sage-rag: files, a store, questions, reports and the command line.

`Sage` does all of it in one object. Names are loaded when first used: importing this package loads nothing
but itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sage_app.answers import Answerer, ExtractiveAnswerer, LLMAnswerer
    from sage_app.pipeline.config import SageConfig
    from sage_app.pipeline.results import Answer, Candidate, Retrieval
    from sage_app.pipeline.sage import Sage
    from sage_app.store import ChromaStore, FolderStore, Store

__all__ = [
    "Answer",
    "Answerer",
    "Candidate",
    "ChromaStore",
    "ExtractiveAnswerer",
    "FolderStore",
    "LLMAnswerer",
    "Retrieval",
    "Sage",
    "SageConfig",
    "Store",
]

_HOMES = {
    "sage_app.answers": (
        "Answerer",
        "ExtractiveAnswerer",
        "LLMAnswerer",
    ),
    "sage_app.pipeline.config": ("SageConfig",),
    "sage_app.pipeline.results": (
        "Answer",
        "Candidate",
        "Retrieval",
    ),
    "sage_app.pipeline.sage": ("Sage",),
    "sage_app.store": (
        "ChromaStore",
        "FolderStore",
        "Store",
    ),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
