"""Stores whose rows or files somebody else changed: errors of our own that name the remedy, and no hangs."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from sage_app.store.folder import FolderStore
from sage_core.errors import SageError, StoreError
from tests.fakes.models import HashEmbedder
from tests.fakes.stores import contents, fill, ingested, run

QUERY = HashEmbedder().embed_query("who spins brown wool")

# What search or ingest cannot do without.
BROKEN = [
    "DELETE FROM segments",
    "DELETE FROM state",
    "INSERT INTO state VALUES ('x', 0, 0)",
    "UPDATE state SET rows = 'many'",
    "UPDATE state SET change = x'00'",
    "UPDATE segments SET rows = 3",
    "UPDATE segments SET rows = 1 << 50",
    "UPDATE segments SET number = 1 << 50",
    "UPDATE segments SET number = -1",
    "UPDATE segments SET file = x'ff'",
    "UPDATE segments SET file = '../../' || file",
    "UPDATE dead SET stop = 'x'",
    "UPDATE dead SET stop = 1 << 60",
    "UPDATE documents SET chunks = 1 << 60",
    "UPDATE documents SET chunks = 'x'",
    "UPDATE documents SET title = x'ff'",
    "UPDATE documents SET digest = x'ff'",
    "UPDATE chunks SET headings = ''",
    "UPDATE chunks SET headings = '3'",
    "UPDATE chunks SET headings = '[3]'",
    "UPDATE chunks SET text = x'00ff'",
    "UPDATE chunks SET start = 'x'",
    "UPDATE chunks SET row = row + (1 << 50)",
    "UPDATE settings SET value = x'000000' WHERE name = 'probe'",
    "UPDATE settings SET value = '[1]' WHERE name = 'segmenter_settings'",
]
HARMLESS = [
    "UPDATE dead SET stop = 1 << 40",
    "UPDATE dead SET first = 1 << 40, stop = 1 << 40",
    "UPDATE state SET rows = 1 << 40",
    "UPDATE state SET rows = 0",
    "UPDATE words SET rowid = rowid + 500",
    "UPDATE documents SET first = 1 << 60",
    "UPDATE documents SET stat = 5",
    "UPDATE names SET key = x'ff'",
    "DELETE FROM chunks",
    "DELETE FROM documents",
    "DROP TABLE dead",
]


def made(tmp_path: Path) -> tuple[Path, Path]:
    folder, store = ingested(tmp_path)
    (folder / "mill.md").write_text("A line.\n\nAnother [line](ferry.txt#a).")
    run(store, folder)  # dead rows
    return folder, store


def change(store: Path, statement: str) -> None:
    with closing(sqlite3.connect(store / "store.sqlite3")) as connection:
        connection.execute(statement)
        connection.commit()


def use(store: Path, folder: Path) -> None:
    """Everything that reads rows."""
    with FolderStore(store) as reader:
        for work in (
            lambda: reader.search_many(QUERY[None, :], 5, questions=["brown wool"], words=5),
            lambda: reader.first_chunks([str(folder / "ferry.txt")], QUERY, 2),
            lambda: reader.frequencies(["wool"]),
            reader.documents,
            reader.info,
        ):
            with suppress(StoreError):
                work()
    with suppress(StoreError):
        (folder / "ferry.txt").write_text("Other words.")
        run(store, folder)
    with suppress(StoreError):
        (folder / "mill.md").unlink()
        run(store, folder)


@pytest.mark.parametrize("statement", BROKEN)
def test_rows_that_no_store_writes_are_an_error(tmp_path: Path, statement: str) -> None:
    folder, store = made(tmp_path)
    change(store, statement)
    with pytest.raises(StoreError, match="--rebuild"), FolderStore(store) as reader:
        reader.search(QUERY, 10)
        reader.documents()
        run(store, folder)


@pytest.mark.parametrize("statement", [*BROKEN, *HARMLESS])
@pytest.mark.slow
def test_changed_rows_raise_errors_of_our_own_and_are_mended(tmp_path: Path, statement: str) -> None:
    folder, store = made(tmp_path)
    change(store, statement)
    use(store, folder)
    fill(folder)
    run(store, folder, rebuild=True)
    assert len(contents(store)) == 6


def as_folder(path: Path) -> None:
    path.mkdir()


def as_fifo(path: Path) -> None:
    os.mkfifo(path)


def as_link(path: Path) -> None:
    path.symlink_to(path.with_name("nothing here"))


def as_loop(path: Path) -> None:
    path.symlink_to(path)


PLACES = [
    *("store.sqlite3", "store.sqlite3-wal", "store.sqlite3-shm", "rebuild.sqlite3"),
    *("writer.lock", "vectors/*.vec", "vectors"),
]


@pytest.mark.skipif(os.name != "posix", reason="FIFOs and links")
@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("occupy", [as_folder, as_fifo, as_link, as_loop])
@pytest.mark.slow
def test_a_rebuild_mends_a_file_that_was_replaced(
    tmp_path: Path, name: str, occupy: Callable[[Path], None]
) -> None:
    folder, store = made(tmp_path)
    fill(folder)
    [path] = store.glob(name) if "*" in name else [store / name]
    if path.is_dir():
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    occupy(path)
    with suppress(SageError), FolderStore(store) as reader:
        reader.search(QUERY, 3)
    with suppress(SageError):
        run(store, folder)
    run(store, folder, rebuild=True)
    assert len(contents(store)) == 6


@pytest.mark.parametrize("name", ["store.sqlite3", "writer.lock", "store.sqlite3-wal"])
def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path, name: str) -> None:
    folder, store = made(tmp_path)
    (store / name).unlink(missing_ok=True)
    (store / name / "mine").mkdir(parents=True)
    with pytest.raises(StoreError, match=name):
        run(store, folder, rebuild=True)
    assert (store / name / "mine").is_dir()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may open any file")
def test_a_lock_that_may_not_be_opened_is_an_error_of_our_own(tmp_path: Path) -> None:
    folder, store = made(tmp_path)
    (store / "writer.lock").chmod(0)
    with pytest.raises(StoreError, match=r"writer\.lock"):
        run(store, folder)
