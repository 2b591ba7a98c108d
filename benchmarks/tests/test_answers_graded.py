"""Labels of the real answers."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import free_answers
import judge
import real_answers
from real_answers import Case, label

CASE = Case("1", "When does the ferry leave?", ["at seven"], ["The ferry leaves at seven."], ["Seals sleep."])


def test_an_answer_is_right_wrong_or_neither() -> None:
    said = {"It leaves at seven.": "right", "It leaves at nine.": "unclear", "In the morning.": "wrong"}
    assert {answer: label(CASE, "right passages", answer) for answer in said} == said
    assert label(CASE, "other passages", "It leaves at seven.") == "unclear"
    assert label(CASE, "right passages", "The documents do not say.") == "unclear"


def test_the_saved_answers_are_of_the_known_sets() -> None:
    rows = real_answers.saved()
    assert len(rows) > 300 and {r["shown"] for r in rows} == set(real_answers.SHOWN)
    assert {r["id"].partition(":")[0] for r in rows} <= set(real_answers.SETS)
    assert len({(r["id"], r["shown"]) for r in rows}) == len(rows)


def test_balanced_accuracy() -> None:
    assert judge.balanced_accuracy([True, True, False, False], [0.9, 0.1, 0.1, 0.1]).startswith("75.0%")


def test_saved_free_answers_have_passages_and_what_contradicts_them() -> None:
    saved = json.loads(free_answers.SAVED.read_text(encoding="utf-8"))
    assert len(saved["cases"]) == 200 and {c["label"] for c in saved["cases"]} == set(free_answers.RIGHT)
    for case in saved["cases"]:
        passages = [saved["passages"][i] for i in case["passages"]]
        assert passages and bool(case["instead"]) == (case["label"] == "contradicted")
        assert not case["instead"] or any(case["instead"] in passage for passage in passages)
