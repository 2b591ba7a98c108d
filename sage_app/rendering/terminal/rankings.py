"""A ranking in a terminal: candidates with their scores, the cut among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sage_app.pipeline.results import Retrieval
from sage_app.rendering.rows import Row, retrieval_rows, score_text
from sage_core.selection import Selection
from sage_core.text.sanitize import one_line

_BAR_WIDTH = 12
_EIGHTHS = " ▏▎▍▌▋▊▉█"
# More of a text than any terminal shows on one line.
_EXCERPT = 1000
# Candidates below the cut that are shown.
_BEYOND = 4


def retrieval_view(retrieval: Retrieval, *, most: int = 12) -> RenderableType:
    """The candidates with their scores, the cut among them, and the tokens."""
    if not retrieval.candidates:
        return Text("nothing was found", style="yellow")
    rows = retrieval_rows(retrieval)
    table = _table(rows, retrieval.selection.cut, most)
    return Group(table, _cut_line(retrieval.selection), _token_line(retrieval))


def _table(rows: Sequence[Row], cut: int, most: int) -> Table:
    """One line for each candidate; columns that hold nothing are left out."""
    table = Table(box=None, pad_edge=False, header_style="dim", expand=True)
    table.add_column("#", justify="right", min_width=2)
    table.add_column("score", justify="right", min_width=5)
    table.add_column("relative", min_width=_BAR_WIDTH, no_wrap=True)
    counted, placed = any(r.tokens is not None for r in rows), any(r.place for r in rows)
    if counted:
        table.add_column("tok", justify="right", min_width=3)
    if placed:
        table.add_column("from", no_wrap=True, min_width=16, max_width=28)
    table.add_column("chunk", no_wrap=True, overflow="ellipsis", ratio=1)
    spare = [""] * (counted + placed)
    for row in rows[: cut + _BEYOND]:
        selected = row.rank <= cut
        if most <= row.rank < cut:
            if row.rank == most:
                table.add_row("", "", "", *spare, f"… {cut - most} more", style="dim")
            continue
        cells = list(_cells(row, selected, counted, placed))
        table.add_row(*cells, style=None if selected else "dim", end_section=row.rank == cut)
        if row.rank == cut and cut < len(rows):
            table.add_row("", Text("cut", style="bold red"), "─" * _BAR_WIDTH, *spare, "", style="red")
    return table


def _cells(row: Row, selected: bool, counted: bool, placed: bool) -> Iterator[Text]:
    """As `Text`, because rich reads a plain string as markup: a file may be called ``[red].txt``."""
    yield Text(str(row.rank))
    yield Text(score_text(row.score))
    yield Text(_bar(row.share), style="green" if selected else "red")
    if counted:
        yield Text("" if row.tokens is None else str(row.tokens))
    if placed:
        yield Text(row.place)
    text = Text(f"{row.because}: " if row.because else "", style="italic")
    yield text.append(one_line(row.text[:_EXCERPT]), style="not italic")


def _bar(share: float) -> str:
    eighths = round(min(max(share, 0.0), 1.0) * _BAR_WIDTH * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _cut_line(selection: Selection) -> Text:
    line = Text("kept    ", style="bold")
    words = f"{selection.cut} of {selection.candidates} chunks: {selection.reason}"
    return line.append(one_line(words), style="not bold")


def _token_line(retrieval: Retrieval) -> Text:
    line = Text("tokens  ", style="bold")
    text = f"{retrieval.tokens:,} sent; all {len(retrieval.candidates)} candidates {retrieval.tokens_all:,}"
    return line.append(text, style="not bold")
