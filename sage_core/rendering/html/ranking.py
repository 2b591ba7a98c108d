"""Candidates best first: the score curve, the passages that were kept, and the whole list."""

from __future__ import annotations

from collections.abc import Sequence

from sage_core.rendering.html.curve import Mark, score_curve_svg
from sage_core.rendering.html.markup import Markup, foreign, tag
from sage_core.rendering.rows import Row, score_text
from sage_core.rendering.sanitize import one_line
from sage_core.selection.cut import Scale, Selection

_EXCERPT = 160
_OPEN = 12


def curve_html(
    scores: Sequence[float | None],
    selection: Selection,
    scale: Scale,
    *,
    top_k: int | None = None,
    marks: Sequence[Mark] = (),
) -> Markup:
    """`score_curve_svg` for wide and for narrow windows; the style shows one of them."""
    pictures = [
        tag("div", Markup(score_curve_svg(scores, selection, scale=scale, top_k=top_k, marks=marks, width=w)),
            class_=name)
        for w, name in ((760, "wide"), (340, "narrow"))
    ]  # fmt: skip
    return tag("figure", *pictures, class_="curve")


def passages_html(rows: Sequence[Row], selection: Selection) -> Markup:
    """The passages kept, in full, with where they are from."""
    by_index = {row.index: row for row in rows}
    kept = [by_index[i] for i in selection.indices if i in by_index]
    if not kept:
        return tag("p", "No passage was kept.", class_="note")
    parts = [_passage(row) for row in kept[:_OPEN]]
    if len(kept) > _OPEN:
        more = tag("summary", f"{len(kept) - _OPEN} more passages")
        parts.append(tag("details", more, *(_passage(row) for row in kept[_OPEN:]), class_="rest"))
    return tag("div", *parts)


def candidates_html(rows: Sequence[Row], selection: Selection, *, most: int | None = None) -> Markup:
    """All candidates, one line each, opening to the full text; the cut is a line among them.

    Args:
        rows: The candidates, best first.
        selection: What was kept.
        most: Most to list; None for all.
    """
    if not rows:
        return tag("p", "Nothing was found.", class_="note")
    kept = set(selection.indices)
    shown = rows if most is None else rows[:most]
    bare = all(not r.place and r.tokens is None for r in rows)
    items: list[Markup] = []
    for at, row in enumerate(shown):
        if at == selection.cut and at > 0 and row.index not in kept:
            items.append(tag("li", f"cut: {selection.reason}", class_="cutline"))
        items.append(_item(row, row.index in kept, bare))
    more = len(rows) - len(shown)
    note = tag("p", f"… and {more} more candidates.", class_="note") if more else None
    return tag("div", tag("ol", *items, class_="rows"), note)


def _passage(row: Row) -> Markup:
    header = tag(
        "header",
        tag("b", f"{row.rank}"),
        tag("b", row.place) if row.place else None,
        tag("span", f"score {score_text(row.score)}", class_="num"),
        tag("span", f"{row.tokens} tokens", class_="num") if row.tokens is not None else None,
    )
    return tag("article", header, foreign(row.text.strip(), "p", class_="text"), class_="panel passage")


def _item(row: Row, kept: bool, bare: bool) -> Markup:
    meter = tag(
        "span", tag("span", style=f"width:{100 * min(max(row.share, 0.0), 1.0):.0f}%"), class_="meter"
    )
    excerpt = one_line(row.text[: 4 * _EXCERPT])[:_EXCERPT]
    cells = [
        tag("span", row.rank, class_="num"),
        tag("span", score_text(row.score), class_="num"),
        meter,
        None if bare else tag("span", "" if row.tokens is None else f"{row.tokens} tok", class_="num"),
        None if bare else foreign(row.place, class_="clip"),
        foreign(excerpt, class_="clip"),
    ]
    name = "row bare" if bare else "row"
    details = [part for part in (row.source, _similarity(row)) if part]
    full = tag(
        "div",
        foreign(row.text.strip(), "p", class_="text"),
        tag("p", foreign(" · ".join(details)), class_="note") if details else None,
        class_="full",
    )
    if not row.text:
        return tag("li", tag("div", *cells, class_=name), class_=None if kept else "drop")
    summary = tag("summary", tag("span", *cells, class_=name))
    return tag("li", tag("details", summary, full), class_=None if kept else "drop")


def _similarity(row: Row) -> str:
    return "" if row.similarity is None else f"cosine similarity to the question {row.similarity:.3f}"
