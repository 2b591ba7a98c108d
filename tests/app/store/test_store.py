"""The store on disk and ingest: unchanged, changed and deleted files, other models, and crashes at every step."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sage_app.pipeline.ingest import IngestProgress, ingest
from sage_app.store.folder import FolderStore
from sage_app.store.identity import StoreIdentity
from sage_core.errors import InputError, ModelError, StoreError
from tests.fakes.models import BlankLineSegmenter, HashEmbedder
from tests.fakes.stores import TEXTS, contents, fill, ingested, names, raw_count, run


def test_ingest_and_search(tmp_path: Path) -> None:
    folder, store = fill(tmp_path / "docs"), tmp_path / "store"
    report = run(store, folder)
    assert names(report.added) == {"ferry.txt", "mill.md", "light.txt"}
    assert (report.chunks, report.chunks_in_store, report.documents_in_store) == (6, 6, 3)
    with FolderStore(store) as opened:
        best, *_ = opened.search(HashEmbedder().embed_query("who spins brown wool"), 3)
    assert best.chunk.text == "The mill spins wool from brown sheep."
    assert 0.3 < best.similarity <= 1.0
    text = (folder / "mill.md").read_bytes().decode()
    assert text[best.chunk.start : best.chunk.end] == best.chunk.text
    assert best.chunk.source == str(folder / "mill.md")


def test_only_what_changed_is_embedded(tmp_path: Path) -> None:
    folder, store = ingested(tmp_path)
    (folder / "mill.md").write_text("The mill is closed.")
    (folder / "new.txt").write_text("A new page.")
    (folder / "ferry.txt").unlink()
    embedder = HashEmbedder()
    report = run(store, folder, embedder=embedder)
    assert names(report.changed) == {"mill.md"}
    assert names(report.added) == {"new.txt"}
    assert names(report.removed) == {"ferry.txt"}
    assert names(report.unchanged) == {"light.txt"}
    assert embedder.texts_embedded == 3  # the probe and two chunks
    texts = {text for _, _, text in contents(store)}
    assert texts == {
        "The mill is closed.",
        "A new page.",
        "The lamp was lit in 1854.",
        "The tower is of granite.",
    }
    assert raw_count(store) == 4


def test_only_what_came_from_the_given_paths_is_removed(tmp_path: Path) -> None:
    one, two, store = fill(tmp_path / "docs"), fill(tmp_path / "docs-two"), tmp_path / "store"
    run(store, one, two)
    (one / "ferry.txt").unlink()
    (two / "ferry.txt").unlink()
    report = run(store, one)
    assert report.removed == (str(one / "ferry.txt"),)
    assert run(store, two).removed == (str(two / "ferry.txt"),)


def test_a_deleted_file_or_folder_that_is_named_again_is_removed(tmp_path: Path) -> None:
    folder, store = ingested(tmp_path)
    (folder / "mill.md").unlink()
    assert names(run(store, folder / "mill.md").removed) == {"mill.md"}
    for path in (folder / "ferry.txt", folder / "sub" / "light.txt"):
        path.unlink()
    assert names(run(store, folder).removed) == {"ferry.txt", "light.txt"}
    with pytest.raises(InputError):
        run(store, folder)


def test_input_errors_come_before_anything_is_written(tmp_path: Path) -> None:
    folder, store = fill(tmp_path / "docs"), tmp_path / "store"
    (tmp_path / "empty").mkdir()
    (folder / "picture.txt").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    for paths, message in (
        ([tmp_path / "none"], "none"),
        ([tmp_path / "empty"], "empty"),
        ([folder / "ferry.txt", folder / "picture.txt"], r"picture\.txt"),
        ([fill(tmp_path / "blank", {"a.txt": "", "b.txt": " "})], "2 files"),
        ([], "path"),
    ):
        with pytest.raises(InputError, match=message):
            run(store, *paths)
        assert not store.exists()


@pytest.mark.parametrize(
    ("embedder", "message"),
    [
        (HashEmbedder("other"), "'hash'.*'other'"),
        (HashEmbedder(dimension=32), "64.*32"),
        (HashEmbedder(salt="x"), "weights"),
    ],
)
def test_another_embedding_model_is_refused(tmp_path: Path, embedder: HashEmbedder, message: str) -> None:
    folder, store = ingested(tmp_path)
    (folder / "mill.md").write_text("Changed.")
    before = contents(store)
    with pytest.raises(StoreError, match=message):
        run(store, folder, embedder=embedder)
    assert contents(store) == before
    assert run(store, folder, embedder=embedder, rebuild=True).chunks_in_store == 5


def test_another_segmenter_is_refused_until_rebuilt(tmp_path: Path) -> None:
    folder, store = ingested(tmp_path)
    with FolderStore(store) as opened:
        with pytest.raises(StoreError, match=r"segmenter.*other"):
            ingest(opened, [folder], BlankLineSegmenter("other"), HashEmbedder())
        report = ingest(opened, [folder], BlankLineSegmenter("other"), HashEmbedder(), rebuild=True)
        assert len(report.added) == 3
        assert opened.info().segmenter == "other+context"
        assert len(opened.search(HashEmbedder().embed_query("the"), 100)) == 6
    assert raw_count(store) == 6


def test_no_store(tmp_path: Path) -> None:
    for action in (lambda s: s.info(), lambda s: s.search(HashEmbedder().embed_query("x"), 3)):
        with pytest.raises(StoreError):
            action(FolderStore(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_a_database_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "chroma.sqlite3").write_bytes(b"theirs")
    for rebuild in (False, True):
        with pytest.raises(StoreError, match="Chroma"):
            run(theirs, fill(tmp_path / "docs"), rebuild=rebuild)
    assert (theirs / "chroma.sqlite3").read_bytes() == b"theirs"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])


DAMAGE = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "cut": cut,
    "garbage": lambda path: path.write_bytes(b"not a database" * 500),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["store.sqlite3", "vectors/*.vec"])
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("opened_before", [False, True])
def test_a_damaged_store_says_so_and_can_be_rebuilt(
    tmp_path: Path, name: str, damage: str, opened_before: bool
) -> None:
    folder, store = ingested(tmp_path)
    before = contents(store)
    query = HashEmbedder().embed_query("the")
    with FolderStore(store) as reader:
        if opened_before:
            reader.search(query, 3)
        [path] = store.glob(name)
        DAMAGE[damage](path)
        with pytest.raises(StoreError, match="--rebuild"):
            reader.search(query, 3)
        (folder / "mill.md").write_text("Changed.")
        with pytest.raises(StoreError, match="--rebuild"):
            run(store, folder)
        fill(folder)
        run(store, folder, rebuild=True)
        assert len(reader.search(query, 100)) == 6
    assert contents(store) == before


@pytest.mark.parametrize("name", ["store.sqlite3-wal", "store.sqlite3-shm"])
def test_damage_to_what_can_be_done_without_loses_nothing(tmp_path: Path, name: str) -> None:
    folder, store = ingested(tmp_path)
    before = contents(store)
    (store / name).write_bytes(b"not a database" * 500)
    assert contents(store) == before
    (folder / "mill.md").write_text("Changed.")
    assert len(run(store, folder).changed) == 1


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    folder, store = ingested(tmp_path)
    embedder = HashEmbedder()
    identity = StoreIdentity("hash", np.zeros(0, dtype=np.float32))
    with FolderStore(store) as first, first.writing(identity):
        with pytest.raises(StoreError, match="process"):
            run(store, folder, embedder=embedder)
        assert len(first.search(embedder.embed_query("the"), 10)) == 6  # searching goes on
    run(store, folder)


def test_a_repeated_text_is_found_once(tmp_path: Path) -> None:
    folder = fill(tmp_path / "docs", {f"{i}.txt": f"Same  words.\n\nOnly {i} here." for i in range(9)})
    run(tmp_path / "store", folder)
    with FolderStore(tmp_path / "store") as opened:
        found = opened.search(HashEmbedder().embed_query("same words"), 5)
    assert len(found) == 5
    [same] = [f for f in found if f.chunk.text == "Same  words."]
    assert {Path(c.source).name for c in (same.chunk, *same.copies)} == {f"{i}.txt" for i in range(9)}
    assert all(c.text == "Same  words." and c.position == 0 for c in same.copies)


# -- crashes ------------------------------------------------------------------------------------------------


def crash(store: Path, folder: Path, step: str, count: int, *rebuild: str) -> None:
    """Run an ingest in a process of its own that is killed at this step."""
    script = Path(__file__).with_name("crash.py")
    command = [sys.executable, str(script), str(store), str(folder), step, str(count), *rebuild]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "count", "documents"),
    [
        ("create", 1, None),
        ("clear up", 1, 0),
        ("append", 2, 1),
        ("replace", 1, 0),
        ("chunks", 3, 2),
        ("count", 3, 2),
        ("compact", 1, 3),
    ],
)
def test_a_first_ingest_that_is_killed_is_finished_by_the_next(
    tmp_path: Path, step: str, count: int, documents: int | None
) -> None:
    folder, store = fill(tmp_path / "docs"), tmp_path / "store"
    crash(store, folder, step, count)
    if documents is not None:
        assert len(contents(store)) == 2 * documents  # whole documents, and no others
    report = run(store, folder)
    assert len(report.unchanged) == (documents or 0)
    run(tmp_path / "clean", folder)
    assert contents(store) == contents(tmp_path / "clean")
    assert raw_count(store) == 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "count", "changed"),
    [
        ("append", 1, 0),
        ("replace", 1, 0),
        ("count", 1, 0),
        ("append", 2, 1),
        ("count", 2, 1),
        ("remove", 1, 2),
        ("count", 3, 2),
        ("compact", 1, 3),
        ("move", 1, 3),
        ("delete", 2, 3),
    ],
)
def test_an_update_that_is_killed_leaves_old_or_new(
    tmp_path: Path, step: str, count: int, changed: int
) -> None:
    folder, store = fill(tmp_path / "docs"), tmp_path / "store"
    (folder / "same.txt").write_text("This page stays as it is.")
    run(store, folder)
    old = contents(store)
    (folder / "ferry.txt").write_text("No ferry today.\n\nNone tomorrow.\n\nPerhaps on Friday.")
    (folder / "mill.md").write_text("The mill burned down.")
    (folder / "sub" / "light.txt").unlink()
    run(tmp_path / "clean", folder)
    new = contents(tmp_path / "clean")

    crash(store, folder, step, count)
    now = contents(store)
    # Each document is wholly as it was or wholly as it should be.
    for source in {s for _, s, _ in old}:
        chunks = {c for c in now if c[1] == source}
        assert chunks in ({c for c in old if c[1] == source}, {c for c in new if c[1] == source})
    done = {s for s in {s for _, s, _ in old} if "same" not in s and of(now, s) == of(new, s)}
    assert len(done) == changed

    run(store, folder)
    assert contents(store) == new
    assert raw_count(store) == len(new)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "count", "is_new"),
    [("clear up", 1, False), ("count", 2, False), ("publish", 1, False), ("delete", 2, True)],
)
def test_a_rebuild_that_is_killed_leaves_old_or_new(
    tmp_path: Path, step: str, count: int, is_new: bool
) -> None:
    folder, store = ingested(tmp_path)
    old = contents(store)
    fill(folder, {name: f"Now {name} is new." for name in TEXTS})
    run(tmp_path / "clean", folder)
    new = contents(tmp_path / "clean")
    with FolderStore(store) as reader:
        reader.search(HashEmbedder().embed_query("the"), 1)
        crash(store, folder, step, count, "rebuild")
        assert reader.info().chunks == len(new if is_new else old)
    assert contents(store) == (new if is_new else old)
    run(store, folder)
    assert contents(store) == new and raw_count(store) == len(new)
    assert not list(store.glob("rebuild*")) and len(list(store.glob("vectors/*"))) == 1


class FailingEmbedder(HashEmbedder):
    """Another model than the store's, whose server goes away after the second document."""

    calls = 0

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls += 1
        if self.calls == 4:  # the first is the probe
            raise ModelError("the server is gone")
        return super().embed_documents(texts)


