"""Run the notebooks, each in a fresh kernel and without a network; with --write, keep what they showed.

Usage: python scripts/run_notebooks.py [--write] [NOTEBOOK ...]

A cell that fails, writes to standard error, or asks for an address on another machine is an error, and so
is a notebook that takes longer than LIMIT seconds. What is written is the same bytes for the same outputs:
no times, no kernel of this machine, cells numbered in order.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
LIMIT = 600
"""Seconds for one notebook: each takes less than 60 on two cores, and CI machines may be slow."""

PRELUDE = """
import socket as _socket
import warnings as _warnings

def _only_here(host, *rest, _look_up=_socket.getaddrinfo, **more):
    if host not in (None, "", "localhost", "127.0.0.1", "::1"):
        raise OSError(f"a notebook asked for {host}: notebooks run offline")
    return _look_up(host, *rest, **more)

_socket.getaddrinfo = _only_here
_warnings.filterwarnings("ignore", message="IProgress not found")  # bars without ipywidgets
"""
"""What every kernel runs first."""
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_WAIT_POLICY": "PASSIVE",
    "ANONYMIZED_TELEMETRY": "False",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}
SETTINGS = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
_LONG = 120
"""Characters of the plain form of an output, above which it is cut where there is a picture as well."""


def run(path: Path) -> tuple[dict[str, Any], float]:
    """Execute a notebook and return it with its outputs, and the seconds it took.

    Raises:
        nbclient.exceptions.CellExecutionError: Where a cell fails.
        nbclient.exceptions.CellTimeoutError: Where a cell takes longer than `LIMIT`.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=LIMIT,
        kernel_name="python3",
        record_timing=False,
        extra_arguments=["--log-level=ERROR", f"--IPKernelApp.exec_lines=exec({PRELUDE!r})"],
        resources={"metadata": {"path": str(path.parent)}},
    )
    began = time.perf_counter()
    client.execute()
    return normalized(notebook), time.perf_counter() - began


def normalized(notebook: dict[str, Any]) -> dict[str, Any]:
    """The same notebook without anything that differs from run to run or from machine to machine."""
    notebook["metadata"] = SETTINGS
    number = 0
    for position, cell in enumerate(notebook["cells"], start=1):
        cell["id"] = f"cell-{position:02}"
        cell["metadata"] = {k: v for k, v in cell["metadata"].items() if k == "tags"}
        if cell["cell_type"] != "code":
            continue
        number += 1
        cell["execution_count"] = number
        cell["outputs"] = _joined(cell["outputs"])
        for output in cell["outputs"]:
            if "execution_count" in output:
                output["execution_count"] = number
            if "metadata" in output:
                output["metadata"] = {}
            _shorten(output.get("data", {}))
    return notebook


def _joined(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Outputs with the pieces of a stream put together, which come as the clock would have it."""
    found: list[dict[str, Any]] = []
    for output in outputs:
        if found and output["output_type"] == "stream" and output.get("name") == found[-1].get("name"):
            found[-1]["text"] += output["text"]
        else:
            found.append(output)
    return found


def _shorten(data: dict[str, Any]) -> None:
    """Cut the plain form where a picture or HTML is shown instead of it."""
    plain = "".join(data.get("text/plain", ""))
    if len(data) > 1 and len(plain) > _LONG:
        data["text/plain"] = re.split(r"\W", plain, maxsplit=1)[0] + "(...)"


def noise(notebook: dict[str, Any]) -> Iterator[str]:
    """What was written to standard error."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            if output.get("name") == "stderr":
                yield "".join(output["text"])


def written(notebook: dict[str, Any]) -> str:
    """The notebook as it is kept in a file."""
    import nbformat

    return nbformat.writes(nbformat.from_dict(json.loads(json.dumps(notebook))), indent=1) + "\n"


def main() -> int:
    """Run what the command line names; 1 where any notebook failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: all of them")
    parser.add_argument("--write", action="store_true", help="keep the outputs in the files")
    arguments = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    failed = 0
    for path in arguments.notebooks or sorted(FOLDER.glob("[0-9]*.ipynb")):
        try:
            notebook, seconds = run(path)
        except Exception as error:  # whatever it is, the others are still run
            print(f"{path.name}: {error}", file=sys.stderr)
            failed += 1
            continue
        problems = list(noise(notebook))
        if seconds > LIMIT:
            problems.append(f"took {seconds:.0f} s, more than {LIMIT}")
        for problem in problems:
            print(f"{path.name}: {problem}", file=sys.stderr)
        failed += bool(problems)
        if arguments.write and not problems:
            path.write_text(written(notebook), encoding="utf-8")
        print(f"{path.name}: {seconds:.0f} s{', with problems' if problems else ''}")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
