"""Evidence and ranking metrics against cases worked out by hand, and against counting characters one by one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sage_eval.metrics import (
    Overlap,
    complete,
    evidence_overlap,
    found_evidence,
    mrr_at,
    ndcg_at,
    pooled_precision,
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
    assert overlap.iou == pytest.approx(20 / (30 + 67 - 20))


def test_pooled_precision_weighs_by_length():
    long, short = Overlap(10, 10, 100), Overlap(10, 10, 10)
    assert pooled_precision([long, short]) == pytest.approx(20 / 110)
    assert pooled_precision([]) == 0
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
    assert 0 <= overlap.iou <= min(overlap.recall, overlap.precision) or not overlap.shared


def test_evidence_is_found_by_pieces_together():
    evidence = [place(0, 10), place(20, 40)]
    assert found_evidence([piece(0, 3), piece(6, 9)], evidence) == (True, False)
    assert found_evidence([piece(0, 3)], evidence) == (False, False)
    assert found_evidence([piece(20, 30)], evidence) == (False, True)
    assert found_evidence([piece(20, 30)], evidence, share=1.0) == (False, False)
    with pytest.raises(InputError, match="share"):
        found_evidence([], evidence, share=0)


def test_a_piece_is_relevant_by_what_it_holds_or_by_what_it_is():
    evidence = [place(100, 200)]
    inside, half, edge, beside = piece(120, 130), piece(0, 150), piece(90, 115), piece(300, 310)
    assert relevant_pieces([inside, half, edge, beside], evidence) == (True, True, True, False)
    assert relevant_pieces([piece(0, 115), piece(120, 130, "e"), Piece("s", "d")], evidence) == (False,) * 3


def test_recall_mrr_ndcg_by_hand():
    evidence = [place(0, 10), place(50, 60)]
    ranked = [piece(200, 210), piece(0, 10), piece(300, 310), piece(50, 60)]
    assert [recall_at(ranked, evidence, k) for k in (1, 2, 3, 4, 99)] == [0, 0.5, 0.5, 1, 1]
    assert [mrr_at(ranked, evidence, k) for k in (1, 2, 10)] == [0, 0.5, 0.5]
    gain = 1 / math.log2(3) + 1 / math.log2(5)
    assert ndcg_at(ranked, evidence, 10) == pytest.approx(gain / (1 + 1 / math.log2(3)))
    assert ndcg_at(ranked, evidence, 2) == pytest.approx((1 / math.log2(3)) / (1 + 1 / math.log2(3)))
    ideal = 1 + 1 / math.log2(3) + 1 / math.log2(4)
    assert ndcg_at(ranked, evidence, 10, relevant=3) == pytest.approx(gain / ideal)
    assert ndcg_at([piece(200, 210)], evidence, 10) == 0
    assert ndcg_at([piece(0, 10), piece(50, 60)], evidence, 10) == 1
    with pytest.raises(InputError, match="2 relevant pieces"):
        ndcg_at(ranked, evidence, 10, relevant=1)


@pytest.mark.parametrize("function", [recall_at, mrr_at, ndcg_at])
def test_rankings_need_evidence_and_a_rank(function):
    with pytest.raises(InputError, match="no evidence"):
        function([piece(0, 1)], [], 3)
    with pytest.raises(InputError, match="k is at least 1"):
        function([piece(0, 1)], [place(0, 1)], 0)


def test_complete_asks_for_every_document_or_for_every_span():
    evidence = [place(0, 10), place(20, 30), place(0, 10, "e")]
    both, one = [piece(0, 10), piece(0, 10, "e")], [piece(0, 30)]
    assert complete(both, evidence) == 1
    assert complete(one, evidence) == 0
    assert complete(both, evidence, every_span=True) == 0
    assert complete([*one, *both], evidence, every_span=True) == 1
    with pytest.raises(InputError, match="no evidence"):
        complete(both, [])
