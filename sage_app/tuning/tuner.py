"""Which settings find the evidence of your own questions, and which differences are more than noise.

Settings are compared in three stages, one setting at a time: how documents are cut, how
candidates are ranked (reranker, context), how many are kept. Chunks and rankings are compared at equal
tokens: the share of the quotations among the first tokens of the ranking. Rules are compared with the default
rule at no more tokens than that spends.

A setting is recommended only where its gain is clear: the interval of the paired difference leaves out 0 and
the permutation test agrees, both at a level that is divided by the number of all comparisons (Bonferroni),
and the gain is worth a change. Beside that it says how few tokens keep the evidence: the cheapest selection
that loses at most a point for sure. Questions about one passage are drawn together, since they are no
independent draws. Documents are not: further questions will be asked of the same ones.
"""

from __future__ import annotations

import hashlib
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sage_app.documents.reader import Document
from sage_app.pipeline.config import SageConfig
from sage_app.pipeline.ingest import PROBE, chunks_of, window_of
from sage_app.pipeline.results import Candidate, Retrieval
from sage_app.pipeline.retriever import Retriever
from sage_app.pipeline.settings import SageSettings
from sage_app.store import FolderStore
from sage_app.store.chunks import NewDocument
from sage_app.store.identity import StoreIdentity
from sage_app.tuning.calibrate import RankedQuestion
from sage_app.tuning.quotations import Evidence, LocatedQuestion, QuotedQuestion, Unlocated, locate
from sage_app.tuning.statistics import Difference, paired_bootstrap
from sage_core._checks import check_float, check_int
from sage_core.embedding.protocol import Embedder
from sage_core.errors import InputError
from sage_core.ranking import named_reranker
from sage_core.ranking.named import HYBRID, NONE
from sage_core.segmentation.limits import SIZES, TOPIC
from sage_core.selection import FixedK, Gradient, RelativeToTop, Rule, Scale, SelectionConfig
from sage_core.selection.rules import rule_to_data
from sage_core.text.spans import Span
from sage_core.text.tokens import get_counter

Stage = Literal["chunks", "ranking", "selection"]
STAGES: tuple[Stage, ...] = ("chunks", "ranking", "selection")

BUDGETS = (250, 500, 1000)
"""Tokens of context at which recall is compared; the figure is the mean of the three."""

_NEARLY_ALL = 0.99

FEW_QUESTIONS = 20
"""With fewer questions hardly any difference can be clear."""

LEAST_GAIN = 0.01
"""A smaller gain is not worth a change, however sure it is."""

CHARACTERS_PER_MINUTE = 100_000
"""Characters of documents for a minute of two cores: each is segmented and embedded some seven times."""

_LEVEL = 0.05
# Texts embedded between two looks at the clock.
_BATCH = 64
# A rule may leave this share of the default's tokens unused and still be compared with it.
_LEAST_USED = 0.85


@dataclass(frozen=True, slots=True)
class Variant:
    """Settings to be compared.

    Attributes:
        stage: What they change.
        name: Human-readable name.
        settings: The settings; None for a rule whose parameter is yet to be fitted.
    """

    stage: Stage
    name: str
    settings: SageSettings


