"""Parts of an answer, and whether the passages support them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.errors import InputError
from sage_core.llm.prompting import NO_ANSWER
from sage_core.verify import LocalJudge, mark_answer

WORDS = LocalJudge(model=False)
PASSAGES = [
    "The ferry leaves at seven. It carries forty cars.",
    "Seals live in the harbor. The bridge was opened in 1932.",
]


def test_statements_are_supported_by_their_passage_or_not():
    answer = "Based on the passages, the bridge was opened in 1932. Tickets cost nine crowns on Sundays."
    marks = mark_answer(answer, PASSAGES, judge=WORDS)
    opening, supported, space, unsupported = marks
    assert [m.support for m in marks] == ["nothing claimed", "supported", "nothing claimed", "not found"]
    assert opening.text == "Based on the passages, " and not space.text.strip()
    assert supported.evidence.of(PASSAGES[supported.passage]) == "The bridge was opened in 1932."
    assert unsupported.text == "Tickets cost nine crowns on Sundays."


def test_a_short_answer_is_read_with_its_question():
    (right,) = mark_answer("At seven.", PASSAGES, question="When does the ferry leave?", judge=WORDS)
    (wrong,) = mark_answer("At nine.", PASSAGES, question="When does the ferry leave?", judge=WORDS)
    assert right.passage == 0
    assert right.evidence.of(PASSAGES[0]) == "The ferry leaves at seven."
    assert right.support == "supported"
    assert (wrong.support, wrong.instead) == ("contradicted", "seven")


def test_other_languages_are_unsure_and_say_why():
    answer = "Die Fähre fährt um sieben Uhr morgens und sie ist nicht blau, das ist klar."
    (mark,) = mark_answer(answer, PASSAGES, judge=WORDS)
    assert (mark.support, mark.probability) == ("unsure", None)
    assert mark.reason == "unsure: not measured in German"


@pytest.mark.parametrize(
    "answer", ["", "  ", NO_ANSWER, "The documents do not say who sells tickets.", "I could not find that."]
)
def test_what_claims_nothing_is_not_judged(answer: str):
    assert {m.support for m in mark_answer(answer, PASSAGES, judge=WORDS)} <= {"nothing claimed"}


def test_no_passages_support_nothing():
    (mark,) = mark_answer("The bridge was opened in 1932.", [], judge=WORDS)
    assert mark.support != "supported"
    assert mark.passage is None


def test_one_text_is_no_list_of_passages():
    with pytest.raises(InputError, match="list"):
        mark_answer("It is blue.", "It is blue.")


@given(
    st.text(st.characters(codec="utf-8") | st.sampled_from(".!? \n“”|#-"), max_size=200),
    st.lists(st.text(max_size=80), max_size=3),
)
def test_parts_are_the_whole_answer_in_order(answer: str, passages: list[str]):
    marks = mark_answer(answer, passages, question="When?", judge=WORDS)
    assert "".join(m.text for m in marks) == answer
    assert all(m.span.of(answer) == m.text for m in marks)
    for mark in marks:
        if mark.evidence is not None:
            assert mark.evidence.of(passages[mark.passage])
