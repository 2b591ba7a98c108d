"""`sage-rag calibrate` as a user meets it."""

import json
from pathlib import Path

import pytest

from sage_app import Sage, SageSettings
from sage_app.cli.main import run
from tests.app.cli.support import mistake

TEXT = "\n\n".join(
    f"The ferry to the island of {name} leaves from pier {i} every morning, and comes back in the evening."
    for i, name in enumerate(["Skerrin", "Holm", "Varn", "Lunga", "Tarsay", "Orm"])
)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "ferries.txt").write_text(TEXT)
    with Sage(tmp_path / "store") as sage:
        sage.ingest(tmp_path / "ferries.txt")
    return tmp_path / "store"


def _questions(path: Path, rounds: int) -> Path:
    lines = [
        {
            "question": f"From where does the ferry to {name} leave? ({i})",
            "quote": f"the island of {name} leaves",
        }
        for i in range(rounds)
        for name in ("Skerrin", "Varn", "Lunga", "Orm")
    ]
    path.write_text("\n".join(map(json.dumps, [*lines, {"question": "Who?", "quote": "It says nowhere."}])))
    return path


@pytest.mark.slow
def test_calibrate_writes_a_cut_that_every_part_loads(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions, output = _questions(tmp_path / "questions.jsonl", 6), tmp_path / "settings.json"
    arguments = ["calibrate", str(questions), "--store", str(store), "-o", str(output)]
    assert run([*arguments, "--keep", "0.8"]) == 0
    out = capsys.readouterr().out
    assert "at least 80.0% of the evidence is kept, on average" in out
    assert "not used: Who?" in out and "settings.json" in out

    assert run([*arguments, "--keep", "0.8", "--confidence", "0.9", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["questions"] == 24 and data["loss"] <= 0.2 and data["unlocated"][0]["question"] == "Who?"
    settings = SageSettings.load(output)
    assert settings.measured["family"] == data["family"]
    with Sage.from_settings(output, store) as sage:
        assert sage.config.feedback.selection == settings.selection
        assert sage.retrieve("From where does the ferry to Holm leave?").selection.cut >= 1
    ask = ["ask", "From where does the ferry to Holm leave?", "--store", str(store), "--offline"]
    assert run([*ask, "--settings", str(output)]) == 0


def test_what_cannot_be_promised_is_an_error_and_writes_nothing(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions, output = _questions(tmp_path / "questions.jsonl", 1), tmp_path / "settings.json"
    arguments = ["calibrate", questions, "--store", store, "-o", output]
    code, message = mistake(capsys, *arguments, "--keep", "0.99")
    assert code == 2 and "too few" in message and not output.exists()
    assert mistake(capsys, *arguments, "--keep", "1.5")[0] == 2
    (tmp_path / "ferries.txt").write_text("Something else." + TEXT)
    assert run([str(a) for a in arguments]) == 2
    assert "has changed since it was ingested" in capsys.readouterr().err
