"""How often an ingest reads: every file once, whatever its state."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sage_app import Sage
from sage_app.documents import reader
from sage_app.pipeline import ingest as module
from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.errors import InputError
from tests.fakes.scripts import PROSE
from tests.fakes.stores import names, run

COUNT = 20


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often files are read, hashed and resolved."""
    counted: Counter[str] = Counter()

    def count(owner: Any, name: str) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            counted[name] += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, counting)

    monkeypatch.setattr(
        module, "_SETTLED", float("inf")
    )  # files settle with time, which a slow machine takes
    count(reader, "read_bytes")
    count(reader, "digest_of")
    count(os.path, "realpath")
    return counted


def folder_of(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(COUNT):
        (folder / f"{number}.txt").write_text(f"The boat number {number} is at the quay.\n\nIt waits.")
    return folder


def test_each_file_is_read_and_hashed_once(tmp_path: Path, calls: Counter[str]) -> None:
    folder, store = folder_of(tmp_path), tmp_path / "store"
    run(store, folder)
    assert calls["read_bytes"] == calls["digest_of"] == COUNT
    assert calls["realpath"] < COUNT
    calls.clear()
    report = run(store, folder)
    assert len(report.unchanged) == COUNT and not report.added
    assert calls["read_bytes"] == calls["digest_of"] == COUNT
    calls.clear()
    (folder / "3.txt").write_text("The boat number 3 has left.")
    report = run(store, folder)
    assert names(report.changed) == {"3.txt"} and len(report.unchanged) == COUNT - 1
    assert calls["read_bytes"] == calls["digest_of"] == COUNT


def test_a_named_file_is_read_once_and_before_anything_is_written(
    tmp_path: Path, calls: Counter[str]
) -> None:
    folder, store = folder_of(tmp_path), tmp_path / "store"
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    with pytest.raises(InputError):
        run(store, folder / "1.txt", bad)
    assert not store.exists()
    calls.clear()
    report = run(store, folder / "1.txt", folder)
    assert len(report.added) == COUNT
    assert calls["read_bytes"] == calls["digest_of"] == COUNT


def test_chunks_are_no_longer_than_the_embedding_model_reads(tmp_path: Path) -> None:
    embedder = MiniLMEmbedder()
    (tmp_path / "hindi.md").write_text(" ".join([PROSE["hindi"]] * 8), encoding="utf-8")
    sage = Sage(tmp_path / "store", embedder=embedder)
    sage.ingest([tmp_path / "hindi.md"])
    texts = [hit.chunk.text for hit in sage.retrieve("नौका कब निकलती है?").candidates]
    assert texts and max(embedder.counter.count_many(texts)) <= embedder.max_tokens
