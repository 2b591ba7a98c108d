"""Parts of an answer, and whether the passages support them."""

from hypothesis import given
from hypothesis import strategies as st

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


def test_no_passages_support_nothing():
    (mark,) = mark_answer("The bridge was opened in 1932.", [], judge=WORDS)
    assert mark.support != "supported"
    assert mark.passage is None


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
