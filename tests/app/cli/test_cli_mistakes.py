"""Mistakes on the command line: an exit code and one clear line for each."""

import json
import re
from pathlib import Path

import pytest

from sage_app.cli.main import run
from tests.app.cli.support import DEMO, QUESTION, mistake
from tests.app.folders import lock
from tests.fakes.llm_server import LLMServer, Reply

pytestmark = pytest.mark.slow


def test_no_such_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = mistake(capsys, "ingest", tmp_path / "none", "--store", tmp_path / "store")
    assert code == 2 and "no such file or folder" in error and "none" in error
    assert mistake(capsys, "segment", tmp_path / "none.txt")[0] == 2
    assert list(tmp_path.iterdir()) == []


def test_no_such_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["index", "guide.md"]) == 2
    assert "Commands: ingest, ask, check" in capsys.readouterr().err


def test_a_binary_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\x00")
    for command in (["ingest", path, "--store", tmp_path / "store"], ["segment", path]):
        code, error = mistake(capsys, *command)
        assert code == 2 and "is a binary file" in error
        assert ("leave it out, or name its folder" in error) == (command[0] == "ingest")


def test_files_that_cannot_be_read_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("Some text.")
    (tmp_path / "b.txt").write_bytes(b"\x00\x01")
    assert run(["ingest", str(tmp_path), "--store", str(tmp_path / "store")]) == 0
    captured = capsys.readouterr()
    assert "1 added" in captured.out
    assert re.search(r"skipped: .*b\.txt is a binary file", captured.err.replace("\n", ""))


@pytest.mark.slow
def test_a_store_made_with_another_model(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = mistake(capsys, "segment", DEMO / "water-works.txt", "--segmenter", "no-such-model")
    assert code == 1 and "no-such-model" in error
    code, error = mistake(capsys, "ask", QUESTION, "--store", store, "--embedder", "another-model")
    assert code == 1 and "'all-MiniLM-L6-v2', not with 'another-model'" in error and "--rebuild" in error
    code, error = mistake(capsys, "ingest", DEMO, "--store", store, "--max-tokens", "50")
    assert code == 1 and "segmenter max_tokens=130" in error and "not with max_tokens=50" in error


def test_an_llm_without_a_key(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = mistake(capsys, "ask", QUESTION, "--store", store, "--model", "gpt-4o-mini")
    assert code == 2 and "OPENAI_API_KEY" in error and "--base-url" in error


def test_an_unreachable_llm_shows_the_chunks(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["ask", QUESTION, "--store", str(store), "--base-url", "http://127.0.0.1:9/v1"]
    assert run(arguments) == 3
    captured = capsys.readouterr()
    assert "harbour-rules.pdf" in captured.out and "kept" in captured.out
    assert captured.err.count("\n") == 1 and "127.0.0.1:9" in captured.err
    assert run([*arguments, "--json"]) == 3
    result = json.loads(capsys.readouterr().out)
    assert result["error"] and len(result["retrieval"]["candidates"]) > 5


@pytest.mark.parametrize(
    "arguments", [["no-such-command"], ["ask"], ["ask", "a", "--no-such-option"], ["ask", "a", "b"]]
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err and captured.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["ingest", "", "--store", "store"],
        ["ingest", ".", "--store", ""],
        ["ask", QUESTION, "--store", " "],
        ["demo", "--store", ""],
    ],
)
def test_an_empty_path_is_not_the_current_folder(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("Some text.")
    assert run(arguments) == 2
    assert "an empty" in " ".join(capsys.readouterr().err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_folder_that_cannot_be_opened_makes_an_exit_code_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs" / "locked").mkdir(parents=True)
    (tmp_path / "docs" / "a.txt").write_text("Some text.")
    lock(monkeypatch, tmp_path / "docs" / "locked")
    assert run(["ingest", str(tmp_path / "docs"), "--store", str(tmp_path / "store")]) == 4
    captured = capsys.readouterr()
    assert "1 added" in captured.out and "not complete" in captured.out
    assert "locked cannot be read: Permission denied" in captured.err.replace("\n", "")


LONG = "x" * 300
TEXT = str(DEMO / "water-works.txt")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ingest", LONG, "--store", "s"], "File name too long"),
        (["ingest", TEXT, "--store", LONG], "File name too long"),
        (["ask", QUESTION, "--store", LONG], "File name too long"),
        (["ask", "  "], "blank"),
        (["segment", LONG], "File name too long"),
        (["segment", TEXT, "--segmenter", LONG], "File name too long"),
        (["segment", TEXT, "--segmenter", ""], "is no path"),
        (["segment", TEXT, "--encoding", "undefined"], "'undefined' is no encoding"),
        (["segment", TEXT, "--encoding", "base64"], "unknown encoding 'base64'"),
        (["segment", TEXT, "--threshold", "nan"], "threshold must be a number"),
        (["ask", QUESTION, "--base-url", "localhost:11434"], "no address of a server"),
        (["ask", QUESTION, "--base-url", "http://["], "no address of a server"),
        (["ask", QUESTION, "--base-url", "http://127.0.0.1:9/v1", "--timeout", "0"], "above 0"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_one_line_and_no_traceback(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, error = mistake(capsys, *arguments)
    assert code == 2 and said in error


def test_a_slow_llm_is_given_up_after_the_timeout(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LLMServer([Reply("Too late.", delay=2.0)] * 3) as server:
        arguments = ["--store", str(store), "--base-url", server.base_url, "--timeout", "0.2"]
        assert run(["ask", QUESTION, *arguments]) == 3
    assert "0.2" in capsys.readouterr().err
