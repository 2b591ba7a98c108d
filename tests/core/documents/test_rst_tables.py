"""Tables of reStructuredText are read as Markdown tables."""

import pytest

from sage_core.documents.structured import read_rst

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
