"""A planned experiment: which data, who answers, with which options, and how the methods are made."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from sage_app.answers import Answerer, ExtractiveAnswerer
from sage_app.models.served import OPENAI_URL, OpenAIEmbedder, api_key, server_url
from sage_core.embedding.protocol import Embedder
from sage_core.errors import InputError, LLMError, MissingExtraError
from sage_eval.datasets import dataset_names, load_dataset
from sage_eval.datasets.load import PREFIX
from sage_eval.experiment import Experiment, Row
from sage_eval.local_readers import LocalReader
from sage_eval.readers import Reader
from sage_eval.records import Dataset, EvalQuestion, Method
from sage_eval.run_folder import digest_of

DEVELOPMENT = "dev"


def choose_data(
    experiment: Experiment, data: str | None, *, questions: int | None = None, seed: int = 0
) -> list[Dataset]:
    """Load what an experiment asks about.

    Args:
        experiment: The experiment.
        data: ``"dev"`` for the development sets of the experiment, ``"dev/NAME"`` for one by name; a folder
            that holds Parquet files of the published sets by name; the prefix of a pair of files in our own
            format; None for the published sets from the hub.
        questions: So many questions of each set, drawn with ``seed``; None for all.
        seed: Of the sample.

    Raises:
        InputError: Where a set is not there; the message says which file goes where.
    """
    if questions is not None and questions < 1:
        raise InputError(f"--questions must be at least 1, not {questions}")
    loaded = [_only(dataset, experiment.only) for dataset in _load(experiment, data)]
    return [d if questions is None else d.sample(questions, seed=seed) for d in loaded]


def _load(experiment: Experiment, data: str | None) -> list[Dataset]:
    pooled = experiment.pooled
    if data == DEVELOPMENT:
        return [load_dataset(name, pooled=pooled) for name in _development(experiment)]
    if data is not None and data.startswith(PREFIX) and data in dataset_names():
        return [load_dataset(data, pooled=pooled)]
    if data is None:
        return [_from_hub(name, pooled) for name in experiment.datasets]
    if _is_pair(data):
        dataset = load_dataset("jsonl", data, pooled=pooled)
        return [replace(dataset, name=Path(data).name)]
    folder = Path(data)
    return [_from_folder(name, folder, pooled) for name in experiment.datasets]


def _development(experiment: Experiment) -> Sequence[str]:
    if not experiment.development:
        raise InputError(f"experiment {experiment.name!r} names no development sets: leave --data dev out")
    return experiment.development


def _from_hub(name: str, pooled: bool | None) -> Dataset:
    try:
        return load_dataset(name, pooled=pooled)
    except (InputError, MissingExtraError) as error:
        raise InputError(
            f"{error}. Or put {_files(name)} into DIR/{name} and say --data DIR; or --data dev "
            "for the development sets of this project"
        ) from error


def _from_folder(name: str, folder: Path, pooled: bool | None) -> Dataset:
    if not folder.is_dir():
        raise InputError(f"--data {folder}: there is no such folder, and no {folder}_questions.jsonl")
    path = folder / name
    if not path.exists():
        raise InputError(
            f"data set {name!r} is not in {folder}: put {_files(name)} into {path}, "
            "or say --data dev for the development sets of this project"
        )
    return load_dataset(name, path, pooled=pooled)


def _files(name: str) -> str:
    """What the files of a set are."""
    from sage_eval.datasets.published import FORMATS

    return f"the Parquet files of {FORMATS[name].hub}, from the hub," if name in FORMATS else "its files"


def _is_pair(prefix: str) -> bool:
    path = Path(prefix)
    return any(path.with_name(f"{path.name}_questions.jsonl{end}").is_file() for end in ("", ".gz"))


def _only(dataset: Dataset, what: str) -> Dataset:
    """The questions that have ``what``."""
    if not what:
        return dataset
    kept = tuple(q for q in dataset.questions if _has(q, what))
    if not kept:
        raise InputError(f"data set {dataset.name!r}: no question has {what}, which this experiment needs")
    return replace(dataset, questions=kept)


def _has(question: EvalQuestion, what: str) -> bool:
    return bool(
        {"evidence": question.evidence, "answers": question.answers, "options": question.options}[what]
    )


logger = logging.getLogger(__name__)

HOME = Path("sage-eval")
"""Where runs go that are given no folder."""


@dataclass(frozen=True, slots=True)
class EmbeddingAccess:
    """Which embeddings of an OpenAI-compatible server can be had.

    Attributes:
        base_url: The server; None for ``OPENAI_BASE_URL``, else OpenAI's own.
        offline: Whether no server may be asked.
    """

    base_url: str | None = None
    offline: bool = False

    def refusal(self, spec: object) -> str | None:
        """Why a retriever's configuration cannot be had; None if it can, or asks no server at all."""
        for wanted in _openai_specs(spec):
            if self.offline:
                return "its embeddings come from a server, and --offline was given"
            url = server_url(str(wanted.get("base_url") or "") or self.base_url)
            if url == OPENAI_URL and api_key(None) is None:
                return "OpenAI's embeddings need OPENAI_API_KEY"
        return None

    def answers(self, spec: object) -> bool:
        """Whether every embedding model of a configuration gives a vector; asks a server once for each."""
        if self.refusal(spec) is not None:
            return False
        return all(_embeds(self.base_url, tuple(sorted(w.items()))) for w in _openai_specs(spec))


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
        base_url: Server of the OpenAI-compatible embeddings, as it is the LLM's; None for
            ``OPENAI_BASE_URL``, else OpenAI's own.
        offline: Ask no server for embeddings.
        reranker: Name of the reranker where a row names none (`ModelPool.reranker`); None for ``"hybrid"``.
        row_readers: Reading model by row, for rows that need one of their own.
        prices: Money for a million tokens sent and received, by LLM.
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
    base_url: str | None = None
    offline: bool = False
    reranker: str | None = None
    row_readers: Mapping[str, str] = field(default_factory=dict)
    prices: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def embeddings(self) -> EmbeddingAccess:
        """Which embeddings of a server can be had."""
        return EmbeddingAccess(self.base_url, self.offline)


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
        options: How the experiment is run.
    """

    def __init__(self, reader: Reader, embedder: Embedder, options: RunOptions | None = None) -> None:
        from sage_eval.methods import SharedWork
        from sage_eval.retrievers import CachedEmbedder, ModelPool

        self._options = options if options is not None else RunOptions()
        self._reader = reader
        self._embedder = CachedEmbedder(embedder, self._options.cache)
        self._shared = SharedWork()
        name = self._options.reranker
        self._reranker = None if name is None else ModelPool().reranker(name)

    def alone(self) -> MethodMaker:
        """A maker that has the same models, but no chunks and no embeddings yet: for measuring time."""
        return MethodMaker(self._reader, self._embedder.embedder, replace(self._options, cache=None))

    def __call__(self, row: Row) -> Method:
        """The method of a row.

        Raises:
            InputError: For a configuration that is wrong, or what it needs and is not there.
        """
        from sage_eval.methods import make_method

        spec = {name: value for name, value in row.method.items() if name != "reader"}
        answerer = self._answerer(row)
        access = self._options.embeddings
        if reason := access.refusal(spec):
            raise InputError(reason)
        return make_method(
            {**spec, "name": row.name},
            reader=answerer,
            embedder=self._embedder,
            reranker=self._reranker,
            summary_model=self._reader.chat,
            shared=self._shared,
            cache_dir=self._options.cache,
            base_url=access.base_url,
            language=self._options.language,
        )

    def _answerer(self, row: Row) -> Answerer:
        """Who answers in a row: a reading model of its own where the row asks for one."""
        wanted = row.method.get("reader")
        if wanted is None:
            return self._reader.answerer
        given = self._options.row_readers
        model = wanted.get("model") if isinstance(wanted, Mapping) else given.get(row.name)
        if not model:
            raise InputError(f"needs a {wanted} reader of its own: --row-reader '{row.name}=MODEL'")
        return LocalReader(str(model), critic=ExtractiveAnswerer())


def _openai_specs(spec: object) -> list[dict[str, object]]:
    """Every configuration of OpenAI-compatible embeddings within another."""
    if isinstance(spec, Mapping):
        if spec.get("kind") == "openai":
            return [dict(spec)]
        inner = [spec.get(name) for name in ("index", "embedder", "first", "of", "parts")]
        return [found for part in inner for found in _openai_specs(part)]
    if isinstance(spec, list | tuple):
        return [found for part in spec for found in _openai_specs(part)]
    return [{"kind": "openai"}] if spec == "openai" else []


@lru_cache(maxsize=32)
def _embeds(base_url: str | None, spec: tuple[tuple[str, object], ...]) -> bool:
    """Whether the model gives a vector. OpenAI's own is believed: a question would cost money."""
    settings = dict(spec)
    url = server_url(str(settings.get("base_url") or "") or base_url)
    if url == OPENAI_URL:
        return True
    model = str(settings.get("model") or OpenAIEmbedder().model)
    try:
        OpenAIEmbedder(model, base_url=url, timeout=30, max_retries=0).embed_query("probe")
    except LLMError as error:
        logger.warning("no embeddings from %s: %s", url.rpartition("@")[2], error)
        return False
    return True
