"""How often an ingest reads: every file once, whatever its state; training reads the same text."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sage_train.corpus import read_corpus

from sage_core.documents.reader import read_document
from sage_core.errors import InputError
from sage_core.pipeline import ingest as module
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

    count(module, "read_bytes")
    count(module, "digest_of")
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


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16"])
def test_training_reads_what_ingest_reads(tmp_path: Path, encoding: str) -> None:
    text = "Das Café öffnet um acht. Es schließt um neun.\n\nDer Kahn liegt am Kai. Er wartet."
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode(encoding))
    assert read_document(path).text == text
    (document,) = read_corpus(path)
    assert document.paragraphs[0] == ("Das Café öffnet um acht.", "Es schließt um neun.")


def test_training_reads_every_kind_and_passes_over_what_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "# Boats\n\nOne sails. One rows.\n\nOars\n----\n\nTwo are long. One is short.\n"
    )
    (tmp_path / "b.html").write_text("<nav>Menu</nav><h1>Lamps</h1><p>One burns. One is out.</p>")
    (tmp_path / "c.txt").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    found = {d.doc_id: d.paragraphs for d in read_corpus(tmp_path)}
    assert found == {
        "a.md": (("One sails.", "One rows."), ("Two are long.", "One is short.")),
        "b.html": (("One burns.", "One is out."),),
    }
    with pytest.raises(InputError):
        list(read_corpus(tmp_path / "c.txt"))
