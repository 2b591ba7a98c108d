"""`sage-rag train`, as the command line of sage-rag finds and runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sage_app.cli.main import run
from tests.app.cli.support import DEMO
from tests.fakes.commands import add_commands

pytestmark = pytest.mark.slow

LONG = "x" * 5_000


add_commands()


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "--help"]) == 0
    assert "sage-rag train corpus/ --output my-model" in capsys.readouterr().out


def test_train_makes_a_model_that_segments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for i, path in enumerate(sorted(DEMO.glob("*.[tm][xd]*")) * 4):
        (corpus / f"{i}.txt").write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    arguments = ["--output", str(tmp_path / "model"), "--epochs", "0.5", "--batch-size", "256", "--seed", "3"]
    assert (
        run(["train", str(corpus), *arguments, "--kind", "pair", "--start", "random", "--threads", "1"]) == 0
    )
    out = capsys.readouterr().out
    assert "auc" in out and "sage-rag segment FILE --segmenter" in out
    assert (tmp_path / "model" / "model.safetensors").is_file()
    assert (
        run(["segment", str(DEMO / "water-works.txt"), "--segmenter", str(tmp_path / "model"), "--json"]) == 0
    )
    assert len(json.loads(capsys.readouterr().out)["chunks"]) > 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none"], "none"),
        ([LONG], "File name too long"),
        ([str(DEMO), "--output", LONG], "File name too long"),
        ([str(DEMO), "--seed", "-1"], "seed"),
        ([str(DEMO), "--threads", "0"], "threads"),
        ([str(DEMO), "--epochs", "nan"], "epochs"),
        ([str(DEMO), "--device", "x"], "device 'x'"),
        ([""], "an empty"),
        (["."], "no document with two sentences"),
        ([".", "--output", ""], "an empty"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line_and_leaves_nothing(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    output = [] if "--output" in arguments else ["--output", "m"]
    code = run(["train", *arguments, *output])
    assert code == 2 and message in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []
