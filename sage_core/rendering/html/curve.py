"""The score curve with its cut (the paper's figures 8 and 9) as one SVG picture."""

from __future__ import annotations

import hashlib
import math
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from sage_core.rendering.html.axes import Axis, tick_text, value_axis
from sage_core.rendering.html.markup import Markup, join, tag
from sage_core.rendering.html.style import svg_css
from sage_core.rendering.rows import score_text, usable
from sage_core.selection.cut import Scale, Selection, rank_order

SCALE_WORDS: dict[Scale, str] = {
    "probability": "probability",
    "logit": "logit",
    "cosine": "cosine",
    "unbounded": "score",
}
# On a scale of ratios, a spread beyond this hides the cliff at the foot of a linear axis.
_LOG_SPREAD = 20
_LARGEST = 1e300
_LEFT, _RIGHT, _BOTTOM, _LINE = 50, 16, 40, 18


class Mark(NamedTuple):
    """Another cut to draw for comparison: how many it keeps, and its name."""

    keep: int
    name: str


def score_curve_svg(
    scores: Sequence[float | None],
    selection: Selection,
    *,
    scale: Scale = "probability",
    top_k: int | None = None,
    marks: Sequence[Mark] = (),
    log: bool | None = None,
    width: int = 720,
) -> str:
    """Draw scores by rank: kept ones filled, dropped ones hollow, the cut with its reason, a fixed k.

    The SVG stands alone: it may be written to a file, shown in a notebook, or put into a page.

    Args:
        scores: One per candidate, in any order; None and NaN are drawn at the foot.
        selection: What was kept; its indices are positions in ``scores``.
        scale: What the scores are.
        top_k: A fixed k to compare with; None draws none.
        marks: Further cuts to compare with.
        log: Whether the axis is logarithmic. None decides: on unbounded scores above 0, where ratios count,
            if the best is more than 20 times the least.
        width: Width in pixels; text keeps its size, so that 340 suits a phone.

    Returns:
        The markup. For no scores, a picture that says so.
    """
    order = rank_order(scores)
    values = [_drawable(scores[i]) for i in order]
    known = [v for v in values if v is not None]
    if log is None:
        log = scale == "unbounded" and _spread(known) > _LOG_SPREAD
    positive = [v for v in known if v > 0]
    log = log and bool(positive)
    kept = set(selection.indices)
    caption = textwrap.wrap(_caption(selection), max(20, (width - 24) // 7)) or [""]
    lines = [Mark(selection.cut, f"cut: {selection.cut} kept"), *_others(len(order), top_k, marks)]
    top = 8 + _LINE * (len(caption) + len(lines)) + 6
    bottom = top + (220 if width >= 500 else 190)
    x = Axis(0.5, max(len(order), 1) + 0.5, _LEFT, width - _RIGHT)
    y = value_axis(positive if log else known, bottom, top, log=log, zero=scale != "logit")
    plot = _Plot(x, y, top, bottom)
    parts = [
        tag("rect", class_="bg", width="100%", height="100%"),
        *(tag("text", line, x=8, y=22 + _LINE * i) for i, line in enumerate(caption)),
        *_grid(plot, len(order), f"{SCALE_WORDS[scale]}{', log scale' if log else ''}"),
        *_area(plot, values, [i in kept for i in order]),
        *_marks(plot, lines, 8 + _LINE * len(caption), width),
        *_dots(plot, values, [scores[i] for i in order], [i in kept for i in order]),
    ]
    what = f"Scores of {len(order)} candidates by rank, {selection.cut} of them kept"
    return svg(width, bottom + _BOTTOM, what, _describe(values, selection, lines[1:]), parts)


def svg(width: int, height: float, title: str, description: str, parts: Sequence[Markup]) -> Markup:
    """A picture of its own, with a title and a description for those who cannot see it."""
    inner = join(parts)
    key = hashlib.sha256(f"{title}{description}{inner}{width}".encode()).hexdigest()[:10]
    return tag(
        "svg",
        tag("title", title, id=f"t{key}"),
        tag("desc", description, id=f"d{key}"),
        tag("style", Markup(svg_css())),
        inner,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height:.0f}",
        width=width,
        height=round(height),
        class_="sage-svg",
        role="img",
        aria_labelledby=f"t{key} d{key}",
    )


class _Plot(NamedTuple):
    x: Axis
    y: Axis
    top: float
    bottom: float

    def at(self, value: float | None) -> float:
        """Height of a score on the picture; what has none, or none on a log axis, lies at the foot."""
        if value is None or (self.y.log and value <= 0):
            return self.bottom
        return self.y(value)


def _drawable(score: float | None) -> float | None:
    value = usable(score)
    return None if value is None else min(max(value, -_LARGEST), _LARGEST)


def _spread(values: Sequence[float]) -> float:
    """The best divided by the least that is above 0; 0 where one of them is below 0."""
    positive = [v for v in values if v > 0]
    if not positive or min(values) < 0:
        return 0.0
    return max(positive) / min(positive)


def _caption(selection: Selection) -> str:
    if not selection.candidates:
        return "Nothing was found: there are no scores."
    return f"{selection.cut} of {selection.candidates} kept: {selection.reason}"


def _others(count: int, top_k: int | None, marks: Sequence[Mark]) -> list[Mark]:
    """The cuts to compare with; those at the same place share a line."""
    wanted = [*marks, *([Mark(min(top_k, count), f"fixed k = {top_k}")] if top_k and count else [])]
    names: dict[int, list[str]] = {}
    for mark in wanted:
        names.setdefault(mark.keep, []).append(mark.name)
    return [Mark(keep, ", ".join(found)) for keep, found in sorted(names.items())]


def _grid(plot: _Plot, count: int, label: str) -> list[Markup]:
    left, right = plot.x.start, plot.x.end
    parts = []
    for value in plot.y.ticks():
        at = plot.y(value)
        parts.append(tag("line", class_="grid", x1=left, x2=right, y1=at, y2=at))
        parts.append(tag("text", tick_text(value), class_="tick", x=left - 7, y=at + 4, text_anchor="end"))
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 10**9) if count / s <= (right - left) / 34)
    for rank in sorted({1, *range(step, count + 1, step)} if count else set()):
        if rank == 1 and step == 2:
            continue  # would touch its neighbour
        parts.append(
            tag("text", rank, class_="tick", x=plot.x(rank), y=plot.bottom + 17, text_anchor="middle")
        )
    parts.append(tag("line", class_="grid", x1=left, x2=right, y1=plot.bottom, y2=plot.bottom))
    parts.append(tag("text", "rank", class_="axis", x=right, y=plot.bottom + 34, text_anchor="end"))
    parts.append(tag("text", label, class_="axis", x=8, y=plot.bottom + 34))
    return parts


