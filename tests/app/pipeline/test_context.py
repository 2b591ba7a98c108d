"""What `Sage` sends: best first, within a budget, never another text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sage_app.pipeline.sage import Sage
from sage_core.selection import Scale
from sage_core.selection.rules import FixedK
from tests.fakes.sages import small_sage

LOG = (
    "Day one: the ferry left at seven.\n\n"
    "Day two: the ferry, the ferry and again the ferry.\r\n\r\n"
    "Day three: nothing.\n \n"
    "Day four: the ferry came home.\n"
)
OTHER = "The ferry was painted.\n\nA ferry is a boat."
QUESTION = "where is the ferry"


class Counted:
    """Says how often the ferry is named, as a share."""

    name = "ferries"
    scale: Scale = "probability"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [min(t.count("ferry") / 4, 1.0) + (0.01 if "Day four" in t else 0) for t in texts]


def make(store: Path, **settings: Any) -> Sage:
    settings = {"min_k": 5, "max_k": 5, "context": False, **settings}
    return small_sage(store, reranker=Counted(), **settings)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    (folder / "log.txt").write_bytes(LOG.encode())
    (folder / "other.txt").write_bytes(OTHER.encode())
    with make(folder / "store") as sage:
        assert sage.ingest(folder).chunks == 6
    return folder / "store"


def test_the_lowest_scored_are_left_out_and_the_best_stays(store: Path) -> None:
    with make(store) as sage:
        everything = sage.retrieve(QUESTION)
    for budget in (1, 20, 35, 1000):
        with make(store, max_context_tokens=budget) as sage:
            found = sage.retrieve(QUESTION)
        assert found.selection.indices == everything.selection.indices[: found.selection.cut]
        assert found.tokens <= budget or found.selection.cut == 1
        fewer = found.selection.cut < everything.selection.cut
        assert fewer == ("max_context_tokens" in found.selection.reason) == (budget < 1000)
        if fewer:
            assert found.tokens + everything.candidates[found.selection.cut].tokens > budget


def test_the_floor_counts_what_the_prompt_holds_as_at_the_other_doors(store: Path) -> None:
    with make(store, rule=FixedK(1), min_k=None, max_k=None, min_context_tokens=35, context=True) as sage:
        found = sage.retrieve(QUESTION)
    sent = [c.tokens_in_prompt for c in found.hits]
    assert all(c.place_tokens for c in found.hits)
    assert sum(sent) >= 35 > sum(sent[:-1]) and sum(c.tokens for c in found.hits) < 35
