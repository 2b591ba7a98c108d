"""Where the loop goes next when the critic asks for more or for less (paper, section VI).

Every selection is a prefix of the ranking, so a selection is its cut: the number of chunks kept. The paper
adds or takes 1 from ``min_k``; under the gradient rule that mostly gives the same cut again, hence the same
context and, from a deterministic model, the same answer. `AdaptiveMoves` moves the cut itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sage_core.feedback.types import FeedbackConfig
from sage_core.selection import Scale, Selection, rank_order, select
from sage_core.selection.cut import fitting


@dataclass(frozen=True, slots=True)
class Move:
    """A selection and the ``min_k`` it was made with."""

    selection: Selection
    min_k: int


@dataclass(slots=True)
class _Moves:
    """Over one list of candidates; ``selection`` is the first, where it was made already."""

    scores: Sequence[float | None]
    scale: Scale
    config: FeedbackConfig
    selection: Selection | None = None
    sizes: Sequence[int] | None = None

    def first(self) -> Move:
        """The first selection."""
        settings = self.config.selection
        selection = self.selection or settings.select(self.scores, self.scale, self.sizes)
        return Move(selection, selection.min_k or settings.effective_min_k)


@dataclass(slots=True)
class PaperMoves(_Moves):
    """The literal loop: ``min_k`` plus or minus 1, at least 1, and the same rule again."""

    min_k: int = field(init=False)

    def __post_init__(self) -> None:
        self.min_k = self.first().min_k

    def next(self, cut: int, adjust: int) -> Move | None:
        """The selection after a verdict; may be the same as before, which is the paper's defect."""
        most = self.config.selection.max_k
        # Literal: nothing is remembered, so +1 and -1 may alternate forever. max_rounds ends it.
        self.min_k = max(self.min_k + adjust, 1)
        if most is not None:
            self.min_k = min(self.min_k, most)
        # A floor in tokens or "nothing relevant" would overrule the min_k that the paper moves.
        settings = replace(self.config.selection, min_k=self.min_k, min_context_tokens=None, empty_below=None)
        return Move(settings.select(self.scores, self.scale, self.sizes), self.min_k)


@dataclass(slots=True)
class AdaptiveMoves(_Moves):
    """Moves that always change the evidence, and never go back to a cut that was tried.

    Asked for more, the cut doubles; asked for less, it halves. Once a cut has been called too small and
    another too large, the next lies midway between. (Looking for the sharpest drop of the scores within
    reach was tried instead: it found less evidence for as many tokens.)
    """

    # The largest cut called too small, and the smallest called too large; none yet: the ends of the ranking.
    low: int = 0
    high: int = field(init=False)
    most: int = field(init=False)

    def __post_init__(self) -> None:
        total = len(self.scores)
        settings = self.config.selection
        self.most = total if settings.max_k is None else min(settings.max_k, total)
        if settings.max_context_tokens is not None and self.sizes is not None:
            # In the order of the ranking, since a cut is a prefix of it.
            sizes = [self.sizes[i] for i in rank_order(self.scores)]
            self.most = min(self.most, fitting(sizes, settings.max_context_tokens)) if sizes else 0
        self.high = self.most + 1

    def next(self, cut: int, adjust: int) -> Move | None:
        """The selection after a verdict, or None if no untried one lies that way."""
        if adjust > 0:
            self.low = cut
            # Doubling until something was too much, then bisection: O(log n) rounds to any cut.
            target = min(2 * cut, self.most) if self.high > self.most else (cut + self.high) // 2
        elif adjust < 0:
            self.high = cut
            # Rounded up, so that halving 1 gives 1, which the check below ends.
            target = (self.low + cut + 1) // 2
        else:
            return None
        # A cut outside was called too small or too large, or was tried.
        if not self.low < target < self.high:
            return None
        chosen = select(self.scores, scale=self.scale, min_k=target, max_k=target)
        word = "more" if adjust > 0 else "less"
        return Move(replace(chosen, reason=f"the critic asked for {word}: {cut} -> {target}"), target)
