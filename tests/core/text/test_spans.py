"""Spans: trimming, and the check of spans that come from other people's code."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.errors import InputError
from sage_core.text.spans import Span, check_tiling, trim

TEXTS = st.text(alphabet=" ab\n\t\u2003é")


def test_a_span_is_a_slice() -> None:
    assert Span(2, 5).of("abcdefg") == "cde"
    assert Span(2, 5).shift(3) == Span(5, 8) == (5, 8)


@given(TEXTS, st.data())
def test_trim_removes_white_space_and_nothing_else(text: str, data) -> None:
    start = data.draw(st.integers(0, len(text)))
    span = Span(start, data.draw(st.integers(start, len(text))))
    inner = trim(text, span)
    assert inner.of(text) == span.of(text).strip()
    assert span.start <= inner.start <= inner.end <= span.end


@given(TEXTS, st.data())
def test_any_cuts_tile_their_text(text: str, data) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    pairs = list(zip([0, *cuts], [*cuts, len(text)], strict=True))
    spans = check_tiling(text, pairs)
    assert "".join("".join(span.of(text) for span in spans).split()) == "".join(text.split()), (
        "nothing is lost"
    )
    assert [span for span in spans if not span.of(text).strip()] == []


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(0, 3), (2, 7)], "starts before"),
        ([(0, 2), (3, 7)], "is in no span"),
        ([(0, 3)], "after character 3 is in no span"),
        ([], "is in no span"),
        ([(0, 8)], "outside"),
        ([(-1, 7)], "outside"),
        ([(3, 0), (3, 7)], "outside"),
    ],
)
def test_spans_that_lose_or_repeat_text_are_refused(spans: list[tuple[int, int]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_tiling("abc def", spans)
