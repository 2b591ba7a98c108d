"""Quotations are found whatever was done to them."""

import json
from pathlib import Path

import pytest

from sage_app.calibrate.quotations import QuotedQuestion, locate, read_questions
from sage_app.documents.reader import Document
from sage_core import InputError


def document(text: str, name: str = "/docs/a.md") -> Document:
    return Document(name, text, "markdown", digest=str(hash(text)))


def place(quote: str, text: str, source: str = "") -> str:
    """What a quotation is taken for, or why it is not found."""
    located, missing = locate([QuotedQuestion("Why?", (quote,), source)], [document(text)])
    if missing:
        return missing[0].reason
    [[evidence]] = located[0].evidence
    return evidence.span.of(text)


@pytest.mark.parametrize(
    ("quote", "text", "found"),
    [
        ("leaves at seven", "The ferry leaves at seven.", "leaves at seven"),
        (
            "THE FERRY  leaves\nat seven",
            "A: The ferry\r\n   leaves at\tseven.",
            "The ferry\r\n   leaves at\tseven",
        ),
        ('He said "no" - twice', "He said “no” — twice.", "He said “no” — twice"),
        ("it's so", "Perhaps it’s so.", "it’s so"),
        ("wait...", "They wait… and go", "wait…"),
        ("a cooperative", "It is a coop\u00aderative here.", "a coop\u00aderative"),
        ("the ferry leaves at seven", "the **ferry** leaves at _seven_", "the **ferry** leaves at _seven"),
        ("Straße", "in der STRASSE dort", "STRASSE"),
        ("art", "heart and cart", "not found"),
        ("  ferry ", "The ferry.", "ferry"),
        ("ferry", "The boat.", "not found"),
        ("one", "one " * 30, "stands in 11 places: quote more, or name the source"),
        ("\U0001f600 yes", "so \U0001f600  yes!", "\U0001f600  yes"),
    ],
)
def test_a_quotation_is_found_whatever_was_done_to_it(quote: str, text: str, found: str) -> None:
    assert place(quote, text) == found


def test_any_of_several_places_will_do_and_a_source_names_one() -> None:
    documents = [
        document("It opens at nine.", "/docs/a.md"),
        document("Well, it opens at nine.", "/docs/b.md"),
    ]
    [both], _ = locate([QuotedQuestion("When?", ("it opens at nine",))], documents)
    assert len(both.evidence[0]) == 2
    [one], _ = locate([QuotedQuestion("When?", ("it opens at nine",), "b.md")], documents)
    assert [e.document for e in one.evidence[0]] == ["/docs/b.md"]
    _, [missing] = locate([QuotedQuestion("When?", ("it opens at nine",), "c.md")], documents)
    assert missing.reason == "there is no document 'c.md'"


def test_questions_are_read_and_a_wrong_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    lines = [
        {"question": " Why? ", "quote": "Because.", "question_id": 7, "note": "of last week"},
        {"question": "Who?", "quotes": ["She", "and he"], "source": "a.md"},
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
        QuotedQuestion("Who?", ("She", "and he"), "a.md"),
        QuotedQuestion("When?", ("Now",)),
    ]
    for line, message in (
        ('{"question": "Why?", "qoute": "x"}', "did you mean 'quote'?"),
        ('{"question": "Why?", "quote": "x", "sources": "a.md"}', "did you mean 'source'?"),
        ('{"question": "Why?"}', "'quote' must be what answers"),
        ('{"question": " ", "quote": "x"}', "the question is blank"),
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
