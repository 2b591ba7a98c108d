"""Where the loop goes next when the critic asks for more or for less (paper, section VI).

Every selection is a prefix of the ranking, so a selection is its cut: the number of chunks kept. The paper
adds or takes 1 from ``min_k``; under the gradient rule that mostly gives the same cut again, hence the same
context and, from a deterministic model, the same answer. `AdaptiveMoves` moves the cut itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sage_core.feedback.types import FeedbackConfig
from sage_core.selection import Scale, Selection, select, to_ratio_scale


@dataclass(frozen=True, slots=True)
class Move:
    """A selection and the ``min_k`` it was made with."""

    selection: Selection
    min_k: int


@dataclass(slots=True)
class PaperMoves:
    """The literal loop: ``min_k`` plus or minus 1, at least 1, and the same rule again."""

    scores: Sequence[float | None]
    scale: Scale
    config: FeedbackConfig
    min_k: int = field(init=False)

    def __post_init__(self) -> None:
        self.min_k = self.config.min_k

    def first(self) -> Move:
        """The first selection."""
        return _ruled(self.scores, self.scale, self.config, self.min_k)

    def next(self, cut: int, adjust: int) -> Move | None:
        """The selection after a verdict; may be the same as before, which is the paper's defect."""
        most = self.config.max_k
        self.min_k = max(self.min_k + adjust, 1)
        if most is not None:
            self.min_k = min(self.min_k, most)
        return _ruled(self.scores, self.scale, self.config, self.min_k)


@dataclass(slots=True)
class AdaptiveMoves:
    """Moves that always change the evidence, and never go back to a cut that was tried.

    Cuts judged too small lie at or below ``low``, cuts judged too large at or above ``high``; the next cut
    is always strictly between them. Asked for more, the step is a third to the whole of the current cut;
    asked for less, a quarter to a half. Within that range the cut goes where the scores drop most sharply,
    and as far as allowed where they do not drop at all.
    """

    scores: Sequence[float | None]
    scale: Scale
    config: FeedbackConfig
    low: int = 0
    high: int = field(init=False)
    ratio: list[float] = field(init=False)

    def __post_init__(self) -> None:
        most = len(self.scores) if self.config.max_k is None else min(self.config.max_k, len(self.scores))
        self.high = most + 1
        kept = [s for s in select(self.scores, scale=self.scale, min_k=max(most, 1)).scores if s is not None]
        self.ratio = to_ratio_scale(kept, self.scale)

    def first(self) -> Move:
        """The first selection."""
        return _ruled(self.scores, self.scale, self.config, self.config.min_k)

    def next(self, cut: int, adjust: int) -> Move | None:
        """The selection after a verdict, or None where no untried one lies that way."""
        if adjust > 0:
            self.low = cut
            lowest, highest = cut + -(-cut // 3), 2 * cut
        elif adjust < 0:
            self.high = cut
            lowest, highest = -(-cut // 2), cut - -(-cut // 4)
        else:
            return None
        if self.high - self.low < 2:
            return None
        first, last = self.low + 1, self.high - 1
        lowest, highest = min(max(lowest, first), last), min(max(highest, first), last)
        cuts = range(lowest, highest + 1)
        # Furthest first, so that a tie (a flat stretch) takes the longer step.
        target = min(reversed(cuts) if adjust > 0 else cuts, key=self._drop)
        chosen = select(self.scores, scale=self.scale, min_k=target, max_k=target)
        word = "more" if adjust > 0 else "less"
        reason = f"the critic asked for {word}: {cut} -> {target}, {self._where(target)}"
        return Move(replace(chosen, reason=reason), target)

    def _drop(self, cut: int) -> float:
        """Score after the cut as a share of the score before it; 1 where there is nothing to compare."""
        if cut >= len(self.ratio) or self.ratio[cut - 1] <= 0:
            return 1.0
        return min(self.ratio[cut] / self.ratio[cut - 1], 1.0)

    def _where(self, cut: int) -> str:
        if cut == len(self.scores):
            return "all there are"
        share = self._drop(cut)
        return f"where the next score falls to {share:.2f} of the last" if share < 1 else "no drop in reach"


def _ruled(scores: Sequence[float | None], scale: Scale, config: FeedbackConfig, min_k: int) -> Move:
    """The rule's own selection."""
    chosen = select(
        scores,
        scale=scale,
        rule=config.rule,
        min_k=min_k,
        gradient=config.gradient,
        max_k=config.max_k,
    )
    return Move(chosen, min_k)
