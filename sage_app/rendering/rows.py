"""What the pictures of a ranking share: one row for each candidate, best first."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePath

from sage_app.pipeline.results import Answer, Candidate, Retrieval
from sage_app.store.chunks import Chunk
from sage_core.segmentation.view import REASONS, Boundary, BoundaryReason, SegmentationView
from sage_core.selection import Scale, to_ratio_scale
from sage_core.selection.scales import usable_scores
from sage_core.text.sanitize import one_line
from sage_core.text.spans import Span
from sage_core.verify import AnswerMark


@dataclass(frozen=True, slots=True)
class Row:
    """A candidate as it is shown; what is not known is None or empty.

    Attributes:
        index: Its position in the list that selections refer to.
        share: The score on the ratio scale, the best as 1.
        text: Its text, as it is in the document: to be made safe by whoever shows it.
        place: Name of its document and where in it.
        source: The document in full, such as its path.
        because: Which better one, by rank, or what else names its document: "[1] names it".
    """

    index: int
    rank: int
    score: float | None
    share: float
    text: str = ""
    place: str = ""
    source: str = ""
    tokens: int | None = None
    similarity: float | None = None
    because: str = ""


def shares(scores: Sequence[float | None], scale: Scale) -> list[float]:
    """Scores on the ratio scale, the best as 1; 0 where there is no score."""
    known = usable_scores(scores)
    ratio = to_ratio_scale([s for s in known if s is not None], scale)
    best = max(ratio, default=0.0) or 1.0
    values = iter(ratio)
    if math.isinf(best):
        return [0.0 if s is None else float(math.isinf(next(values))) for s in known]
    return [0.0 if s is None else next(values) / best for s in known]


def score_text(score: float | None) -> str:
    """A score for display: three decimals, or three digits where those say nothing."""
    if score is None or math.isnan(score):
        return "none"
    if math.isinf(score):
        return "∞" if score > 0 else "-∞"
    if score == 0 or 0.001 <= abs(score) < 10_000:
        return f"{score:.3f}"
    return f"{score:.2e}"


def retrieval_rows(retrieval: Retrieval) -> list[Row]:
    """The candidates of a retrieval, which are in order already."""
    scores = [c.score for c in retrieval.candidates]
    ranks = {c.chunk.id: i for i, c in enumerate(retrieval.candidates, start=1)}
    return [
        Row(
            index=i,
            rank=i + 1,
            score=candidate.score,
            share=share,
            text=candidate.chunk.text,
            place=" = ".join(map(place_of, (candidate.chunk, *candidate.copies))),
            source=candidate.chunk.source,
            tokens=candidate.tokens,
            similarity=candidate.similarity,
            because=_because(candidate, ranks, i + 1),
        )
        for i, (candidate, share) in enumerate(
            zip(retrieval.candidates, shares(scores, retrieval.scale), strict=True)
        )
    ]


def _because(candidate: Candidate, ranks: Mapping[str, int], rank: int) -> str:
    """What names a candidate's document: the best that stands above it, else the question."""
    above = [ranks.get(by.chunk_id or "", rank) for by in candidate.named_by]
    if above and min(above) < rank:
        return f"[{min(above)}] names it"
    return "the question names it" if any(by.chunk_id is None for by in candidate.named_by) else ""


def chunk_pieces(
    text: str, boundaries: Sequence[Boundary], spans: Sequence[Span]
) -> Iterator[tuple[float | None, list[tuple[str, float | None]]]]:
    """For each chunk P(same) before it, and its text in pieces, each with P(same) before it.

    None of the first piece, and of a chunk that begins within a sentence.
    """
    probabilities = {b.position: b.probability for b in boundaries}
    places = sorted(probabilities)
    for span in spans:
        inner = places[bisect_right(places, span.start) : bisect_left(places, span.end)]
        pieces = pairwise([span.start, *inner, span.end])
        yield (
            probabilities.get(span.start),
            [(text[at:end], None if at == span.start else probabilities[at]) for at, end in pieces],
        )


def reason_counts(view: SegmentationView) -> dict[BoundaryReason, int]:
    """How many boundaries each reason made; without those that made none."""
    counts = {reason: view.reasons.count(reason) for reason in REASONS}
    return {reason: count for reason, count in counts.items() if count}


def place_of(chunk: Chunk) -> str:
    """The document's name, and the page or offset, on one safe line."""
    return f"{one_line(PurePath(chunk.source).name)}:{f'p. {chunk.page}' if chunk.page else chunk.start}"


def citations(answer: Answer, marks: Sequence[AnswerMark]) -> list[int | None]:
    """For each part of an answer the rank of the chunk that supports it; None if none does."""
    places = [answer.candidate_of(m) if m.support == "supported" else None for m in marks]
    return [None if place is None else place + 1 for place in places]
