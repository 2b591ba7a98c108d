"""Evidence and answers of the published sets, from rows in the columns of the hub."""

from __future__ import annotations

import pytest
from sage_eval.datasets.contents import Record
from sage_eval.datasets.published import read_qasper, read_squad

from sage_core.errors import InputError

FIRST = "The first bridge was of wood. It burned in 1411, and again in 1502. Stone came later."
SECOND = "O Farol foi aceso em 1790. A torre tem 30 metros."
PAPER = {
    "id": "2400.00001",
    "title": "Reading the tides\nwith few gauges",
    "abstract": "We read tides. Two gauges do.",
    "full_text": [
        {"section_name": "Introduction", "paragraphs": ["Tides matter to ports.", "", "Gauges are few.\nSome drift."]},
        {"section_name": "Method ::: Gauges", "paragraphs": ["We use two gauges. They are read hourly.", "Tides matter to ports."]},
    ],
}  # fmt: skip


def records(*rows):
    return [Record(row, f"row {number}") for number, row in enumerate(rows, 1)]


def squad(context, *questions, title="Bridge"):
    return [
        {
            "id": key,
            "title": title,
            "context": context,
            "question": f"{key}? ",
            "answers": {"text": [text], "answer_start": [start]},
        }
        for key, text, start in questions
    ]


def evidence(contents, question):
    return [e.span.of(contents.documents[e.document].text) for e in question.evidence]


def test_squad_evidence_is_the_sentences_with_the_answer():
    over = "wood. It burned"
    rows = squad(FIRST, ("fire", "1411", FIRST.index("1411")), ("over", over, FIRST.index(over)))
    rows += squad("Farther up is a ford.", ("ford", "a ford", 14)) + squad("One.", ("a", "One", 0), title="")
    contents = read_squad(records(*rows), "x", False)
    fire, both, ford, other = contents.questions
    assert evidence(contents, fire) == ["It burned in 1411, and again in 1502."]
    assert evidence(contents, both) == [FIRST[: FIRST.index(" Stone")]]
    assert evidence(contents, ford) == ["Farther up is a ford."]
    assert (fire.text, fire.document, other.document) == ("fire?", "Bridge", "article 2")


def test_wrong_positions_of_translations_are_put_right():
    twice = "Em 1790 nada houve. Só em 1790, no fim do ano, veio a luz."
    rows = squad(SECOND, ("ano", "1790", 3), ("altura", "Torre", 0), ("cor", "branco", 0))
    contents = read_squad(records(*rows, *squad(twice, ("luz", "1790", 30))), "x", False)
    year, height, color, light = contents.questions
    assert evidence(contents, year) == ["O Farol foi aceso em 1790."]
    assert evidence(contents, height) == ["A torre tem 30 metros."]  # whatever its case
    assert (color.answers, color.evidence) == (("branco",), ())  # it is not in the paragraph
    assert evidence(contents, light)[0].startswith("Só em 1790")  # the nearer of the two


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answers": {"text": ["x"], "answer_start": ["0"]}}, r"answers\[0\]: 'answer_start' must be"),
        ({"answers": {"text": ["x"], "answer_start": [-1]}}, "positions count from 0"),
        ({"answers": None}, "'answers' must be a list of objects"),
        ({"context": 7.5j}, "'context' must be a text"),
    ],
)
def test_malformed_squad_is_named(change, message):
    row = squad("x", ("q", "x", 0))[0]
    with pytest.raises(InputError, match=message):
        read_squad(records({**row, **change}), "x", False)


def annotation(**fields):
    return {"answer": {"unanswerable": False, "extractive_spans": [], "evidence": [], **fields}}


def paper(*annotations, **fields):
    question = {"question": "How many gauges? ", "question_id": "q", "answers": list(annotations)}
    return {**PAPER, "qas": [question], **fields}


@pytest.mark.parametrize(
    ("annotations", "answers"),
    [
        ([annotation(extractive_spans=["two", "hourly"]), annotation(free_form_answer="Two.")], ("two, hourly", "Two.")),
        ([annotation(yes_no=True), annotation(yes_no=False), annotation(yes_no=True)], ("Yes", "No")),
        ([annotation(unanswerable=True)], ("Unanswerable",)),
        ([annotation()], ()),
    ],
)  # fmt: skip
def test_qasper_text_and_answers(annotations, answers):
    contents = read_qasper(records(paper(*annotations)), "x", False)
    document = contents.documents["2400.00001"]
    assert (document.title, document.abstract) == ("Reading the tides with few gauges", PAPER["abstract"])
    assert document.text.split("\n\n")[2:6] == [
        "Introduction",
        "Tides matter to ports.",
        "Gauges are few. Some drift.",
        "Method: Gauges",
    ]
    assert (contents.questions[0].text, contents.questions[0].answers) == ("How many gauges?", answers)


def test_qasper_evidence_is_found_in_the_text():
    given = ["Gauges are few.\nSome drift.", "They are read hourly.", "Tides matter to ports."]
    given += ["FLOAT SELECTED: Figure 1: A gauge.", "Nowhere in the paper.", ""]
    contents = read_qasper(records(paper(annotation(evidence=given), annotation(evidence=given[:1]))), "x", False)  # fmt: skip
    assert evidence(contents, contents.questions[0]) == [
        "Tides matter to ports.",
        "Gauges are few. Some drift.",
        "They are read hourly.",
    ]


def test_malformed_qasper_is_named():
    for row, message in (
        (paper(full_text=[], abstract=""), "row 1: the paper has neither abstract nor text"),
        (paper({"answer": 7}), "answer: must be an object, not 7"),
        ({**PAPER, "qas": 7}, "'qas' must be a list of objects"),
    ):
        with pytest.raises(InputError, match=message):
            read_qasper(records(row), "x", False)
