"""What the extractive answerer must not quote: headings, and sentences that only share some words."""

import pytest

from sage_app.answers import ExtractiveAnswerer
from sage_app.answers.extractive import sentences_of
from sage_core.errors import InputError

HIRE = (
    "# Boat hire per day\n\nA rowing boat costs nine pounds per day, paid at the kiosk.\n\nLockers are free."
)
WORKS = [
    "The lift stands still every day.",
    "A bicycle lane was painted along the quay in spring.",
    "Anglers pay per rod.",
]


@pytest.mark.parametrize(
    "passage",
    [
        HIRE,
        "Boat hire per day\n=================\n\nA rowing boat costs nine pounds per day, paid at the kiosk.",
        "2.1 Boat hire per day\n\nA rowing boat costs nine pounds per day, paid at the kiosk.",
    ],
)
def test_a_heading_is_never_quoted(passage: str) -> None:
    heading, *_ = sentences_of([passage])
    assert heading.heading
    answer, _ = ExtractiveAnswerer(judge=False).generate("What does boat hire cost per day?", [passage])
    assert "nine pounds" in answer and heading.text not in answer
    chosen, _ = ExtractiveAnswerer(judge=False).generate(
        "Which hire is there?", ["# Boat hire\n\nNothing here."], options=["boat"]
    )
    assert "Boat hire" not in chosen


def test_a_sentence_below_a_heading_is_no_heading() -> None:
    assert [s.heading for s in sentences_of([HIRE])] == [True, False, False]
    assert not any(s.heading for s in sentences_of(WORKS))


def test_words_scattered_over_unrelated_sentences_are_no_answer() -> None:
    question = "What does a bicycle cost per day?"
    assert "“" not in ExtractiveAnswerer(judge=False).generate(question, WORKS)[0]
    answer, _ = ExtractiveAnswerer(judge=False).generate(
        question, [*WORKS, "Hiring a bicycle costs six pounds per day."]
    )
    assert "six pounds" in answer


def test_sentences_that_together_hold_nearly_all_are_quoted() -> None:
    context = [
        "Ada Lind drew the plans of the Kestrel Bridge.",
        "Ada Lind was born in Marrow and died in 1951.",
    ]
    question = "Where was the one born who drew the plans of the bridge, Ada Lind?"
    assert "Marrow" in ExtractiveAnswerer(judge=False).generate(question, context)[0]


@pytest.mark.parametrize(
    "wrong",
    [{"min_match": 0}, {"min_match": 1.1}, {"min_together": 0}, {"min_match": "a"}, {"max_sentences": 0}],
)
def test_settings_out_of_range(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        ExtractiveAnswerer(**wrong)  # type: ignore[arg-type]
