"""What an ingest costs: unchanged files a stat, large files bounded memory, and how it tells how far it is."""

import io
import os
import threading
import time
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

import sage_app.pipeline.ingest
from sage_app.cli.ingest import show_report
from sage_app.documents.discovery import source_of
from sage_app.documents.reader import Document
from sage_app.pipeline import progress as progress_lines
from sage_app.pipeline.ingest import IngestProgress, ingest
from sage_app.store.folder import FolderStore
from sage_core.errors import InputError
from sage_core.text.spans import Span
from tests.fakes.models import BlankLineSegmenter, HashEmbedder
from tests.fakes.stores import contents, fill, ingested, names, run


def age(folder: Path, seconds: float = 3600) -> None:
    """Let the files look as if they had been written a while ago, and the clock have moved on."""
    for path in folder.rglob("*.*"):
        os.utime(path, (time.time() - seconds,) * 2)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file counts as settled at once: its change time cannot be set back."""
    monkeypatch.setattr(sage_app.pipeline.ingest, "_SETTLED", -1.0)


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    read, paths = sage_app.pipeline.ingest.read_changed, []

    def counted(path: Path, *known: str, **options: str | None) -> Document | None:
        paths.append(path.name)
        return read(path, *known, **options)

    monkeypatch.setattr(sage_app.pipeline.ingest, "read_changed", counted)
    return paths


@pytest.mark.usefixtures("settled")
def test_an_unchanged_file_costs_a_stat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, store = ingested(tmp_path)
    reads = count_reads(monkeypatch)
    assert len(run(store, folder).unchanged) == 3 and reads == []
    # As long as before, and with the same modification time.
    status = (folder / "mill.md").stat()
    (folder / "mill.md").write_bytes((folder / "mill.md").read_bytes().replace(b"wool", b"silk"))
    os.utime(folder / "mill.md", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert names(run(store, folder).changed) == {"mill.md"} and reads == ["mill.md"]
    # Other times, the same content: read once more, and no more.
    age(folder)
    reads.clear()
    assert len(run(store, folder).unchanged) == 3 and len(reads) == 3
    assert len(run(store, folder / "mill.md", folder).unchanged) == 3 and len(reads) == 3
    # The encoding is part of it.
    with FolderStore(store) as opened:
        ingest(opened, [folder], BlankLineSegmenter(), HashEmbedder(), encoding="cp1252")
    assert len(reads) == 6


@pytest.mark.parametrize("gap", ["\n\n", "\r\n\r\n"])
def test_a_large_document_is_segmented_and_written_in_parts(
    tmp_path: Path, gap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"large.txt": gap.join(f"Line {i} of the log." for i in range(50)), "small.txt": "A page."}
    folder = fill(tmp_path / "docs", texts)
    run(tmp_path / "whole", folder)
    monkeypatch.setattr(sage_app.pipeline.ingest, "_LARGE_CHARACTERS", 100)
    monkeypatch.setattr(sage_app.pipeline.ingest, "_PART_CHUNKS", 8)
    monkeypatch.setattr(sage_app.pipeline.ingest, "_PIECE_CHARACTERS", 70)
    embedder, seen = HashEmbedder(), []
    with FolderStore(tmp_path / "store") as store:
        report = ingest(store, [folder], BlankLineSegmenter(), embedder, progress=seen.append)
        [found] = store.search_many(embedder.embed_documents(["line of the log"]), 60)
        assert len(found) == report.chunks == 51
        assert [s.chunks for s in seen][:3] == [8, 16, 24]
        assert [s.done for s in seen] == sorted(s.done for s in seen)
    assert contents(tmp_path / "store") == contents(tmp_path / "whole")
    assert len(run(tmp_path / "store", folder).unchanged) == 2

    # One that fails in the middle leaves what was there.
    class Failing(HashEmbedder):
        def embed_documents(self, texts: list[str]) -> NDArray[np.float32]:  # type: ignore[override]
            if any("Line 30" in text for text in texts):
                raise InputError("no more")
            return super().embed_documents(texts)

    before = contents(tmp_path / "store")
    fill(folder, {"large.txt": texts["large.txt"] + "\n\nThe end."})
    with pytest.raises(InputError):
        run(tmp_path / "store", folder, embedder=Failing())
    assert contents(tmp_path / "store") == before
    assert len(run(tmp_path / "store", folder).changed) == 1
    assert len(contents(tmp_path / "store")) == len(before) + 1


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_files(tmp_path: Path) -> None:
    def peak(files: int) -> int:
        folder = tmp_path / str(files)
        fill(
            folder,
            {f"{i}.txt": f"Page {i}.\n\n" + ("A line of the log. " * 6 + "\n\n") * 100 for i in range(files)},
        )
        tracemalloc.start()
        try:
            run(tmp_path / f"store-{files}", folder)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(60) < 1.5 * peak(20)


class WatchedSegmenter(BlankLineSegmenter):
    def __init__(self) -> None:
        super().__init__()
        self.calls, self.second = 0, threading.Event()

    def segment_many(self, texts: Iterable[str]) -> list[list[Span]]:
        self.calls += 1
        if self.calls == 2:
            self.second.set()
        return super().segment_many(texts)


def test_files_are_segmented_while_others_are_embedded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sage_app.pipeline.ingest, "_BATCH_CHARACTERS", 1)
    segmenter = WatchedSegmenter()

    class Waiting(HashEmbedder):
        def embed_documents(self, texts: list[str]) -> NDArray[np.float32]:  # type: ignore[override]
            assert segmenter.second.wait(10), "nothing was read ahead"
            return super().embed_documents(texts)

    with FolderStore(tmp_path / "store") as store:
        report = ingest(store, [fill(tmp_path / "docs")], segmenter, Waiting())
    assert len(report.added) == 3


def test_an_error_ends_the_thread_that_reads_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sage_app.pipeline.ingest, "_BATCH_CHARACTERS", 1)

    class Failing(HashEmbedder):
        def embed_documents(self, texts: list[str]) -> NDArray[np.float32]:  # type: ignore[override]
            if len(texts) > 1:
                raise KeyboardInterrupt
            return super().embed_documents(texts)

    class FailingSegmenter(BlankLineSegmenter):
        def segment_many(self, texts: Iterable[str]) -> list[list[Span]]:
            raise InputError("no segments")

    folder = fill(tmp_path / "docs", {f"{i}.txt": f"Page {i}.\n\nOf ten." for i in range(10)})
    with FolderStore(tmp_path / "store") as store:
        with pytest.raises(KeyboardInterrupt):
            ingest(store, [folder], BlankLineSegmenter(), Failing())
        with pytest.raises(InputError, match="segments"):
            ingest(store, [folder], FailingSegmenter(), HashEmbedder())
    assert not [t for t in threading.enumerate() if t.name == "sage-ingest"]


def test_time_left_is_told_by_what_there_is_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(progress_lines.time, "monotonic", lambda: clock[0])
    out = io.StringIO()
    with progress_lines.ingest_bar(Console(file=out, width=200)) as show:
        # 900 of 1,000 bytes were there; a tenth of the others took ten seconds.
        for seconds, done in ((1, 900), (10, 910), (12, 912), (20, 920), (21, 999), (22, 1000)):
            clock[0] = 100.0 + seconds
            show(IngestProgress(done, 1000, 7, 1234, "x", 900))
    assert out.getvalue().splitlines() == [
        "ingesting: 91%, 7 files, 1,234 chunks, 1 min 30 s left, 10 s so far",
        "ingesting: 92%, 7 files, 1,234 chunks, 1 min 20 s left, 20 s so far",
        "ingesting: 100%, 7 files, 1,234 chunks, 22 s so far",
    ]


def test_what_was_there_already_is_told_in_progress(tmp_path: Path) -> None:
    folder, store = ingested(tmp_path)
    (folder / "new.txt").write_text("A new page.")
    seen: list[IngestProgress] = []
    with FolderStore(store) as opened:
        ingest(opened, [folder], BlankLineSegmenter(), HashEmbedder(), progress=seen.append)
    assert seen[-1].done == seen[-1].total and seen[-1].total - seen[-1].unchanged == len("A new page.")


def test_other_types_below_a_folder_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = fill(tmp_path / "docs")
    for name in ("a.log", "b.log", "sub/c.XYZ", "LICENSE", ".hidden.log"):
        (folder / name).write_text("{}\n")
    report = run(tmp_path / "store", folder)
    assert dict(report.other_types) == {".log": 2, ".xyz": 1, "": 1}
    assert report.complete and not report.skipped
    show_report(report, "store")
    assert "left out: 4 files of other types (.log 2, no suffix 1, .xyz 1)" in capsys.readouterr().out
    assert run(tmp_path / "store", folder / "LICENSE").added == (source_of(folder / "LICENSE"),)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.log").write_text("{}")
    with pytest.raises(InputError, match=r"\.log"):
        run(tmp_path / "store", tmp_path / "other")


def test_a_file_ingested_by_name_stays_when_its_folder_is_ingested(tmp_path: Path) -> None:
    folder = fill(tmp_path / "docs")
    (folder / "crew.log").write_text("The crew met at seven and left at eight.\n")
    run(tmp_path / "store", folder / "crew.log")
    report = run(tmp_path / "store", folder)
    assert not report.removed and source_of(folder / "crew.log") in report.unchanged
    (folder / "crew.log").write_text("The crew met at nine, and nobody left before ten.\n")
    assert run(tmp_path / "store", folder).changed == (source_of(folder / "crew.log"),)
    (folder / "crew.log").unlink()
    gone = run(tmp_path / "store", folder)
    assert gone.removed == (source_of(folder / "crew.log"),)