@dataclass(frozen=True, slots=True)
class Figures:
    """What one variant reached, a row a question.

    Attributes:
        at_budgets: Share of the quotations within each of `BUDGETS`, shape ``(questions, 3)``.
        selected: Share of the quotations in what the selection kept.
        tokens: Tokens of what the selection kept.
        chunks: Chunks of all documents.
        seconds: Seconds for a question, without embedding it.
    """

    at_budgets: NDArray[np.float64]
    selected: NDArray[np.float64]
    tokens: NDArray[np.float64]
    chunks: int
    seconds: float

    def score(self, stage: Stage) -> NDArray[np.float64]:
        """What the variants of a stage are compared by: a figure a question."""
        return self.selected if stage == "selection" else self.at_budgets.mean(axis=1)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A variant beside the settings that its stage began with.

    Attributes:
        variant: The variant.
        figures: What it reached.
        difference: Its figures less those that the stage began with, with an interval at the level of the
            whole tuning; None for those themselves.
        clear: Whether the gain is more than noise and worth a change.
        chosen: Whether the stage settled on it.
    """

    variant: Variant
    figures: Figures
    difference: Difference | None
    clear: bool
    chosen: bool = False

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        difference = self.difference
        return {
            "stage": self.variant.stage,
            "name": self.variant.name,
            "recall_at_tokens": {
                str(budget): round(float(value), 4)
                for budget, value in zip(BUDGETS, self.figures.at_budgets.mean(axis=0), strict=True)
            },
            "recall": round(float(self.figures.score(self.variant.stage).mean()), 4),
            "selected_recall": round(float(self.figures.selected.mean()), 4),
            "selected_tokens": round(float(self.figures.tokens.mean()), 1),
            "chunks": self.figures.chunks,
            "difference": None
            if difference is None
            else {**_rounded(difference, 4), "p": round(difference.p, 5)},
            "clear": self.clear,
            "chosen": self.chosen,
        }


@dataclass(frozen=True, slots=True)
class FewerTokens:
    """A selection that sends fewer tokens and loses at most `LEAST_GAIN` of the evidence.

    Attributes:
        selection: The selection.
        evidence: Its share of the quotations less that of the settings recommended, with an interval at the
            level of all rules that were tried.
        tokens: Its tokens less theirs, likewise.
    """

    selection: SelectionConfig
    evidence: Difference
    tokens: Difference

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        keywords = {**self.selection.keywords, "rule": rule_to_data(self.selection.rule)}
        return {
            "selection": {name: value for name, value in keywords.items() if value is not None},
            "evidence": _rounded(self.evidence, 4),
            "tokens": _rounded(self.tokens, 1),
        }


def _rounded(difference: Difference, digits: int) -> dict[str, Any]:
    interval = [round(difference.low, digits), round(difference.high, digits)]
    return {"value": round(difference.value, digits), "interval": interval}


@dataclass(frozen=True, slots=True)
class Tuning:
    """What a tuning found.

    Attributes:
        settings: The settings that it recommends, with the figures in ``measured``.
        base: Those that it began with.
        comparisons: Every variant that was measured, stage by stage.
        planned: Number of comparisons that were planned, by which the level is divided.
        questions: Number of questions used.
        unlocated: Questions that could not be used.
        left_out: Variants that were not measured, and why.
        warnings: What to keep in mind, a sentence each.
        finished: Whether it came to its end.
        fewer_tokens: The cheapest selection with the same evidence; None if none is sure to have it.
    """

    settings: SageSettings
    base: SageSettings
    comparisons: tuple[Comparison, ...]
    planned: int
    questions: int
    unlocated: tuple[Unlocated, ...]
    left_out: Mapping[str, str]
    warnings: tuple[str, ...]
    finished: bool
    fewer_tokens: FewerTokens | None = None

    @property
    def changed(self) -> bool:
        """Whether any setting is recommended in place of the one that it began with."""
        return any(c.chosen and c.difference is not None for c in self.comparisons)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {
            "finished": self.finished,
            "changed": self.changed,
            "settings": self.settings.to_dict(),
            "questions": self.questions,
            "comparisons_planned": self.planned,
            "comparisons": [c.to_dict() for c in self.comparisons],
            "unlocated": [{"question": u.text, "quote": u.quote, "reason": u.reason} for u in self.unlocated],
            "left_out": dict(self.left_out),
            "warnings": list(self.warnings),
            "fewer_tokens": None if self.fewer_tokens is None else self.fewer_tokens.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class TuneProgress:
    """How far a tuning is.

    Attributes:
        done: Work done, from 0 to 1.
        stage: The stage.
        variant: The variant that is being measured.
        seconds_left: Seconds left, as the work so far has it; None if it is too early to say.
    """

    done: float
    stage: Stage
    variant: str
    seconds_left: float | None


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """How to tune.

    Attributes:
        minutes: Most minutes, of which the number of documents follows and what is left out.
        seed: Of the sample of documents, the bootstrap and the permutations.
        base: The settings to begin with.
        targets: Mean sizes of chunks that are compared, as `Segmenter` takes them.
        rerankers: Rerankers that are compared, by name; see `sage_core.ranking.named_reranker`.

    Raises:
        InputError: Where a value is out of its range.
    """

    minutes: float = 10.0
    seed: int = 0
    base: SageSettings = field(default_factory=SageSettings)
    # What is most likely to win comes first, should time run out.
    targets: tuple[int | str, ...] = (100, "sentence", "topic", 150, "section")
    rerankers: tuple[str, ...] = (HYBRID, NONE)

    def __post_init__(self) -> None:
        check_float("minutes", self.minutes, minimum=0.1, maximum=1440)
        check_int("seed", self.seed, minimum=0)


class _OutOfTimeError(Exception):
    """A variant was not finished within the time."""


def tune(
    documents: Sequence[Document],
    questions: Sequence[QuotedQuestion],
    embedder: Embedder,
    options: TuneOptions | None = None,
    *,
    progress: Callable[[TuneProgress], None] | None = None,
) -> Tuning:
    """Compare settings on questions whose answers are quoted from the documents.

    Embeddings are computed once for each text. The same documents, questions and options give the same
    result, unless time runs out: what is left out then is named. Interrupted by Ctrl-C, it returns what it
    has, with ``finished=False``.

    Args:
        documents: The documents. Where they are too many for the time, those that are quoted and a sample of
            the others are searched, which the result says.
        questions: The questions.
        embedder: The embedding model.
        options: How to tune.
        progress: Receives the progress.

    Raises:
        InputError: Without documents, or without a question whose quotations stand in them.
    """
    options = options or TuneOptions()
    located, unlocated = locate(questions, documents)
    if not located:
        first = f"; the first: {unlocated[0].quote!r} {unlocated[0].reason}" if unlocated else ""
        raise InputError(
            f"none of the {len(questions)} questions can be used: a quotation stands in a document as it is "
            f"written there{first}"
        )
    corpus = _sampled(documents, located, options)
    return _Run(corpus, unlocated, embedder, options, progress).result()


@dataclass(frozen=True, slots=True)
class _Corpus:
    documents: Sequence[Document]
    questions: Sequence[LocatedQuestion]
    warnings: tuple[str, ...]


def _sampled(
    documents: Sequence[Document], questions: Sequence[LocatedQuestion], options: TuneOptions
) -> _Corpus:
    """As many documents as the time allows: first those that are quoted."""
    room = int(options.minutes * CHARACTERS_PER_MINUTE)
    total = sum(len(d.text) for d in documents)
    if total <= room:
        return _Corpus(documents, questions, ())
    chance = random.Random(options.seed)
    by_source = {d.source: d for d in documents}
    order = list(range(len(questions)))
    chance.shuffle(order)
    taken: set[str] = set()
    used: list[int] = []
    for i in order:
        needed = {e.document for places in questions[i].evidence for e in places} - taken
        size = sum(len(by_source[s].text) for s in needed)
        if size <= room or not used:
            taken |= needed
            room -= size
            used.append(i)
    others = [d for d in documents if d.source not in taken]
    chance.shuffle(others)
    for document in others:
        if len(document.text) <= room:
            taken.add(document.source)
            room -= len(document.text)
    searched = [d for d in documents if d.source in taken]
    share = sum(len(d.text) for d in searched) / total
    warnings = [
        f"{len(searched)} of {len(documents)} documents ({share:.0%} of the text) were searched, those "
        f"quoted and a sample of the others: more takes longer than {options.minutes:g} minutes. With all of "
        "them every figure is lower; raise --minutes to be closer"
    ]
    if len(used) < len(questions):
        warnings.append(
            f"{len(questions) - len(used)} questions were left out with their documents, for the same reason"
        )
    return _Corpus(searched, [questions[i] for i in sorted(used)], tuple(warnings))


class _Run:
    def __init__(
        self,
        corpus: _Corpus,
        unlocated: Sequence[Unlocated],
        embedder: Embedder,
        options: TuneOptions,
        progress: Callable[[TuneProgress], None] | None,
    ) -> None:
        self.corpus = corpus
        self.unlocated = tuple(unlocated)
        self.options = options
        self.embedder = _CachedEmbedder(embedder, self._embedded)
        self.progress = progress
        self.began = time.monotonic()
        self._end = self.began + 60 * options.minutes
        self.comparisons: list[Comparison] = []
        self.left_out: dict[str, str] = {}
        self.groups = _passages(corpus.questions)
        self._work = _Work(sum(len(d.text) for d in corpus.documents), len(corpus.questions))
        self._now: Variant | None = None
        self._stores: dict[str, tuple[FolderStore, int]] = {}
        self._measured: dict[str, tuple[Figures, list[Retrieval]]] = {}
        self._exit = ExitStack()

    # -- the stages ---------------------------------------------------------------------------------------

    def result(self) -> Tuning:
        """Go through the stages."""
        chosen = self.options.base
        finished = True
        fewer: FewerTokens | None = None
        variants = {stage: _variants(stage, chosen, self.options) for stage in STAGES}
        planned = sum(map(len, variants.values()))
        for variant in chain(*variants.values()):
            self._work.add(variant)
        with self._exit:
            try:
                for stage in STAGES:
                    # Other chunks take the longest; what they leave is all for the stages after.
                    share = 0.5 if stage == "chunks" else 1.0
                    self._end = self.began + share * 60 * self.options.minutes
                    chosen = self._stage(stage, chosen, planned)
                fewer = self._fewer_tokens(chosen)
            except KeyboardInterrupt:
                finished = False
        if not self.comparisons:
            raise KeyboardInterrupt
        if not finished:  # the choice of the last stage that began
            chosen = next(c.variant.settings for c in reversed(self.comparisons) if c.chosen)
        return self._tuning(chosen, planned, finished, fewer)

    def _stage(self, stage: Stage, base: SageSettings, planned: int) -> SageSettings:
        """Measure a stage's variants, and settle on one of them or on the base."""
        start = Variant(stage, "as it stands", base)
        figures, rankings = self._figures(start)
        self._done(start)
        beginning = len(self.comparisons)
        self.comparisons.append(Comparison(start, figures, None, clear=False, chosen=True))
        # A slow one that does not finish must not cost the quick ones their time.
        for variant in sorted(_variants(stage, base, self.options), key=self._work.of):
            try:
                if stage == "selection":
                    fitted = self._fitted(variant, figures, rankings)
                    if fitted is None:
                        self.left_out[variant.name] = "no parameter spends about as many tokens"
                        continue
                    variant, reached = fitted
                else:
                    reached, _ = self._figures(variant)
            except _OutOfTimeError:
                self.left_out[variant.name] = f"no time within {self.options.minutes:g} minutes"
                continue
            finally:
                self._done(variant)
            self.comparisons.append(self._compared(variant, reached, figures, planned))
            self._settle(beginning)
        return self.comparisons[self._settle(beginning)].variant.settings

    def _compared(self, variant: Variant, reached: Figures, base: Figures, planned: int) -> Comparison:
        level = _LEVEL / max(planned, 1)
        gain = self._difference(reached.score(variant.stage), base.score(variant.stage), 1 - level)
        clear = gain.low > 0 and gain.p < level and gain.value >= LEAST_GAIN
        return Comparison(variant, reached, gain, clear)

    def _difference(
        self, figures: NDArray[np.float64], others: NDArray[np.float64], confidence: float
    ) -> Difference:
        seed, groups = self.options.seed, self.groups
        return paired_bootstrap(
            figures.tolist(), others.tolist(), confidence=confidence, seed=seed, groups=groups
        )

    def _settle(self, beginning: int) -> int:
        """Mark the choice among the comparisons from ``beginning`` on: the best clear gain, else the base."""
        stage = range(beginning, len(self.comparisons))
        clear = [i for i in stage if self.comparisons[i].clear]
        gains = {i: d.value for i in clear if (d := self.comparisons[i].difference) is not None}
        best = max(gains, key=gains.__getitem__, default=beginning)
        for i in stage:
            self.comparisons[i] = replace(self.comparisons[i], chosen=i == best)
        return best

    # -- one variant --------------------------------------------------------------------------------------

    def _figures(self, variant: Variant) -> tuple[Figures, list[Retrieval]]:
        """Search for every question with these settings."""
        key = repr(replace(variant.settings, made_by={}, measured={}))
        if key in self._measured:
            return self._measured[key]
        self._now = variant
        first = not self.comparisons
        store, chunks = self._store(variant.settings, must=first)
        settings = variant.settings
        reranker = named_reranker(settings.reranker)
        retriever = Retriever(
            store, self.embedder, reranker, get_counter(), SageConfig.from_settings(settings)
        )
        rankings: list[Retrieval] = []
        for question in self.corpus.questions:
            self._check_time(must=first)
            self.embedder.embed_query(question.text)
        before = time.perf_counter()
        for question in self.corpus.questions:
            self._check_time(must=first)
            rankings.append(retriever.retrieve(question.text))
            self._work.retrieved(settings)
            self._tell()
        seconds = (time.perf_counter() - before) / len(self.corpus.questions)
        retriever.close()
        questions = self.corpus.questions
        at_budgets = [
            [_recall(q, within_budget(r, budget)) for budget in BUDGETS]
            for q, r in zip(questions, rankings, strict=True)
        ]
        selected = [r.candidates[: r.selection.cut] for r in rankings]
        figures = Figures(
            np.array(at_budgets, dtype=np.float64),
            self._recalls(selected),
            _tokens(selected),
            chunks,
            seconds,
        )
        self._measured[key] = figures, rankings
        return self._measured[key]

    def _recalls(self, selected: Sequence[Sequence[Candidate]]) -> NDArray[np.float64]:
        """Share of each question's quotations in what was selected for it."""
        pairs = zip(self.corpus.questions, selected, strict=True)
        return np.array([_recall(question, _spans(candidates)) for question, candidates in pairs])

    def _store(self, settings: SageSettings, *, must: bool) -> tuple[FolderStore, int]:
        """A store of the documents, made with these settings, and the number of its chunks."""
        segmenter = settings.make_segmenter()
        key = f"{segmenter.fingerprint}:{settings.context}"
        if key in self._stores:
            return self._stores[key]
        folder = self._exit.enter_context(tempfile.TemporaryDirectory(prefix="sage-tune-"))
        store = FolderStore(Path(folder) / "store")
        documents = self.corpus.documents
        cut: list[NewDocument] = []
        probe = self.embedder.embed_query(PROBE)
        for document, spans in zip(documents, segmenter.segment_iter(d.text for d in documents), strict=True):
            self._check_time(must=must)
            window = window_of(self.embedder)
            chunks = chunks_of(document, spans, context=settings.context, window=window)
            if not chunks:
                continue
            vectors = []
            for start in range(0, len(chunks), _BATCH):
                self._check_time(must=must)
                texts = [c.text_for_models for c in chunks[start : start + _BATCH]]
                vectors.append(self.embedder.embed_documents(texts))
            cut.append(
                NewDocument(document.source, document.digest, chunks, np.concatenate(vectors), document.title)
            )
        with store.writing(StoreIdentity(self.embedder.name, probe, key)):
            store.put(cut)
        self._exit.callback(store.close)
        self._stores[key] = store, sum(len(d.chunks) for d in cut)
        return self._stores[key]

    def _fitted(
        self, variant: Variant, base: Figures, rankings: Sequence[Retrieval]
    ) -> tuple[Variant, Figures] | None:
        """A rule with the parameter that spends most tokens, but no more than the base; None for none."""
        self._now = variant
        scale = rankings[0].scale
        limit = float(base.tokens.mean())
        best: tuple[float, SelectionConfig, _Selected] | None = None
        for rule in _rules(variant.name, scale):
            config = SelectionConfig(rule=rule)
            selected = _selected(config, rankings)
            spent = float(_tokens(selected).mean())
            if _LEAST_USED * limit <= spent <= limit and (best is None or spent > best[0]):
                best = spent, config, selected
        if best is None:
            return None
        _, config, selected = best
        settings = replace(variant.settings, selection=config)
        figures = replace(base, selected=self._recalls(selected), tokens=_tokens(selected))
        return Variant("selection", f"{variant.name}: {config.rule}", settings), figures

    def _fewer_tokens(self, chosen: SageSettings) -> FewerTokens | None:
        """The selection of fewest tokens that keeps the evidence.

        Each family is followed from its most tokens down to its first setting that may lose more than
        `LEAST_GAIN`. That order does not look at the evidence, so the level is divided by the families alone.
        """
        try:
            base, rankings = self._figures(Variant("selection", "as it stands", chosen))
        except _OutOfTimeError:
            return None
        scale = rankings[0].scale
        families = [[SelectionConfig(rule=rule) for rule in _rules(name, scale)] for name in _FAMILIES]
        families.append([SelectionConfig(min_context_tokens=floor) for floor in _FLOORS])
        confidence = 1 - _LEVEL / len(families)
        best: FewerTokens | None = None
        for family in families:
            tried = [(config, _selected(config, rankings)) for config in family]
            cheaper = [(config, some) for config, some in tried if _tokens(some).mean() < base.tokens.mean()]
            for config, some in sorted(cheaper, key=lambda pair: -_tokens(pair[1]).mean()):
                evidence = self._difference(self._recalls(some), base.selected, confidence)
                if evidence.low < -LEAST_GAIN:
                    break
                saved = self._difference(_tokens(some), base.tokens, confidence)
                if saved.high < 0 and (best is None or saved.value < best.tokens.value):
                    best = FewerTokens(config, evidence, saved)
        return best

    # -- time ---------------------------------------------------------------------------------------------

    def _check_time(self, *, must: bool) -> None:
        if not must and time.monotonic() > self._end:
            raise _OutOfTimeError

    def _embedded(self, characters: int) -> None:
        self._work.embedded(characters)
        self._tell()

    def _done(self, variant: Variant) -> None:
        self._work.finished(variant)
        self._tell()

    def _tell(self) -> None:
        if self.progress is None or self._now is None:
            return
        done = self._work.share
        elapsed = time.monotonic() - self.began
        left = elapsed * (1 - done) / done if done > 0.02 else None
        if left is not None:
            left = min(left, max(60 * self.options.minutes - elapsed, 0))
        self.progress(TuneProgress(done, self._now.stage, self._now.name, left))

    # -- what came out ------------------------------------------------------------------------------------

    def _tuning(
        self, chosen: SageSettings, planned: int, finished: bool, fewer: FewerTokens | None
    ) -> Tuning:
        warnings = list(self.corpus.warnings)
        count = len(self.corpus.questions)
        if count < FEW_QUESTIONS:
            warnings.insert(
                0,
                f"only {count} questions: too few to tell settings apart; write {FEW_QUESTIONS} or more, "
                "better 100",
            )
        if not finished:
            warnings.append("interrupted: the rest was not compared; another run begins anew")
        from sage_core import __version__

        comparisons = tuple(self.comparisons)
        if comparisons[0].figures.at_budgets.mean() > _NEARLY_ALL:
            warnings.append(
                "the settings as they stand find nearly all quotations: with these questions nothing can be "
                "seen to be better; write harder ones, in other words than the documents', or tune on more "
                "documents"
            )
        made_by = {
            "sage_rag": __version__,
            "segmenter": chosen.make_segmenter().fingerprint[:12],
            "command": "sage-rag tune",
        }
        measured = {
            "questions": count,
            "questions_not_used": len(self.unlocated),
            "documents": len(self.corpus.documents),
            "seed": self.options.seed,
            "finished": finished,
            "figure": f"share of the quotations within {', '.join(map(str, BUDGETS))} tokens, mean; "
            "in the stage 'selection', in what the rule kept",
            "comparisons_planned": planned,
            "confidence": round(1 - _LEVEL / max(planned, 1), 5),
            "comparisons": [c.to_dict() for c in comparisons],
            **({"left_out": dict(self.left_out)} if self.left_out else {}),
            **({"warnings": warnings} if warnings else {}),
        }
        settings = replace(chosen, made_by=made_by, measured=measured)
        return Tuning(
            settings,
            self.options.base,
            comparisons,
            planned,
            count,
            self.unlocated,
            self.left_out,
            tuple(warnings),
            finished,
            fewer,
        )


