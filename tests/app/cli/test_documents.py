"""`sage-rag list` and `sage-rag remove`: which documents a name stands for, and what is asked before."""

import sys
from pathlib import Path

import pytest

from sage_app import FolderStore
from sage_app.cli.main import run
from tests.app.cli.support import as_json, mistake, shown
from tests.fakes.stores import fill
from tests.fakes.stores import run as ingest

TEXTS = {
    "a/ferry.md": "# Ferry\n\nAt seven.",
    "a/notes.txt": "Old.",
    "b/notes.txt": "New.",
    "b/mill.txt": "Oats.",
}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    ingest(tmp_path / "store", fill(tmp_path / "docs", TEXTS))
    return tmp_path / "store"


def left(store: Path) -> set[str]:
    with FolderStore(store) as opened:
        return {"/".join(Path(d.source).parts[-2:]) for d in opened.documents()}


def test_the_documents_are_listed(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, "list", "--store", made)
    assert "ferry.md" in out and "4 documents" in out
    found = as_json(capsys, "list", "*.md", "--store", made)
    [document] = found["documents"]
    assert found["store"] == str(made) and set(document) == {"id", "source", "title", "chunks"}
    assert Path(document["source"]).name == "ferry.md" and document["chunks"] == 2


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("mill.txt", {"b/mill.txt"}),
        ("*.txt", {"a/notes.txt", "b/notes.txt", "b/mill.txt"}),
        ("b/*", {"b/notes.txt", "b/mill.txt"}),
        ("*/notes.txt", {"a/notes.txt", "b/notes.txt"}),
        ("{docs}/b", {"b/notes.txt", "b/mill.txt"}),
        ("{docs}/a/notes.txt", {"a/notes.txt"}),
    ],
)
def test_a_name_removes_what_it_stands_for(
    made: Path, capsys: pytest.CaptureFixture[str], name: str, gone: set[str]
) -> None:
    found = as_json(capsys, "remove", name.format(docs=made.parent / "docs"), "--store", made, "--yes")
    assert len(found["removed"]) == len(gone) and found["store"]["documents"] == 4 - len(gone)
    assert left(made) == set(TEXTS) - gone


def test_an_id_names_one_document(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [document] = as_json(capsys, "list", "mill.txt", "--store", made)["documents"]
    assert run(["remove", document["id"], "--store", str(made), "--yes"]) == 0
    assert left(made) == set(TEXTS) - {"b/mill.txt"}
    assert (made.parent / "docs/b/mill.txt").exists()


@pytest.mark.parametrize("name", ["nothing.md", "notes.txt", " ", "x" * 5000, "\0"])
def test_a_name_that_is_not_clear_removes_nothing(
    made: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    code, _ = mistake(capsys, "remove", "mill.txt", name, "--store", made, "--yes")
    assert code == 2 and left(made) == set(TEXTS)


@pytest.mark.parametrize(("reply", "code"), [("y\n", 0), ("n\n", 1), ("", 130)])
def test_it_asks_before(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], reply: str, code: int
) -> None:
    import io

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(reply))
    assert run(["remove", "mill.txt", "--store", str(made)]) == code
    assert "mill.txt" in capsys.readouterr().err
    assert (left(made) == set(TEXTS)) is (code != 0)


def test_without_a_terminal_yes_is_needed(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, message = mistake(capsys, "remove", "mill.txt", "--store", made)
    assert code == 2 and "--yes" in message and left(made) == set(TEXTS)


def test_a_long_path_stays_on_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"{'far-' * 40}[red].txt"
    ingest(tmp_path / "store", fill(tmp_path / "docs", {name: "At seven."}))
    assert str(tmp_path / "docs" / name) in shown(capsys, "list", "--store", tmp_path / "store")
