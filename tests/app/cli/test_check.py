"""`sage-rag check` as a user meets it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sage_app.cli.main import app

RIGHT = "The ferry takes 40 minutes to the island [7]."
WRONG = "The ferry takes 55 minutes to the island."


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "ferry.md").write_text("# Crossing\n\nThe ferry takes 40 minutes to the island. It is blue.\n")
    (folder / "seals.md").write_text("# Seals\n\nSeals live in the harbor and eat herring.\n")
    return folder


@pytest.mark.parametrize(
    ("answer", "code", "word"),
    [
        (RIGHT, 0, "supported"),
        (WRONG, 5, "contradicted"),
        ("Owls nest behind the barn every spring.", 5, "not found"),
    ],
)
def test_each_statement_has_its_word_and_the_exit_code_tells(
    answer: str, code: int, word: str, docs: Path, tmp_path: Path
) -> None:
    file, html = tmp_path / "answer.md", tmp_path / "report.html"
    file.write_text(answer)
    told = CliRunner().invoke(app, ["check", str(file), "--against", str(docs), "--html", str(html)])
    assert told.exit_code == code and f"{word}: {answer.replace(' [7]', '')}" in told.output
    assert word in html.read_text() and ("ferry.md, Crossing" in html.read_text()) is (word != "not found")
    data = CliRunner().invoke(app, ["check", "-", "--against", str(docs), "--json"], input=answer)
    assert [m["support"] for m in json.loads(data.stdout)["marks"] if m["text"].strip()] == [word]


def test_an_answer_that_is_not_there_is_told(docs: Path) -> None:
    told = CliRunner().invoke(app, ["check", "no-answer.md", "--against", str(docs)])
    assert told.exit_code != 0 and "no-answer.md" in str(told.exception)
