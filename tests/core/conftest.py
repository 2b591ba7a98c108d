"""Fixtures of the core's tests."""

from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.fixture
def tiktoken_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tiktoken find cl100k_base without a network: LlamaIndex brings the file along."""
    pytest.importorskip("tiktoken")
    spec = find_spec("llama_index.core")
    folder = Path(spec.origin).parent / "_static" / "tiktoken_cache" if spec and spec.origin else Path("none")
    if not folder.is_dir():
        pytest.skip("the vocabulary of cl100k_base is only found with llama-index-core installed")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
