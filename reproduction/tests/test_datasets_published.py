"""QuALITY, QASPER and SQuAD in the format of their publishers: tiny files of our own."""

from __future__ import annotations

import json

import pytest
from sage_eval.datasets import load_dataset

from sage_core.errors import InputError

STORY = "The lamp went out. Ana found the stair by touch.\n\nBelow, the tide was in."
MARKUP = "<html><body><p>The lamp went out. Ana found the stair by touch.</p><p>Below, the tide was in.</p></body></html>"


def quality_line(article, number, *questions, **fields):
    return {
        "article_id": "90001",
        "set_unique_id": f"90001_{number}",
        "batch_num": "11",
        "writer_id": str(number),
        "source": "ours",
        "title": "The lamp",
        "author": "nobody",
        "article": article,
        "questions": list(questions),
        **fields,
    }


def quality_question(key, gold, difficult, **fields):
    return {
        "question": " How does she find the stair? ",
        "question_unique_id": key,
        "options": ["by sight", "by touch", "by luck", "she does not"],
        "writer_label": gold,
        "gold_label": gold,
        "difficult": difficult,
        **fields,
    }


LINES = (
    quality_line(STORY, 1, quality_question("a", 2, 0), quality_question("b", 2, 1)),
    quality_line(STORY, 2, quality_question("c", 2, 0)),
)


def write_lines(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def quality(tmp_path):
    folder = tmp_path / "QuALITY"
    write_lines(folder / "QuALITY.v1.0.1.htmlstripped.dev", LINES)
    write_lines(folder / "QuALITY.v1.0.1.dev", [{**line, "article": MARKUP} for line in LINES])
    return folder


def test_quality_merges_the_two_lines_of_an_article(quality):
    data = load_dataset("quality", quality)
    assert [(d.id, d.title, d.text) for d in data.documents] == [("90001", "The lamp", STORY)]
    first = data.questions[0]
    assert [q.id for q in data.questions] == ["a", "b", "c"]
    assert first.text == "How does she find the stair?"
    assert (first.gold, first.answers, first.hard) == (1, ("by touch",), False)
    assert data.source.endswith("QuALITY.v1.0.1.htmlstripped.dev")
    assert not data.pooled


def test_quality_hard_is_the_difficult_part(quality):
    data = load_dataset("quality-hard", quality, split="validation")
    assert [(q.id, q.hard) for q in data.questions] == [("b", True)]
    easy = [quality_line("Another story.", 3, quality_question("d", 1, 0), article_id="90002")]
    both = write_lines(quality / "both.dev", [*LINES, *easy])
    assert [d.id for d in load_dataset("quality-hard", both).documents] == ["90001"]


def test_quality_keeps_or_strips_markup(quality):
    assert load_dataset("quality-html", quality).documents[0].text == MARKUP
    assert load_dataset("quality", quality / "QuALITY.v1.0.1.dev").documents[0].text == STORY
    (quality / "QuALITY.v1.0.1.htmlstripped.dev").unlink()
    assert load_dataset("quality", quality).documents[0].text == STORY
    assert load_dataset("quality-hard-html", quality).questions[0].id == "b"


def test_the_test_split_of_quality_has_no_answers(quality):
    question = {k: v for k, v in quality_question("t", 1, 0).items() if k not in ("gold_label", "difficult")}
    write_lines(quality / "QuALITY.v1.0.1.htmlstripped.test", [quality_line(STORY, 1, question)])
    only = load_dataset("quality", quality, split="test").questions[0]
    assert (only.gold, only.answers, only.hard) == (None, (), None)
    with pytest.raises(InputError, match=r"train split.*looked for"):
        load_dataset("quality", quality, split="train")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (quality_line(STORY, 1, quality_question("a", 5, 0)), r"line 1, questions\[0\]: the right option is none"),
        (quality_line(STORY, 1, quality_question("a", 0, 0)), r"questions\[0\]: the right option is none"),
        (quality_line(STORY, 1, quality_question("a", "two", 0)), r"'gold_label' must be a whole number, not 'two'"),
        (quality_line(STORY, 1, quality_question("a", 1, 7)), r"'difficult' must be 0 or 1, not 7"),
        (quality_line(STORY, 1, quality_question("a", 1, 0, options=[])), r"has no options"),
        ({"article_id": "1", "article": "x"}, r"the field 'questions' is missing \(there are: article, article_id"),
        ({"article_id": "1", "questions": []}, r"the field 'article' is missing"),
    ],
)  # fmt: skip
def test_malformed_quality_is_named(tmp_path, line, message):
    with pytest.raises(InputError, match=message):
        load_dataset("quality", write_lines(tmp_path / "x.dev", [line]))


