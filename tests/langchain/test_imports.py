"""The package loads nothing heavy, nothing deprecated, and only what it declares."""

import json
import subprocess
import sys

import pytest

import sage_langchain

pytestmark = pytest.mark.slow

HEAVY = [
    "torch", "transformers", "sentence_transformers", "onnxruntime", "chromadb", "openai", "tiktoken",
    "bm25s", "sqlalchemy", "langchain", "langchain_classic", "langchain_community",
    "langchain_experimental", "langgraph", "llama_index",
]  # fmt: skip


def loaded_by(statement: str) -> set[str]:
    script = f"{statement}; import sys, json; print(json.dumps(sorted(sys.modules)))"
    arguments = [sys.executable, "-W", "error::DeprecationWarning", "-c", script]
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_import_is_light_and_not_deprecated():
    # Before 1.1.3 the text splitters themselves load some of these where they are installed.
    loaded = loaded_by("import sage_langchain") - loaded_by("import langchain_text_splitters")
    assert not loaded & set(HEAVY)
    assert not any(name.startswith("sage_llamaindex") for name in loaded)


def test_public_names():
    assert sorted(sage_langchain.__all__) == sage_langchain.__all__
    for name in sage_langchain.__all__:
        assert getattr(sage_langchain, name).__doc__