def _variants(stage: Stage, base: SageSettings, options: TuneOptions) -> list[Variant]:
    """What a stage compares with its base."""
    if stage == "selection":
        return [Variant(stage, name, base) for name in _FAMILIES]
    if stage == "chunks":
        model = {name: value for name, value in base.segmenter.items() if name == "model"}
        made = [
            (_size_name(target), replace(base, segmenter={**model, "target_tokens": target}))
            for target in options.targets
        ]
        made.append(("chunks as by default", replace(base, segmenter=model)))
    else:
        made = [
            ("no reranker" if name == "none" else f"reranker {name}", replace(base, reranker=name))
            for name in options.rerankers
        ]
        switched = "without context" if base.context else "with context"
        made.append((switched, replace(base, context=not base.context)))
    return [Variant(stage, name, settings) for name, settings in made if settings != base]


def _size_name(target: int | str) -> str:
    if target == TOPIC:
        return "chunks by topic alone"
    if isinstance(target, str):
        return f"chunks of {SIZES.get(target, target)} tokens ({target})"
    return f"chunks of {target} tokens"


# Other floors for the default rule, in tokens.
_FLOORS = (0, 50, 100, 150, 200)
_STEPS = [round(0.02 * i, 2) for i in range(1, 50)]
# Rules by family, with every parameter that is tried.
_FAMILIES: dict[str, list[Rule]] = {
    "fixed k": [FixedK(k) for k in range(1, 61)],
    "relative to top": [RelativeToTop(share) for share in _STEPS],
    "gradient": [Gradient(share) for share in _STEPS],
}