# --- QASPER

PAPER = {
    "title": "Reading the tides\nwith few gauges",
    "abstract": "We read tides. Two gauges do.",
    "full_text": [
        {
            "section_name": "Introduction",
            "paragraphs": ["Tides matter to ports.", "Gauges are few.\nSome drift."],
        },
        {"section_name": "Method ::: Gauges", "paragraphs": ["", "We use two gauges. They are read hourly."]},
        {"section_name": None, "paragraphs": ["Tides matter to ports."]},
    ],
    "qas": [],
    "figures_and_tables": [{"file": "1-Figure1.png", "caption": "Figure 1: A gauge."}],
}


def annotation(**fields):
    answer = {
        "unanswerable": False,
        "extractive_spans": [],
        "yes_no": None,
        "free_form_answer": "",
        "evidence": [],
        "highlighted_evidence": [],
        **fields,
    }
    return {"answer": answer, "annotation_id": "n", "worker_id": "w"}


def paper_question(key, *annotations):
    return {"question": "How many gauges? ", "question_id": key, "answers": list(annotations)}


def write_qasper(folder, *questions, name="qasper-test-v0.3.json", **fields):
    path = folder / name
    path.write_text(json.dumps({"2400.00001": {**PAPER, "qas": list(questions), **fields}}), encoding="utf-8")
    return path


def test_qasper_text_and_answers(tmp_path):
    questions = [
        paper_question("spans", annotation(extractive_spans=["two gauges", "hourly"]), annotation(free_form_answer="Two.")),
        paper_question("yes", annotation(yes_no=True), annotation(yes_no=False), annotation(yes_no=True)),
        paper_question("none", annotation(unanswerable=True)),
        paper_question("empty", annotation()),
    ]  # fmt: skip
    write_qasper(tmp_path, *questions)
    data = load_dataset("qasper", tmp_path)
    document = data.documents[0]
    assert document.title == "Reading the tides with few gauges"
    assert document.abstract == "We read tides. Two gauges do."
    assert document.text.split("\n\n") == [
        "Reading the tides with few gauges",
        "We read tides. Two gauges do.",
        "Introduction",
        "Tides matter to ports.",
        "Gauges are few. Some drift.",
        "Method: Gauges",
        "We use two gauges. They are read hourly.",
        "Tides matter to ports.",
    ]
    assert [q.answers for q in data.questions] == [
        ("two gauges, hourly", "Two."),
        ("Yes", "No"),
        ("Unanswerable",),
        (),
    ]
    assert data.questions[0].text == "How many gauges?"


def test_qasper_evidence_is_found_in_the_text(tmp_path):
    evidence = [
        "Gauges are few.\nSome drift.",
        "They are read hourly.",
        "We read tides. Two gauges do.",
        "Tides matter to ports.",
        "FLOAT SELECTED: Figure 1: A gauge.",
        "Nowhere in the paper.",
        "",
    ]
    path = write_qasper(
        tmp_path, paper_question("q", annotation(evidence=evidence), annotation(evidence=evidence[:1]))
    )
    data = load_dataset("qasper", path)
    text = data.documents[0].text
    found = [e.span.of(text) for e in data.questions[0].evidence]
    assert found == [
        "We read tides. Two gauges do.",
        "Tides matter to ports.",
        "Gauges are few. Some drift.",
        "They are read hourly.",
    ]
    assert data.questions[0].evidence[1].span.start == text.index("Tides matter to ports.")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "QASPER is one JSON object, not"),
        ('{"p": 3}', "paper 'p': a paper must be an object, not 3"),
        ('{"p": {"full_text": [], "qas": []}}', "paper 'p': the paper has neither abstract nor text"),
        ('{"p": {"full_text": [{"paragraphs": ["x"]}]}}', "paper 'p': the field 'qas' is missing"),
        ('{"p": {"full_text": [{"paragraphs": "x"}], "qas": []}}', r"full_text\[0\]: 'paragraphs' must be a list of texts"),
        ('{"p": {"abstract": "x", "full_text": [], "qas": [{"question_id": "q", "answers": [{}]}]}}', r"qas\[0\], answers\[0\], answer: must be an object, not None"),
        ('{"p": {\n"abstract', "line 2: not valid JSON"),
    ],
)  # fmt: skip
def test_malformed_qasper_is_named(tmp_path, content, message):
    (tmp_path / "qasper-dev-v0.3.json").write_text(content)
    with pytest.raises(InputError, match=message):
        load_dataset("qasper", tmp_path, split="dev")


