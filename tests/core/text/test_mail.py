"""Mail in text: heads of messages, quotations, signatures."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core import Segmenter
from sage_core.ranking.candidates import Hit, distinct, merge
from sage_core.ranking.neighbors import Links
from sage_core.text.blocks import classified
from sage_core.text.headings import find_headings
from sage_core.text.sentences import split_sentences
from tests.fakes.growth import assert_linear

THREAD = """\
From: Hanne <hanne@boats.example>
To: Tomas
Date: Tue, 4 Mar 2025 08:12
Subject: Varnish

The varnish that came on Friday is the wrong one. We ordered the matt type.

Hanne

-----Original Message-----
From: Tomas <tomas@varnish.example>
Sent: Monday, 3 March 2025
Subject: Your order

It left here today.

On Sunday, 2 March 2025 at 20:05
Gus Ferreira wrote:

> > Where is the
> > Varnish for the boats?
>
> I will ask. The driver left at six
> and has not called since.
"""


def pieces(text: str) -> list[str]:
    return [span.of(text) for span in split_sentences(text)]


def test_the_head_of_a_message_is_its_heading() -> None:
    assert [heading.text for heading in find_headings(THREAD)] == [
        "Hanne <hanne@boats.example>, Tue, 4 Mar 2025 08:12, Varnish",
        "Tomas <tomas@varnish.example>, Monday, 3 March 2025, Your order",
        "On Sunday, 2 March 2025 at 20:05 Gus Ferreira wrote",
    ]


@pytest.mark.parametrize("target", [None, 100, "section"])
def test_no_chunk_has_two_messages(target: object) -> None:
    texts = [span.of(THREAD) for span in Segmenter(target_tokens=target).segment(THREAD)]  # type: ignore[arg-type]
    assert all(sum(mark in text for mark in ("Hanne <", "Tomas <", "Gus Ferreira")) <= 1 for text in texts)
    assert [text[:5] for text in texts if text.startswith(("From", "-----", "On S"))] == [
        "From:",
        "-----",
        "On Su",
    ]


def test_times_are_no_message() -> None:
    assert all(
        not heading.text.startswith("9") for heading in find_headings("From: 9:00\nTo: 17:00\n\nWe open.")
    )
    _lines, levels = classified("From: 9:00\nTo: 17:00\n\nWe open every day of the week.")
    assert 0 not in levels.values()


def test_a_quoted_sentence_is_read_over_its_lines() -> None:
    assert pieces("> That evening I am at a\n> concert. It is sold\n> out.\n\nA pity.") == [
        "> That evening I am at a\n> concert.",
        "It is sold\n> out.",
        "A pity.",
    ]
    assert pieces("> > Where is the\n> > Varnish?\n> On the way.") == [
        "> > Where is the\n> > Varnish?",
        "> On the way.",
    ]


def test_items_and_paragraphs_of_a_quotation() -> None:
    text = "> We need:\n>\n> - 40 litres of varnish\n> - a lamp\n"
    lines, _ = classified(text)
    assert [(line.kind, line.quote, line.spaced) for line in lines] == [
        ("text", 1, True),
        ("item", 1, True),
        ("item", 1, False),
    ]


def test_a_prompt_is_no_quotation() -> None:
    lines, _ = classified("Try this:\n\n>>> ring(3)\n6\n>>> ring(4)\n8")
    assert {line.quote for line in lines} == {0}


def test_a_reply_stays_with_the_line_it_answers_and_a_signature_whole() -> None:
    filler = "The slipway is free until the end of the month, and the crane comes on the second. " * 4
    text = (
        f"{filler}\n\n> The launch is on 28 March. We cannot move it.\n\nIt comes on the 11th.\n\n{filler}\n\n"
        f"--\nHanne Vestergaard\nSkovby Boats, Slipway 3\nTel. 1"
    )
    found = [span.of(text) for span in Segmenter().segment(text)]
    assert any("> The launch" in chunk and "on the 11th." in chunk for chunk in found)
    assert any("--\nHanne Vestergaard\nSkovby Boats, Slipway 3\nTel. 1" in chunk for chunk in found)


def test_a_name_below_a_message_is_no_subject_and_a_greeting_is_no_chunk() -> None:
    head = "To: Ines Okafor\nDate: Wed, 22 Jan 2025 10:10\nSubject: Order 5571, posters\n\n"
    text = (
        f"From: Orla Finch <orla@finch.example>\n{head}Dear Leocadia,\n\n"
        "> The church is booked for 5 April, from noon.\n\nI can come, but not before two. My shift ends at one.\n\n"
        "> Mr. Ahlers plays it. He wants 300 for the evening, and I have\n> agreed.\n\nThat is more than we have. "
        "There are 212 in the box, and the hall is not paid yet. Could we ask for donations at the door?\n\n"
        f"Orla\n\nFrom: Printing Office Hollis <print@hollis.example>\n{head}Dear customer,\n\n"
        "your posters are ready. You can collect them on weekdays, or have them sent for 6.90 by the post."
    )
    found = [span.of(text) for span in Segmenter().segment(text)]
    assert "Dear Leocadia,\n\n> The church" in found[0]
    assert found[-1].startswith("From: Printing") and "your posters" in found[-1]


def test_a_copy_in_marks_of_a_quotation_is_no_other_candidate() -> None:
    said = "The hall is ours on Thursdays from September on. It costs 18 an hour."
    quoted = "> The hall is ours on Thursdays from September on.\n>> It costs 18 an hour."
    texts = [quoted, said, f"{quoted}\n\nToo much."]
    assert distinct(texts, [None] * 3, [0.3, 0.9, 0.4]) == [1, 2]
    hits = [Hit(text, text, score=1 - i / 100) for i, text in enumerate(texts)]
    assert len(merge(hits[:1], hits[1:], 60, links=lambda items: [Links() for _ in items])) == 2


QUOTED = st.lists(
    st.sampled_from(
        [
            "> ",
            ">",
            ">> ",
            "> > ",
            ">>> ",
            "\n",
            "\n\n",
            "A stop. ",
            "word",
            "- item",
            "On a wrote:",
            "From: Al",
        ]
    )
).map("".join)


@given(QUOTED)
def test_nothing_of_a_quotation_is_lost(text: str) -> None:
    spans = split_sentences(text)
    covered = {i for start, end in spans for i in range(start, end)}
    assert {i for i, sign in enumerate(text) if not sign.isspace()} <= covered
    assert all(a.end <= b.start for a, b in itertools.pairwise(spans))


@pytest.mark.parametrize(
    "piece",
    [
        "> a\n",
        ">\n",
        "From: Al\n",
        "On a wrote:\n> b\n",
        ">" * 50 + " a\n",
        "--\nAl\n\n",
        "On al b\n",
        "This mail is\nconfidential\n\n",
    ],
)
def test_work_on_mail_is_linear(piece: str) -> None:
    assert_linear(lambda size: split_sentences(piece * size), size=500)
