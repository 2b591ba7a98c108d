"""What a newcomer meets first on the command line: missing packages, a folder for a file, no store yet."""

import sys
from pathlib import Path

import pytest

from sage_app.cli.main import run
from tests.app.cli.support import DEMO, mistake


@pytest.mark.parametrize("command", ["ingest", "ask"])
def test_missing_packages_are_named_all_at_once_before_any_output(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("sentence_transformers", "chromadb", "openai"):
        monkeypatch.setitem(sys.modules, module, None)  # what an import finds that is not installed
    monkeypatch.chdir(tmp_path)
    argument = {"ingest": [str(DEMO), "--embedder", "some/model"], "ask": ["Anything?"]}[command]
    if command == "ask":
        argument += ["--base-url", "http://127.0.0.1:9/v1", "--embedder", "some/model"]
    assert run([command, *argument, "--store", "http://127.0.0.1:9/store"]) == 1
    captured = capsys.readouterr()
    extras = {"ingest": "chroma,models", "ask": "chroma,models,openai"}[command]
    assert captured.out == "" and f'pip install "sage-rag[{extras}]"' in captured.err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_file_to_segment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = mistake(capsys, "segment", tmp_path)
    assert code == 2 and "segment takes one file" in error and "is a folder" in error


def test_no_store_gives_the_command_that_makes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = mistake(capsys, "ask", "Anything?", "--store", tmp_path / "none")
    assert code == 1 and f"`sage-rag ingest docs/ --store {tmp_path / 'none'}`" in error
