"""Which figures a result gets: the metrics by name, and two that need more than the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sage_core.evaluation.llm_eval import AnswerGrader
from sage_core.evaluation.metrics import metric, score_question
from sage_core.evaluation.records import EvalDocument, EvalQuestion, Evidence, MethodResult
from sage_core.llm import ChatModel
from sage_core.text.spans import Span

HARD = "accuracy_hard"
JUDGED = "judge_score"
_NOTHING = EvalQuestion("", "", "")
_EVIDENCE_ONLY = EvalQuestion("", "", "", evidence=(Evidence("", Span(0, 1)),))
OF_OUR_OWN = {HARD: "Accuracy (hard)", JUDGED: "Judge's score (1 to 10)"}


def check_metrics(names: Iterable[str]) -> None:
    """Raise InputError for a metric that nobody knows."""
    for name in names:
        if name not in OF_OUR_OWN:
            metric(name)


def metric_label(name: str) -> str:
    """A metric's name in tables."""
    return OF_OUR_OWN[name] if name in OF_OUR_OWN else metric(name).label


def is_share(name: str) -> bool:
    """Whether a metric is a share of 1, which papers print in per cent."""
    return name == HARD or (name != JUDGED and metric(name).share)


def of_retrieval(names: Iterable[str]) -> list[str]:
    """The metrics that need no answer.

    Raises:
        InputError: For an unknown metric.
    """
    wanted = [name for name in names if name not in OF_OUR_OWN]
    return [n for n in wanted if metric(n).needs(_EVIDENCE_ONLY) and not metric(n).needs(_NOTHING)]


class Scorer:
    """Scores results.

    Args:
        metrics: Names of metrics: those of `sage_core.evaluation.metrics` and `OF_OUR_OWN`.
        judge_model: Compares answers with references; without one, `JUDGED` is left out.
        language: Of the answers.

    Raises:
        InputError: For an unknown metric.
    """

    def __init__(
        self, metrics: Iterable[str], *, judge_model: ChatModel | None = None, language: str = "en"
    ) -> None:
        self._metrics = tuple(metrics)
        check_metrics(self._metrics)
        self._judge = None if judge_model is None else AnswerGrader(judge_model)
        self._language = language

    def __call__(
        self, question: EvalQuestion, result: MethodResult, documents: Mapping[str, EvalDocument]
    ) -> dict[str, float | None]:
        """The figures of one question; those that it lacks references or evidence for are left out.

        `JUDGED` is None where the judge's reply holds no score of the scale: that is no low score.

        Raises:
            LLMError: Where the judge could not be reached.
        """
        known = [name for name in self._metrics if name not in OF_OUR_OWN]
        figures: dict[str, float | None] = {
            **score_question(question, result, known, language=self._language)
        }
        if HARD in self._metrics and question.hard and question.gold is not None:
            figures[HARD] = float(result.choice == question.gold)
        if JUDGED in self._metrics and self._judge is not None and question.answers:
            grade = self._judge.grade(question.text, result.answer, question.answers)
            figures[JUDGED] = grade.score
        return figures
