"""Evidence in two places, joined by a name: from files to candidates."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from sage_app.pipeline.results import NamedBy, Retrieval
from sage_app.pipeline.settings import SageConfig
from sage_app.rendering.rows import retrieval_rows
from sage_core.errors import InputError
from tests.fakes.sages import small_sage
from tests.fakes.stores import fill

QUESTION = "who owned the petrel"
TEXTS = {
    "petrel.md": "# Petrel\n\nThe Petrel was owned by Mara Holt who sold it.\n",
    "holt.md": "# Mara Holt (1820)\n\nBorn near Ulm.\n\nRaised goats.\n",
    **{f"{i}.md": f"# Rules {i}\n\nwho owned the boat number {i} the year\n" for i in range(40)},
}


class Shared:
    """Counts words that the question and the text share; notes how often it is called, and with how many."""

    name = "shared"
    scale = "probability"

    def __init__(self) -> None:
        self.calls: list[int] = []

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        self.calls.append(len(texts))
        return [len({*query.split()} & {*text.lower().split()}) / 8 for text in texts]


def retrieve(folder: Path, reranker: object, question: str = QUESTION, **settings: object) -> Retrieval:
    with small_sage(folder / "store", reranker=reranker, candidates=5, **settings) as sage:
        if not sage.store.exists:
            sage.ingest(fill(folder / "docs", TEXTS))
        retrieval = sage.retrieve(question)
        assert asyncio.run(sage.aretrieve(question)).to_dict() == retrieval.to_dict()
        return retrieval


def of(retrieval: Retrieval, name: str) -> list[int]:
    return [i for i, c in enumerate(retrieval.candidates) if Path(c.chunk.source).name == name]


def test_a_document_that_the_best_chunk_names_joins_and_is_vouched_for(tmp_path: Path) -> None:
    reranker = Shared()
    without = retrieve(tmp_path, reranker, links=False)
    assert not of(without, "holt.md") and not any(c.named_by for c in without.candidates)
    assert len(reranker.calls) == 2  # once for each of both ways
    found = retrieve(tmp_path, reranker)
    first, second, third = (found.candidates[i] for i in of(found, "holt.md"))
    [petrel] = [c for c in found.candidates if "sold" in c.chunk.text]
    beside = 1 - (1 - 4 / 8) * (1 - 0.3 * 1 / 8)  # the heading before it vouches too
    assert (petrel.own_score, first.own_score) == (4 / 8, 0) and first.score == pytest.approx(0.4 * beside)
    assert first.named_by == second.named_by == third.named_by == (NamedBy("Mara Holt", petrel.chunk.id),)
    assert petrel.named_by == (NamedBy("petrel"),)
    assert reranker.calls[2:4] == [len(found.candidates) - 3, 3], "what is scored already is not scored again"


def test_a_comparison_that_names_two_documents_gets_both(tmp_path: Path) -> None:
    found = retrieve(tmp_path, Shared(), "owned the boat: Mara Holt or Petrel?")
    assert of(found, "holt.md") and of(found, "petrel.md")
    assert found.candidates[of(found, "holt.md")[0]].named_by[0] == NamedBy("Mara Holt")


def test_names_are_not_followed_without_context(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        SageConfig(links=1)  # type: ignore[arg-type]
    assert not of(retrieve(tmp_path, Shared(), context=False), "holt.md")


def test_who_names_a_document_is_said(tmp_path: Path) -> None:
    rows = retrieval_rows(retrieve(tmp_path, Shared()))
    holt, petrel = (next(r for r in rows if text in r.text) for text in ("# Mara Holt", "sold"))
    assert petrel.rank < holt.rank and holt.because == f"[{petrel.rank}] names it"
    assert petrel.because == "the question names it"


def test_a_passage_says_which_documents_it_names(tmp_path: Path) -> None:
    found = retrieve(tmp_path, Shared())
    [petrel] = [c for c in found.candidates if "sold" in c.chunk.text]
    names = {name: Path(source).name for name, source in found.names_in(petrel).items()}
    assert names == {"Mara Holt": "holt.md"}
    assert found.names_in(found.candidates[of(found, "holt.md")[0]]) == {}
