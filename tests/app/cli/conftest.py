"""Fixtures of the tests of the command line."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sage_app.cli.main import run
from sage_core.embedding.minilm import MiniLMEmbedder
from tests.app.cli.support import DEMO


@pytest.fixture(scope="module", autouse=True)
def load_once() -> Iterator[None]:
    """Every command loads the embedding model; here they share one."""
    load, loaded = MiniLMEmbedder._loaded, {}

    def once(self: MiniLMEmbedder) -> object:
        self._model = loaded.get(self.name)
        loaded[self.name] = load(self)
        return loaded[self.name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MiniLMEmbedder, "_loaded", once)
        yield


@pytest.fixture(autouse=True)
def no_llm(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "SAGE_LLM", "SAGE_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of one real document, made by the command."""
    made = tmp_path_factory.mktemp("cli") / "store"
    assert run(["ingest", str(DEMO / "harbour-rules.pdf"), "--store", str(made)]) == 0
    return made
