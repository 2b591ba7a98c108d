"""The package as its users install it: the name, and the example."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from llama_index.node_parser.sage import SageNodeParser

import sage_llamaindex


def test_the_class_is_the_one_of_sage_llamaindex() -> None:
    assert SageNodeParser is sage_llamaindex.SageNodeParser


def test_the_example_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    exec(compile(example, "README.md", "exec"), {"__name__": "readme"})
    assert "The ferry leaves at seven." in capsys.readouterr().out
