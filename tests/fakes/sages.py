"""A `Sage` of small parts that need no download."""

from inspect import signature
from pathlib import Path
from typing import Any

from sage_app.answers import LLMAnswerer
from sage_app.models import OpenAIChat
from sage_app.pipeline.sage import Sage
from sage_app.pipeline.settings import SageConfig
from sage_app.store import ChromaStore
from sage_core.feedback import FeedbackConfig
from sage_core.selection import SelectionConfig
from tests.fakes.models import BlankLineSegmenter, HashEmbedder, WordReranker

_OF_THE_LOOP = signature(FeedbackConfig).parameters.keys()


def loop_config(**settings: Any) -> FeedbackConfig:
    """Settings of the loop, and of its selection, in one."""
    names = SelectionConfig().keywords.keys() & settings.keys()
    selection = SelectionConfig(**{name: settings.pop(name) for name in names})
    return FeedbackConfig(**{"selection": selection, **settings})


def small_sage(
    store: Path | str | ChromaStore,
    *,
    url: str | None = None,
    answerer: Any = None,
    embedder: Any = None,
    reranker: Any = None,
    **settings: Any,
) -> Sage:
    """Chunks at blank lines, vectors of hashed words, scores of shared words.

    ``url`` is that of a scripted server, in the place of ``answerer``. ``settings`` are those of `SageConfig`, and of
    its `FeedbackConfig`.
    """
    if url is not None:
        answerer = LLMAnswerer(OpenAIChat("test", base_url=url, api_key="sk-test", max_retries=0))
    names = _OF_THE_LOOP | SelectionConfig().keywords.keys()
    loop = {name: settings.pop(name) for name in [*settings] if name in names}
    return Sage(
        store,
        segmenter=BlankLineSegmenter(),
        embedder=embedder or HashEmbedder(),
        reranker=reranker or WordReranker(),
        answerer=answerer,
        config=SageConfig(feedback=loop_config(**loop), **settings),
    )
