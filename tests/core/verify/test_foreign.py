"""Claims in languages in which nothing was measured: where to look, numbers, and what is there word for word."""

import pytest

from sage_core.verify import LocalJudge
from sage_core.verify.foreign import numbers

JUDGE = LocalJudge(model=False)
GERMAN = [
    "Der Leuchtturm steht seit dem Jahr 1871 auf der Insel und ist 1.240 Stufen hoch.",
    "Die Fähre fährt um 07:30 Uhr vom Hafen ab. Im Winter sind es -15 Grad auf dem Wasser der Bucht.",
]


def judged(answer: str, passages: list[str] = GERMAN):
    (claim,) = JUDGE.grounding(answer, passages)
    return claim


def test_the_sentence_to_look_at_is_named():
    claim = judged("Vom Hafen fährt die Fähre morgens um 07:30 Uhr ab, und zwar an jedem Tag.")
    assert claim.probability is None
    assert claim.passage == 1
    assert claim.evidence.of(GERMAN[1]) == "Die Fähre fährt um 07:30 Uhr vom Hafen ab."
    assert claim.reason == "unsure: not measured in German"


def test_a_number_that_the_passages_lack_is_named():
    said = "Seit dem Jahr {} steht der Leuchtturm mit 1240 Stufen auf der Insel, das ist bekannt."
    assert judged(said.format(1871)).reason == "unsure: not measured in German"
    assert judged(said.format(1817)).reason == "unsure: not measured in German; not in the passages: 1817"


@pytest.mark.parametrize(
    ("answer", "held"),
    [
        ("Der Leuchtturm  steht seit dem Jahr 1871 auf der Insel und ist 1.240 Stufen hoch.", True),
        ("15 Grad auf dem Wasser der Bucht sind es im Winter.", False),
        ("灯塔自1871年以来一直矗立在岛上。", True),
        ("मीनार सन १८७१ से द्वीप पर खड़ी है।", False),  # the passage says खड़ा
    ],
)
def test_a_sentence_of_the_passages_is_supported(answer: str, held: bool):
    passages = [*GERMAN, "据说岛上很美。灯塔自1871年以来一直矗立在岛上。", "मीनार सन १८७१ से द्वीप पर खड़ा है।"]
    claim = judged(answer, passages)
    assert (claim.probability is not None) == (claim.reason == "word for word in the passages") == held


def test_numbers_are_compared_by_their_digits():
    assert numbers("१९३२, 1.240, 1,240, ٣٤ und 5") == {
        "१९३२": "1932",
        "1.240": "1240",
        "1,240": "1240",
        "٣٤": "34",
    }


def test_nothing_to_look_at():
    claim = judged("Der Turm ist seit 1871 mit der Insel und dem Meer, das ist klar.", [])
    assert (claim.passage, claim.evidence, claim.probability) == (None, None, None)
