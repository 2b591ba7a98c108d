"""Drop the sentences of kept chunks that do not help with the question; what is left are exact slices.

A logistic model gives the probability that a sentence is evidence, from how its chunk was ranked and from the
words it shares with the question. Its coefficients, and the threshold below which a sentence goes, are in
``pruning.json``; ``benchmarks/pruning.py`` makes and measures them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core._checks import check_float
from sage_core.errors import InputError
from sage_core.selection.scales import Scale, rank_order, to_ratio_scale
from sage_core.text.blocks import points_back
from sage_core.text.keywords import bm25_share, gram_share, words
from sage_core.text.language import is_english
from sage_core.text.sentences import read_sentences
from sage_core.text.spans import Span
from sage_core.text.tokens import without_lone_surrogates
from sage_core.verify.words import NUMBER, question_words, stems

FEATURES = (
    "log_relative_score",
    "relative_score",
    "log_rank",
    "bm25",
    "grams",
    "number",
    "bm25_beside",
    "log_length",
)

# A chunk with a smaller share of the best score than this counts as one with it: its logarithm is bounded.
_LEAST_SHARE = 0.003
_WHOLE = frozenset(("table", "code", "item"))
# A gap of fewer words is not worth a break in the text.
_SHORTEST_GAP = 5

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pruned:
    """What is left of a text, and what was dropped; exact spans of it, in order.

    Examples:
        >>> pruned = Pruned((Span(0, 4),), (Span(5, 9),))
        >>> pruned.slices("Yes. No..")
        ['Yes.']

    Attributes:
        kept: Slices to send: one or more sentences each.
        dropped: Slices left out. Between kept and dropped ones is nothing but white space.
    """

    kept: tuple[Span, ...]
    dropped: tuple[Span, ...] = ()

    def slices(self, text: str) -> list[str]:
        """The text of each slice to send."""
        return [span.of(text) for span in self.kept]

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready form."""
        return {"kept": [list(s) for s in self.kept], "dropped": [list(s) for s in self.dropped]}


class SentencePruner:
    """Drops the sentences of chunks that do not help with a question. English; no LLM, deterministic.

    Kept are the sentences that are likely evidence, and the best one of each chunk: no chunk becomes empty.
    Lists, tables and code stay whole. A sentence that begins by pointing back ("It ...", "However, ...")
    keeps the one before it, and a heading stays with what it heads. Chunks in other languages stay as they
    are, and so do all where the question is in another language.

    Examples:
        >>> texts = ["The ferry leaves at seven. Seals live in the harbor. Bees need flowers in spring."]
        >>> pruner = SentencePruner(threshold=0.5)
        >>> [pruned] = pruner.prune("When does the ferry leave?", texts)
        >>> pruned.slices(texts[0])
        ['The ferry leaves at seven.']

    Args:
        threshold: Probability below which a sentence is dropped, from 0 (nothing is dropped) to 1; None for
            the measured one.

    Raises:
        InputError: For a threshold out of its range.
    """

    def __init__(self, *, threshold: float | None = None) -> None:
        if threshold is not None:
            check_float("threshold", threshold, minimum=0, maximum=1)
        self.threshold: float = _fitted()["threshold"] if threshold is None else threshold

    def __repr__(self) -> str:
        return f"{type(self).__name__}(threshold={self.threshold:g})"

    def prune(
        self,
        question: str,
        texts: Sequence[str],
        scores: Sequence[float | None] | None = None,
        scale: Scale = "probability",
    ) -> list[Pruned]:
        """What to keep of each text.

        Args:
            question: The question.
            texts: The chunks that were kept; best first where there are no scores.
            scores: The reranker's, one per text: those of a lowly ranked chunk are dropped sooner.
            scale: What the scores are.

        Raises:
            InputError: For texts that are one text, and another number of scores.
        """
        if isinstance(texts, str):
            raise InputError("texts is a list of texts, not one text")
        if scores is not None and len(scores) != len(texts):
            raise InputError(f"{len(scores)} scores for {len(texts)} texts")
        question = without_lone_surrogates(question)
        chunks = [chunk_sentences(without_lone_surrogates(text)) for text in texts]
        english = is_english(question, 8) and bool(question.strip())
        values = self._probabilities(question, chunks, scores, scale) if english else []
        result = []
        at = 0
        for chunk in chunks:
            own = values[at : at + len(chunk.spans)]
            at += len(chunk.spans)
            known = english and is_english(chunk.text, 20)
            result.append(keep_sentences(chunk, own, self.threshold) if known else _whole(chunk))
        return result

    def _probabilities(
        self,
        question: str,
        chunks: Sequence[ChunkSentences],
        scores: Sequence[float | None] | None,
        scale: Scale,
    ) -> list[float]:
        sentences = [span.of(chunk.text) for chunk in chunks for span in chunk.spans]
        if not sentences:
            return []
        lengths = [len(chunk.spans) for chunk in chunks]
        features = sentence_features(question, sentences, lengths, scores, scale)
        fitted = _fitted()
        logits = features @ np.asarray(fitted["weights"]) + fitted["intercept"]
        return [1 / (1 + math.exp(-max(-30.0, min(30.0, float(x))))) for x in logits]


