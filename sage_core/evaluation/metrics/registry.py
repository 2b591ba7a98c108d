"""Metrics by name: what tables ask for, one figure a question."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sage_core.errors import InputError
from sage_core.evaluation.metrics import answers, evidence, overlap, ranking
from sage_core.evaluation.records import EvalQuestion, MethodResult, Piece
from sage_core.llm.usage import total_usage

_Figure = Callable[[EvalQuestion, MethodResult, str], float]
_Needs = Callable[[EvalQuestion], bool]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    Attributes:
        name: Name in settings and results.
        label: Name in tables.
        share: Whether it is a share, shown in per cent; otherwise a number of something.
        higher_is_better: Whether more is better; None where it is neither.
        figure: Its figure for a question, a result and a language.
        needs: Whether a question has what it needs (references, a right option, evidence).
    """

    name: str
    label: str
    share: bool
    higher_is_better: bool | None
    figure: _Figure
    needs: _Needs


def _answered(question: EvalQuestion) -> bool:
    return bool(question.answers)


def _choice(question: EvalQuestion) -> bool:
    return question.gold is not None


def _evidence(question: EvalQuestion) -> bool:
    return bool(question.evidence)


def _always(_question: EvalQuestion) -> bool:
    return True


def _text(name: str, label: str, figure: Callable[[str, tuple[str, ...], str], float]) -> Metric:
    return Metric(name, label, True, True, lambda q, r, lang: figure(r.answer, q.answers, lang), _answered)


def _context(name: str, label: str, figure: Callable[[EvalQuestion, MethodResult], float]) -> Metric:
    return Metric(name, label, True, True, lambda q, r, _: figure(q, r), _evidence)


def _number(name: str, label: str, figure: Callable[[MethodResult], float], better: bool | None) -> Metric:
    return Metric(name, label, False, better, lambda _q, r, _l: figure(r), _always)


_FIXED = (
    Metric(
        "accuracy",
        "Accuracy",
        True,
        True,
        lambda q, r, _: answers.accuracy(r.choice, -1 if q.gold is None else q.gold),
        _choice,
    ),
    _text("em", "Exact match", lambda p, refs, lang: answers.exact_match(p, refs, language=lang)),
    _text("f1", "F1-Match", lambda p, refs, lang: answers.f1_match(p, refs, language=lang)),
    _text("rouge_l", "ROUGE-L", lambda p, refs, _: overlap.rouge_l(p, refs)),
    _text("bleu_1", "BLEU-1", lambda p, refs, _: overlap.bleu(p, refs, order=1)),
    _text("bleu_4", "BLEU-4", lambda p, refs, _: overlap.bleu(p, refs, order=4)),
    _text("meteor", "METEOR (exact, stem)", lambda p, refs, lang: overlap.meteor(p, refs, language=lang)),
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
        "evidence_iou", "Evidence IoU", lambda q, r: evidence.evidence_overlap(r.context, q.evidence).iou
    ),
    _context("complete", "Evidence in every document", lambda q, r: evidence.complete(r.context, q.evidence)),
    _context(
        "all_evidence",
        "All evidence",
        lambda q, r: evidence.complete(r.context, q.evidence, every_span=True),
    ),
    _number("context_tokens", "Context tokens", lambda r: float(r.context_tokens), False),
    _number("tokens", "Tokens", lambda r: float(total_usage(r.usage.values()).total), False),
    _number("seconds", "Seconds", lambda r: float(sum(r.seconds.values())), False),
    _number("rounds", "Rounds", lambda r: float(r.rounds), None),
)
METRICS = {m.name: m for m in _FIXED}
"""The metrics without a rank, by name. ``recall@k``, ``mrr@k`` and ``ndcg@k`` come from `metric`."""

_RANKED = {
    "recall": ("Recall", ranking.recall_at),
    "mrr": ("MRR", ranking.mrr_at),
    "ndcg": ("nDCG", ranking.ndcg_at),
}


def metric(name: str) -> Metric:
    """The metric of that name: one of `METRICS`, or ``recall@k``, ``mrr@k``, ``ndcg@k`` for some number k.

    Those with a rank are over everything retrieved (the context where nothing else is known), the other
    evidence metrics over the context that the answer was made from.

    Raises:
        InputError: Where there is none.
    """
    if name in METRICS:
        return METRICS[name]
    kind, _, rank = name.partition("@")
    if kind not in _RANKED or not re.fullmatch(r"[1-9]\d{0,5}", rank):
        raise InputError(
            f"there is no metric {name!r}: there are {', '.join(METRICS)}, recall@k, mrr@k and ndcg@k"
        )
    label, figure = _RANKED[kind]
    k = int(rank)
    return Metric(
        name, f"{label}@{k}", True, True, lambda q, r, _: figure(_ranked(r), q.evidence, k), _evidence
    )


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
