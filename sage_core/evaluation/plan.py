"""A planned experiment: what is asked, by whom, with which options, and how its methods are made."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sage_core.embedding.protocol import Embedder
from sage_core.errors import InputError
from sage_core.evaluation.experiment import Experiment, Row
from sage_core.evaluation.protocols import Method
from sage_core.evaluation.readers import Reader
from sage_core.evaluation.records import Dataset
from sage_core.evaluation.reference_methods import GoldContext, NoContext
from sage_core.evaluation.run_folder import digest_of
from sage_core.text.tokens import get_counter

HOME = Path("sage-eval")
"""Where runs go that are given no folder."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How an experiment is run.

    Attributes:
        data: See `choose_data`.
        output: The folder; None for one under `HOME`, named after experiment and configuration.
        questions: So many of each data set; None for all.
        seed: Of the sample.
        rows: Names of the rows to run; empty for all.
        fresh: Throw away earlier results.
        concurrency: Questions asked at the same time.
        cache: Folder where embeddings are kept between runs; None keeps them in memory.
        language: Of the answers, for the metrics that count words.
    """

    data: str | None = None
    output: Path | None = None
    questions: int | None = None
    seed: int = 0
    rows: tuple[str, ...] = ()
    fresh: bool = False
    concurrency: int = 1
    cache: Path | None = None
    language: str = "en"


@dataclass(frozen=True, slots=True)
class Plan:
    """An experiment ready to run.

    Attributes:
        experiment: As it is run: the rows chosen, with the retrievers that can be had.
        datasets: As they are asked.
        reader: Who answers.
        embedder: The embedding model where a row names none.
        options: As given.
        configuration: Everything that changes results.
    """

    experiment: Experiment
    datasets: tuple[Dataset, ...]
    reader: Reader
    embedder: Embedder
    options: RunOptions
    configuration: dict[str, object]

    @property
    def folder(self) -> Path:
        """Where results go."""
        if self.options.output is not None:
            return self.options.output
        return HOME / f"{self.experiment.name}-{digest_of(self.configuration)[:8]}"


class MethodMaker:
    """Makes the methods of a table, which share models and chunks.

    Args:
        reader: Answers and grades.
        embedder: The embedding model where a row names none.
        cache: Folder where embeddings are kept between runs.
    """

    def __init__(self, reader: Reader, embedder: Embedder, *, cache: Path | None = None) -> None:
        from sage_core.evaluation.methods import SharedWork
        from sage_core.evaluation.retrievers import CachedEmbedder

        self._reader = reader
        self._embedder = CachedEmbedder(embedder, cache)
        self._cache = cache
        self._shared = SharedWork()

    def alone(self) -> MethodMaker:
        """A maker that has the same models, but no chunks and no embeddings yet: for measuring time."""
        return MethodMaker(self._reader, self._embedder.embedder)

    def __call__(self, row: Row) -> Method:
        """The method of a row.

        Raises:
            InputError: For a configuration that is wrong.
        """
        from sage_core.evaluation.methods import make_method

        kind = row.method.get("method")
        settings = {key: value for key, value in row.method.items() if key != "method"}
        if kind in ("gold-context", "no-context"):
            make = GoldContext if kind == "gold-context" else NoContext
            try:
                return make(self._reader.answerer, get_counter(), name=row.name, **settings)
            except TypeError as error:
                raise InputError(f"row {row.name!r}: {error}") from error
        _need_key(row)
        return make_method(
            {**row.method, "name": row.name},
            reader=self._reader.answerer,
            embedder=self._embedder,
            summary_model=self._reader.chat,
            shared=self._shared,
            cache_dir=self._cache,
        )


def _need_key(row: Row) -> None:
    """Raise InputError for OpenAI embeddings without a key, before anything is cut or embedded."""
    if not has_openai_key() and _asks_openai(row.method):
        raise InputError("OpenAI's embeddings need OPENAI_API_KEY")


def _asks_openai(spec: object) -> bool:
    """Whether a configuration has OpenAI's own embeddings anywhere within."""
    if isinstance(spec, Mapping):
        if spec.get("kind") == "openai":
            return not (spec.get("base_url") or os.environ.get("OPENAI_BASE_URL"))
        return any(_asks_openai(spec.get(name)) for name in ("index", "embedder", "first", "of", "parts"))
    if isinstance(spec, list | tuple):
        return any(_asks_openai(part) for part in spec)
    return spec == "openai" and not os.environ.get("OPENAI_BASE_URL")


def has_openai_key() -> bool:
    """Whether the environment has a key for OpenAI."""
    return bool(os.environ.get("OPENAI_API_KEY", "").strip())
