"""A store that is written to while others ask: other threads, other processes, another embedding model."""

import gc
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sage_app.pipeline.ingest import PROBE
from sage_app.store.folder import FolderStore
from sage_app.store.identity import StoreIdentity
from sage_app.store.segments import Index, Segment
from sage_core.errors import StoreError
from tests.fakes.models import HashEmbedder
from tests.fakes.stores import TEXTS, fill, ingested, run

pytestmark = pytest.mark.slow

QUERY = HashEmbedder().embed_query("the ferry")


def test_a_search_sees_the_store_as_it_was_at_one_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, store = ingested(tmp_path)
    nearest = Index.nearest

    def replaced_meanwhile(index: Index, query: NDArray[np.float32], n: int) -> list[tuple[int, float]]:
        monkeypatch.setattr(Index, "nearest", nearest)
        fill(folder, dict.fromkeys(TEXTS, "Nothing is as it was."))
        monkeypatch.setattr("sage_app.store.folder._LEAST_DEAD", 0)
        run(store, folder)  # the old file goes, too
        return nearest(index, query, n)

    with FolderStore(store) as opened:
        monkeypatch.setattr(Index, "nearest", replaced_meanwhile)
        assert len(opened.search(QUERY, 100)) == 6
        assert {found.chunk.text for found in opened.search(QUERY, 100)} == {"Nothing is as it was."}


def test_a_file_that_goes_before_it_is_opened_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, store = ingested(tmp_path)
    open_segment = Segment.open

    def replaced_meanwhile(*args: Any) -> Segment:
        monkeypatch.setattr(Segment, "open", open_segment)
        fill(folder, dict.fromkeys(TEXTS, "Nothing is as it was."))
        monkeypatch.setattr("sage_app.store.folder._LEAST_DEAD", 0)
        run(store, folder)
        return open_segment(*args)

    with FolderStore(store) as opened:
        monkeypatch.setattr(Segment, "open", replaced_meanwhile)
        assert {found.chunk.text for found in opened.search(QUERY, 100)} == {"Nothing is as it was."}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files as Linux shows them")
def test_changes_leave_no_open_files(tmp_path: Path) -> None:
    folder, store = ingested(tmp_path)
    with FolderStore(store) as reader:
        reader.search(QUERY, 3)
        gc.collect()
        gc.disable()
        try:
            before = len(os.listdir("/proc/self/fd"))
            for i in range(6):
                (folder / "new.txt").write_text(f"Page {i}.")
                run(store, folder)
                reader.search(QUERY, 3)
            assert len(os.listdir("/proc/self/fd")) - before < 3
        finally:
            gc.enable()


def test_a_store_that_was_deleted_and_made_again_is_noticed(tmp_path: Path) -> None:
    folder, store = ingested(tmp_path)
    with FolderStore(store) as reader:
        assert len(reader.search(QUERY, 100)) == 6
        shutil.rmtree(store)
        with pytest.raises(StoreError):
            reader.search(QUERY, 100)
        (folder / "new.txt").write_text("A new page.")
        run(store, folder)
        assert len(reader.search(QUERY, 100)) == 7


def test_a_search_names_its_model(tmp_path: Path) -> None:
    _, store = ingested(tmp_path)
    mine, other = (
        StoreIdentity("hash", HashEmbedder(salt=salt).embed_query(PROBE)) for salt in ("", "other weights")
    )
    with FolderStore(store) as opened:
        assert opened.search_many(QUERY[None, :], 3, identity=mine)
        with pytest.raises(StoreError, match="weights"):
            opened.search_many(QUERY[None, :], 3, identity=other)


FORKED = """
import multiprocessing, sys
import numpy as np
from sage_app.store.folder import FolderStore

QUERY = np.ones(64, dtype=np.float32) / 8

def ask(store):
    print(len(store.search(QUERY, 100)))

store = FolderStore(sys.argv[1])
ask(store)
child = multiprocessing.get_context("fork").Process(target=ask, args=(store,))
child.start()
child.join(30)
if child.exitcode is None:
    child.kill()
    sys.exit("the child waits for ever")
ask(store)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_searches_too(tmp_path: Path) -> None:
    run(tmp_path / "store", fill(tmp_path / "docs"))
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(tmp_path / "store")],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert done.stdout.split() == ["6", "6", "6"], done.stderr


AS_NOBODY = """
import os, sys
from sage_app import Sage
from sage_app.store.folder import FolderStore
from sage_core.errors import SageError
from tests.fakes.models import HashEmbedder
from tests.fakes.stores import run

store, folder = sys.argv[1:3]

def told(act):
    try:
        act()
        print("nothing raised")
    except SageError as error:
        print("ours:", error)

def asked(store):
    Sage(store, embedder=HashEmbedder()).retrieve("When?")

try:  # whatever is imported late
    run(store + "-other", folder)
    asked(store + "-other")
except SageError:
    pass
if os.getuid() == 0:
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
"""


def as_nobody(code: str, rights: int) -> list[str]:
    """What a process without root's rights prints, over a store with six chunks, a page that is new, and these rights."""
    # Below /tmp: pytest's own folders are closed to other users.
    with tempfile.TemporaryDirectory() as name:
        folder, store = fill(Path(name) / "docs"), Path(name) / "store"
        run(store, folder)
        (folder / "new.txt").write_text("A new page.")
        for path in (Path(name), folder, *folder.rglob("*")):
            path.chmod(0o755)
        closed = [store, *store.rglob("*")]
        for path in reversed(closed):
            path.chmod(rights if path.is_dir() else rights & 0o444)
        command = [sys.executable, "-c", AS_NOBODY + code, str(store), str(folder)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3])
        finally:
            for path in closed:
                path.chmod(0o755)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="folders are closed otherwise there")
def test_a_store_that_may_not_be_written_can_be_searched() -> None:
    search = "print(len(FolderStore(store).search(HashEmbedder().embed_query('the'), 100)))\n"
    found, refused = as_nobody(search + "told(lambda: run(store, folder))", 0o555)
    assert found == "6" and "cannot write to the store" in refused


@pytest.mark.skipif(sys.platform == "win32", reason="folders are closed otherwise there")
def test_a_store_without_any_rights_is_an_error_of_our_own() -> None:
    acts = ["run(store, folder)", "run(store, folder, rebuild=True)", "asked(store)"]
    acts += ["FolderStore(store).info()", "FolderStore(store).documents()"]
    lines = as_nobody("\n".join(f"told(lambda: {act})" for act in acts), 0)
    assert len(lines) == len(acts) and all(line.startswith("ours:") for line in lines), lines


def test_a_store_survives_pickling(tmp_path: Path) -> None:
    run(tmp_path / "store", fill(tmp_path / "docs"))
    with FolderStore(tmp_path / "store") as opened, pickle.loads(pickle.dumps(opened)) as copy:
        assert copy.search(QUERY, 3) == opened.search(QUERY, 3)
