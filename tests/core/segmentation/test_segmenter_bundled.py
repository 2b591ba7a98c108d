"""The segmenter with the model that comes with the package."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sage_core.segmentation import Segmenter
from sage_core.segmentation.models.load import load_model
from sage_core.segmentation.models.protocol import BoundaryModel

ARTICLE = """The harbour of Senna was built in three stages. The first wall, of dressed stone, kept the winter
swell out of the inner basin. A second wall followed forty years later, when grain ships had outgrown the old
entrance. The third was never finished.

Bread in the town is baked before dawn. The dough rests overnight in wooden troughs, which gives it a sour
crust. Most bakers still use the millstones of their grandparents. Visitors often buy a loaf for the ferry.

Every autumn a choir competition fills the square. Choirs from the islands sing in the afternoon, and the
judges give their verdict after dark. The winner leads the procession to the harbour."""


@pytest.fixture(scope="module")
def segmenter() -> Segmenter:
    return Segmenter()


def test_topics_are_told_apart(segmenter: Segmenter) -> None:
    flat = ARTICLE.replace("\n\n", " ").replace("\n", " ")  # no layout to lean on
    found = {b.position: b.probability for b in segmenter.boundaries(flat)}
    changes = [found.pop(flat.index(start)) for start in ("Bread in the town", "Every autumn")]
    assert max(changes) < sum(found.values()) / len(found)


def test_paragraphs_are_chunks(segmenter: Segmenter) -> None:
    assert [chunk.of(ARTICLE) for chunk in segmenter.segment(ARTICLE)] == ARTICLE.split("\n\n")


def test_the_model_is_loaded_once_on_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[int] = []
    barrier = threading.Barrier(4)

    def load(name: str) -> BoundaryModel:
        loads.append(1)
        return load_model(name)

    monkeypatch.setattr("sage_core.segmentation.models.load.load_model", load)
    segmenter = Segmenter()
    assert not loads

    def work(_: int) -> int:
        barrier.wait()
        return len(segmenter.segment(ARTICLE))

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(work, range(4)))) == 1
    assert len(loads) == 1


def test_pickles_are_small_and_know_their_model(segmenter: Segmenter) -> None:
    segmenter.segment(ARTICLE)
    data = pickle.dumps(segmenter)
    assert len(data) < 5_000
    again = pickle.loads(data)
    assert again.fingerprint == segmenter.fingerprint
    assert again.segment(ARTICLE) == segmenter.segment(ARTICLE)


def test_a_text_that_is_no_unicode_can_be_explained():
    view = Segmenter().explain("\ud800 One sentence. And \udfff another.")
    assert len(view.boundaries) == 1 and sum(view.tokens) > 0
