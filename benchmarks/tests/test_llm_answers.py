"""What the benchmark of answers counts, on cases small enough to check by hand."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import llm_answers
from development_sets import Corpus, Question

from sage_core.text.spans import Span


def test_likeness_to_the_best_gold_answer():
    assert llm_answers.likeness("It was the stick.", ["a mirror", "a stick"])[0] == 1.0
    assert llm_answers.likeness("sticks", ["a stick"])[0] == 0.0
    assert llm_answers.likeness("a red stick", ["the stick"])[1] == pytest.approx(2 / 3)
    assert llm_answers.likeness("", ["a stick"]) == [0.0, 0.0, 0.0]


def test_names_are_exchanged_everywhere_and_the_evidence_moves_along():
    text = "Anna Holt came. Bert Lowe built the mill in 1820. It burned down in 1850."
    built, burned = text.index("Bert"), text.index("It burned")

    def asked(question, answer, start, end):
        return Question(question, 0, [Span(start, end)], row={"answers": [answer]})

    corpus = Corpus(
        [text],
        [""],
        [
            asked("Who built the mill?", "Bert Lowe", built, burned - 1),
            asked("Who came?", "Anna Holt", 0, built - 1),
            asked("When did it burn down?", "1850", burned, len(text)),
            asked("When was the mill built?", "1820", built, burned - 1),
        ],
        False,
    )
    found = llm_answers.exchanged(corpus, 0)
    assert found.texts == ["Bert Lowe came. Anna Holt built the mill in 1850. It burned down in 1820."]
    assert [q.row["answers"] for q in found.questions] == [["Anna Holt"], ["Bert Lowe"], ["1820"], ["1850"]]
    assert [q.row["answers"][0] in q.evidence[0].of(found.texts[0]) for q in found.questions] == [True] * 4


def test_the_share_of_the_gain_and_what_it_is_over_stock(capsys):
    questions = [Question("?", d, [Span(0, 1)], row={"answers": ["a"]}) for d in range(4)]
    corpus = Corpus(["x"] * 4, [""] * 4, questions, False)
    stock, ours = next(iter(llm_answers.STOCK)), llm_answers.OURS[0]
    nats = {llm_answers.NOTHING: -4.0, stock: -3.5, ours: -2.5, llm_answers.ORACLE: -2.0}
    rows = {arm: np.tile([value, np.nan, np.nan, np.nan, 0.001], (4, 1)) for arm, value in nats.items()}
    llm_answers.report("toy", 512, corpus, rows, 0)
    text = capsys.readouterr().out
    assert "the evidence +2.00 [+2.00, +2.00]\n" in text
    assert f"| {ours} | -2.50 | 75 [+75, +75] | +50 [+50, +50] |" in text and "F1" not in text
    llm_answers.report("toy", 512, corpus, {**rows, llm_answers.ORACLE: rows[llm_answers.NOTHING]}, 0)
    assert capsys.readouterr().out.endswith("this reader cannot measure here\n")
