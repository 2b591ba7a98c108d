"""The figures of benchmarks/opendataloader.py on trees counted by hand, and on a small folder made here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fakes import pdfs

sys.path.insert(0, str(Path(__file__).parents[1]))

import opendataloader

REFERENCE = "# Dues\n\nPaid **in spring**.\n\n| boat | fee |\n|---|---|\n| yacht | 9 |\n\n## Late\n\nTwice."


def test_equal_texts_have_one_in_everything() -> None:
    as_html = REFERENCE.replace(
        "| boat | fee |\n|---|---|\n| yacht | 9 |",
        "<table><tr><th>boat</th><th>fee</th></tr><tr><td>yacht</td><td>9</td></tr></table>",
    )
    for predicted in (REFERENCE, REFERENCE.replace("**", ""), as_html):
        found = opendataloader.evaluate(REFERENCE, predicted)
        assert {name: round(value, 6) for name, value in found.items() if name != "MHS"} == dict.fromkeys(
            ("NID", "NID-S", "TEDS", "TEDS-S", "MHS-S"), 1
        )


def test_each_figure_falls_with_what_it_measures() -> None:
    # Table, two rows, four cells: 7 nodes, of which a row and its cells are lost.
    lost_row = opendataloader.evaluate(REFERENCE, REFERENCE.replace("| yacht | 9 |\n", ""))
    assert lost_row["TEDS"] == lost_row["TEDS-S"] == pytest.approx(1 - 3 / 7)
    # One of five letters of one cell.
    misread = opendataloader.evaluate(REFERENCE, REFERENCE.replace("yacht", "yaght"))
    assert misread["TEDS"] == pytest.approx(1 - (1 / 5) / 7) and misread["TEDS-S"] == 1
    # Two headings: one at another level.
    level = opendataloader.evaluate(REFERENCE, REFERENCE.replace("## Late", "### Late"))
    assert level["MHS-S"] == pytest.approx(1 / 2) and level["NID-S"] < 1
    assert opendataloader.similarity("abcd", "bd") == pytest.approx(2 * 2 / 6)
    assert opendataloader.similarity("", "") == 0
    assert opendataloader.evaluate("Only words.", REFERENCE)["TEDS"] is None


def test_a_folder_is_read_and_predictions_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pdfs").mkdir()
    (tmp_path / "ground-truth" / "markdown").mkdir(parents=True)
    (tmp_path / "pdfs" / "1.pdf").write_bytes(pdfs.wrapped_cells())
    (tmp_path / "pdfs" / "2.pdf").write_bytes(pdfs.empty())
    rows = ["| " + " | ".join(row) + " |" for row in pdfs.ERRORS]
    text = "\n\n".join(
        [pdfs.sentences(1)[0], "\n".join([rows[0], "|---|---|---|", *rows[1:]]), pdfs.sentences(1, 7)[0]]
    )
    (tmp_path / "ground-truth" / "markdown" / "1.md").write_text(text, encoding="utf-8")
    (tmp_path / "ground-truth" / "markdown" / "2.md").write_text("# A scan\n\nof a page", encoding="utf-8")
    opendataloader.main([str(tmp_path), "--write"])
    cells = capsys.readouterr().out.splitlines()[-1].split(" | ")
    assert cells[:4] == ["| 0.500 (2)", "0.500 (2)", "1.000 (1)", "1.000 (1)"]
    assert cells[4:6] == ["0.000 (1)", "0.000 (1)"]
    assert (tmp_path / "prediction" / "sage-rag" / "markdown" / "1.md").read_text(encoding="utf-8") == text
    with pytest.raises(SystemExit):
        opendataloader.main([str(tmp_path / "pdfs")])
