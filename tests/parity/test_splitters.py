"""A place that is given is true, whatever stock splitter cut the text; and most true ones are given."""

import re
from pathlib import Path

import pytest

from tests.fakes.splitters import DOCUMENTS, NODES, shares

PAGE = Path(__file__).parents[2].joinpath("docs/existing-app.md").read_text("utf-8")
TOLD = {m[1].replace("`", ""): m[2] for m in re.finditer(r"^\| (.+?) \| (all|none|some) \|", PAGE, re.M)}
"""What the page says: how many places are given."""


@pytest.mark.parametrize("name", [*NODES, *DOCUMENTS])
def test_a_place_that_is_given_is_true(name: str) -> None:
    found = shares((NODES | DOCUMENTS)[name](), draws=100)
    told = TOLD[name.partition("(")[0]]
    # Of parts without a name that a few of their chunks do not contradict, only the document tells.
    few = found.drawn // 100 if name == "two splitters" else 0
    assert found.false == 0 and found.drawn_false <= few
    if told == "all":
        assert found.believed >= 0.95 * found.exact > 0 and found.drawn
    else:
        assert (found.believed > 0.01 * found.pieces) == (told == "some")


def test_the_page_has_no_other_rows() -> None:
    assert TOLD.keys() == {name.partition("(")[0] for name in [*NODES, *DOCUMENTS]}
