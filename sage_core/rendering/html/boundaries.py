"""A text in its chunks, with P(same) at every place where it might have been cut (the paper's figure 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sage_core.rendering.html.axes import Axis, tick_text
from sage_core.rendering.html.curve import svg
from sage_core.rendering.html.markup import Markup, foreign, join, tag
from sage_core.segmentation.view import Boundary
from sage_core.text.spans import Span

_COLOURS = 4
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 16, 34, 40
_MOST_DOTS = 400


def boundaries_html(
    text: str,
    boundaries: Sequence[Boundary],
    spans: Sequence[Span],
    *,
    tokens: Sequence[int] | None = None,
    threshold: float | None = None,
    most: int | None = None,
) -> str:
    """Chunks one below the other in alternating colours; a number at every place the model judged.

    Args:
        text: The text.
        boundaries: Every place the model judged (`sage_core.Segmenter.boundaries`).
        spans: The chunks (`sage_core.Segmenter.segment`).
        tokens: Length of each chunk; None leaves it out.
        threshold: P(same) below which a joint that was kept all the same is drawn as weak.
        most: Most chunks to show; None for all.

    Returns:
        Markup for the inside of a page (`sage_core.rendering.html.fragment` adds the style).
    """
    asked = {b.position: b.probability for b in boundaries}
    shown = len(spans) if most is None else min(most, len(spans))
    if not spans:
        return tag("p", "The text is blank: it has no chunks.", class_="note")
    places = sorted(asked)
    parts: list[Markup] = []
    at = 0
    for i, span in enumerate(spans[:shown]):
        if i:
            parts.append(_cut(asked.get(span.start), threshold))
        while at < len(places) and places[at] <= span.start:
            at += 1
        first = at
        while at < len(places) and places[at] < span.end:
            at += 1
        header = tag(
            "header",
            tag("span", f"chunk {i + 1}"),
            tag("span", f"characters {span.start}–{span.end}"),
            tag("span", f"{tokens[i]} tokens") if tokens is not None else None,
        )
        body = join(_pieces(text, span, places[first:at], asked, threshold))
        parts.append(
            tag(
                "div",
                header,
                tag("div", body, class_="text", dir="auto"),
                class_=f"chunk c{i % _COLOURS + 1}",
            )
        )
    if shown < len(spans):
        parts.append(tag("p", f"… and {len(spans) - shown} more chunks.", class_="note"))
    return tag("div", *parts, class_="chunks")


def _cut(probability: float | None, threshold: float | None) -> Markup:
    if probability is None:
        words = "cut within a sentence, which is too long for one chunk"
    elif threshold is not None and probability >= threshold:
        words = f"cut at P(same) {probability:.2f}, for layout or length"
    else:
        words = f"cut at P(same) {probability:.2f}"
    return tag("div", words, class_="snip")


def _pieces(
    text: str, span: Span, places: Sequence[int], asked: dict[int, float], threshold: float | None
) -> Iterator[Markup]:
    """The chunk's text, with the probability before each further sentence."""
    at = span.start
    for position in places:
        yield foreign(text[at:position])
        weak = threshold is not None and asked[position] < threshold
        yield tag(
            "span",
            f"{asked[position]:.2f}",
            class_="join weak" if weak else "join",
            title=f"kept together, P(same) {asked[position]:.3f}",
        )
        at = position
    yield foreign(text[at : span.end])


def boundary_curve_svg(
    boundaries: Sequence[Boundary],
    spans: Sequence[Span],
    *,
    threshold: float | None = None,
    width: int = 720,
) -> str:
    """P(same) along the text: joints hollow, cuts filled, the threshold as a line.

    Of more than 400 places only the range is drawn, and the cuts as a rug at the foot.

    Args:
        boundaries: Every place the model judged.
        spans: The chunks.
        threshold: Drawn where given.
        width: Width in pixels; text keeps its size.

    Returns:
        An SVG that stands alone.
    """
    starts = {span.start for span in spans}
    end = max([b.position for b in boundaries] + [s.end for s in spans] + [1])
    bottom = _TOP + (150 if width >= 500 else 130)
    x = Axis(0, end, _LEFT, width - _RIGHT)
    y = Axis(0, 1, bottom, _TOP)
    cuts = sum(b.position in starts for b in boundaries)
    parts = [
        tag("rect", class_="bg", width="100%", height="100%"),
        tag("text", f"{len(boundaries)} places judged, {cuts} cut", x=8, y=20),
        *_frame(x, y, bottom),
    ]
    if threshold is not None:
        at = y(threshold)
        parts.append(tag("line", class_="other", x1=x.start, x2=x.end, y1=at, y2=at))
        parts.append(
            tag(
                "text", f"threshold {threshold:g}", class_="other-label", x=x.end, y=at - 5, text_anchor="end"
            )
        )
    draw = _dots if len(boundaries) <= _MOST_DOTS else _strokes
    parts += draw(x, y, boundaries, starts)
    what = f"P(same) at {len(boundaries)} sentence boundaries along the text"
    how = f"{cuts} of them were cut; the text has {len(spans)} chunks."
    return svg(width, bottom + _BOTTOM, what, how, parts)


def _dots(x: Axis, y: Axis, boundaries: Sequence[Boundary], starts: set[int]) -> Iterator[Markup]:
    """One dot for each place."""
    points = " ".join(f"{x(b.position):.1f},{y(b.probability):.1f}" for b in boundaries)
    yield tag("polyline", class_="line", points=points)
    radius = 4.5 if len(boundaries) <= x.end / 14 else 2.5
    for b in boundaries:
        cut = b.position in starts
        words = f"at character {b.position}: P(same) {b.probability:.3f}, {'cut' if cut else 'kept together'}"
        kind = "dot cut" if cut else "dot"
        yield tag("circle", tag("title", words), class_=kind, cx=x(b.position), cy=y(b.probability), r=radius)


def _strokes(x: Axis, y: Axis, boundaries: Sequence[Boundary], starts: set[int]) -> Iterator[Markup]:
    """More places than there is room for: their range in every two pixels, the cuts as a rug below."""
    columns: dict[int, list[float]] = {}
    cuts: set[int] = set()
    for b in boundaries:
        column = 2 * int(x(b.position) / 2)
        columns.setdefault(column, []).append(y(b.probability))
        if b.position in starts:
            cuts.add(column)
    ranges = "".join(f"M{c},{min(v) - 1:.1f}V{max(v) + 1:.1f}" for c, v in columns.items())
    rug = "".join(f"M{c},{y.start - 8:.1f}v8" for c in sorted(cuts))
    yield tag("path", class_="line", d=ranges)
    yield tag("path", class_="rug", d=rug)


def _frame(x: Axis, y: Axis, bottom: float) -> Iterator[Markup]:
    for value in (0.0, 0.5, 1.0):
        yield tag("line", class_="grid", x1=x.start, x2=x.end, y1=y(value), y2=y(value))
        yield tag("text", tick_text(value), class_="tick", x=x.start - 7, y=y(value) + 4, text_anchor="end")
    for value in x.ticks(4 if x.end < 500 else 8):
        yield tag("text", f"{value:g}", class_="tick", x=x(value), y=bottom + 17, text_anchor="middle")
    yield tag("text", "P(same)", class_="axis", x=8, y=bottom + 34)
    yield tag("text", "character of the text", class_="axis", x=x.end, y=bottom + 34, text_anchor="end")