# --- SQuAD

FIRST = "The first bridge was of wood. It burned in 1411, and again in 1502. Stone came later."
SECOND = "O Farol foi aceso em 1790. A torre tem 30 metros."


def squad(*articles, version="v2.0"):
    return {"version": version, "data": [{"title": t, "paragraphs": p} for t, p in articles]}


def qa(key, answer=None, start=None, **fields):
    answers = [] if answer is None else [{"text": answer, "answer_start": start}]
    return {"id": key, "question": f"{key}? ", "answers": answers, **fields}


def write_json(path, value):
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def test_squad_evidence_is_the_sentence_in_the_article(tmp_path):
    paragraphs = [
        {"context": FIRST, "qas": [qa("fire", "1411", FIRST.index("1411")), qa("none", is_impossible=True)]},
        {"context": "Farther up is a ford.", "qas": [qa("ford", "a ford", 14)]},
    ]
    file = write_json(tmp_path / "dev-v2.0.json", squad(("Old_Bridge", paragraphs)))
    data = load_dataset("squad2", file)
    document = data.documents[0]
    assert (document.id, document.title) == ("Old_Bridge", "Old Bridge")
    assert document.text == f"{FIRST}\n\nFarther up is a ford."
    fire, none, ford = data.questions
    assert [e.span.of(document.text) for e in fire.evidence] == ["It burned in 1411, and again in 1502."]
    assert [e.span.of(document.text) for e in ford.evidence] == ["Farther up is a ford."]
    assert (none.answers, none.evidence) == (("",), ())
    assert fire.text == "fire?"
    assert load_dataset("squad2", tmp_path).questions == data.questions


def test_an_answer_over_two_sentences_has_both_as_evidence(tmp_path):
    answer = "wood. It burned"
    paragraphs = [{"context": FIRST, "qas": [qa("q", answer, FIRST.index(answer))]}]
    data = load_dataset("squad", write_json(tmp_path / "x.json", squad(("B", paragraphs))))
    assert data.questions[0].evidence[0].span.of(data.documents[0].text) == FIRST[: FIRST.index(" Stone")]


def test_wrong_positions_of_translations_are_put_right(tmp_path):
    twice = "Em 1790 nada houve. Só em 1790, no fim do ano, veio a luz."
    paragraphs = [
        {"context": SECOND, "qas": [qa("ano", "1790", 3), qa("altura", "Torre", 0), qa("cor", "branco", 0)]},
        {"context": twice, "qas": [qa("luz", "1790", 30)]},
    ]
    data = load_dataset(
        "squad", write_json(tmp_path / "pt.json", squad(("Farol", paragraphs), version="1.1"))
    )
    text = data.documents[0].text
    year, height, color, light = data.questions
    assert [e.span.of(text) for e in year.evidence] == ["O Farol foi aceso em 1790."]
    assert [e.span.of(text) for e in height.evidence] == ["A torre tem 30 metros."]  # whatever its case
    assert color.answers == ("branco",)
    assert color.evidence == ()  # it is not in the paragraph
    assert light.evidence[0].span.of(text).startswith("Só em 1790")  # the nearer of the two


def test_articles_of_the_same_title_stay_apart(tmp_path):
    articles = [
        ("T", [{"context": "One.", "qas": [qa("a", "One", 0)]}]),
        ("T", [{"context": "Two.", "qas": []}]),
        ("", []),
    ]
    data = load_dataset("squad", write_json(tmp_path / "x.json", squad(*articles)))
    assert [d.id for d in data.documents] == ["T", "T (2)", "article 3"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "the field 'data' is missing"),
        ({"data": [{"paragraphs": [{"qas": []}]}]}, r"data\[0\], paragraphs\[0\]: the field 'context' is missing"),
        (squad(("T", [{"context": "x", "qas": [qa("q", "x", "0")]}])), r"qas\[0\], answers\[0\]: 'answer_start' must be"),
        (squad(("T", [{"context": "x", "qas": [qa("q", "x", -1)]}])), "positions count from 0"),
        (squad(("T", [{"context": "x", "qas": [{"id": "q", "question": "?"}]}])), "the field 'answers' is missing"),
        (squad(("T", [{"context": "x", "qas": [qa("q"), qa("q")]}])), "questions with the same id: q"),
        (squad(("T", [])), "no questions in"),
    ],
)  # fmt: skip
def test_malformed_squad_is_named(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        load_dataset("squad", write_json(tmp_path / "x.json", content))
