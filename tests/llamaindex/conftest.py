"""Fixtures of the LlamaIndex tests; all of them skip where llama-index-core is not installed."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "llama_index.core", reason="llama-index-core is not installed: pip install sage-rag[llamaindex]"
)

import llama_index.core
from llama_index_instrumentation import get_dispatcher

from sage_core.segmentation import Segmenter
from sage_llamaindex import SageNodeParser
from tests.core.conftest import tiktoken_cache  # noqa: F401
from tests.fakes.llamaindex import OverlapModel, Recorder

# Older versions do not look into the folder that they bring.
_CACHE = Path(llama_index.core.__file__).parent / "_static" / "nltk_cache"
os.environ.setdefault("NLTK_DATA", str(_CACHE))


@pytest.fixture
def segmenter() -> Segmenter:
    """A segmenter with a model by rule, without a soft minimum."""
    return Segmenter(OverlapModel(), min_tokens=0)


@pytest.fixture
def parser(segmenter: Segmenter) -> SageNodeParser:
    return SageNodeParser(segmenter=segmenter)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """Every instrumentation event of a test."""
    handler = Recorder(events=[])
    root = get_dispatcher()
    root.add_event_handler(handler)
    yield handler
    root.event_handlers.remove(handler)


@pytest.fixture(autouse=True)
def _fresh_settings() -> Iterator[None]:
    """LlamaIndex's global settings as they were, whatever a test does to them."""
    from llama_index.core import Settings

    before: dict[str, Any] = dict(vars(Settings))
    yield
    vars(Settings).clear()
    vars(Settings).update(before)
