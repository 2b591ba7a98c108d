"""Sentence candidates: nothing lost, offsets exact, splits where a reader expects them, linear time."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sage_core.text.blocks import line_breaks, sentence_kinds
from sage_core.text.sentences import read_sentences, split_sentences
from sage_core.text.spans import check_tiling

FRAGMENTS = st.sampled_from(
    [
        "Word", "word", " ", "  ", "\n", "\r\n", "\n\n", "\t", ".", "!", "?", "...", ". ", "\"", "”", ")", "[1]",
        "# H", "- item", "1. ", "```", "~~~\n", "| a |", "===", "。", "！", "」", "।", "؟", "۔", "ก", "ไทย ", "e.g.",
        "Mr.", "U.S.", "3.14", "\x0c", "\u2028", "\u2029", "\x85", "\x1c", "\u200b", "e\u0301", "👩‍👩‍👧", "\ufeff", "\x00",
    ]
)  # fmt: skip
MESSY = st.one_of(st.text(), st.lists(FRAGMENTS, max_size=40).map("".join))


def pieces(text: str) -> list[str]:
    return [span.of(text) for span in split_sentences(text)]


@given(MESSY)
@example("# H")
def test_one_reading_is_what_its_parts_are(text: str) -> None:
    spans = split_sentences(text)
    gaps = line_breaks(text, spans)
    kinds = sentence_kinds(text, spans, gaps)
    assert read_sentences(text) == (tuple(spans), tuple(gaps), tuple(kinds))


@given(MESSY)
@example("")
@example(" \n\t ")
@example("```\n```")
@example("a\x0c")
def test_every_visible_character_is_in_exactly_one_trimmed_span(text: str) -> None:
    spans = split_sentences(text)
    assert check_tiling(text, spans) == spans


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("lower case. goes on. like this", ["lower case.", "goes on.", "like this"]),
        ('He said "stop." Then he left.', ['He said "stop."', "Then he left."]),
        ('"Why?" she asked. Nobody knew.', ['"Why?" she asked.', "Nobody knew."]),
        ("It fell.[3] It rose.[4][5] Good.", ["It fell.[3]", "It rose.[4][5]", "Good."]),
        ("It fell. [3] [4] It rose. [5]", ["It fell. [3] [4]", "It rose. [5]"]),
        ("(It rained.) We left.", ["(It rained.)", "We left."]),
        ("Dr. Ann Lee met Mr. Fox.", ["Dr. Ann Lee met Mr. Fox."]),
        ("J. R. Smith wrote it. He won.", ["J. R. Smith wrote it.", "He won."]),
        ("Made in the U.S. The rest came later.", ["Made in the U.S.", "The rest came later."]),
        ("The U.S. Navy sailed.", ["The U.S. Navy sailed."]),
        ("See Fig. 3 and Sec. 4.2 below.", ["See Fig. 3 and Sec. 4.2 below."]),
        ("Costs 3.50 a unit, e.g. Today.", ["Costs 3.50 a unit, e.g. Today."]),
        ("Well ... maybe. Yes... No.", ["Well ... maybe.", "Yes...", "No."]),
        ("Привет. Как дела? Хорошо.", ["Привет.", "Как дела?", "Хорошо."]),
        ("今天很好。我们走吧！「好。」他说", ["今天很好。", "我们走吧！", "「好。」", "他说"]),
        ("كيف حالك؟ أنا بخير۔ شكرا", ["كيف حالك؟", "أنا بخير۔", "شكرا"]),
        ("यह एक है। यह दो है॥", ["यह एक है।", "यह दो है॥"]),
        ("สวัสดีครับ วันนี้ดี", ["สวัสดีครับ", "วันนี้ดี"]),
        ("圆周率是３．１４。对。", ["圆周率是３．１４。", "对。"]),
    ],
)
def test_ends_of_sentences(text: str, expected: list[str]) -> None:
    assert pieces(text) == expected


def test_hard_wrapped_lines_are_no_boundaries() -> None:
    text = (
        "The lighthouse keeper climbed the stairs every evening before dusk to\n"
        "Trim the lamp and polish the glass, which took him about an hour and\n"
        "a half. Nobody ever thanked him."
    )
    assert pieces(text) == [text[: text.index(" Nobody")], "Nobody ever thanked him."]


def test_short_lines_that_nobody_wrapped_are_boundaries() -> None:
    text = "Opening hours\nTickets\nAsk at the desk, or by telephone on any weekday\nthat is no holiday"
    assert pieces(text) == ["Opening hours", "Tickets", text[text.index("Ask") :]]
    long_line = "Long " * 40 + "line"
    assert pieces(f"{long_line}\nShort") == [long_line, "Short"]


def test_markdown_blocks() -> None:
    text = (
        "# Title\nIntro one. Intro two.\n\n* first. Still first.\n* second\n  goes on\n1. third\n"
        "| a. b | c |\n|---|---|\n```\nx = 1. \n\ny\n```\nEnd"
    )
    assert pieces(text) == [
        "# Title", "Intro one.", "Intro two.", "* first.", "Still first.", "* second\n  goes on", "1. third",
        "| a. b | c |", "|---|---|", "```\nx = 1.", "y\n```", "End",
    ]  # fmt: skip


def test_an_unclosed_fence_is_not_code() -> None:
    assert pieces("```\nOne. Two.") == ["```", "One.", "Two."]


def test_underlined_heading_stays_in_one_piece() -> None:
    assert pieces("Title\n=====\nBody text.") == ["Title\n=====", "Body text."]


@pytest.mark.parametrize("mark", "=-~^\"'#*+.:_`")
@pytest.mark.parametrize("title", ["Ticket office", "Is it open? And when?", "2. Tickets"])
def test_titles_stay_with_their_marks(mark: str, title: str) -> None:
    line = mark * len(title)
    for end in ("\n", "\r\n"):
        for heading in (f"{title}{end}{line}", f"{line}{end}{title}{end}{line}"):
            text = (
                f"Intro.{end}{end}{heading}{end}Body one. Body two.{end}{end}{heading}{end}{end}Body three."
            )
            found = [span.of(text) for span in split_sentences(text)]
            assert found == ["Intro.", heading, "Body one.", "Body two.", heading, "Body three."]
            kinds = sentence_kinds(text, spans := split_sentences(text), line_breaks(text, spans))
            assert kinds == ["text", "heading", "text", "text", "heading", "text"]


def test_fences_go_with_the_code_beside_them() -> None:
    for fence in ("```", "~~~", "~~~~"):
        for code in (["x"], ["x = 1.", "y = 2.", "z"]):
            inside = "\n".join([f"{fence}py", *code, fence])
            text = f"Run this:\n\n{inside}\n\nIt works."
            spans = split_sentences(text)
            found = [span.of(text) for span in spans]
            assert "\n".join(found[1:-1]) == inside and len(found) == 2 + len(code)
            kinds = sentence_kinds(text, spans, line_breaks(text, spans))
            assert kinds == ["lead", *["code"] * len(code), "text"]
    assert pieces("A.\n\n```\n```\n\nB.") == ["A.", "```\n```", "B."]


def test_blank_lines_and_windows_line_ends() -> None:
    assert pieces("one\r\n\r\ntwo\n \nthree\x0cfour") == ["one", "two", "three", "four"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        "a", " ", "\n", ".", '."', ".[", "\n ", ". ", "。", "ก ", "- ", "\n- a", "|\n", "```\n", "\n#",
        "A\n", "x\n\n", "(a)", "1.", "\r",
    ],
)  # fmt: skip
def test_work_is_linear(unit: str) -> None:
    """Counted, not timed: no rule may look at more than a constant times the text, however it is made."""
    text = unit * (100_000 // len(unit))
    spans = split_sentences(text)  # a quadratic rule would run for hours here
    assert sum(len(span.of(text)) for span in spans) <= len(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Shoes 4.00, a rope 5.00. Chalk must be liquid.", 2),
        ("One click is 0.5. Lower the slope.", 2),
        ("7.1 Claims cost 0.5 % a week. Less is not paid.", 2),
        ("The boat leaves at 6.40 a.m., not at 7.10 a.m. The last one leaves at 10 p.m. Call ahead.", 3),
        ("The office opens on 3. Mai at noon. It is closed now.", 2),
        ("T. J. Reed and Dr. Osei met J. R. R. Marlow. They sat.", 2),
        ("Code E21. Open the tap. Code E22. Clean the sieve.", 4),
        ("Bake for 30 min. with the lid and add 1 tsp. yeast. Eat it.", 2),
        ('"Why?" she asked. "Because." He left.', 3),
        ("There are two claims: 1. that it rains, and 2. that it stops. Both hold.", 2),
        ("Crabs weighed 31.5 g (s.d. 4.2 g). All lived.", 2),
        ("He was humored by all.4 Yet some left. 5 In May he went.", 2),
        ("Ada Reed (b. March 2009) and Tom (d. 1990) live. So it is.", 2),
        ("Chapter one . . . . . . . . 12", 1),
        (". " * 50, 1),
        ("A stop . . . . And more.", 1),
        ("It fell by half in 2013 [1] . The rest did not (Reed et al., 2007) . (See below.) Both grew .", 4),
    ],
)
def test_points_that_end_no_sentence(text: str, expected: int) -> None:
    assert len(split_sentences(text)) == expected