@dataclass(frozen=True, slots=True)
class ChunkSentences:
    """A chunk taken apart.

    Attributes:
        text: Its text.
        spans: Its sentences.
        headings: Which of them are headings.
        fixed: Which stay whatever they say: lists with what introduces them, tables, code.
        back: Which need the one before.
    """

    text: str
    spans: tuple[Span, ...]
    headings: tuple[bool, ...]
    fixed: tuple[bool, ...]
    back: tuple[bool, ...]


def chunk_sentences(text: str) -> ChunkSentences:
    """The sentences of a chunk, and what has to stay together."""
    spans, gaps, kinds = read_sentences(text)
    fixed = [
        kind in _WHOLE or (kind == "lead" and following in _WHOLE)
        for kind, following in zip(kinds, [*kinds[1:], ""], strict=False)
    ]
    back = [i > 0 and gaps[i - 1] < 2 and points_back(text, span) for i, span in enumerate(spans)]
    headings = tuple(kind == "heading" for kind in kinds)
    return ChunkSentences(text, spans, headings, tuple(fixed), tuple(back))


def sentence_features(
    question: str,
    sentences: Sequence[str],
    lengths: Sequence[int],
    scores: Sequence[float | None] | None,
    scale: Scale,
) -> Floats:
    """What the logistic model joins, shape ``(len(sentences), len(FEATURES))``.

    Args:
        question: The question.
        sentences: Of all chunks, in order.
        lengths: Sentences of each chunk.
        scores: Of the chunks; None: they are in order, and that is all that is known.
        scale: What the scores are.
    """
    share, rank = _standing(len(lengths), scores, scale)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    query, words_of = words(question), [words(s) for s in sentences]
    shared = bm25_share(query, words_of)
    number = NUMBER in question_words(question)
    columns = [
        np.log(np.maximum(share, _LEAST_SHARE))[owner],
        share[owner],
        np.log1p(rank)[owner],
        shared,
        gram_share(query, words_of),
        np.array([float(number and NUMBER in stems(s)) for s in sentences]),
        _beside(shared, owner),
        np.log1p([len(s.split()) for s in sentences]),
    ]
    return np.stack([np.asarray(c, dtype=np.float64) for c in columns], axis=1)


