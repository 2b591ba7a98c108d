"""`sage-rag tune` as a user meets it."""

import json
import re
from pathlib import Path

import pytest

from sage_app import Sage, SageSettings
from sage_app.cli.main import EXIT_INTERRUPTED, run
from sage_app.tuning import tuner as tuning
from tests.app.cli.support import DEMO, as_json, mistake, shown

QUESTIONS = [
    {"question": "What does a night at the visitor pontoon cost?", "quote": "2.60 pounds for each metre"},
    {"question": "When does the ferry leave in summer?", "quote": "leaves skerrin at  07:00"},
    {"question": "Who painted the door?", "quote": "Nobody painted this door, it says nowhere."},
]


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(map(json.dumps, QUESTIONS)))
    return path


@pytest.mark.slow
def test_tune_compares_recommends_and_writes_settings_that_load(
    questions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "sage-settings.json"
    arguments = ["tune", str(DEMO / "harbour-rules.pdf"), str(DEMO / "ferry-handbook.md")]
    arguments += ["--questions", str(questions), "-o", str(output), "--reranker", "none"]
    monkeypatch.setenv("COLUMNS", "80")
    assert run(arguments) == 0
    out = capsys.readouterr().out
    rows = [line for line in out.splitlines() if re.match(r"[* ] +(?:chunks|as it|no |hybrid|rule)", line)]
    assert len(rows) >= 8 and all(re.search(r"\d/\d+/|\d +\d+ ", row) for row in rows), "no row is wrapped"
    assert "the settings as they stand find nearly all quotations" in out
    assert "only 2 questions: too few" in out
    assert "not used: Who painted the door? (not found" in out
    for part in ("chunks of 100 tokens", "chunks by topic alone", "no reranker", "noise"):
        assert part in out
    assert "Recommended: the settings as they stand" in out and str(output) in out
    settings = SageSettings.load(output)
    assert settings.measured["questions"] == 2 and settings.segmenter == {}

    store = tmp_path / "store"
    loaded = ["--store", store, "--settings", output]
    shown(capsys, "ingest", DEMO / "ferry-handbook.md", *loaded)
    shown(capsys, "ask", "When does the ferry leave?", *loaded)
    with Sage.from_settings(output, store) as sage:
        assert sage.retrieve("When does the ferry leave?").candidates

    # Again, of the store's documents, as JSON: no file is written where nothing is recommended.
    monkeypatch.chdir(tmp_path)
    output.unlink()
    found = questions.with_name("one.jsonl")
    found.write_text(json.dumps(QUESTIONS[1]))
    arguments = ["tune", "--store", str(store), "--questions", str(found), "--reranker", "none"]
    data = as_json(capsys, *arguments)
    assert data["finished"] and data["questions"] == 1 and data["settings_file"] is None
    assert not output.exists()
    for _ in range(2):
        as_json(capsys, *arguments, "-o", output)
        assert output.exists()


@pytest.mark.slow
def test_settings_on_the_command_line_give_way_to_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = SageSettings(segmenter={"target_tokens": 30, "max_tokens": 60}).save(tmp_path / "s.json")
    file = str(DEMO / "water-works.txt")
    sizes = []
    for arguments in ([], ["--settings", str(path)], ["--settings", str(path), "--target-tokens", "50"]):
        found = as_json(capsys, "segment", file, *arguments)
        sizes.append((found["max_tokens"], len(found["chunks"])))
    assert sizes[0][0] == 130 and sizes[1][0] == sizes[2][0] == 60
    assert sizes[0][1] < sizes[2][1] < sizes[1][1]


def test_interrupted_it_writes_what_it_has(
    questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measure = tuning._Run._figures

    def interrupted(self: tuning._Run, variant: tuning.Variant) -> object:
        if variant.name == "chunks of 100 tokens":
            raise KeyboardInterrupt
        return measure(self, variant)

    monkeypatch.setattr(tuning._Run, "_figures", interrupted)
    output = tmp_path / "settings.json"
    arguments = ["tune", str(DEMO / "ferry-handbook.md"), "--questions", str(questions), "-o", str(output)]
    assert run(arguments) == EXIT_INTERRUPTED
    assert "interrupted: the rest was not compared" in capsys.readouterr().out
    assert SageSettings.load(output).measured["finished"] is False


def test_mistakes_are_told_before_any_work(
    questions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    guide = str(DEMO / "ferry-handbook.md")
    missing = mistake(capsys, "tune", guide, "--questions", tmp_path / "none.jsonl")[1]
    assert "no questions at" in missing and '{"question": ...' in missing and "sage-rag questions" in missing
    other = tmp_path / "other.json"
    other.write_text('{"mine": 1}')
    code, message = mistake(capsys, "tune", guide, "--questions", questions, "-o", other)
    assert code == 2 and "is there already, and no settings file" in message
    for option, told in ((["-o", tmp_path / "a/b.json"], "no folder"), (["--minutes", 0], "minutes")):
        assert told in mistake(capsys, "tune", guide, "--questions", questions, *option)[1]
    nowhere = tmp_path / "store"
    assert mistake(capsys, "tune", "--store", nowhere, "--questions", questions)[0] == 1
    lone = tmp_path / "lone.jsonl"
    lone.write_text(json.dumps(QUESTIONS[2]))
    assert "none of the 1 questions can be used" in mistake(capsys, "tune", guide, "--questions", lone)[1]
