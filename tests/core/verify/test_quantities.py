"""Numbers, quantities and times of day in one form."""

import pytest

from sage_core.verify import LocalJudge
from sage_core.verify.quantities import quantities


def missing(claim: str, passage: str) -> int:
    """How many quantities of a claim agree with none of a passage."""
    return sum(not any(map(own.agrees, quantities(passage))) for own in quantities(claim))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,200 m", "1.2 km"),
        ("3700 kbytes", "3.7 MB"),
        ("500 ml", "half a litre"),
        ("16:30", "4.30 pm"),
        ("90 minutes", "an hour and a half"),
        ("1 hour 20 minutes", "80 min"),
        ("two and a half million", "2.5 million"),
        ("one hundred and five", "105"),
        ("three quarters of a mile", "0.75 miles"),
        ("$1.5 billion", "1,500 million dollars"),
        ("40%", "40 percent"),
        ("a dozen eggs", "12 eggs"),
        ("-5 °C", "−5 °C"),
        ("at –5 degrees", "at minus 5 degrees"),
        ("-$5", "$-5"),
        ("pages 3-5", "pages 3 - 5"),
        ("1.234,56 euros", "1,234.56 euros"),
        ("12.500 inhabitants", "12,500 inhabitants"),
        ("12.500 inhabitants", "12.5 inhabitants"),
        ("12 500 inhabitants", "12,500 inhabitants"),
        ("12\u202f500 inhabitants", "12'500 inhabitants"),
        ("5,50 €", "€5.50"),
        ("$45.00", "US$45"),
        ("3/4 of an hour", "45 minutes"),
        ("3.5.1911", "1911-05-03"),
        ("03/05/1911", "3 May 1911"),
        ("500 µg", "0.5 mg"),
        ("900 euros per month", "a monthly rent of 900 euros"),
    ],
)
def test_the_same_in_other_words_agrees(one: str, other: str) -> None:
    assert missing(one, other) == missing(other, one) == 0
    assert quantities(one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("in 1932", "in 1933"),
        ("5 days", "5 weeks"),
        ("16:30", "5.30 pm"),
        ("1.2 km", "1,300 m"),
        ("$5", "5 kg"),
        ("-5 °C", "5 °C"),
        ("a loss of -$5", "$5"),
        ("US$50", "A$50"),
        ("half an hour", "3 hours"),
        ("0.5 mg", "0.5 µg"),
        ("version 2.10", "version 2.1"),
        ("code 0456", "code 456"),
        ("900 euros per month", "900 euros per year"),
        ("40 litres a minute", "40 litres an hour"),
        ("3 million litres", "3 million gallons"),
        ("on 3.5.", "on 4.5."),
    ],
)
def test_another_quantity_does_not(one: str, other: str) -> None:
    assert missing(one, other) == 1


def test_a_quantity_said_otherwise_is_not_held_against_another_row() -> None:
    table = "| Route | Length |\n|---|---|\n| Ridge path | 1.2 km |\n| Lake path | 800 m |"
    judge = LocalJudge()
    right, wrong = (
        judge.claims("", f"The {name} path is 0.8 km long.", [table])[0] for name in ("lake", "ridge")
    )
    assert not right.instead and wrong.instead


def test_spans_hold_where_lower_case_is_longer() -> None:
    text = "İİİİ 7 kg"
    (quantity,) = quantities(text)
    assert quantity.span.of(text) == "7 kg"
    assert max(len(chr(i).lower()) for i in range(0x110000) if chr(i) != "İ") == 1


def test_numbers_of_a_list_are_read_one_by_one() -> None:
    assert [q.value for q in quantities("Rooms 4,5,11,25 and 1,234.")] == [4, 5, 11, 25, 1234]


def test_no_number_is_infinite() -> None:
    assert quantities("9" * 400 + " km") == () == quantities("9" * 300 + " trillion trillion km")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\r\n",
        "🐝 " * 50,
        "a an half of",
        "1" * 400,
        "twenty " * 500,
        "4,5,11,25",
        "1.2.3,4,5",
        "1,234,5.6",
    ],
)
def test_odd_text_is_no_error(text: str) -> None:
    assert all(q.value == q.value for q in quantities(text))