def _area(plot: _Plot, values: Sequence[float | None], kept: Sequence[bool]) -> list[Markup]:
    """The curve, and the area below the part that was kept."""
    points = [f"{plot.x(i):.1f},{plot.at(v):.1f}" for i, v in enumerate(values, start=1)]
    cut = sum(kept) if all(kept[: sum(kept)]) else 0  # only a prefix has an area
    parts = []
    if cut:
        end = plot.x(cut)
        path = f"M{plot.x(1):.1f},{plot.bottom:.1f}L{'L'.join(points[:cut])}L{end:.1f},{plot.bottom:.1f}Z"
        parts.append(tag("path", class_="area", d=path))
    if len(points) > 1:
        parts.append(tag("polyline", class_="line", points=" ".join(points)))
    if cut > 1:
        parts.append(tag("polyline", class_="line kept", points=" ".join(points[:cut])))
    return parts


def _marks(plot: _Plot, lines: Sequence[Mark], top: float, width: int) -> list[Markup]:
    """The cuts as upright lines, the name of each on a row of its own."""
    parts = []
    for row, mark in enumerate(lines):
        if not plot.x.low < mark.keep + 0.5:
            continue
        at, y = plot.x(mark.keep + 0.5), top + _LINE * (row + 1)
        first = row == 0
        end = at + 8 + 7.2 * len(mark.name) > width
        parts += [
            tag("line", class_="rule" if first else "other", x1=at, x2=at, y1=y - 11, y2=plot.bottom),
            tag(
                "text",
                mark.name,
                class_="rule-label" if first else "other-label",
                x=at - 6 if end else at + 6,
                y=y,
                text_anchor="end" if end else None,
            ),
        ]
    return parts


def _dots(
    plot: _Plot, values: Sequence[float | None], raw: Sequence[float | None], kept: Sequence[bool]
) -> list[Markup]:
    radius = 4.5 if len(values) <= 40 else 3.0 if len(values) <= 100 else 2.0
    parts = []
    for i, (value, keep) in enumerate(zip(values, kept, strict=True)):
        before = values[i - 1] if i else None
        share = f", {value / before:.2f} of the one before" if value and before and before > 0 else ""
        words = f"rank {i + 1}: {score_text(raw[i])}{share}, {'kept' if keep else 'dropped'}"
        parts.append(
            tag(
                "circle",
                tag("title", words),
                class_="dot kept" if keep else "dot",
                cx=plot.x(i + 1),
                cy=plot.at(value),
                r=radius,
            )
        )
    return parts


def _describe(values: Sequence[float | None], selection: Selection, others: Sequence[Mark]) -> str:
    known = [v for v in values if v is not None]
    if not known:
        return _caption(selection)
    last = known[selection.cut - 1] if 0 < selection.cut <= len(known) else None
    parts = [f"Best score {score_text(known[0])}", f"least {score_text(known[-1])}"]
    if last is not None and math.isfinite(last):
        parts.insert(1, f"last kept {score_text(last)}")
    compared = [f"{mark.name} would keep {mark.keep}" for mark in others]
    return f"{'; '.join([*parts, *compared])}. {_caption(selection)}."
