"""Vectors in many small files: whatever is written, replaced, removed and moved, a search finds what there is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sage_app.store import FolderStore, folder, segments
from sage_app.store.chunks import Chunk, NewDocument, chunk_ids
from sage_app.store.identity import StoreIdentity
from sage_core.embedding.protocol import unit_rows
from sage_core.errors import StoreError

DIMENSION = 70  # no multiple of 64
IDENTITY = StoreIdentity("random", np.ones(DIMENSION, np.float32), "none")


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (folder, segments):
        monkeypatch.setattr(module, "ROWS", 16)
    monkeypatch.setattr(folder, "_LEAST_DEAD", 4)


def made(rng: np.random.Generator, name: str, chunks: int, edition: int) -> NewDocument:
    digest = f"{edition:0>64}"[::-1]
    spans = [(i, i + 1) for i in range(chunks)]
    ids = chunk_ids(name, digest, spans)
    vectors = unit_rows(rng.standard_normal((chunks, DIMENSION)))
    texts = [f"{name} {edition} {i}" for i in range(chunks)]
    return NewDocument(
        name, digest, [Chunk(ids[i], texts[i], name, *spans[i]) for i in range(chunks)], vectors
    )


def expected(
    documents: dict[str, NewDocument], query: NDArray[np.float32], n: int
) -> tuple[list[str], list[float]]:
    pairs = [
        (float(v @ query), c.text)
        for d in documents.values()
        for c, v in zip(d.chunks, d.vectors, strict=True)
    ]
    pairs.sort(reverse=True)
    return [text for _, text in pairs[:n]], [cosine for cosine, _ in pairs[:n]]


@pytest.mark.slow
@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("search", ["exact", "by signs", "by half of the signs first"])
def test_any_series_of_changes(
    tmp_path: Path, seed: int, search: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if search != "exact":  # the list of candidates is as long as the store, but found by signs
        shortlist = segments.Index._shortlist
        monkeypatch.setattr(
            segments.Index, "_shortlist", lambda self, query, _: shortlist(self, query, 1_000)
        )
        for name in ("_EXACT", "_SHORTLIST", "_SHORTLIST_LEAST"):
            monkeypatch.setattr(segments, name, 0)
    if "half" in search:
        for name, value in {"_HALVED": 0, "_HALVED_WORDS": 2, "_SAMPLED": 1}.items():
            monkeypatch.setattr(segments, name, value)
    rng = np.random.default_rng(seed)
    there: dict[str, NewDocument] = {}
    reader = FolderStore(tmp_path / "store")
    for step in range(25):
        with FolderStore(tmp_path / "store") as store, store.writing(IDENTITY):
            for _ in range(rng.integers(1, 5)):
                names = [f"d{i}" for i in rng.choice(12, size=3, replace=False)]
                kind = rng.integers(4)
                if kind == 0:
                    store.remove(*names)
                    for name in names:
                        there.pop(name, None)
                elif kind == 1:
                    whole = made(rng, names[0], int(rng.integers(1, 40)), step)
                    parts = np.array_split(np.arange(len(whole.chunks)), 3)
                    store.put_parts(
                        NewDocument(
                            whole.source, whole.digest, [whole.chunks[i] for i in p], whole.vectors[p]
                        )
                        for p in parts
                    )
                    there[names[0]] = whole
                else:
                    new = [made(rng, name, int(rng.integers(1, 9)), step) for name in names]
                    store.put(new)
                    there.update((d.source, d) for d in new)
        total = sum(len(d.chunks) for d in there.values())
        assert reader.info().chunks == total
        for query in unit_rows(rng.standard_normal((3, DIMENSION))):
            found = reader.search(query, 7)
            texts, cosines = expected(there, query, 7)
            assert [f.similarity for f in found] == pytest.approx(cosines, abs=1e-4)
            assert [f.chunk.text for f in found] == texts
        assert len(reader.search(query, 1000)) == total
    reader.close()
    # Files that hold nothing are gone.
    files = len(list((tmp_path / "store" / "vectors").iterdir()))
    assert files <= 3 + 3 * total // 16


@pytest.mark.usefixtures("small_files")
def test_a_search_after_a_change_opens_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    with FolderStore(tmp_path / "store") as reader, FolderStore(tmp_path / "store") as writer:
        with writer.writing(IDENTITY):
            writer.put([made(rng, f"d{i}", 8, 0) for i in range(40)])
        query = made(rng, "q", 1, 0).vectors[0]
        opened: list[int] = []
        open_segment = segments.Segment.open

        def counted(path: Path, first: int, *rest: Any) -> segments.Segment:
            opened.append(first)
            return open_segment(path, first, *rest)

        monkeypatch.setattr(segments.Segment, "open", counted)
        reader.search(query, 5)
        assert len(opened) == 20
        opened.clear()
        reader.search(query, 5)
        assert opened == []
        with writer.writing(IDENTITY):
            writer.put([made(rng, "d7", 3, 1)])
        opened.clear()
        assert {f.chunk.text for f in reader.search(query, 1000) if f.chunk.source == "d7"} == {
            "d7 1 0",
            "d7 1 1",
            "d7 1 2",
        }
        assert opened == [320]


def test_signs_are_counted_without_numpy_2_too() -> None:
    words = np.random.default_rng(0).integers(0, 1 << 63, (3, 50), dtype=np.uint64)
    table = np.array([i.bit_count() for i in range(1 << 16)], dtype=np.uint8)
    segments._TABLE = table  # type: ignore[attr-defined]
    counts = segments._bit_counts_by_table(words)
    assert counts.tolist() == [[int(w).bit_count() for w in row] for row in words]


@pytest.mark.parametrize("halved", [False, True])
def test_the_nearest_are_found_among_many(
    tmp_path: Path, halved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if halved:
        monkeypatch.setattr(segments, "_HALVED", 0)
        monkeypatch.setattr(segments, "_HALVED_WORDS", 2)
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((300, DIMENSION))
    vectors = unit_rows(centres[rng.integers(0, 300, 6_000)] + 0.7 * rng.standard_normal((6_000, DIMENSION)))
    segments.write_rows(tmp_path / "a.vec", 0, vectors)
    index = segments.Index([segments.Segment.open(tmp_path / "a.vec", 0, 6_000, DIMENSION)], [None])
    hits = total = 0
    for query in unit_rows(centres[:50] + 0.7 * rng.standard_normal((50, DIMENSION))):
        best = set(np.argsort(-(vectors @ query))[:20].tolist())
        hits += len(best & {row for row, _ in index.nearest(query, 20)})
        total += 20
    assert hits / total > 0.99


@pytest.mark.usefixtures("small_files")
def test_a_map_serves_until_the_file_grows_beyond_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_STEP", 4)
    opened: list[int] = []
    whole = segments.Segment.open.__func__  # type: ignore[attr-defined]

    def open_(cls: type, path: Path, first: int, rows: int, dimension: int) -> segments.Segment:
        opened.append(rows)
        return whole(cls, path, first, rows, dimension)  # type: ignore[no-any-return]

    monkeypatch.setattr(segments.Segment, "open", classmethod(open_))
    rng = np.random.default_rng(0)
    writer, reader = FolderStore(tmp_path), FolderStore(tmp_path)
    documents: dict[str, NewDocument] = {}
    seen = []
    for i in range(9):
        documents[f"{i}"] = made(rng, f"{i}", 1, 0)
        with writer.writing(IDENTITY):
            writer.put([documents[f"{i}"]])
        opened.clear()
        query = unit_rows(rng.standard_normal((1, DIMENSION)))[0]
        found = reader.search(query, 20)
        seen += opened
        texts, cosines = expected(documents, query, 20)
        assert [f.chunk.text for f in found] == texts
        assert [f.similarity for f in found] == pytest.approx(cosines, abs=1e-3)
    assert seen == [1, 5, 9]
    [path] = (tmp_path / "vectors").iterdir()
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 6 * DIMENSION * 2)
    with pytest.raises(StoreError, match="damaged"):
        reader.search(query, 20)
