"""What tests of the command line share."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sage_app.cli.main import run

DEMO = Path(__file__).parents[3] / "demo" / "documents"
QUESTION = "What does it cost to leave a boat overnight at the visitor pontoon?"
TANK = "How long does the tank on Kirk Hill last if the power fails?"
COMMAND = [sys.executable, "-m", "sage_app.cli.main"]


def shown(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    """What a command prints that must end with this exit code."""
    assert run([str(a) for a in arguments]) == code
    return capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> Any:
    """What a command prints with ``--json``."""
    return json.loads(shown(capsys, *arguments, "--json", code=code))


def mistake(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Exit code and standard error of a command that must fail with one line and print nothing else."""
    code = run([str(a) for a in arguments])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1 and captured.err.startswith("sage-rag: ")
    return code, captured.err


def started(*arguments: object, **pipes: Any) -> subprocess.Popen[str]:
    """The command as a process that Ctrl-C reaches: whoever runs the tests may have switched it off."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        **pipes,
    )
