"""Metrics by name: what tables ask for, one figure a question."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sage_core.errors import InputError
from sage_core.llm import ChatModel
from sage_core.text.spans import Span
from sage_eval.llm_eval import AnswerGrader
from sage_eval.metrics import answers, evidence
from sage_eval.records import EvalDocument, EvalQuestion, Evidence, MethodResult, Piece

_Figure = Callable[[EvalQuestion, MethodResult, str], float]
_Needs = Callable[[EvalQuestion], bool]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    Attributes:
        name: Name in settings and results.
        label: Name in tables.
        share: Whether it is a share, shown in per cent; otherwise a number of something.
        figure: Its figure for a question, a result and a language.
        needs: Whether a question has what it needs (references, a right option, evidence).
    """

    name: str
    label: str
    share: bool
    figure: _Figure
    needs: _Needs


def _answered(question: EvalQuestion) -> bool:
    return bool(question.answers)


def _choice(question: EvalQuestion) -> bool:
    return question.gold is not None


def _hard(question: EvalQuestion) -> bool:
    return bool(question.hard) and question.gold is not None


def _evidence(question: EvalQuestion) -> bool:
    return bool(question.evidence)


def _always(_question: EvalQuestion) -> bool:
    return True


def _text(name: str, label: str, figure: Callable[[str, tuple[str, ...], str], float]) -> Metric:
    return Metric(name, label, True, lambda q, r, lang: figure(r.answer, q.answers, lang), _answered)


def _context(name: str, label: str, figure: Callable[[EvalQuestion, MethodResult], float]) -> Metric:
    return Metric(name, label, True, lambda q, r, _: figure(q, r), _evidence)


_FIXED = (
    Metric(
        "accuracy",
        "Accuracy",
        True,
        lambda q, r, _: answers.accuracy(r.choice, -1 if q.gold is None else q.gold),
        _choice,
    ),
    Metric("accuracy_hard", "Accuracy (hard)", True, lambda q, r, _: float(r.choice == q.gold), _hard),
    _text("em", "Exact match", lambda p, refs, lang: answers.exact_match(p, refs, language=lang)),
    _text("f1", "F1-Match", lambda p, refs, lang: answers.f1_match(p, refs, language=lang)),
    _text("rouge_l", "ROUGE-L", lambda p, refs, _: answers.rouge_l(p, refs)),
    _text("bleu_1", "BLEU-1", lambda p, refs, _: answers.bleu(p, refs, order=1)),
    _text("bleu_4", "BLEU-4", lambda p, refs, _: answers.bleu(p, refs, order=4)),
    _text("meteor", "METEOR (exact, stem)", lambda p, refs, lang: answers.meteor(p, refs, language=lang)),
    _context(
        "evidence_recall",
        "Evidence recall",
        lambda q, r: evidence.evidence_overlap(r.context, q.evidence).recall,
    ),
    _context(
        "evidence_precision",
        "Evidence precision",
        lambda q, r: evidence.evidence_overlap(r.context, q.evidence).precision,
    ),
    _context(
        "all_evidence",
        "All evidence",
        lambda q, r: float(all(evidence.found_evidence(r.context, q.evidence))),
    ),
    Metric("rounds", "Rounds", False, lambda _q, r, _l: float(r.rounds), _always),
)
METRICS = {m.name: m for m in _FIXED}
"""The metrics without a rank, by name. ``recall@k`` and ``mrr@k`` come from `metric`."""

_RANKED = {
    "recall": ("Recall", evidence.recall_at),
    "mrr": ("MRR", evidence.mrr_at),
}


def metric(name: str) -> Metric:
    """The metric of that name: one of `METRICS`, or ``recall@k``, ``mrr@k`` for some number k.

    Those with a rank are over everything retrieved (the context where nothing else is known), the other
    evidence metrics over the context that the answer was made from.

    Raises:
        InputError: Where there is none.
    """
    if name in METRICS:
        return METRICS[name]
    kind, _, rank = name.partition("@")
    if kind not in _RANKED or not re.fullmatch(r"[1-9]\d{0,5}", rank):
        raise InputError(f"there is no metric {name!r}: there are {', '.join(METRICS)}, recall@k and mrr@k")
    label, figure = _RANKED[kind]
    k = int(rank)
    return Metric(name, f"{label}@{k}", True, lambda q, r, _: figure(_ranked(r), q.evidence, k), _evidence)


def score_question(
    question: EvalQuestion, result: MethodResult, metrics: Iterable[str], *, language: str = "en"
) -> dict[str, float]:
    """The figures of one question, by name; those that it lacks references or evidence for are left out.

    Args:
        question: The question.
        result: What a method made of it.
        metrics: Names of metrics.
        language: Of the answers: ``"en"`` or ``"pt"``.

    Raises:
        InputError: For an unknown metric or language.
        MissingExtraError: Where a metric's library is not installed.
    """
    wanted = [metric(name) for name in metrics]
    return {m.name: m.figure(question, result, language) for m in wanted if m.needs(question)}


def _ranked(result: MethodResult) -> list[Piece]:
    return [hit.piece for hit in result.ranked] or list(result.context)


JUDGED = "judge_score"
"""The metric that another LLM gives; see `sage_eval.llm_eval`."""
_NOTHING = EvalQuestion("", "", "")
_EVIDENCE_ONLY = EvalQuestion("", "", "", evidence=(Evidence("", Span(0, 1)),))


def check_metrics(names: Iterable[str]) -> None:
    """Raise InputError for a metric that nobody knows."""
    for name in names:
        if name != JUDGED:
            metric(name)


def metric_label(name: str) -> str:
    """A metric's name in tables."""
    return "Judge's score (1 to 10)" if name == JUDGED else metric(name).label


def is_share(name: str) -> bool:
    """Whether a metric is a share of 1; costs and a judge's score are numbers of something."""
    return METRICS[name].share if name in METRICS else "@" in name


def of_retrieval(names: Iterable[str]) -> list[str]:
    """The metrics that need no answer.

    Raises:
        InputError: For an unknown metric.
    """
    wanted = [metric(name) for name in names if name != JUDGED]
    return [m.name for m in wanted if m.needs(_EVIDENCE_ONLY) and not m.needs(_NOTHING)]


class Scorer:
    """Scores results.

    Args:
        metrics: Names of metrics: those of `metric`, and `JUDGED`.
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

        `JUDGED` is None if the judge's reply holds no score of the scale: that is no low score.

        Raises:
            LLMError: Where the judge could not be reached.
        """
        known = [name for name in self._metrics if name != JUDGED]
        figures: dict[str, float | None] = {
            **score_question(question, result, known, language=self._language)
        }
        if JUDGED in self._metrics and self._judge is not None and question.answers:
            grade = self._judge.grade(question.text, result.answer, question.answers)
            figures[JUDGED] = grade.score
        return figures
