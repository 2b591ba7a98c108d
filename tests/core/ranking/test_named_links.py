"""Documents that the question and the best chunks name, and who vouches for whom."""

import doctest
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.ranking import links
from sage_core.ranking.links import (
    MAX_DOCUMENTS,
    MAX_NAMESAKES,
    SOURCES,
    Edge,
    NamedLink,
    NameIndex,
    Titled,
    link_edges,
    named_links,
    vouch_named,
    vouch_titled,
)
from sage_core.selection.scales import Scale
from sage_core.text.links import document_names

SCALES: tuple[Scale, ...] = ("probability", "logit", "cosine", "unbounded")


def index(*titles: str) -> NameIndex:
    return NameIndex({f"{title}#{i}": document_names(title) for i, title in enumerate(titles)})


def reached(question: str, text: str, names: NameIndex) -> list[str]:
    return [x.document for x in named_links(question, [text], ["here"], [0.5], names)]


def test_the_examples() -> None:
    assert doctest.testmod(links).failed == 0


def test_question_and_best_chunks_name_documents() -> None:
    names = index("Petrel", "Mara Holt", "Ferry")
    texts = ["The Petrel belonged to Mara Holt.", "Ferry."]
    found = named_links("Who owned the Petrel?", texts, ["Petrel#0", "x"], [0.2, math.nan], names)
    # No document names itself, and what has no score names nobody.
    assert found == [NamedLink(None, "Petrel#0", "Petrel"), NamedLink(0, "Mara Holt#1", "Mara Holt")]


def test_only_the_best_chunks_name_anybody() -> None:
    names = index("Mara Holt")
    texts = ["Mara Holt."] * (SOURCES + 2)
    scores = [i / 100 for i in range(len(texts))]
    found = named_links("Who?", texts, ["x"] * len(texts), scores, names)
    assert {x.source for x in found} == set(range(2, SOURCES + 2))


def test_words_that_many_chunks_have_are_no_names() -> None:
    counts = {"forecasting": 400, "petrel": 3}
    names = NameIndex({"f": ["forecasting"], "p": ["petrel"], "it": ["it"]}, count=lambda _: (counts, 1_000))
    assert reached("It is a Petrel, says forecasting.", "", names) == ["p"]


def test_a_name_of_many_documents_says_nothing_and_one_of_few_is_shared() -> None:
    assert reached("Report", "", index(*["Report"] * 10_000)) == []
    found = named_links("Report", [], [], [], index(*["Report"] * MAX_NAMESAKES))
    assert len(found) == MAX_NAMESAKES and {x.share for x in found} == {1 / MAX_NAMESAKES}


def test_a_text_that_names_5_000_documents_is_followed_to_the_first_ones() -> None:
    titles = [f"Number{i}" for i in range(5_000)]
    # A text is read only so far.
    assert reached("Number4999", " ".join(titles), index(*titles)) == [
        "Number4999#4999",
        *(f"Number{i}#{i}" for i in range(MAX_DOCUMENTS - 1)),
    ]


def test_two_that_name_each_other_vouch_once_each() -> None:
    edges = link_edges(
        [NamedLink(0, "b", "B"), NamedLink(1, "a", "A")], {"a": [(0, 0)], "b": [(1, 0), (2, 1)]}
    )
    assert edges == [Edge(0, 1, 0.4), Edge(0, 2, 0.2), Edge(1, 0, 0.4)]
    assert vouch_named([0.5, 0.5, 0.0], edges, "probability") == pytest.approx([0.6, 0.6, 0.1])


def test_the_question_vouches_as_a_certain_chunk() -> None:
    assert vouch_named([0.5], [Edge(None, 0, 0.6)], "probability") == pytest.approx([0.8])
    [logit] = vouch_named([0.0], [Edge(None, 0, 0.6)], "logit")
    assert logit == pytest.approx(math.log(0.8 / 0.2))
    assert vouch_named([0.1, 0.7], [Edge(None, 0, 0.5)], "cosine") == pytest.approx([0.3, 0.7])
    assert vouch_named([1.0, 9.0], [Edge(None, 0, 0.5)], "unbounded") == [5.5, 9.0]


@pytest.mark.parametrize("scale", SCALES)
@given(
    scores=st.lists(st.none() | st.floats(-1, 1) | st.just(math.nan), min_size=1, max_size=6), data=st.data()
)
def test_no_score_falls_and_none_stays_none(
    scale: Scale, scores: list[float | None], data: st.DataObject
) -> None:
    places = st.integers(0, len(scores) - 1)
    edge = st.builds(Edge, st.none() | places, places, st.floats(0, 1))
    vouched = vouch_named(scores, data.draw(st.lists(edge, max_size=6)), scale)
    for before, after in zip(scores, vouched, strict=True):
        if before is None or math.isnan(before):
            assert after is None
        else:
            assert after is not None and after >= min(before, 1.0)
            assert scale != "probability" or after <= 1


def test_a_heading_names_a_document_only_if_all_its_first_chunks_say_it() -> None:
    petrel = Titled("The Petrel belonged to Mara Holt.", "petrel.md")
    told = [Titled(f"# {name}\n\nBorn in Ulm.", "people.md") for name in ("Mara Holt", "Jon Reyes")]
    alone, both = (
        vouch_titled("Where?", [petrel, *some], [0.5] + [0.1] * len(some), "probability")
        for some in (told[:1], told)
    )
    assert alone[1] == pytest.approx(0.28) and both[1:] == [0.1, 0.1]
