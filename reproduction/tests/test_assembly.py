"""Assembly of context: examples by hand, and properties over random selections of a random text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sage_eval.methods.context import Passage, build_context

from sage_core.errors import InputError
from sage_core.text.spans import Span
from sage_core.text.tokens import CallableCounter, get_counter

TEXT = "Salt first. Then oil.\n\nThe lamp burns. A gull cries."
SALT, OIL, LAMP, GULL = Span(0, 11), Span(12, 21), Span(23, 38), Span(39, 52)
WORDS = get_counter("words")


def passage(span, text=TEXT, document="a"):
    return Passage(span.of(text), document, span)


def texts(passages):
    return [p.text for p in passages]


def test_document_order_with_documents_by_their_best_chunk():
    other = "Bees sleep. Bees dance."
    chunks = [
        passage(GULL),
        passage(Span(12, 23), other, "b"),
        passage(SALT),
        Passage("From the air."),
        passage(Span(0, 11), other, "b"),
    ]
    result = build_context(chunks, join=False)
    assert texts(result) == ["Salt first.", "A gull cries.", "Bees sleep.", "Bees dance.", "From the air."]
    assert [p.members for p in result] == [(2,), (0,), (4,), (1,), (3,)]
    assert texts(build_context(chunks, order="rank")) == texts(chunks)


def test_white_space_between_chunks_comes_from_the_document():
    chunks = [passage(LAMP), passage(OIL), passage(SALT)]
    (whole,) = build_context(chunks, sources={"a": TEXT})
    assert whole == Passage(TEXT[:38], "a", Span(0, 38), (2, 1, 0))
    assert texts(build_context(chunks)) == ["Salt first.", "Then oil.", "The lamp burns."]


def test_a_missing_chunk_between_two_keeps_them_apart():
    result = build_context([passage(SALT), passage(LAMP), passage(GULL)], sources={"a": TEXT})
    assert texts(result) == ["Salt first.", "The lamp burns. A gull cries."]


def test_touching_and_overlapping_chunks_join_without_the_document():
    result = build_context([passage(Span(5, 20)), passage(Span(0, 5)), passage(Span(12, 30))])
    assert result == [Passage(TEXT[:30], "a", Span(0, 30), (1, 0, 2))]


def test_duplicates_go():
    chunks = [passage(SALT), passage(OIL), passage(SALT), Passage("Then oil.", "copy", Span(0, 9))]
    assert [p.members for p in build_context(chunks, join=False)] == [(0,), (1,)]


def test_a_chunk_inside_another_gives_it_its_place():
    chunks = [passage(OIL), passage(GULL), passage(Span(0, 38)), passage(LAMP)]
    result = build_context(chunks, order="rank")
    assert [p.members for p in result] == [(2,), (1,)]


def test_the_budget_drops_the_worst_first_and_keeps_the_best():
    chunks = [passage(LAMP), passage(SALT), passage(GULL)]
    for limit, kept in [(8, 3), (7, 2), (5, 2), (4, 1), (1, 1)]:
        result = build_context(chunks, order="rank", max_tokens=limit, counter=WORDS)
        assert [p.members[0] for p in result] == list(range(kept)), limit
    assert len(build_context(chunks, max_tokens=10_000)) == 3


def test_nothing_gives_nothing():
    assert build_context([]) == []
    assert build_context([], max_tokens=5, order="rank") == []


@pytest.mark.parametrize(
    ("chunks", "arguments", "message"),
    [
        ([Passage("abc", "a", Span(0, 2))], {}, "cannot lie"),
        ([Passage("abc", "a", Span(-1, 2))], {}, "cannot lie"),
        ([Passage("abc", "a", Span(0, 3))], {"sources": {"a": TEXT}}, "another text"),
        ([], {"order": "random"}, "unknown order"),
        ([], {"max_tokens": 0}, "max_tokens"),
    ],
)
def test_bad_input(chunks, arguments, message):
    with pytest.raises(InputError, match=message):
        build_context(chunks, **arguments)


@st.composite
def selections(draw):
    documents = draw(st.lists(st.text("ab \n", min_size=1, max_size=40), min_size=1, max_size=3))
    chunks = []
    for _ in range(draw(st.integers(0, 8))):
        name = draw(st.integers(0, len(documents) - 1))
        start = draw(st.integers(0, len(documents[name]) - 1))
        span = Span(start, draw(st.integers(start + 1, len(documents[name]))))
        chunks.append(passage(span, documents[name], name))
    return dict(enumerate(documents)), chunks


@given(selections(), st.booleans(), st.booleans(), st.sampled_from(["rank", "document"]))
def test_every_passage_is_a_slice_and_nothing_selected_is_lost(selection, known, join, order):
    documents, chunks = selection
    result = build_context(chunks, order=order, join=join, sources=documents if known else None)
    for p in result:
        assert p.text == p.span.of(documents[p.document])
    for chunk in chunks:
        assert any(chunk.text in p.text for p in result)
    members = [m for p in result for m in p.members]
    assert len(members) == len(set(members))
    for p in result:
        covered = {i for m in p.members for i in range(*chunks[m].span)}
        assert covered <= set(range(*p.span))
        assert not documents[p.document].strip() or all(
            documents[p.document][i].isspace() for i in set(range(*p.span)) - covered
        )


@given(selections(), st.integers(1, 30))
def test_the_budget_holds_and_what_goes_ranks_below_what_stays(selection, limit):
    _, chunks = selection
    chars = CallableCounter(len, "chars")
    free = build_context(chunks, order="rank")
    result = build_context(chunks, order="rank", max_tokens=limit, counter=chars)
    assert result == free[: len(result)]
    if len(result) > 1:
        assert sum(len(p.text) for p in result) <= limit
    if len(result) < len(free):
        assert sum(len(p.text) for p in free[: len(result) + 1]) > limit
    assert bool(result) == bool(chunks)
