"""Importing the packages stays light: checked in fresh processes."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

HEAVY = {
    "torch",
    "transformers",
    "sentence_transformers",
    "chromadb",
    "openai",
    "tokenizers",
    "bm25s",
    "tiktoken",
}
FRAMEWORKS = {"llama_index", "langchain_core", "langchain_text_splitters"}


def modules_after(code: str) -> set[str]:
    report = "import json, sys; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout))


def test_core_loads_no_framework_and_nothing_heavy():
    loaded = modules_after("import sage_core")
    assert "sage_core" in loaded
    assert not loaded & (HEAVY | FRAMEWORKS | {"typer", "rich"})


@pytest.mark.parametrize(
    ("package", "other"), [("sage_llamaindex", "langchain_core"), ("sage_langchain", "llama_index")]
)
def test_adapters_load_no_torch_and_not_each_other(package, other):
    loaded = modules_after(f"import {package}; [getattr({package}, name) for name in {package}.__all__]")
    assert package in loaded
    assert not loaded & {"torch", "transformers", "sentence_transformers", "chromadb", other}


def test_every_public_name_exists():
    loaded = modules_after("import sage_core; [getattr(sage_core, name) for name in sage_core.__all__]")
    assert not loaded & (HEAVY | FRAMEWORKS)