def _rules(family: str, scale: Scale) -> list[Rule]:
    return _FAMILIES[family]


_Selected = Sequence[Sequence[Candidate]]


def _selected(config: SelectionConfig, rankings: Sequence[Retrieval]) -> _Selected:
    """The candidates of each question that a selection keeps."""
    selected = []
    for candidates, scale in ((r.candidates, r.scale) for r in rankings):
        scores, tokens = [c.score for c in candidates], [c.tokens for c in candidates]
        selected.append(candidates[: config.select(scores, scale, tokens).cut])
    return selected


def _tokens(selected: _Selected) -> NDArray[np.float64]:
    return np.array([sum(c.tokens for c in candidates) for candidates in selected], dtype=np.float64)


def within_budget(ranking: Retrieval, budget: int) -> list[Evidence]:
    """What the first tokens of a ranking hold; the chunk that does not fit is cut off where they end."""
    held: list[Evidence] = []
    totals = accumulate(c.tokens for c in ranking.candidates)
    for candidate, total in zip(ranking.candidates, totals, strict=True):
        chunk, over = candidate.chunk, total - budget
        if over <= 0:
            held.append(Evidence(chunk.source, Span(chunk.start, chunk.end)))
            continue
        length = (chunk.end - chunk.start) * (candidate.tokens - over) // max(candidate.tokens, 1)
        if length > 0:
            held.append(Evidence(chunk.source, Span(chunk.start, chunk.start + length)))
        break
    return held


