"""Questions for yes or no: one of both where a sentence says so plainly, else the sentence alone."""

import collections

import pytest

from sage_app.answers import ExtractiveAnswerer
from sage_app.documents import read_document
from sage_core.verify import LocalJudge
from sage_core.verify.entailment import FOLDER, Entailment
from tests.app.answers.test_forms import FIXTURE, QUESTIONS

ANSWERER = ExtractiveAnswerer()


@pytest.mark.parametrize(
    ("question", "sentence", "said"),
    [
        ("Are dogs allowed on deck?", "Dogs are not allowed on deck.", "no"),
        ("Are dogs allowed on deck?", "Dogs are allowed on deck.", "yes"),
        ("Is alcohol reimbursed?", "No alcohol is reimbursed.", "no"),
    ],
)
def test_a_plain_sentence_says_yes_or_no(question: str, sentence: str, said: str) -> None:
    text, _ = ANSWERER.generate(question, ["The harbor is old.", f"{sentence} The deck is wide."])
    assert text == f"The documents suggest {said}: “{sentence}”"
    verdict, _ = ANSWERER.judge(question, [sentence], text)
    assert verdict.score > 8


def test_of_the_fixture_most_are_answered_and_few_wrongly() -> None:
    outcomes: collections.Counter[str] = collections.Counter()
    for _, document, form, question, gold in QUESTIONS:
        if form == "yesno":
            text, _ = ANSWERER.generate(question, [read_document(FIXTURE / document).text])
            said = text.removeprefix("The documents suggest ").partition(":")[0]
            outcomes["right" if said == gold else "wrong" if said in ("yes", "no") else "quoted"] += 1
    assert outcomes["right"] >= 0.6 * outcomes.total(), outcomes
    assert outcomes["wrong"] <= 0.08 * outcomes.total(), outcomes


@pytest.mark.parametrize(
    ("question", "passage", "said"),
    [
        (
            "Are dogs allowed in the canteen?",
            "Dogs are welcome in the office. They are not allowed in the canteen.",
            "no: “Dogs are welcome in the office. They are not allowed in the canteen.”",
        ),
        (
            "Does the app run on watches?",
            "New:\n\n- Emergency card.\n- The app runs on watches.",
            "yes: “The app runs on watches.”",
        ),
        (
            "Is the Wren Mini affected by the recall?",
            "## The recall\n\nThe Wren Mini is not affected.",
            "no: “The Wren Mini is not affected.”",
        ),
    ],
)
def test_what_stands_before_and_above_a_sentence_counts(question: str, passage: str, said: str) -> None:
    assert ANSWERER.generate(question, [passage])[0] == f"The documents suggest {said}"


def test_a_sentence_that_denies_never_says_yes() -> None:
    text, _ = ANSWERER.generate("Is alcohol ever reimbursed?", ["Alcohol is never reimbursed. Meals are."])
    assert text in (f"The documents {said}: “Alcohol is never reimbursed.”" for said in ("say", "suggest no"))


@pytest.mark.parametrize("question", ["Is it red or blue?", "Why are dogs allowed on deck?", "Dogs on deck?"])
def test_other_questions_get_no_yes(question: str) -> None:
    text, _ = ANSWERER.generate(question, ["Dogs are allowed on deck. It is red."])
    assert "suggest" not in text


def test_without_the_model_and_in_other_languages_there_is_no_yes() -> None:
    words = ExtractiveAnswerer(judge=LocalJudge(model=False))
    context = ["Dogs are not allowed on deck."]
    assert words.generate("Are dogs allowed on deck?", context)[0] == f"The documents say: “{context[0]}”"
    assert LocalJudge(model=False).affirms("Are dogs allowed?", "Dogs are not allowed.") is None
    judge = LocalJudge()
    assert judge.affirms("Are dogs allowed on deck?", "Собакам нельзя находиться на палубе.") is None


@pytest.mark.parametrize("text", ["", " \n", "x" * 100_000, "🐝" * 5_000, "a\r\nb", "\ud800 dogs"])
def test_odd_texts_get_a_probability_or_none(text: str) -> None:
    chance = LocalJudge().affirms("Are dogs allowed on deck?" * 100, text)
    assert chance is None or 0 <= chance <= 1


def test_the_model_reads_any_number_of_pairs() -> None:
    model = Entailment(FOLDER)
    assert model.logits([]).shape == (0,)
    pairs = [("Dogs are allowed.", "Dogs are allowed."), ("Dogs are allowed.", "Dogs are not allowed.")]
    yes, no = model.logits(pairs)
    assert yes > 0 > no
    assert model.logits(pairs * 40)[0] == pytest.approx(yes, abs=1e-3)
