"""A list of scores and where it was cut, to look at: for rankings that come from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sage_core._display import Displayable
from sage_core.errors import InputError
from sage_core.selection.config import SelectionConfig
from sage_core.selection.cut import Selection
from sage_core.selection.rules import Rule, RuleName
from sage_core.selection.scales import SCALES, Scale


@dataclass(frozen=True, slots=True)
class SelectionView(Displayable):
    """Scores, what was kept of them and why. Made by `selection_view`.

    Examples:
        >>> view = selection_view([0.9, 0.8, 0.1], ["a", "b", "c"], rule="gradient", min_k=1)
        >>> view.selection.cut
        2
        >>> "<svg" in view.to_html()
        True

    Attributes:
        scores: One per candidate, in the order of ``selection.indices``' positions.
        selection: What was kept.
        scale: What the scores are.
        texts: Texts of the candidates; None if not known.
        sources: Where each is from, such as a file name; None if not known.
        tokens: Length of each; None if not known.
        top_k: The fixed k that it is compared with; None for no comparison.
    """

    scores: tuple[float | None, ...]
    selection: Selection
    scale: Scale
    texts: tuple[str, ...] | None = None
    sources: tuple[str, ...] | None = None
    tokens: tuple[int, ...] | None = None
    top_k: int | None = 10

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise InputError(f"unknown score scale {self.scale!r}: one of {', '.join(SCALES)}")
        for name in ("texts", "sources", "tokens"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.scores):
                raise InputError(f"{len(values)} {name} for {len(self.scores)} scores")
        if any(not 0 <= i < len(self.scores) for i in self.selection.indices):
            raise InputError(f"the selection names candidates beyond the {len(self.scores)} scores")
        if self.top_k is not None and self.top_k < 1:
            raise InputError(f"top_k must be at least 1, or None for no comparison, not {self.top_k}")


def selection_view(
    scores: Sequence[float | None],
    texts: Sequence[str] | None = None,
    *,
    scale: Scale = "probability",
    selection: Selection | None = None,
    config: SelectionConfig | None = None,
    rule: Rule | RuleName | None = None,
    min_k: int | None = None,
    gradient: float | None = None,
    max_k: int | None = None,
    sources: Sequence[str] | None = None,
    tokens: Sequence[int] | None = None,
    top_k: int | None = 10,
) -> SelectionView:
    """Look at a ranking: its score curve, the cut and the reason, what was kept and what was not.

        nodes = index.as_retriever(similarity_top_k=30).retrieve("Why?")
        selection_view([n.score for n in nodes], [n.text for n in nodes], scale="cosine")

    Args:
        scores: One per candidate, in any order.
        texts: Their texts.
        scale: What the scores are; see `sage_core.selection.cut.to_ratio_scale`.
        selection: What was kept, where that is known; otherwise it is made here with ``config`` and the
            four keywords below, which replace values of ``config``.
        config: Settings of the selection.
        rule: See `SelectionConfig`.
        min_k: See `SelectionConfig`.
        gradient: See `SelectionConfig`.
        max_k: See `SelectionConfig`.
        sources: Where each candidate is from.
        tokens: Length of each candidate.
        top_k: The fixed k to compare with; None for no comparison.

    Raises:
        InputError: Where lengths differ or an argument is out of its range.
    """
    plain = tuple(None if s is None else float(s) for s in scores)
    if selection is None:
        settings = (config or SelectionConfig()).updated(
            rule=rule, min_k=min_k, gradient=gradient, max_k=max_k
        )
        selection = settings.select(plain, scale)
    return SelectionView(
        plain,
        selection,
        scale,
        tuple(texts) if texts is not None else None,
        tuple(sources) if sources is not None else None,
        tuple(tokens) if tokens is not None else None,
        top_k,
    )
