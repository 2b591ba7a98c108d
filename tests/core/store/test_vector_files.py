"""Text vectors beside the store: what a question is spared, and what becomes of them whatever happens."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from sage_core.pipeline.config import SageConfig
from sage_core.pipeline.ingest import ingest
from sage_core.pipeline.sage import Sage
from sage_core.ranking import HybridReranker, TextVectors
from sage_core.store.chroma_store import ChromaStore
from sage_core.store.chunks import Found
from sage_core.store.vector_files import VectorFiles
from tests.core.store.test_store import crash
from tests.fakes.models import BlankLineSegmenter, HashEmbedder
from tests.fakes.stores import TEXTS, contents, fill

MAKER = "hash"
SENTENCES = {"two.txt": "The ferry sails at seven. It returns at nine.\n\nOne sentence only.\n"}


def run(store: Path, folder: Path, *, rebuild: bool = False) -> None:
    embedder = HashEmbedder()
    with ChromaStore(store) as opened:
        ingest(
            opened,
            [folder],
            BlankLineSegmenter(),
            embedder,
            rebuild=rebuild,
            reranker=HybridReranker(embedder),
        )


def found(store: Path, maker: str | None = MAKER) -> list[Found]:
    with ChromaStore(store) as opened:
        return opened.search_many(HashEmbedder().embed_documents(["the"]), 1000, maker=maker)[0]


def check(store: Path) -> None:
    """Every chunk has the vectors of its text, and there is no file that no chunk needs."""
    embedder, needed = HashEmbedder(), set()
    hits = found(store)
    assert hits
    for hit in hits:
        assert hit.vectors is not None
        [expected] = HybridReranker(embedder).text_vectors([hit.chunk.text])
        np.testing.assert_allclose(hit.vectors.chunk, expected.chunk, atol=1e-3)
        np.testing.assert_allclose(hit.vectors.sentences, expected.sentences, atol=1e-3)
    with sqlite3.connect(store / "manifest.sqlite3") as manifest:
        needed = {row[0] for row in manifest.execute("SELECT file FROM vector_files")}
        versions = {row[0] for row in manifest.execute("SELECT version FROM vector_files")}
        assert versions == {row[0] for row in manifest.execute("SELECT version FROM documents")}
    assert {path.name for path in (store / "vectors").iterdir()} == needed


def test_what_is_written_is_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    many = [TextVectors(rng.standard_normal(8), rng.standard_normal((n, 8))) for n in (3, 1, 5)]
    one = TextVectors(many[0].chunk, many[0].chunk[None, :])
    files = VectorFiles(tmp_path / "vectors")
    name, references = files.write("model", [*many, one])
    for reader in (files, VectorFiles(files.folder)):
        for vectors, reference in zip([*many, one], references, strict=True):
            read = reader.read("model", reference)
            assert read is not None and read.sentences.dtype == np.float16
            np.testing.assert_allclose(read.chunk, vectors.chunk, atol=5e-3)
            np.testing.assert_allclose(read.sentences, vectors.sentences, atol=5e-3)
    assert files.read("another model", references[0]) is None
    rows = (3 + 1 + 5) + 3 + 1  # a text of one sentence is one row
    assert files.size() == (files.folder / name).stat().st_size < 8 * 2 * rows + 200
    assert isinstance(np.load(files.folder / name, mmap_mode="r"), np.memmap)
    files.keep_only(())
    assert list(files.folder.iterdir()) == [] and files.size() == 0


@pytest.mark.parametrize("damage", ["gone", "cut", "empty", "other", "fewer rows"])
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, damage: str) -> None:
    store = tmp_path / "store"
    run(store, fill(tmp_path / "docs", SENTENCES))
    [path] = (store / "vectors").iterdir()
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    elif damage == "other":
        np.save(path, np.zeros((9, 64), dtype=np.float64))
    elif damage == "fewer rows":
        np.save(path, np.zeros((1, 64), dtype=np.float16))
    else:
        path.write_bytes(data[: len(data) // 2] if damage == "cut" else b"")
    vectors = [hit.vectors for hit in found(store)]
    assert vectors == [None, None]
    with make(store) as sage:
        assert len(sage.retrieve("When does the ferry sail?").candidates) == 2


def test_a_new_store_has_them_and_every_change_keeps_them_in_step(tmp_path: Path) -> None:
    folder, store = fill(tmp_path / "docs"), tmp_path / "store"
    run(store, folder)
    check(store)
    with ChromaStore(store) as opened:
        assert opened.info().text_vector_bytes > 64 * 2 * 6
    (folder / "ferry.txt").write_text("No ferry today. None tomorrow.")
    (folder / "sub" / "light.txt").unlink()
    run(store, folder)
    check(store)
    for name in ("ferry.txt", "mill.md"):
        (folder / name).write_text(f"Another {name}.")
    run(store, folder)
    check(store)
    assert len(list((store / "vectors").iterdir())) == 1  # the first two files held nothing that counts
    run(store, fill(folder), rebuild=True)
    check(store)


def test_they_are_given_only_to_who_made_them(tmp_path: Path) -> None:
    store = tmp_path / "store"
    run(store, fill(tmp_path / "docs"))
    assert all(hit.vectors is None for hit in found(store, None) + found(store, "another model"))


@pytest.mark.parametrize("step", [("vectors", 2), ("begin", 2), ("commit", 2), ("sweep", 3), ("swept", 1)])
def test_a_killed_run_leaves_nothing_that_the_next_does_not_mend(
    tmp_path: Path, step: tuple[str, int]
) -> None:
    folder, store = fill(tmp_path / "docs"), tmp_path / "store"
    run(store, folder)
    for name in TEXTS:
        (folder / name).write_text(f"Something else in {name}. It has two sentences.")
    crash(store, folder, *step)
    for hit in found(store):
        assert hit.vectors is not None
    run(store, folder)
    check(store)
    run(tmp_path / "clean", folder)
    assert contents(store) == contents(tmp_path / "clean")


def make(store: Path, embedder: HashEmbedder | None = None, **settings: bool) -> Sage:
    return Sage(
        store,
        segmenter=BlankLineSegmenter(),
        embedder=embedder or HashEmbedder(),
        config=SageConfig(**settings),  # type: ignore[arg-type]
    )


def test_a_question_embeds_nothing_but_itself(tmp_path: Path) -> None:
    folder = fill(tmp_path / "docs", {**TEXTS, **SENTENCES})
    with make(tmp_path / "store") as sage:
        sage.ingest(folder)
    with make(tmp_path / "plain", text_vectors=False) as sage:
        sage.ingest(folder)
        assert not (tmp_path / "plain" / "vectors").exists()
        expected = sage.retrieve("When does the ferry sail?")

    embedder = CountingEmbedder()
    with make(tmp_path / "store", embedder) as sage:
        retrieval = sage.retrieve("When does the ferry sail?")
    assert embedder.documents == []
    assert [c.chunk.text for c in retrieval.candidates] == [c.chunk.text for c in expected.candidates]
    scores = [c.score for c in expected.candidates]
    np.testing.assert_allclose([c.score for c in retrieval.candidates], scores, atol=2e-3)  # type: ignore[arg-type]


class CountingEmbedder(HashEmbedder):
    def __init__(self) -> None:
        super().__init__()
        self.documents: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        self.documents += texts
        return super().embed_documents(texts)

    def embed_query(self, text: str) -> np.ndarray:
        return super().embed_documents([text])[0]


def test_chunks_are_embedded_once_at_ingest(tmp_path: Path) -> None:
    embedder = CountingEmbedder()
    with make(tmp_path / "store", embedder) as sage:
        sage.ingest(fill(tmp_path / "docs", SENTENCES))
    assert sorted(embedder.documents) == [
        "It returns at nine.",
        "One sentence only.",
        "The ferry sails at seven.",
        "The ferry sails at seven. It returns at nine.",
    ]


def test_a_store_of_an_earlier_version_goes_on_without(tmp_path: Path) -> None:
    folder, store = fill(tmp_path / "docs"), tmp_path / "store"
    with make(store, text_vectors=False) as sage:
        sage.ingest(folder)
    with sqlite3.connect(store / "manifest.sqlite3") as manifest:
        manifest.execute("DROP TABLE vector_files")
    with make(store) as sage:
        assert sage.retrieve("When does the ferry sail?").candidates
        (folder / "mill.md").write_text("The mill is closed. It burned.")
        assert len(sage.ingest(folder).changed) == 1
    with_vectors = {hit.chunk.text for hit in found(store) if hit.vectors is not None}
    assert with_vectors == {"The mill is closed. It burned."}
    with sqlite3.connect(store / "manifest.sqlite3") as manifest:
        manifest.execute("DROP TABLE vector_files")
    run(store, folder, rebuild=True)
    check(store)


def test_several_questions_are_searched_at_once_as_one_by_one(tmp_path: Path) -> None:
    # The same paragraph in many places, so that a first search comes short of different texts.
    texts = {f"{i}.txt": f"The same ferry sails.\n\nPage {i} of the log." for i in range(40)}
    store = tmp_path / "store"
    run(store, fill(tmp_path / "docs", texts))
    vectors = HashEmbedder().embed_documents(["the same ferry sails", "page 3 of the log", "the mill"])
    with ChromaStore(store) as opened:
        together = opened.search_many(vectors, 12)
        assert together == [opened.search(vector, 12) for vector in vectors]
        assert opened.search_many(vectors[:0], 12) == []
    assert [len(hits) for hits in together] == [12, 12, 12]
    assert len({f.chunk.text for f in together[0]}) == 12


def test_threads_get_what_one_alone_gets(tmp_path: Path) -> None:
    store = tmp_path / "store"
    questions = [
        f"When does {what}?" for what in ("the ferry sail", "the mill spin", "the lamp burn", "it end")
    ]
    with make(store) as sage:
        sage.ingest(fill(tmp_path / "docs", {**TEXTS, **SENTENCES}))
        alone = {q: sage.retrieve(q) for q in questions}
        got: list[bool] = []

        def ask(question: str) -> None:
            got.extend(sage.retrieve(question) == alone[question] for _ in range(5))

        threads = [threading.Thread(target=ask, args=(q,)) for q in questions * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert got == [True] * 80


def test_few_files_are_kept_open_where_few_may_be(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        files = VectorFiles(tmp_path / "vectors")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    vectors = TextVectors(np.ones(4, np.float32), np.ones((2, 4), np.float32))
    references = [files.write("maker", [vectors])[1][0] for _ in range(80)]
    assert all(files.read("maker", reference) is not None for reference in references)
    assert len(files._open) == 64
