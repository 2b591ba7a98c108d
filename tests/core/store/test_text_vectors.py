"""Text vectors in the store: what a question is spared, and what becomes of them whatever happens."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from sage_core.pipeline.config import SageConfig
from sage_core.pipeline.ingest import ingest
from sage_core.pipeline.sage import Sage
from sage_core.ranking import HybridReranker
from sage_core.store.chunks import Found
from sage_core.store.folder import FolderStore
from tests.core.store.test_store import crash
from tests.fakes.models import BlankLineSegmenter, HashEmbedder
from tests.fakes.stores import TEXTS, contents, fill

pytestmark = pytest.mark.slow

MAKER = "hash"
SENTENCES = {"two.txt": "The ferry sails at seven. It returns at nine.\n\nOne sentence only.\n"}


def run(store: Path, folder: Path, *, rebuild: bool = False) -> None:
    embedder = HashEmbedder()
    with FolderStore(store) as opened:
        ingest(
            opened,
            [folder],
            BlankLineSegmenter(),
            embedder,
            rebuild=rebuild,
            reranker=HybridReranker(embedder),
        )


def found(store: Path, vector_model: str | None = MAKER) -> list[Found]:
    with FolderStore(store) as opened:
        return opened.search_many(HashEmbedder().embed_documents(["the"]), 1000, vector_model=vector_model)[0]


def check(store: Path) -> None:
    """Every chunk has the vectors of its text, and there is no file that no chunk needs."""
    embedder = HashEmbedder()
    hits = found(store)
    assert hits
    for hit in hits:
        assert hit.vectors is not None
        [expected] = HybridReranker(embedder).text_vectors([hit.chunk.text])
        np.testing.assert_allclose(hit.vectors.chunk, expected.chunk, atol=1e-3)
        np.testing.assert_allclose(hit.vectors.sentences, expected.sentences, atol=1e-3)
    with closing(sqlite3.connect(store / "store.sqlite3")) as connection:
        [rows] = connection.execute("SELECT COUNT(*) FROM text_vectors").fetchone()
        [size] = connection.execute("SELECT SUM(length(vectors)) FROM text_vectors").fetchone()
    assert rows == len(hits)
    with FolderStore(store) as opened:
        assert opened.info().text_vector_bytes == size


def test_a_new_store_has_them_and_every_change_keeps_them_in_step(tmp_path: Path) -> None:
    folder, store = fill(tmp_path / "docs"), tmp_path / "store"
    run(store, folder)
    check(store)
    with FolderStore(store) as opened:
        assert opened.info().text_vector_bytes == 64 * 2 * 6
    (folder / "ferry.txt").write_text("No ferry today. None tomorrow.")
    (folder / "sub" / "light.txt").unlink()
    run(store, folder)
    check(store)
    for name in ("ferry.txt", "mill.md"):
        (folder / name).write_text(f"Another {name}.")
    run(store, folder)
    check(store)
    run(store, fill(folder), rebuild=True)
    check(store)


def test_they_are_given_only_to_who_made_them(tmp_path: Path) -> None:
    store = tmp_path / "store"
    run(store, fill(tmp_path / "docs"))
    assert all(hit.vectors is None for hit in found(store, None) + found(store, "another model"))


@pytest.mark.parametrize("step", [("append", 2), ("replace", 2), ("count", 2), ("compact", 1), ("move", 1)])
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
        assert sage.store.info().text_vector_bytes == 0
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


def test_several_questions_are_searched_at_once_as_one_by_one(tmp_path: Path) -> None:
    # The same paragraph in many places, so that a first search comes short of different texts.
    texts = {f"{i}.txt": f"The same ferry sails.\n\nPage {i} of the log." for i in range(40)}
    store = tmp_path / "store"
    run(store, fill(tmp_path / "docs", texts))
    vectors = HashEmbedder().embed_documents(["the same ferry sails", "page 3 of the log", "the mill"])
    with FolderStore(store) as opened:
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
