"""Tables of reStructuredText are read as Markdown tables."""

import pytest

from sage_app.documents.structured import read_rst
from tests.fakes.growth import assert_linear

LIST_TABLE = """Before.

.. list-table:: Ports
   :header-rows: 1
   :widths: 10 20

   * - Port
     - Use
   * - 80
     - pages, and what
       goes on here
   * - 81
     -

After.
"""
SIMPLE_TABLE = """Before.

=====  ===========
Tree   Height
=====  ===========
Larch  5 m, in old
       age 40 m
Oak    7 m | 8 m
=====  ===========

After.
"""
GRID_TABLE = """Before.

+-------+--------+
| Tree  | Height |
+=======+========+
| Larch | 5 m    |
|       | or 6 m |
+-------+--------+
| Oak   | 7 m    |
+-------+--------+

After.
"""


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (LIST_TABLE, ["| Port | Use |", "|---|---|", "| 80 | pages, and what goes on here |", "| 81 |  |"]),
        (
            SIMPLE_TABLE,
            ["| Tree | Height |", "|---|---|", "| Larch | 5 m, in old age 40 m |", r"| Oak | 7 m \| 8 m |"],
        ),
        (GRID_TABLE, ["| Tree | Height |", "|---|---|", "| Larch | 5 m or 6 m |", "| Oak | 7 m |"]),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_tables_become_rows(text: str, rows: list[str], newline: str) -> None:
    expected = "\n".join(["Before.", "", *rows, "", "After.", ""])
    assert read_rst(text.replace("\n", newline)) == expected


def test_a_list_table_without_a_header_names_no_columns() -> None:
    text = LIST_TABLE.replace("   :header-rows: 1\n", "")
    assert "|  |  |\n|---|---|\n| Port | Use |\n" in read_rst(text)


@pytest.mark.parametrize(
    "text",
    [
        # Two tables without names, and prose between them.
        "== ==\na  b\n== ==\n\nThis is prose that belongs to no table.\n\n== ==\nc  d\n== ==\n",
        # Cells over two columns, and over two rows.
        "+---+---+\n| a     |\n+---+---+\n| b | c |\n+---+---+\n",
        "+---+---+\n| a | b |\n|   +---+\n| a | c |\n+---+---+\n",
        "Title\r\n=====\r\n\r\nText.\r\n",
        ".. list-table::\n\n   no items\n",
        "",
    ],
)
def test_what_is_no_plain_table_stays_as_it_is(text: str) -> None:
    assert read_rst(text) == text


def different_borders(size: int) -> str:
    return "\n".join(f"{'=' * (i % 40 + 1)} {'=' * (i // 40 + 1)}" for i in range(size * 10))


GRID_LINE = "+-----+-----+\n"
HOSTILE = {
    "a long cell of a grid": lambda n: GRID_LINE + "| abc | abc |\n" * n * 80 + GRID_LINE,
    "a long cell of a simple table": lambda n: "== ==\na  b\n== ==\nc  d\n" + "   d\n" * n * 80 + "== ==\n",
    "blank lines, then a list": lambda n: (
        ".. list-table::\n" + "\n" * n * 800 + "   * - a\n     - b\n" * n * 40
    ),
    "different borders": different_borders,
    "many columns and short lines": lambda n: "\n".join([b := "= " * n * 40 + "=", "a", b, *"a" * n * 40, b]),
    "one border": lambda n: "== ==\n" * n * 200,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tables_take_linear_time(name: str) -> None:
    assert_linear(lambda size: read_rst(HOSTILE[name](size)), size=6)


def test_tables_that_follow_each_other_and_one_that_is_indented() -> None:
    table = "== ==\na  b\n== ==\nc  d\n== ==\n"
    read = read_rst(table + "\n" + table + "\n" + "".join(f"  {line}\n" for line in table.splitlines()))
    assert read.count("| a | b |") == 3 and "=" not in read
