"""Stores whose rows or files somebody else changed: what is lost is said, and a rebuild mends it."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sage_app.store.folder import FolderStore
from sage_core.errors import StoreError
from tests.fakes.models import HashEmbedder
from tests.fakes.stores import contents, fill, ingested, run

BROKEN = [
    "DELETE FROM segments",
    "UPDATE segments SET rows = 3",
    "UPDATE segments SET number = -1",
    "UPDATE segments SET file = '../../' || file",
    "UPDATE documents SET chunks = 1 << 40",
    "UPDATE chunks SET row = row + (1 << 50)",
    "UPDATE settings SET value = x'000000' WHERE name = 'probe'",
    "UPDATE settings SET value = '[1]' WHERE name = 'segmenter_settings'",
]


@pytest.mark.parametrize("statement", BROKEN)
def test_rows_that_no_store_writes_are_an_error_and_mended(tmp_path: Path, statement: str) -> None:
    folder, store = ingested(tmp_path)
    with closing(sqlite3.connect(store / "store.sqlite3")) as connection:
        connection.execute(statement)
        connection.commit()
    with pytest.raises(StoreError, match="--rebuild"), FolderStore(store) as reader:
        reader.search(HashEmbedder().embed_query("who spins brown wool"), 10)
    fill(folder)
    run(store, folder, rebuild=True)
    assert len(contents(store)) == 6


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may open any file")
def test_a_lock_that_may_not_be_opened_is_an_error_of_our_own(tmp_path: Path) -> None:
    folder, store = ingested(tmp_path)
    (store / "writer.lock").chmod(0)
    with pytest.raises(StoreError, match=r"writer\.lock"):
        run(store, folder)