def _standing(n: int, scores: Sequence[float | None] | None, scale: Scale) -> tuple[Floats, Floats]:
    """Each chunk's share of the best score, and its rank from 0."""
    rank = np.arange(n, dtype=np.float64)
    if scores is not None:
        rank[np.array(rank_order(scores), dtype=int)] = np.arange(n)
        known = [float(s) for s in scores if s is not None and not math.isnan(s)]
        ratio = iter(to_ratio_scale(known, scale)) if known and scale != "cosine" else None
        if ratio is not None:
            values = np.array([0.0 if s is None or math.isnan(s) else next(ratio) for s in scores])
            best = values.max()
            if 0 < best < math.inf:
                return np.clip(values / best, 0.0, 1.0), rank
    # How shares fall with the rank, on average over the development questions. Cosines come here too: what
    # they are at the lowest says nothing of how much less it is than the best.
    return np.exp(-_FALL * rank), rank


_FALL = 0.25  # Of the share's logarithm with each rank; chosen by hand.


def _beside(values: Floats, owner: NDArray[np.int64]) -> Floats:
    """The larger of the values of the two neighbors within the same chunk; 0 for none."""
    before, after = np.zeros(len(values)), np.zeros(len(values))
    same = owner[1:] == owner[:-1]
    before[1:][same] = values[:-1][same]
    after[:-1][same] = values[1:][same]
    return np.asarray(np.maximum(before, after))


def keep_sentences(chunk: ChunkSentences, values: Sequence[float], threshold: float) -> Pruned:
    """The sentences at or above the threshold, and what has to stay with them."""
    n = len(chunk.spans)
    prose = [i for i in range(n) if not chunk.headings[i]]
    keep = [chunk.fixed[i] or (values[i] >= threshold and not chunk.headings[i]) for i in range(n)]
    # Something of every chunk stays: its best sentence that says anything.
    said = [i for i in prose if any(map(str.isalnum, chunk.spans[i].of(chunk.text)))]
    if n:
        keep[max(said or prose or range(n), key=lambda i: (values[i], -i))] = True
    for i in reversed(range(1, n)):
        if keep[i] and chunk.back[i] and not chunk.headings[i - 1]:
            keep[i - 1] = True
    _close_gaps(chunk, keep)
    for i in reversed(range(n)):
        # Of several headings one below the other all stay: each heads the next.
        if chunk.headings[i]:
            keep[i] = keep[i] or (i + 1 < n and _heads(chunk, keep, i))
    return _slices(chunk, keep)


def _heads(chunk: ChunkSentences, keep: Sequence[bool], heading: int) -> bool:
    """Whether anything below a heading stays, up to the next heading that has text above it."""
    i = heading + 1
    while i < len(keep) and chunk.headings[i]:
        i += 1
    while i < len(keep) and not chunk.headings[i]:
        if keep[i]:
            return True
        i += 1
    return False


def _close_gaps(chunk: ChunkSentences, keep: list[bool]) -> None:
    """Keep a few words between two sentences that stay."""
    last = None
    for i in range(len(keep)):
        if not keep[i]:
            continue
        if last is not None and i - last > 1:
            between = chunk.text[chunk.spans[last].end : chunk.spans[i].start]
            if len(between.split()) < _SHORTEST_GAP:
                keep[last + 1 : i] = [True] * (i - last - 1)
        last = i


def _slices(chunk: ChunkSentences, keep: Sequence[bool]) -> Pruned:
    return Pruned(tuple(_runs(chunk.spans, keep, True)), tuple(_runs(chunk.spans, keep, False)))


def _runs(spans: Sequence[Span], keep: Sequence[bool], fate: bool) -> Iterable[Span]:
    """Neighboring sentences with the same fate as one span."""
    start: int | None = None
    for i, keeps in enumerate([*keep, not fate]):
        if keeps == fate and start is None:
            start = i
        elif keeps != fate and start is not None:
            yield Span(spans[start].start, spans[i - 1].end)
            start = None


def _whole(chunk: ChunkSentences) -> Pruned:
    return _slices(chunk, [True] * len(chunk.spans))


@lru_cache(maxsize=1)
def _fitted() -> dict[str, Any]:
    text = Path(__file__).with_name("pruning.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded
