"""Chunks that know where they stand, from files to candidates: headers, words, neighbors; and without."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from sage_core.errors import InputError, StoreError
from sage_core.pipeline.config import SageConfig
from sage_core.pipeline.sage import Sage
from sage_core.store import ChromaStore
from tests.fakes.models import BlankLineSegmenter, HashEmbedder

HARBOR = """# Harbor rules

Everybody reads them.

## Dues

They are paid on arrival.

## Boats

They carry a lamp.
"""
QUESTION = "harbor dues paid"


class Reads:
    """Counts words that the question and the text share, and remembers what it read."""

    name = "reads"
    scale = "probability"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        self.texts = list(texts)
        asked = set(query.split())
        return [len(asked & set(text.lower().split())) / 10 for text in texts]


def make(store: Path | ChromaStore, reranker: object = None, **settings: object) -> Sage:
    return Sage(
        store,
        segmenter=BlankLineSegmenter(),
        embedder=HashEmbedder(),
        reranker=reranker,  # type: ignore[arg-type]
        config=SageConfig(**settings),  # type: ignore[arg-type]
    )


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "harbor.md").write_text(HARBOR)
    (folder / "mill.txt").write_text("The mill spins wool.\n\nThe sheep are brown.\n")
    return folder


def test_models_read_the_header_and_nobody_else(tmp_path: Path, docs: Path) -> None:
    reads = Reads()
    with make(tmp_path / "store", reads) as sage:
        sage.ingest(docs)
        found = sage.retrieve(QUESTION)
    paid = next(c for c in found.candidates if "arrival" in c.chunk.text)
    assert paid.chunk.text == "They are paid on arrival."
    assert HARBOR[paid.chunk.start : paid.chunk.end] == paid.chunk.text
    assert (paid.chunk.title, paid.chunk.headings) == ("Harbor rules", ("Harbor rules", "Dues"))
    assert "Harbor rules > Dues\nThey are paid on arrival." in reads.texts
    assert paid.tokens == sage.counter.count(paid.chunk.text)
    assert found.texts(found.selection)[0] in HARBOR
    data = paid.to_dict()
    assert data["headings"] == ["Harbor rules", "Dues"] and data["position"] == paid.chunk.position
    assert "header" not in data


def test_neighbors_vouch(tmp_path: Path, docs: Path) -> None:
    scores = {}
    for context in (True, False):
        with make(tmp_path / f"store-{context}", Reads(), context=context) as sage:
            sage.ingest(docs)
            found = sage.retrieve("paid spins")
            scores[context] = {c.chunk.text: c.score for c in found.candidates}
    assert scores[False]["The sheep are brown."] == 0
    assert scores[True]["The sheep are brown."] == pytest.approx(0.3 * 0.1)
    assert scores[True]["The mill spins wool."] == pytest.approx(scores[False]["The mill spins wool."])


def test_without_context_each_chunk_is_by_itself(tmp_path: Path, docs: Path) -> None:
    reads = Reads()
    with make(tmp_path / "store", reads, context=False) as sage:
        sage.ingest(docs)
        found = sage.retrieve(QUESTION)
    assert "They are paid on arrival." in reads.texts
    assert not any(c.chunk.headings or c.chunk.header for c in found.candidates)


def test_a_store_is_made_with_or_without(tmp_path: Path, docs: Path) -> None:
    with make(tmp_path / "store") as sage:
        sage.ingest(docs)
    with make(tmp_path / "store", context=False) as sage:
        with pytest.raises(StoreError, match="context"):
            sage.ingest(docs)
        assert sage.retrieve(QUESTION).candidates  # asking is allowed either way
        assert sage.ingest(docs, rebuild=True).chunks
    with pytest.raises(InputError, match="context"):
        SageConfig(context="yes")  # type: ignore[arg-type]


def test_the_word_index_adds_half_as_many_candidates(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    for i in range(150):
        (folder / f"{i:03}.txt").write_text(f"The pump of the ferry, number {i}.\n")
    (folder / "seal.txt").write_text("Seal QX-77 fits.\n")
    with make(tmp_path / "store", Reads(), candidates=4) as sage:
        sage.ingest(folder)
        found = sage.retrieve("the pump of the ferry number with seal QX-77")
    assert 4 < len(found.candidates) <= 6
    assert any(c.chunk.text == "Seal QX-77 fits." for c in found.candidates)
