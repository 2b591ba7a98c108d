"""Quotations are found in documents."""

import json
from pathlib import Path

import pytest

from sage_app.calibrate.quotations import QuotedQuestion, locate, read_questions
from sage_app.documents.reader import Document
from sage_core import InputError


def document(text: str, name: str = "/docs/a.md") -> Document:
    return Document(name, text, "markdown", digest=str(hash(text)))


def place(quote: str, text: str) -> str:
    """What a quotation is taken for, or why it is not found."""
    try:
        [[evidence]] = locate(QuotedQuestion("Why?", (quote,)), [document(text)])
    except InputError as error:
        return str(error).rpartition(": ")[0]
    return evidence.span.of(text)


@pytest.mark.parametrize(
    ("quote", "text", "found"),
    [
        ("THE FERRY  leaves\nat", "A: The ferry\r\n   leaves at\tseven.", "The ferry\r\n   leaves at"),
        ("art", "heart and cart", "not found"),
        ("(a) fee.", "The (a) fee.b", "(a) fee."),
        ("one", "one " * 30, "stands in 30 places: quote more"),
    ],
)
def test_a_quotation_is_found_whatever_its_white_space_and_case(quote: str, text: str, found: str) -> None:
    assert place(quote, text) == found


def test_any_of_several_places_will_do_and_all_quotations_are_needed() -> None:
    documents = [document("It opens at nine.", "/docs/a.md"), document("It opens at nine!", "/docs/b.md")]
    [both] = locate(QuotedQuestion("When?", ("opens at nine",)), documents)
    assert [e.document for e in both] == ["/docs/a.md", "/docs/b.md"]
    with pytest.raises(InputError, match="not found: 'Ann'"):
        locate(QuotedQuestion("Who?", ("at nine", "Ann")), documents)


def test_questions_are_read_and_a_wrong_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    lines = [
        {"question": " Why? ", "quote": "Because.", "question_id": 7, "note": "of last week"},
        {"question": "Who?", "quotes": ["She", "and he"]},
        {
            "qid": "1",
            "doc_id": "d",
            "question": "When?",
            "answers": [],
            "evidence": [{"start": 0, "end": 3, "text": "Now"}],
        },
    ]
    path.write_text("\n\n".join(map(json.dumps, lines)))
    assert read_questions(path) == [
        QuotedQuestion("Why?", ("Because.",)),
        QuotedQuestion("Who?", ("She", "and he")),
        QuotedQuestion("When?", ("Now",)),
    ]
    for line, message in (
        ('{"question": "Why?", "qoute": "x"}', "'quote' must be"),
        ('{"question": "Why?"}', "'quote' must be what answers"),
        ('{"question": " ", "quote": "x"}', "not blank"),
        ('{"question": "Why?", "quote": ""}', "'quote' must be what answers"),
        ('{"question": "1.5", "quote": 3}', "'quote'"),
        ("[1]", "line 1"),
        ("{", "line 1"),
        ("", "holds no questions"),
    ):
        path.write_text(line)
        with pytest.raises(InputError) as raised:
            read_questions(path)
        assert message in str(raised.value) and "q.jsonl" in str(raised.value)
