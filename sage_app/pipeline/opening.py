"""Open a store with its models: by names, by a settings file, with an LLM or without one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_core.errors import InputError

if TYPE_CHECKING:
    from sage_app.answers import Answerer
    from sage_app.pipeline.ingest import DocumentSegmenter
    from sage_app.pipeline.sage import Sage
    from sage_app.pipeline.settings import SageConfig, SageSettings
    from sage_app.store import Store

DEFAULT_MODEL = "gpt-4o-mini"
DEFAULT_TIMEOUT = 60.0


def open_sage(
    store: str | Path | Store,
    *,
    settings: SageSettings | str | Path | None = None,
    segmenter: DocumentSegmenter | None = None,
    embedder: str | None = None,
    config: SageConfig | None = None,
    model: str | None = None,
    base_url: str | None = None,
    offline: bool = False,
    timeout: float = DEFAULT_TIMEOUT,
) -> Sage:
    """A `Sage` from what a person can write on a command line.

    Examples:
        >>> sage = open_sage("my-store", offline=True)
        >>> sage.answerer.label
        'extractive, no LLM'

    Args:
        store: As for `Sage`.
        settings: A settings file, such as `sage-rag calibrate` writes; None for the defaults. Parts that are
            given besides are taken instead of its own.
        segmenter: Cuts documents.
        embedder: Name of the embedding model.
        config: What the settings do not say; see `Sage.from_settings`.
        model: Name of the LLM that answers and grades.
        base_url: Address of an OpenAI-compatible server.
        offline: Ask no LLM, even where the environment has a key.
        timeout: Seconds that one call of a server may take.

    Raises:
        InputError: For settings that cannot be read, and names that stand for nothing.
    """
    from sage_app.models import named_embedder
    from sage_app.pipeline.sage import Sage
    from sage_app.pipeline.settings import SageSettings, load_settings

    chosen = None if settings is None else load_settings(settings)
    name = embedder or (chosen or SageSettings()).embedder
    embedding = named_embedder(name, base_url=base_url, timeout=timeout)
    parts: dict[str, Any] = {} if segmenter is None else {"segmenter": segmenter}
    parts |= {
        "embedder": embedding,
        "answerer": make_answerer(model, base_url, offline, timeout),
        "config": config,
    }
    return Sage(store, **parts) if chosen is None else Sage.from_settings(chosen, store, **parts)


def asks_llm(model: str | None, base_url: str | None, offline: bool) -> bool:
    """Whether these options, and the environment, mean an LLM."""
    return not offline and bool(model or base_url or os.environ.get("OPENAI_API_KEY", "").strip())


def make_answerer(
    model: str | None,
    base_url: str | None,
    offline: bool,
    timeout: float = DEFAULT_TIMEOUT,
) -> Answerer:
    """An LLM where a key, a server or a model is given; the extractive answerer otherwise.

    Raises:
        InputError: Where ``model`` asks for an LLM, but there is neither a key nor a server.
    """
    from sage_app.answers import ExtractiveAnswerer, LLMAnswerer

    key = os.environ.get("OPENAI_API_KEY", "").strip()
    if not asks_llm(model, base_url, offline):
        return ExtractiveAnswerer()
    if not key and not base_url:
        raise InputError(
            f"no key for the LLM {model!r}: set OPENAI_API_KEY, name a server with --base-url, "
            "or leave --model out to have passages shown without an LLM"
        )
    from sage_app.models import OpenAIChat

    # A person is waiting: two more attempts, not four.
    chat = OpenAIChat(model or DEFAULT_MODEL, base_url=base_url, timeout=timeout, max_retries=2)
    return LLMAnswerer(chat)
