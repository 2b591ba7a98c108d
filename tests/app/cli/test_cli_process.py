"""The command as a process: pipes, signals, terminals and missing packages."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sage_app.cli.main import run
from tests.app.cli.support import DEMO, QUESTION, started
from tests.fakes.llm_server import BadServer, headers_and_nothing
from tests.fakes.stores import fill

pytestmark = pytest.mark.slow


def test_ctrl_c_leaves_a_store_that_the_next_run_finishes(tmp_path: Path) -> None:
    text, store = (DEMO / "water-works.txt").read_text(encoding="utf-8"), tmp_path / "store"
    docs = fill(tmp_path / "docs", {f"{i:02}.txt": f"Document {i}.\n\n{text}" for i in range(12)})
    process = started("ingest", docs, "--store", store, stderr=subprocess.PIPE)
    while not store.exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate()
    assert process.returncode == 130, error
    assert "interrupted" in error and "Traceback" not in error
    for path in sorted(docs.iterdir())[2:]:
        path.unlink()
    assert run(["ingest", str(docs), "--store", str(store), "--json"]) == 0


def test_output_cut_off_by_a_reader_is_no_crash() -> None:
    command = f"{sys.executable} -m sage_app.cli.main segment {DEMO / 'water-works.txt'} --json | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout == "{\n"
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
def test_ctrl_c_ends_a_question_that_waits_for_the_llm(store: Path) -> None:
    with BadServer(headers_and_nothing) as server:
        llm = ["--base-url", server.base_url, "--model", "m"]
        process = started("ask", QUESTION, "--store", store, *llm, stderr=subprocess.PIPE)
        while not server.requests and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=30)
    assert process.returncode == 130, error
    assert "kept" in out, "the chunks found are shown"
    assert error.count("\n") == 1 and "interrupted" in error
