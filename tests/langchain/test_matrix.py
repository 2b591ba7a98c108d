"""The versions that the matrix script tests are those that the package declares."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_lowest_versions_tested_are_the_lowest_declared():
    tomllib = pytest.importorskip("tomllib", reason="tomllib came with Python 3.11")
    spec = importlib.util.spec_from_file_location("matrix", ROOT / "scripts" / "langchain_matrix.py")
    matrix = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(matrix)
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"][
        "langchain"
    ]
    for package in ("langchain-core", "langchain-text-splitters"):
        (declared,) = [d for d in extra if d.startswith(package + ">")]
        lowest = declared.removeprefix(package + ">=").split(",")[0]
        tested = matrix.LOWEST[package].removeprefix("==")
        assert tested == lowest or tested == lowest + ".0"
