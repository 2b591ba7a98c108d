"""A folder of documents, its ingest with models that need no download, and what a store then holds."""

import sqlite3
from contextlib import closing
from pathlib import Path

from sage_app.pipeline.ingest import IngestReport, ingest
from sage_app.store.folder import FolderStore
from tests.fakes.models import BlankLineSegmenter, HashEmbedder

TEXTS = {
    "ferry.txt": "The ferry sails at seven.\n\nThe crossing takes an hour.\n",
    "mill.md": "# The mill\n\nThe mill spins wool from brown sheep.\n",
    "sub/light.txt": "The lamp was lit in 1854.\r\n\r\nThe tower is of granite.\r\n",
}


def fill(folder: Path, texts: dict[str, str] = TEXTS) -> Path:
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return folder


def run(
    store: Path, *paths: Path, embedder: HashEmbedder | None = None, rebuild: bool = False
) -> IngestReport:
    with FolderStore(store) as opened:
        return ingest(opened, paths, BlankLineSegmenter(), embedder or HashEmbedder(), rebuild=rebuild)


def ingested(tmp_path: Path) -> tuple[Path, Path]:
    """A folder of `TEXTS`, and the store that has them."""
    folder, store = fill(tmp_path / "docs"), tmp_path / "store"
    run(store, folder)
    return folder, store


def names(sources: tuple[str, ...]) -> set[str]:
    return {Path(s).name for s in sources}


def contents(store: Path) -> set[tuple[str, str, str]]:
    """Every chunk that a search can return: id, source and text."""
    with FolderStore(store) as opened:
        found = opened.search(HashEmbedder().embed_query("the"), 1000)
        return {(f.chunk.id, f.chunk.source, f.chunk.text) for f in found}


def raw_count(store: Path) -> int:
    """Chunks in the database, whether they count or not."""
    with closing(sqlite3.connect(store / "store.sqlite3")) as connection:
        return int(connection.execute("SELECT COUNT(*) FROM chunks").fetchone()[0])
