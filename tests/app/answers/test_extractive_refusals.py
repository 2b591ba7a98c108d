"""What the extractive answerer must not mark: headings."""

import pytest

from sage_app.answers import ExtractiveAnswerer
from sage_app.answers.extractive import sentences_of

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
def test_a_heading_is_never_the_sentence_that_answers(passage: str) -> None:
    heading, *_ = sentences_of([passage])
    assert heading.heading
    answer, _ = ExtractiveAnswerer().generate("What does boat hire cost per day?", [passage])
    assert "**A rowing boat costs nine pounds per day, paid at the kiosk.**" in answer


def test_a_sentence_below_a_heading_is_no_heading() -> None:
    assert [s.heading for s in sentences_of([HIRE])] == [True, False, False]
    assert not any(s.heading for s in sentences_of(WORKS))