def ranked_question(question: LocatedQuestion, ranking: Retrieval) -> RankedQuestion:
    """The candidates of a question for `sage_app.tuning.calibrate`."""
    held = _spans(ranking.candidates)
    # Rounded, and never rising, whatever the order in which shares are added up.
    losses = accumulate((round(1 - _recall(question, held[:k]), 9) for k in range(len(held) + 1)), min)
    return RankedQuestion(
        tuple(c.score for c in ranking.candidates), tuple(c.tokens for c in ranking.candidates), tuple(losses)
    )


def _spans(candidates: Sequence[Any]) -> list[Evidence]:
    return [Evidence(c.chunk.source, Span(c.chunk.start, c.chunk.end)) for c in candidates]


def _recall(question: LocatedQuestion, held: Sequence[Evidence]) -> float:
    """Share of the quotations' characters that is held, each at the place of which most is."""
    shares = [max(_covered(place, held) for place in places) for places in question.evidence]
    return sum(shares) / len(shares)


def _covered(place: Evidence, held: Sequence[Evidence]) -> float:
    """Share of a place that the spans hold; those of one document do not overlap."""
    start, end = place.span
    inside = sum(
        max(0, min(end, h.span.end) - max(start, h.span.start)) for h in held if h.document == place.document
    )
    return min(inside / (end - start), 1.0)


