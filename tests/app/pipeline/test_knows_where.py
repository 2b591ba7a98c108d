"""Chunks that know where they stand, from files to candidates: headers, words, neighbors; and without."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from sage_app.pipeline.settings import SageConfig
from sage_core.errors import InputError, StoreError
from sage_core.selection import FixedK
from tests.fakes.sages import small_sage
from tests.fakes.stores import fill

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


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    texts = {"harbor.md": HARBOR, "mill.txt": "The mill spins wool.\n\nThe sheep are brown.\n"}
    return fill(tmp_path / "docs", texts)


def test_models_read_the_header_and_nobody_else(tmp_path: Path, docs: Path) -> None:
    reads = Reads()
    with small_sage(tmp_path / "store", reranker=reads) as sage:
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
        with small_sage(tmp_path / f"store-{context}", reranker=Reads(), context=context) as sage:
            sage.ingest(docs)
            found = sage.retrieve("paid spins")
            scores[context] = {c.chunk.text: c.score for c in found.candidates}
            assert any(c.chunk.headings or c.chunk.header for c in found.candidates) == context
    assert scores[False]["The sheep are brown."] == 0
    assert scores[True]["The sheep are brown."] == pytest.approx(0.3 * 0.1)
    assert scores[True]["The mill spins wool."] == pytest.approx(scores[False]["The mill spins wool."])


def test_a_store_is_made_with_or_without(tmp_path: Path, docs: Path) -> None:
    with small_sage(tmp_path / "store") as sage:
        sage.ingest(docs)
    with small_sage(tmp_path / "store", context=False) as sage:
        with pytest.raises(StoreError, match="context"):
            sage.ingest(docs)
        assert sage.retrieve(QUESTION).candidates  # asking is allowed either way
        assert sage.ingest(docs, rebuild=True).chunks
    with pytest.raises(InputError, match="context"):
        SageConfig(context="yes")  # type: ignore[arg-type]


def test_the_floor_counts_what_the_prompt_holds(tmp_path: Path, docs: Path) -> None:
    floor = 35
    settings = {"rule": FixedK(1), "min_context_tokens": floor}
    with small_sage(tmp_path / "store", reranker=Reads(), **settings) as sage:
        sage.ingest(docs)
        found = sage.retrieve(QUESTION)
    sent = [c.tokens_in_prompt for c in found.hits]
    assert all(c.place_tokens for c in found.hits)
    assert sum(sent) >= floor > sum(sent[:-1]) and sum(c.tokens for c in found.hits) < floor
