"""What a run writes: its configuration, and the line of one result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from sage_core.evaluation.experiment import Experiment, Row
from sage_core.evaluation.records import Dataset, EvalDocument, EvalQuestion, MethodResult
from sage_core.evaluation.run_folder import Line
from sage_core.llm.usage import TokenUsage


def configuration(
    experiment: Experiment, rows: Sequence[Row], datasets: Sequence[Dataset], **settings: object
) -> dict[str, object]:
    """Everything that changes results, JSON-ready: the content of a run's header.

    Args:
        experiment: What is run.
        rows: The rows that are run.
        datasets: The data sets as they are asked, after sampling.
        **settings: Seed, reader, sampling and whatever else matters.
    """
    return {
        "experiment": experiment.name,
        "metrics": list(experiment.metrics),
        "rows": {row.name: dict(row.method) for row in rows},
        "datasets": [
            {
                "name": dataset.name,
                "documents": len(dataset.documents),
                "questions": len(dataset.questions),
                "pooled": dataset.pooled,
                "chance": chance(dataset),
                "digest": dataset_digest(dataset),
            }
            for dataset in datasets
        ],
        **settings,
    }


def chance(dataset: Dataset) -> float | None:
    """Accuracy of guessing at multiple-choice questions; None where there are none."""
    shares = [1 / len(q.options) for q in dataset.questions if q.options]
    return round(sum(shares) / len(shares), 6) if shares else None


def dataset_digest(dataset: Dataset) -> str:
    """SHA-256 over documents and questions, whatever file they came from."""
    digest = hashlib.sha256()
    for document in dataset.documents:
        digest.update(json.dumps([document.id, document.text, document.title, document.abstract]).encode())
    for question in dataset.questions:
        evidence = [[e.document, *e.span] for e in question.evidence]
        fields = [question.id, question.document, question.text, question.answers, evidence]
        digest.update(json.dumps([*fields, question.options, question.gold, question.hard]).encode())
    return digest.hexdigest()


def method_line(row: Row, key: str, settings: Mapping[str, object]) -> Line:
    """The settings of a row's method, and the digest of them."""
    return {"kind": "method", "row": row.name, "key": key, "settings": dict(settings)}


def prepare_line(
    row: Row,
    dataset: Dataset,
    documents: Sequence[EvalDocument],
    seconds: float,
    stages: Mapping[str, float],
    usage: Mapping[str, TokenUsage],
) -> Line:
    """What cutting, summarising and indexing took."""
    return {
        "kind": "prepare",
        "dataset": dataset.name,
        "row": row.name,
        "documents": len(documents),
        "characters": sum(len(d.text) for d in documents),
        "seconds": round(seconds, 6),
        "stages": {stage: round(s, 6) for stage, s in stages.items()},
        "usage": _usage(usage),
    }


def answer_line(
    row: Row,
    dataset: Dataset,
    question: EvalQuestion,
    result: MethodResult,
    scores: Mapping[str, float | None],
    seconds: float,
) -> Line:
    """One answered question."""
    stages = {stage: round(s, 6) for stage, s in result.seconds.items()}
    return {
        "kind": "answer",
        "dataset": dataset.name,
        "row": row.name,
        "question": question.id,
        "document": question.document,
        "scores": {name: None if value is None else round(value, 6) for name, value in scores.items()},
        "answer": result.answer,
        "choice": result.choice,
        "grade": result.score,
        "rounds": result.rounds,
        "stop_reason": result.stop_reason,
        "selected": len(result.context),
        "found": len(result.ranked),
        "context_tokens": result.context_tokens,
        "usage": _usage(result.usage),
        "seconds": {**stages, "total": round(seconds, 6)},
    }


def failed_line(row: Row, dataset: Dataset, question: EvalQuestion, error: str) -> Line:
    """One question that failed."""
    return {
        "kind": "failed",
        "dataset": dataset.name,
        "row": row.name,
        "question": question.id,
        "error": error,
    }


def _usage(usage: Mapping[str, TokenUsage]) -> dict[str, object]:
    return {role: used.to_dict() for role, used in usage.items()}
