"""Headers: what they say of a chunk, that they fit, and what a word index keeps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.text.header import MAX_HEADER_TOKENS, SEPARATOR, header_parts, make_headers, with_header
from sage_core.text.keywords import index_terms, words
from sage_core.text.tokens import get_counter
from tests.fakes.growth import assert_linear

COUNTER = get_counter("words")


def headers(texts, parts, window=50):
    return make_headers(texts, parts, counter=COUNTER, window=window)


def test_parts_say_what_the_chunk_does_not():
    assert header_parts("It was lit in 1871.", "Harbor\n rules", ("Dues", "", "dues", "Boats")) == (
        "Harbor rules",
        "Dues",
        "Boats",
    )
    assert header_parts("## Boats\n\nTwo of them.", "Rules", ("Dues", "Boats")) == ("Rules", "Dues")
    assert header_parts("Rules\n=====\nAll pay.", "Rules", ("Rules",)) == ()
    assert header_parts("text", None) == header_parts("text", "  ") == ()


def test_headers_are_shortened_from_the_outside_in():
    text = "one two three"
    parts = ("Title of the whole", "Outer heading", "Inner heading")
    assert headers([text], [parts]) == [SEPARATOR.join(parts)]
    seen = [headers([text], [parts], window=w)[0] for w in range(30, 0, -1)]
    lines = list(dict.fromkeys(seen))
    assert lines == [SEPARATOR.join(parts), SEPARATOR.join(parts[1:]), parts[2], "Inner", ""]
    long = " ".join(f"w{i}" for i in range(500))
    [cut] = headers([text], [(long,)], window=1000)
    assert long.startswith(cut) and COUNTER.count(cut) == MAX_HEADER_TOKENS


@given(st.lists(st.text(max_size=30), max_size=4), st.text(max_size=60), st.integers(0, 40))
def test_header_and_text_never_exceed_the_window(headings, text, window):
    parts = header_parts(text, None, headings)
    [header] = headers([text], [parts], window=window)
    assert "\n" not in header
    assert not header or COUNTER.count(header) + COUNTER.count(text) <= window
    assert with_header(header, text).endswith(text)


def test_index_terms_keep_rare_names_and_scripts_without_spaces():
    assert index_terms("Order the XK-200/7b pumps") == [
        "order",
        "xk",
        "200",
        "7b",
        "pump",
        "xk-200/7b",
        "xk2007b",
    ]
    assert index_terms("well-known") == words("well-known") == ["well", "known"]
    assert index_terms("灯台は1871年") == ["灯台", "台は", "1871", "年"]
    assert index_terms("灯 x") == ["灯", "x"]
    assert index_terms("") == []


@pytest.mark.parametrize("unit", ["x", "x-", "x_", "_", "7/", "灯"])
def test_index_terms_take_linear_time(unit):
    # It took 100 times as long where a match was tried from every letter.
    assert_linear(lambda size: index_terms(unit * (size // len(unit)) + " - end"), size=20_000, times=10)


@given(st.text(max_size=60), st.text(max_size=20))
def test_a_question_finds_what_the_text_says(before, asked):
    found = set(index_terms(f"{before} {asked} {before}"))
    assert found.issuperset(index_terms(asked))


def test_a_short_question_and_a_long_text_lose_the_same_endings():
    text = "Los horarios del museo están en la puerta, y los de las visitas en una hoja que hay al lado."
    assert set(index_terms("horarios del museo")) <= set(index_terms(text))
