"""The notebooks as they are committed: run, in order, small, and without traces of the machine they ran on.

They are executed by `make notebooks`.
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
pytestmark = pytest.mark.skipif(not NOTEBOOKS, reason="this source tree was shipped without notebooks")
MOST_BYTES = 300_000
# A root folder of somebody's machine, a temporary folder, a folder of installed packages, a package index.
TRACES = re.compile(
    r"(?<![\w.])/(?:home|root|Users|tmp|var|work|opt|usr)/|site-packages|pypi|[A-Z]:\\\\Users"
)
WRITER = ROOT / "scripts" / "run_notebooks.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("run_notebooks", WRITER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cells(path, kind):
    return [c for c in json.loads(path.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == kind]


def text_of(output):
    """What a reader sees of an output, pictures left out."""
    data = {k: v for k, v in output.get("data", {}).items() if not k.startswith("image/png")}
    return json.dumps([output.get("text", ""), data])


def test_there_are_six_and_the_index_names_each():
    assert [p.name[:2] for p in NOTEBOOKS] == [f"{n:02}" for n in range(1, 7)]
    index = (ROOT / "notebooks" / "README.md").read_text(encoding="utf-8")
    assert all(f"({p.name})" in index for p in NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name[:2])
class TestCommitted:
    def test_every_cell_was_run_in_order(self, path):
        counts = [c["execution_count"] for c in cells(path, "code")]
        assert counts == list(range(1, len(counts) + 1))
        assert sum(bool(c["outputs"]) for c in cells(path, "code")) >= 4

    def test_no_error_and_nothing_on_standard_error(self, path):
        for cell in cells(path, "code"):
            for output in cell["outputs"]:
                assert output["output_type"] != "error"
                assert output.get("name") != "stderr", output["text"]
                # The text below a section that was left out would speak of figures that nobody sees.
                assert "skipped:" not in text_of(output), "run it with all that notebooks/README.md installs"

    def test_no_trace_of_a_machine(self, path):
        for cell in cells(path, "code"):
            for output in cell["outputs"]:
                found = TRACES.search(text_of(output))
                assert not found, f"{path.name}: {found}"

    def test_it_has_a_plot_and_is_small(self, path):
        pictures = [o for c in cells(path, "code") for o in c["outputs"] if "image/png" in o.get("data", {})]
        assert pictures
        assert path.stat().st_size < MOST_BYTES

    def test_it_begins_with_what_it_is_for(self, path):
        first = "".join(cells(path, "markdown")[0]["source"])
        assert first.startswith(f"# {path.name[:2]} ")
        assert all(word in first for word in ("**You will learn**", "**Time:**", "**Install:**"))

    def test_files_it_names_exist(self, path):
        for cell in cells(path, "code"):
            for name in re.findall(r"Path\(\"(\.\./[^\"]+|[\w]+\.jsonl)\"\)", "".join(cell["source"])):
                assert (path.parent / name).exists(), name

    def test_writing_it_again_changes_nothing(self, path, script):
        pytest.importorskip("nbformat")
        kept = path.read_text(encoding="utf-8")
        assert script.written(script.normalized(json.loads(kept))) == kept


class TestNormalized:
    def test_what_differs_between_runs_is_taken_out(self, script):
        stream = {"output_type": "stream", "name": "stdout"}
        notebook = {
            "metadata": {"kernelspec": {"name": "my-own"}, "widgets": {}},
            "cells": [
                {"cell_type": "markdown", "metadata": {"slideshow": 1}, "id": "x", "source": "text"},
                {
                    "cell_type": "code", "metadata": {"execution": {"started": "12:00"}, "tags": ["a"]}, "id": "y",
                    "execution_count": 7, "source": "1",
                    "outputs": [
                        {**stream, "text": "a"}, {**stream, "text": "b"},
                        {"output_type": "execute_result", "execution_count": 7, "metadata": {"k": 1},
                         "data": {"text/html": "<b>", "text/plain": "View(" + "x" * 500}},
                    ],
                },
            ],
        }  # fmt: skip
        done = script.normalized(notebook)
        code = done["cells"][1]
        assert code["metadata"] == {"tags": ["a"]} and code["execution_count"] == 1
        assert [o.get("text") for o in code["outputs"]] == ["ab", None]
        assert code["outputs"][1]["data"] == {"text/html": "<b>", "text/plain": "View(...)"}
        assert code["outputs"][1]["metadata"] == {} and done["metadata"] == script.SETTINGS


class TestRunning:
    """Small notebooks in a real kernel."""

    @pytest.fixture
    def run(self, script, tmp_path):
        pytest.importorskip("nbclient")
        pytest.importorskip("ipykernel")
        import nbformat

        def go(*sources):
            made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])
            path = tmp_path / "small.ipynb"
            nbformat.write(made, path)
            return script.run(path)[0]

        return go

    @pytest.mark.slow
    def test_outputs_are_kept_and_the_network_is_out_of_reach(self, run, script):
        asked = (
            "import socket\n"
            "try:\n    socket.getaddrinfo('example.org', 80)\n"
            "except OSError as error:\n    print(error)\n"
            "print(bool(socket.getaddrinfo('localhost', 80)))"
        )
        done = run("print(1 + 1)", asked, "import sys; print('oh', file=sys.stderr)")
        said = [c["outputs"][0]["text"] for c in done["cells"]]
        assert said[0] == "2\n"
        assert said[1] == "a notebook asked for example.org: notebooks run offline\nTrue\n"
        assert list(script.noise(done)) == ["oh\n"]

    @pytest.mark.slow
    def test_a_cell_that_fails_is_an_error(self, run):
        from nbclient.exceptions import CellExecutionError

        with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
            run("1 / 0")
