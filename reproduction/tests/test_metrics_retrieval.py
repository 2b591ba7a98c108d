"""Evidence and ranking metrics against cases worked out by hand, and against counting characters one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sage_eval.metrics.evidence import (
    Overlap,
    evidence_overlap,
    found_evidence,
    mrr_at,
    recall_at,
    relevant_pieces,
)
from sage_eval.records import Evidence, Piece

from sage_core.errors import InputError
from sage_core.text.spans import Span


def piece(start: int, end: int, document: str = "d") -> Piece:
    return Piece("x" * (end - start), document, Span(start, end))


def place(start: int, end: int, document: str = "d") -> Evidence:
    return Evidence(document, Span(start, end))


def test_overlap_by_hand_over_two_documents():
    evidence = [place(10, 30), place(0, 10, "e")]
    pieces = [piece(0, 20), piece(15, 25), piece(5, 25, "e"), piece(0, 10, "other"), Piece("summary", "d")]
    overlap = evidence_overlap(pieces, evidence)
    # Shared: d 10..25 and e 5..10; retrieved: 20 + 10 + 20 + 10 + 7 characters, repeats counted.
    assert overlap == Overlap(20, 30, 67)
    assert overlap.recall == pytest.approx(20 / 30)
    assert overlap.precision == pytest.approx(20 / 67)
    assert evidence_overlap([], [place(0, 1)]) == Overlap(0, 1, 0)


SPANS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 12), st.sampled_from("de")).map(
        lambda t: (t[0], t[0] + t[1], t[2])
    ),
    max_size=6,
)


@given(SPANS, SPANS)
def test_overlap_is_that_of_sets_of_characters(held, wanted):
    def characters(spans):
        return {(d, i) for a, b, d in spans for i in range(a, b)}

    overlap = evidence_overlap([piece(*s) for s in held], [place(*s) for s in wanted])
    assert overlap.shared == len(characters(held) & characters(wanted))
    assert overlap.evidence == len(characters(wanted))
    assert overlap.retrieved == sum(b - a for a, b, _ in held)


def test_evidence_is_found_by_pieces_together():
    evidence = [place(0, 10), place(20, 40)]
    assert found_evidence([piece(0, 3), piece(6, 9)], evidence) == (True, False)
    assert found_evidence([piece(0, 3)], evidence) == (False, False)
    assert found_evidence([piece(20, 30)], evidence) == (False, True)


def test_a_piece_is_relevant_by_what_it_holds_or_by_what_it_is():
    evidence = [place(100, 200)]
    inside, half, edge, beside = piece(120, 130), piece(0, 150), piece(90, 115), piece(300, 310)
    assert relevant_pieces([inside, half, edge, beside], evidence) == (True, True, True, False)
    assert relevant_pieces([piece(0, 115), piece(120, 130, "e"), Piece("s", "d")], evidence) == (False,) * 3


def test_recall_and_mrr_by_hand():
    evidence = [place(0, 10), place(50, 60)]
    ranked = [piece(200, 210), piece(0, 10), piece(300, 310), piece(50, 60)]
    assert [recall_at(ranked, evidence, k) for k in (1, 2, 3, 4, 99)] == [0, 0.5, 0.5, 1, 1]
    assert [mrr_at(ranked, evidence, k) for k in (1, 2, 10)] == [0, 0.5, 0.5]


@pytest.mark.parametrize("function", [recall_at, mrr_at])
def test_rankings_need_evidence_and_a_rank(function):
    with pytest.raises(InputError, match="no evidence"):
        function([piece(0, 1)], [], 3)
    with pytest.raises(InputError, match="k is at least 1"):
        function([piece(0, 1)], [place(0, 1)], 0)
