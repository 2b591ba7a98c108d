"""Another model in the place of the bundled judge: a function from pairs to probabilities."""

import pickle
from collections.abc import Sequence
from typing import Any

import pytest

from sage_core.errors import InputError, ModelError
from sage_core.verify import LocalJudge, ModelJudge, mark_answer

PASSAGES = ["The ferry leaves at seven and carries twelve cars.", "Seals sleep on rocks."]
ANSWER = "At seven the ferry departs. Seals sleep on rocks all day."


def halves(pairs: Sequence[tuple[str, str]]) -> list[float]:
    return [0.5] * len(pairs)


def test_long_passages_are_read_in_windows_and_the_best_one_counts() -> None:
    seen: list[str] = []

    def score(pairs: Any) -> list[float]:
        seen.extend(text for text, _ in pairs)
        return [0.9 if "twelve" in text else 0.1 for text, _ in pairs]

    (claim,) = ModelJudge(score, max_words=4).claims("", "It carries some twelve vehicles.", PASSAGES)
    assert claim.probability == 0.9 and all(len(text.split()) <= 4 for text in seen) and len(seen) == 4


def test_a_passage_without_spaces_is_read_in_windows_too() -> None:
    seen: list[str] = []
    passage = "渡轮早上九点一刻从码头出发。" * 20
    ModelJudge(lambda pairs: [seen.append(p[0]) or 0.4 for p in pairs], max_words=30).claims(
        "", "渡轮早上九点一刻出发。", [passage]
    )
    assert "".join(seen) == passage and max(map(len, seen)) <= 60


@pytest.mark.parametrize(
    ("answer", "language"),
    [("Die Fähre fährt am Sonntag um 8:45 Uhr ab.", "German"), ("Feribot saat 8:45'te kalkar.", None)],
)
def test_in_any_language_the_model_is_asked_and_its_word_counts(answer: str, language: str | None) -> None:
    passage = (
        "Die Fähre fährt um 9:15 Uhr ab."
        if language
        else "Pazar günü ilk feribot saat 9:15'te bir kez kalkar."
    )
    (alone,) = LocalJudge(model=False).claims("", answer, [passage])
    assert alone.reason == f"unsure: not measured in {language or 'this language'}"
    for said, reason in ((0.9, ""), (0.1, "")):
        (claim,) = ModelJudge(lambda pairs, said=said: [said] * len(pairs)).claims("", answer, [passage])
        assert (claim.probability, claim.reason) == (said, reason)


def test_it_goes_where_a_local_judge_goes() -> None:
    judge = ModelJudge(lambda pairs: [float("departs" in claim) for _, claim in pairs])
    found = mark_answer(ANSWER, PASSAGES, judge=judge)
    assert [m.support for m in found if m.text.strip()] == ["supported", "unsure"]
    assert judge.name == pickle.loads(pickle.dumps(ModelJudge(halves))).name == "model"


@pytest.mark.parametrize("wrong", ["minicheck", 3, None])
def test_wrong_models(wrong: Any) -> None:
    with pytest.raises(InputError):
        ModelJudge(wrong)


@pytest.mark.parametrize("returned", [[0.5], [2.0, 0.5, 0.5, 0.5], [float("nan")] * 4])
def test_probabilities_that_are_none(returned: list[float]) -> None:
    with pytest.raises(ModelError):
        ModelJudge(lambda pairs: returned, max_words=8).claims("", ANSWER, PASSAGES)
