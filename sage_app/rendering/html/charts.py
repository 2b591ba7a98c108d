"""Scores with their cut as SVG, as in the paper's figures 8 and 9."""

from __future__ import annotations

import hashlib
import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sage_app.rendering.html.markup import Markup, join, tag
from sage_app.rendering.html.style import svg_css
from sage_app.rendering.rows import score_text
from sage_core.selection import Scale, Selection, rank_order
from sage_core.selection.scales import usable_scores

_LARGEST = 1e300
# Pictures are drawn at this width and scale with the page; text stays legible from 340 to 640 pixels.
_WIDTH = 480
_LEFT, _RIGHT, _BOTTOM, _LINE = 50, 16, 40, 18
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


def score_curve_svg(
    scores: Sequence[float | None],
    selection: Selection,
    *,
    scale: Scale = "probability",
) -> str:
    """Draw scores by rank: kept ones filled, dropped ones hollow, the cut with its reason.

    The SVG stands alone: it may be written to a file, shown in a notebook, or put into a page. None and NaN
    are drawn at the foot.
    """
    order = rank_order(scores)
    drawn = [None if s is None else min(max(s, -_LARGEST), _LARGEST) for s in usable_scores(scores)]
    values = [drawn[i] for i in order]
    known = [v for v in values if v is not None]
    indices = set(selection.indices)
    selected = [i in indices for i in order]
    caption = textwrap.wrap(_caption(selection), (_WIDTH - 24) // 7) or [""]
    top = 8 + _LINE * (len(caption) + 1) + 6
    bottom = top + 190
    x = Axis(0.5, max(len(order), 1) + 0.5, _LEFT, _WIDTH - _RIGHT)
    y = value_axis(known, bottom, top, zero=scale != "logit")
    plot = _Plot(x, y, top, bottom)
    parts = [
        tag("rect", class_="bg", width="100%", height="100%"),
        *(tag("text", line, x=8, y=22 + _LINE * i) for i, line in enumerate(caption)),
        *_grid(plot, len(order), "score" if scale == "unbounded" else scale),
        *_area(plot, values, selected),
        *_mark(plot, selection.cut, top - 6),
        *_dots(plot, values, [scores[i] for i in order], selected),
    ]
    what = f"Scores of {len(order)} candidates by rank, {selection.cut} of them kept"
    return _svg(bottom + _BOTTOM, what, _caption(selection), parts)


def _svg(height: float, title: str, description: str, parts: Sequence[Markup]) -> Markup:
    """A picture of its own, with a title and a description for those who cannot see it."""
    inner = join(parts)
    key = hashlib.sha256(f"{title}{description}{inner}".encode()).hexdigest()[:10]
    return tag(
        "svg",
        tag("title", title, id=f"t{key}"),
        tag("desc", description, id=f"d{key}"),
        tag("style", Markup(svg_css())),
        inner,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_WIDTH} {height:.0f}",
        width=_WIDTH,
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
        """Height of a score on the picture; what has none lies at the foot."""
        return self.bottom if value is None else self.y(value)


def _caption(selection: Selection) -> str:
    if not selection.candidates:
        return "Nothing was found: there are no scores."
    return f"{selection.cut} of {selection.candidates} kept: {selection.reason}"


def _words(words: str | int, kind: str, x: float, y: float, anchor: str | None = None) -> Markup:
    return tag("text", words, class_=kind, x=x, y=y, text_anchor=anchor)


def _line(kind: str, x: tuple[float, float], y: tuple[float, float]) -> Markup:
    return tag("line", class_=kind, x1=x[0], x2=x[1], y1=y[0], y2=y[1])


def _level(axis: Axis, at: float, kind: str = "grid") -> Markup:
    """A line across the picture."""
    return _line(kind, (axis.start, axis.end), (at, at))


def _dot(kind: str, x: float, y: float, radius: float, words: str) -> Markup:
    return tag("circle", tag("title", words), class_=kind, cx=x, cy=y, r=radius)


def _grid(plot: _Plot, count: int, label: str) -> Iterator[Markup]:
    left, right = plot.x.start, plot.x.end
    for value in plot.y.ticks():
        at = plot.y(value)
        yield _level(plot.x, at)
        yield _words(tick_text(value), "tick", left - 7, at + 4, "end")
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 10**9) if count / s <= (right - left) / 34)
    for rank in sorted({1, *range(step, count + 1, step)} if count else set()):
        if rank != 1 or step != 2:  # would touch its neighbor
            yield _words(rank, "tick", plot.x(rank), plot.bottom + 17, "middle")
    yield _level(plot.x, plot.bottom)
    yield _words("rank", "axis", right, plot.bottom + 34, "end")
    yield _words(label, "axis", 8, plot.bottom + 34)


