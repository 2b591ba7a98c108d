"""A store that is written to while others ask: other threads, other processes, another embedding model."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sage_core.errors import StoreError
from sage_core.pipeline.ingest import PROBE
from sage_core.pipeline.sage import Sage
from sage_core.store.chroma_store import ChromaStore
from sage_core.store.identity import StoreIdentity
from sage_core.store.manifest import DocumentRecord, Manifest
from tests.fakes.models import BlankLineSegmenter, HashEmbedder
from tests.fakes.stores import contents, fill, run

QUERY = HashEmbedder().embed_query("the ferry")


def sage_at(store: Path, embedder: HashEmbedder) -> Sage:
    return Sage(store, segmenter=BlankLineSegmenter(), embedder=embedder)


def test_a_document_replaced_during_a_search_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, store = fill(tmp_path / "docs"), tmp_path / "store"
    run(store, folder)
    by_id = Manifest.by_id

    def replaced_meanwhile(manifest: Manifest, ids: Iterable[str]) -> dict[str, DocumentRecord]:
        monkeypatch.setattr(Manifest, "by_id", by_id)
        (folder / "ferry.txt").write_text("The ferry is new.")
        run(store, folder)
        return by_id(manifest, ids)

    with ChromaStore(store) as opened:
        monkeypatch.setattr(Manifest, "by_id", replaced_meanwhile)
        texts = {found.chunk.text for found in opened.search(QUERY, 100)}
    assert "The ferry is new." in texts
    assert len(texts) == 5


def test_another_thread_may_open_the_store_anew_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, store = fill(tmp_path / "docs"), tmp_path / "store"
    run(store, folder)
    before = contents(store)
    begin = Manifest.begin
    with ChromaStore(store) as opened:

        def closed_meanwhile(manifest: Manifest, versions: Iterable[str], file: str | None = None) -> None:
            opened.close()
            begin(manifest, versions, file)

        monkeypatch.setattr(Manifest, "begin", closed_meanwhile)
        from sage_core.pipeline.ingest import ingest

        (folder / "new.txt").write_text("A new page.")
        ingest(opened, [folder], BlankLineSegmenter(), HashEmbedder())
    assert contents(store) > before


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files as Linux shows them")
def test_old_generations_leave_no_open_files(tmp_path: Path) -> None:
    folder, store = fill(tmp_path / "docs"), tmp_path / "store"
    run(store, folder)
    with ChromaStore(store) as reader:
        reader.search(QUERY, 3)
        gc.collect()
        gc.disable()
        try:
            before = len(os.listdir("/proc/self/fd"))
            for i in range(6):
                (folder / "new.txt").write_text(f"Page {i}.")
                run(store, folder)
                reader.search(QUERY, 3)
            # A single client has about ten.
            assert len(os.listdir("/proc/self/fd")) - before < 10
        finally:
            gc.enable()


def test_a_store_made_anew_with_another_model_is_noticed(tmp_path: Path) -> None:
    folder, store = fill(tmp_path / "docs"), tmp_path / "store"
    with sage_at(store, HashEmbedder()) as mine, sage_at(store, HashEmbedder("other", salt="x")) as theirs:
        mine.ingest(folder)
        assert mine.retrieve("ferry").candidates
        theirs.ingest(folder, rebuild=True)
        with pytest.raises(StoreError, match="made with embedding model 'other'"):
            mine.retrieve("ferry")
        mine.embedder = theirs.embedder
        assert mine.retrieve("ferry").candidates


def test_a_search_names_its_model(tmp_path: Path) -> None:
    folder, store = fill(tmp_path / "docs"), tmp_path / "store"
    run(store, folder)
    mine, other = (
        StoreIdentity("hash", HashEmbedder(salt=salt).embed_query(PROBE)) for salt in ("", "other weights")
    )
    with ChromaStore(store) as opened:
        assert opened.search_many(QUERY[None, :], 3, identity=mine)
        with pytest.raises(StoreError, match="other weights"):
            opened.search_many(QUERY[None, :], 3, identity=other)


FORKED = """
import multiprocessing, sys
import numpy as np
from sage_core.errors import StoreError
from sage_core.store.chroma_store import ChromaStore

def ask(store):
    try:
        store.search(np.ones(64, dtype=np.float32) / 8, 3)
    except StoreError as error:
        print(error)

store = ChromaStore(sys.argv[1])
store.search(np.ones(64, dtype=np.float32) / 8, 3)
child = multiprocessing.get_context("fork").Process(target=ask, args=(store,))
child.start()
child.join(30)
if child.exitcode is None:
    child.kill()
    sys.exit("the child waits for ever")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_is_told_instead_of_waiting_for_ever(tmp_path: Path) -> None:
    run(tmp_path / "store", fill(tmp_path / "docs"))
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(tmp_path / "store")],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert "before it forked" in done.stdout, done.stderr


class WaitingEmbedder(HashEmbedder):
    """Loads, so to speak, until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.loading, self.go_on = threading.Event(), threading.Event()
        self.let_go: list[bool] = []

    def embed_query(self, text: str) -> NDArray[np.float32]:
        self.loading.set()
        self.let_go.append(self.go_on.wait(10))
        return super().embed_query(text)


async def test_questions_that_come_while_the_model_loads_leave_the_event_loop_free(tmp_path: Path) -> None:
    run(tmp_path / "store", fill(tmp_path / "docs"))
    embedder = WaitingEmbedder()
    with sage_at(tmp_path / "store", embedder) as sage:
        first = asyncio.create_task(sage.aretrieve("the ferry"))
        await asyncio.to_thread(embedder.loading.wait, 10)
        second = asyncio.create_task(sage.aretrieve("the mill"))
        await asyncio.sleep(0.01)  # it is on its way
        embedder.go_on.set()
        for retrieval in (await first, await second):
            assert len(retrieval.candidates) == 6
    assert all(embedder.let_go), "the event loop stood still until the model gave up"
