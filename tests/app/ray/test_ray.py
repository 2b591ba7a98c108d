"""Ingest on Ray: the same store as a serial ingest, with workers that die, runs that are killed, and a server."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sage_app.cli.main import run as main
from sage_app.pipeline.ingest import DocumentMaker, IngestProgress, ingest
from sage_app.store import ChromaStore, FolderStore, Store
from sage_core.errors import InputError, MissingExtraError, SageError, StoreError
from sage_core.segmentation import Segmenter
from tests.app.servers import ChromaServer
from tests.fakes.models import BlankLineSegmenter, HashEmbedder
from tests.fakes.stores import fill, names

ray = pytest.importorskip("ray", reason="the ray extra is not installed")

from sage_app.ray import _Item, _Worker, ingest_with_ray  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.soak]

ROOT = Path(__file__).parents[3]
QUERY = HashEmbedder().embed_query("the")
PAGES = {
    f"{'abc'[i % 3]}/page{i}.md": f"# Page {i}\n\nThe ferry {i} sails at {i}.\n\n## Tickets\n\nTicket {i} costs {i} crowns.\n"
    for i in range(60)
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    start()
    yield
    ray.shutdown()


def start() -> None:
    """Ray on two cores; its workers find the modules of these tests."""
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaServer]:
    pytest.importorskip("chromadb")
    with ChromaServer(tmp_path_factory.mktemp("chroma")) as running:
        yield running


def run(store: Store, *paths: Path | str, embedder: HashEmbedder | None = None, **options: object):
    return ingest_with_ray(store, paths, BlankLineSegmenter(), embedder or HashEmbedder(), **options)


def serial(folder: Path, *paths: Path) -> FolderStore:
    store = FolderStore(folder)
    ingest(store, paths, BlankLineSegmenter(), HashEmbedder())
    return store


def contents(store: Store) -> dict[str, tuple[object, ...]]:
    """Every chunk but "## Tickets": of equal texts a search returns one, whichever was written first."""
    found = store.search_many(QUERY[None, :], 10_000)[0]
    return {f.chunk.id: (f.chunk, round(f.similarity, 3)) for f in found if f.chunk.text != "## Tickets"}


def same(store: Store, other: Store) -> bool:
    """Whether both hold the same. The index of a Chroma server is approximate and may miss a chunk."""
    mine, theirs = contents(store), contents(other)
    missed = 1 if isinstance(store, ChromaStore) else 0
    return (
        documents(store) == documents(other)
        and mine.items() <= theirs.items()
        and len(theirs) - len(mine) <= missed
    )


def documents(store: Store) -> list[tuple[object, ...]]:
    return [(d.id, d.source, d.digest, d.chunks, d.title) for d in store.documents()]


class Dying(HashEmbedder):
    """Ends its process without a word, once."""

    def __init__(self, marker: Path) -> None:
        super().__init__()
        self.marker = marker

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if any("ferry 40 " in text for text in texts):
            try:
                self.marker.touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().embed_documents(texts)


def test_on_a_server_with_a_worker_that_is_killed(
    cluster: None, server: ChromaServer, tmp_path: Path
) -> None:
    docs = fill(tmp_path / "docs", PAGES)
    (docs / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    (docs / "binary.txt").write_bytes(b"\0\1\2" * 100)
    told: list[IngestProgress] = []
    with ChromaStore(f"{server.url}/equal") as store:
        report = run(store, docs, embedder=Dying(tmp_path / "died"), progress=told.append)
        assert (tmp_path / "died").exists()
        with serial(tmp_path / "serial", docs) as other:
            assert same(store, other)
        assert len(report.added) == 60 and report.chunks == 240 == report.chunks_in_store
        assert names(tuple(s.source for s in report.skipped)) == {"broken.pdf", "binary.txt"}
        assert told[-1].done == told[-1].total > 0 and told[-1].files == 62

        (docs / "a/page0.md").write_text("# Page 0\n\nNothing sails any more.\n")
        (docs / "b/page1.md").unlink()
        (docs / "c/page2.md").write_bytes(b"\0\1\2" * 100)
        (docs / "c/page5.md").touch()
        report = run(store, docs)
        assert (names(report.changed), names(report.removed)) == ({"page0.md"}, {"page1.md", "page2.md"})
        assert len(report.unchanged) == 57 and report.chunks == 2
        with serial(tmp_path / "serial", docs) as other:
            assert same(store, other)


def test_into_a_folder_with_the_bundled_segmenter(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(ROOT / "demo" / "documents", docs)
    large = "\n\n".join(f"Line {i} of the log tells what the ferry did." for i in range(200))
    fill(docs, {"large.txt": large})
    with FolderStore(tmp_path / "store") as store, FolderStore(tmp_path / "serial") as other:
        report = ingest_with_ray(store, docs, Segmenter(), HashEmbedder())
        expected = ingest(other, docs, Segmenter(), HashEmbedder())
        assert contents(store) == contents(other) and len(contents(store)) > 50
        assert documents(store) == documents(other)
        assert set(report.added) == set(expected.added) and report.chunks == expected.chunks


class Failing(HashEmbedder):
    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        raise StoreError("the model's store is away")


class Broken(HashEmbedder):
    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        raise ZeroDivisionError("a bug")


def test_errors_of_workers(cluster: None, tmp_path: Path) -> None:
    docs = fill(tmp_path / "docs", {"a.txt": "The ferry."})
    store = FolderStore(tmp_path / "store")

    def probed(kind: Callable[[], HashEmbedder]) -> HashEmbedder:
        embedder = kind()
        embedder.embed_query = HashEmbedder().embed_query  # type: ignore[method-assign]
        return embedder

    with pytest.raises(SageError, match="StoreError: the model's store is away"):
        run(store, docs, embedder=probed(Failing))
    with pytest.raises(SageError, match=r"workers failed: .*a bug.*run it again to go on"):
        run(store, docs, embedder=probed(Broken))
    assert not store.exists
    with pytest.raises(InputError, match="no such file"):
        run(store, tmp_path / "nothing")
    (docs / "a.txt").write_bytes(b"\0\1\2" * 100)
    with pytest.raises(InputError, match="none of the 1 files can be read"):
        run(store, docs)
    with pytest.raises(InputError, match="workers must be at least 1"):
        run(store, docs, workers=0)


def test_on_the_command_line(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sage_app.models.named_embedder", lambda *_, **__: HashEmbedder())
    docs = fill(tmp_path / "docs", {"a.txt": "The ferry sails at seven.", "b.txt": "The mill is closed."})
    command = ["ingest", str(docs), "--store", str(tmp_path / "store"), "--engine", "ray"]
    assert main([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["added"] == [str(docs / "a.txt"), str(docs / "b.txt")]


def test_a_file_whose_reader_is_not_installed_is_skipped_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker's own code, in this process: the processes of Ray have every package."""
    docs = fill(tmp_path / "docs", {"a.txt": "The ferry leaves.", "b.html": "<p>The lamp is lit.</p>"})
    monkeypatch.setitem(sys.modules, "lxml", None)
    parts = (DocumentMaker(BlankLineSegmenter(), HashEmbedder()), None, None)
    items = [_Item(str(path), path) for path in (docs / "b.html", docs / "a.txt")]
    failed, read = _Worker(pickle.dumps(parts)).results(items)
    assert failed.skipped and "sage-rag[files]" in failed.skipped.reason and failed.skipped.unopened
    assert read.chunks == 1


def test_without_a_cluster_or_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = fill(tmp_path / "docs", {"a.txt": "The ferry."})
    ray.shutdown()
    with pytest.raises(SageError, match="no Ray cluster at 'auto'"):
        run(FolderStore(tmp_path / "store"), docs, address="auto")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"sage-rag\[ray\]"):
        run(FolderStore(tmp_path / "store"), docs)
    assert not (tmp_path / "store").exists()
