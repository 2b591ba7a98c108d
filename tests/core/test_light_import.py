"""Importing the packages stays light: checked in fresh processes."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

HEAVY = {
    "bm25s", "chromadb", "openai", "sentence_transformers", "tiktoken", "tokenizers", "torch",
    "transformers",
}  # fmt: skip
FRAMEWORKS = {"llama_index", "langchain_core", "langchain_text_splitters"}


def modules_after(code: str) -> set[str]:
    report = "import json, sys; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", "-c", f"{code}\n{report}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout))


def test_the_adapter_of_langchain_loads_none_of_its_larger_packages():
    # Before 1.1.3 the text splitters themselves load some of these where they are installed.
    loaded = modules_after("import sage_langchain") - modules_after("import langchain_text_splitters")
    larger = {"langchain", "langchain_classic", "langchain_community", "langchain_experimental", "langgraph"}
    assert not loaded & (HEAVY | larger | {"onnxruntime", "sqlalchemy"})


def test_every_public_name_exists():
    for package in ("sage_core", "sage_app"):
        loaded = modules_after(f"import {package}; [getattr({package}, name) for name in {package}.__all__]")
        assert not loaded & (HEAVY | FRAMEWORKS)