def test_a_rebuild_that_fails_leaves_the_store_to_its_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sage_app.pipeline.ingest._BATCH_CHARACTERS", 1)
    folder, store = ingested(tmp_path)
    old = contents(store)
    query = HashEmbedder().embed_query("the")
    during: list[int] = []
    with FolderStore(store) as reader, FolderStore(store) as writer:

        def look(_: IngestProgress) -> None:
            during.append(len(reader.search(query, 100)))

        fill(folder, {name: f"Now {name} is new." for name in TEXTS})
        arguments = [folder], BlankLineSegmenter()
        with pytest.raises(ModelError):
            failing = FailingEmbedder("other", dimension=32)
            ingest(writer, *arguments, failing, rebuild=True, progress=look)
        assert during == [6, 6] and contents(store) == old
        assert ingest(writer, *arguments, HashEmbedder()).changed  # with the model that the store has
        assert len(reader.search(query, 100)) == 3
        ingest(writer, *arguments, HashEmbedder("other", dimension=32), rebuild=True, progress=look)
        assert during == [6, 6, 3, 3, 3]
        assert reader.info().embedder == "other"
        assert len(reader.search(HashEmbedder(dimension=32).embed_query("new"), 100)) == 3
    assert len(list(store.glob("vectors/*"))) == 1


def of(chunks: set[tuple[str, str, str]], source: str) -> set[tuple[str, str, str]]:
    return {chunk for chunk in chunks if chunk[1] == source}