def _area(plot: _Plot, values: Sequence[float | None], selected: Sequence[bool]) -> Iterator[Markup]:
    """The curve, and the area below the part that was selected."""
    points = [f"{plot.x(i):.1f},{plot.at(v):.1f}" for i, v in enumerate(values, start=1)]
    cut = sum(selected) if all(selected[: sum(selected)]) else 0  # only a prefix has an area
    if cut:
        end = plot.x(cut)
        path = f"M{plot.x(1):.1f},{plot.bottom:.1f}L{'L'.join(points[:cut])}L{end:.1f},{plot.bottom:.1f}Z"
        yield tag("path", class_="area", d=path)
    if len(points) > 1:
        yield tag("polyline", class_="line", points=" ".join(points))
    if cut > 1:
        yield tag("polyline", class_="line kept", points=" ".join(points[:cut]))


def _mark(plot: _Plot, keep: int, y: float) -> Iterator[Markup]:
    """The cut as an upright line with its name."""
    if plot.x.low < keep + 0.5:
        at, name = plot.x(keep + 0.5), f"cut: {keep} kept"
        end = at + 8 + 7.2 * len(name) > _WIDTH
        yield _line("rule", (at, at), (y - 11, plot.bottom))
        yield _words(name, "rule-label", at - 6 if end else at + 6, y, "end" if end else None)


def _dots(
    plot: _Plot, values: Sequence[float | None], raw: Sequence[float | None], selected: Sequence[bool]
) -> Iterator[Markup]:
    radius = 4.5 if len(values) <= 40 else 3.0 if len(values) <= 100 else 2.0
    for i, (value, is_selected) in enumerate(zip(values, selected, strict=True)):
        before = values[i - 1] if i else None
        share = f", {value / before:.2f} of the one before" if value and before and before > 0 else ""
        words = f"rank {i + 1}: {score_text(raw[i])}{share}, {'kept' if is_selected else 'dropped'}"
        yield _dot("dot kept" if is_selected else "dot", plot.x(i + 1), plot.at(value), radius, words)


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps ``low..high`` onto pixels ``start..end``."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of a value; values beyond the ends lie on the end."""
        value = min(max(value, self.low), self.high)
        share = value / (self.high - self.low) - self.low / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Round values within the axis, ``most`` or a few more of them."""
        rough = (self.high - self.low) / most
        size = 10.0 ** math.floor(math.log10(rough))
        step = size * next(s for s in _STEPS if s * size >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]


def value_axis(values: Sequence[float], start: float, end: float, *, zero: bool) -> Axis:
    """An axis that holds all of ``values``, with room above; with ``zero``, a linear axis shows 0."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    room = (high - low) * 0.06
    if not room > abs(high) * 1e-9:  # one value, or all the same
        room = abs(high) * 0.1 or 0.5
    return Axis(low if zero and low == 0 else low - room, high + room, start, end)


def tick_text(value: float) -> str:
    """A tick's label."""
    if value == 0:
        return "0"
    return f"{value:.3g}" if 1e-3 <= abs(value) < 1e5 else f"{value:.0e}"
