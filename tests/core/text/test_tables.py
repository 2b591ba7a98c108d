"""The cells of a row, as everything that reads tables sees them."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.text.spans import Span
from sage_core.text.tables import cell_spans, cells_of
from sage_core.verify import check

CELL = st.text(st.sampled_from("ab1 -:\\²|`"), max_size=6).map(lambda cell: cell.replace("\\", "").strip())


@given(st.lists(CELL, min_size=1, max_size=4), st.booleans(), st.sampled_from(["|", " | "]))
def test_cells_are_what_was_written(cells: list[str], framed: bool, bar: str) -> None:
    row = bar.join(cell.replace("|", "\\|") for cell in cells)
    row = f"|{row}|" if framed or not cells[0] or not cells[-1] else row
    if "|" in row.replace("\\|", ""):
        assert cells_of(row) == cells
        whole = f"Above.\n  {row}\nBelow."
        spans = cell_spans(whole, Span(7, 9 + len(row)))
        assert [span.of(whole).replace("\\|", "|") for span in spans] == cells


def test_a_bar_inside_a_cell_is_no_end_of_it() -> None:
    table = "| Filter | Price |\n|---|---|\n| a\\|b filter | 9 crowns |\n| c filter | 7 crowns |"
    (mark,) = check("", [table], "The price of the a|b filter is 7 crowns.").marks
    assert mark.instead and mark.instead == "9 crowns" and mark.evidence is not None
    assert mark.evidence.of(table) == "| a\\|b filter | 9 crowns |"


@pytest.mark.parametrize("unit", ["-", "- ", ":-", "|-", "=", "\\|"])
def test_a_row_of_marks_takes_linear_time(unit: str) -> None:
    passage = f"| A | B |\n|{unit * 2_000}x\n\nIt opens at seven."
    start = time.process_time()
    assert check("When does it open?", [passage], "It opens at seven.").accepted
    assert time.process_time() - start < 2
