"""Nothing that a document, a file name or an LLM holds reaches the terminal as a command."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sage_core import Span, Verdict
from sage_core.segmentation import Boundary, SegmentationView
from sage_core.text.sanitize import one_line, terminal_safe
from tests.fakes.results_to_show import HOSTILE, answer, hostile, retrieval

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202d\u202e]")


def printed(result: object) -> str:
    """As it is printed to something that is no terminal, so that every escape is the text's own."""
    out = io.StringIO()
    Console(file=out, width=200, color_system=None).print(result)
    return out.getvalue()


@given(st.text(st.characters(codec=None)))
def test_no_control_character_is_left(text: str):
    safe = terminal_safe(text)
    assert not CONTROLS.search(safe)
    safe.encode("utf-8")
    assert terminal_safe(safe) == safe


def test_controls_are_shown():
    assert terminal_safe("a\x1b[31mb\x00\x7f\x9b") == "a␛[31mb␀␡�"
    assert terminal_safe("one\r\ntwo\rthree\x0cfour\x85five") == "one\ntwo\nthree\nfour\nfive"
    assert one_line(" a\t\x1b b\r\n c ") == "a ␛ b c"


ESCAPES = (
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x9b2J",
    "\x1b]8;;http://evil.invalid\x1b\\link\x1b]8;;\x1b\\",
    "[/] [red]x",
    *HOSTILE,
)


@pytest.mark.parametrize("part", ["answer", "retrieval", "feedback"])
def test_results_print_no_escape_of_a_document(part: str):
    result = hostile(ESCAPES)
    shown = {
        "answer": result,
        "retrieval": result.retrieval,
        "feedback": result.feedback,
    }[part]
    out = printed(shown)
    assert not CONTROLS.search(out)
    assert "␛" in out


def test_statements_carry_the_number_of_their_passage_or_say_that_there_is_none():
    texts = ["The ferry leaves at seven. It carries forty cars.", "Seals live in the harbor.", "Bees."]
    said = "The ferry leaves at seven. Tickets cost nine crowns on Sundays."
    out = printed(answer(retrieval([0.9, 0.8, 0.1], texts), [said], [Verdict(9, 0)]))
    assert "The ferry leaves at seven. [1] Tickets cost nine crowns on Sundays. [not in the passages]" in out
    assert "[1] file-0.md:0  The ferry leaves at seven." in out
    assert "1 of 2 statements supported by the passages, 1 not in the passages" in out


def test_segments_print_no_escape():
    wild = " ".join(ESCAPES)
    view = SegmentationView(wild, [Span(0, 10), Span(10, len(wild))], [2, 9], [Boundary(5, 0.5)])
    out = printed(view)
    assert not CONTROLS.search(out) and "␛" in out


def test_marks_that_put_text_into_another_order_are_shown() -> None:
    assert terminal_safe("a\u202eb\u2066c\u2069") == "a�b�c�"
