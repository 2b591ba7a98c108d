"""Neighbors that vouch: who is beside whom, and what that does on each scale."""

import doctest
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.errors import InputError
from sage_core.ranking import Links, Place, link, neighbors, vouch

SCALES = ("probability", "logit", "cosine", "unbounded")


def test_the_example():
    assert doctest.testmod(neighbors).failed == 0


def test_neighbors_are_told_by_document_and_place():
    places = [
        Place("b", 0, 90),
        Place("a", 100, 190),
        Place("a", 0, 98),  # a blank line before the next
        Place("a", 300, 350),  # something lies between
        None,
        Place("a", 180, 260),  # overlaps
    ]
    assert link(places) == [Links(), Links(2, 5), Links(None, 1), Links(), Links(), Links(1, None)]


def test_numbered_chunks_are_neighbors_only_where_no_number_is_missing():
    places = [Place("a", i, i + 1) for i in (4, 2, 3, 7)]
    assert link(places, longest_gap=0) == [Links(2, None), Links(None, 2), Links(1, 0), Links()]


def test_the_same_chunk_twice_vouches_not_for_itself():
    places = [Place("a", 0, 10), Place("a", 0, 10), Place("a", 0, 5), Place("a", 11, 20)]
    links = link(places)
    assert links[3].previous == 0 and links[1] == links[2] == Links()


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60), st.integers(1, 30)), max_size=12))
def test_links_point_both_ways(rows):
    places = [Place(d, start, start + length) for d, start, length in rows]
    links = link(places)
    for i, (previous, following) in enumerate(links):
        if previous is not None:
            assert links[previous].next == i and places[previous].document == places[i].document
            assert places[previous].start < places[i].start <= places[previous].end + 16
        if following is not None:
            assert links[following].previous == i


CHAIN = [Links(None, 1), Links(0, 2), Links(1, None)]


def test_by_hand():
    assert vouch([0.5, 0.2, 0.0], CHAIN, "probability", weight=0.4) == pytest.approx(
        [1 - 0.5 * 0.92, 1 - 0.8 * 0.8 * 1.0, 1 - 0.92 * 0.9]
    )
    assert vouch([0.6, 0.3, 0.3], CHAIN, "cosine", weight=0.5) == pytest.approx(
        [0.825 / 1.75, 0.75 / 2, 0.6 / 1.75]
    )
    assert vouch([2.0, -1.0, 4.0], CHAIN, "unbounded", weight=0.5) == pytest.approx([3.0, 2.0, 4.5])
    logits = vouch([0.0, -3.0, -8.0], CHAIN, "logit", weight=0.4)
    p = [1 / (1 + math.exp(-x)) for x in (0.0, -3.0, -8.0)]
    expected = vouch(p, CHAIN, "probability", weight=0.4)
    assert [1 / (1 + math.exp(-x)) for x in logits] == pytest.approx(expected)


def test_three_steps_away_is_the_last_and_each_counts_half_of_the_one_before():
    row = [Links(i - 1 if i else None, i + 1 if i < 5 else None) for i in range(6)]
    assert vouch([0.0] * 5 + [1.0], row, "unbounded", weight=0.4) == pytest.approx([0, 0, 0.1, 0.2, 0.4, 1])


@given(
    st.lists(st.floats(0, 1), min_size=3, max_size=3),
    st.lists(st.floats(0, 1), min_size=3, max_size=3),
    st.sampled_from(SCALES),
)
def test_more_evidence_never_lowers_any_score(scores, more, scale):
    higher = [max(a, b) for a, b in zip(scores, more, strict=True)]
    for low, high in zip(vouch(scores, CHAIN, scale), vouch(higher, CHAIN, scale), strict=True):
        assert high >= low - 1e-9


@pytest.mark.parametrize("scale", SCALES)
def test_what_gives_no_score_vouches_for_nobody(scale):
    for nothing in (None, math.nan):
        assert vouch([0.5, nothing], [*CHAIN[:1], Links(0)], scale) == [0.5, None]
    assert vouch([0.5, -math.inf], [*CHAIN[:1], Links(0)], scale) == [0.5, -math.inf]
    assert vouch([0.5, 0.25, 0.125], [Links()] * 3, scale) == [0.5, 0.25, 0.125]
    assert vouch([0.5, 0.25, 0.125], CHAIN, scale, weight=0) == [0.5, 0.25, 0.125]
    assert vouch([0.5, -math.inf], [Links(1, 1), Links(0, 0)], scale)[0] == 0.5, "in a ring"
    assert vouch([], [], scale) == []


def test_what_is_wrong_is_said():
    with pytest.raises(InputError, match="links"):
        vouch([0.1, 0.2], [Links()], "cosine")
    with pytest.raises(InputError, match="scale"):
        vouch([0.1], [Links()], "percent")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="weight"):
        vouch([0.1], [Links()], "cosine", weight=2)
