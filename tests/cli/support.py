"""What tests of the command line share."""

from pathlib import Path

import pytest

from sage_core.cli.main import run

DEMO = Path(__file__).parents[2] / "demo" / "documents"
QUESTION = "What does it cost to leave a boat overnight at the visitor pontoon?"
TANK = "How long does the tank on Kirk Hill last if the power fails?"


def mistake(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Exit code and standard error of a command that must fail with one line and print nothing else."""
    code = run([str(a) for a in arguments])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1 and captured.err.startswith("sage-rag: ")
    return code, captured.err