def _passages(questions: Sequence[LocatedQuestion]) -> list[int]:
    """A number for each question, the same for those whose quotations overlap, directly or through others."""
    leader = list(range(len(questions)))

    def find(i: int) -> int:
        while leader[i] != i:
            leader[i] = leader[leader[i]]
            i = leader[i]
        return i

    spans = sorted(
        (e.document, e.span.start, e.span.end, i)
        for i, q in enumerate(questions)
        for places in q.evidence
        for e in places
    )
    last: tuple[str, int, int] | None = None
    for document, start, end, i in spans:
        if last is not None and last[0] == document and start < last[1]:
            leader[find(i)] = find(last[2])
            last = document, max(end, last[1]), i
        else:
            last = document, end, i
    return [find(i) for i in range(len(questions))]


class _CachedEmbedder:
    """An embedding model that embeds each text once; batches as the caller makes them."""

    def __init__(self, embedder: Embedder, embedded: Callable[[int], None]) -> None:
        self._embedder = embedder
        self._embedded = embedded
        self._vectors: dict[bytes, NDArray[np.float32]] = {}
        self._questions: dict[str, NDArray[np.float32]] = {}
        self.max_tokens: int | None = getattr(embedder, "max_tokens", None)

    @property
    def name(self) -> str:
        return self._embedder.name

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        keys = [_key(text) for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._vectors}
        if new:
            for key, row in zip(new, self._embedder.embed_documents(list(new.values())), strict=True):
                self._vectors[key] = row.copy()
        self._embedded(sum(map(len, texts)))
        return np.stack([self._vectors[key] for key in keys])

    def embed_query(self, text: str) -> NDArray[np.float32]:
        if text not in self._questions:
            self._questions[text] = self._embedder.embed_query(text)
        return self._questions[text]


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class _Work:
    """How much there is to do, in characters that a model reads."""

    def __init__(self, characters: int, questions: int) -> None:
        self._characters = max(characters, 1)
        self._questions = max(questions, 1)
        self._total = self._characters + self._ask("hybrid") * self._questions  # the base
        self._before = 0.0
        self._within = 0.0

    def _ask(self, reranker: str) -> float:
        """Work of one question: a cross-encoder reads some 75 candidates."""
        crossed = reranker not in ("hybrid", "none")
        return 75 * 350.0 if crossed else 300.0

    def of(self, variant: Variant) -> float:
        if variant.stage == "selection":
            return 0.0
        embeds = variant.stage == "chunks" or "context" in variant.name
        return self._characters * embeds + self._ask(variant.settings.reranker) * self._questions

    def add(self, variant: Variant) -> None:
        self._total += self.of(variant)

    def embedded(self, characters: int) -> None:
        self._within += characters

    def retrieved(self, settings: SageSettings) -> None:
        self._within += self._ask(settings.reranker)

    def finished(self, variant: Variant) -> None:
        if variant.name == "as it stands":
            self._before += self._within if variant.stage == "chunks" else 0.0
        else:
            self._before += self.of(variant)
        self._within = 0.0

    @property
    def share(self) -> float:
        return min((self._before + self._within) / self._total, 1.0)
