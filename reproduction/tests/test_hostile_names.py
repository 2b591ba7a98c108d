"""Names in experiments, data sets and runs stay names: no path, no command to a terminal, no markup."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from sage_eval.datasets import save_dataset
from sage_eval.experiment import load_experiment, parse_experiment

from reproduction.tests.evaluation_runs import toy_dataset
from sage_app.cli.main import run
from sage_core.errors import InputError

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202d\u202e]")
WILD = "\x1b]0;pwned\x07[red]x[/] <img src=x onerror=a()> ![y](http://evil.invalid/y.png) $\\frac{ |"
EXPERIMENT: dict[str, object] = {
    "title": f"Title {WILD}",
    "about": f"About {WILD}",
    "datasets": ["squad"],
    "metrics": ["evidence_recall", "recall@1"],
    "rows": [
        {"row": f"{k} {WILD}", "method": "naive", "index": "bm25", "chunks": {"kind": "fixed", "tokens": 12}, "top_k": k}
        for k in (1, 2)
    ],
    "notes": [f"Note {WILD}"],
}  # fmt: skip


@pytest.mark.parametrize(
    "name", ["../x", "/tmp/x", "..", ".hidden", "a/b", "a\\b", "x\ny", "a\x1b[2J", "dev/../x"]
)
@pytest.mark.parametrize("place", ["name", "datasets", "development"])
def test_a_name_that_is_a_path_is_refused(place: str, name: str) -> None:
    given = {**EXPERIMENT, place: name if place == "name" else [name]}
    with pytest.raises(InputError, match="is no name") as caught:
        parse_experiment(json.dumps(given), where="here", name="mine")
    assert not CONTROLS.search(str(caught.value))


def test_a_file_gives_a_name_that_is_one(tmp_path: Path) -> None:
    path = tmp_path / ".my (wild\x1b[2J) one.json"
    path.write_text(json.dumps(EXPERIMENT))
    assert load_experiment(str(path)).name == "my-wild-2J-one"


def test_a_hostile_experiment_runs_and_shows_its_names_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("COLUMNS", "300")
    (tmp_path / "mine.json").write_text(json.dumps(EXPERIMENT))
    data = tmp_path / "set \x1b[31m<b>"
    toys = toy_dataset()
    hostile = tuple(replace(q, id=f"{q.id} {WILD}") for q in toys.questions)
    save_dataset(replace(toys, questions=hostile), data)
    arguments = ["eval", "run", "mine.json", "--data", str(data), "--offline", "--reader", "none"]
    assert run(arguments) == 0
    shown = capsys.readouterr()
    assert not CONTROLS.search(shown.out + shown.err)
    assert "[red]x[/] <img" in shown.out
    (folder,) = (tmp_path / "sage-eval").glob("mine-*")
    assert {p.name for p in tmp_path.iterdir()} <= {
        "mine.json",
        "sage-eval",
        *(p.name for p in tmp_path.glob("set *")),
    }
    report = (folder / "report.md").read_text(encoding="utf-8")
    assert not CONTROLS.search(report) and "&lt;img" in report
    assert not re.search(r"<[a-z!/]", report), "no tag"
    assert all(not link.startswith("http") for link in re.findall(r"\]\(([^)]*)\)", report)), (
        "no link of theirs"
    )
