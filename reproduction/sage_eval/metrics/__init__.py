"""Metrics of answers, of retrieval, of cost and of time, and what their differences are worth."""

from sage_eval.metrics.answers import (
    accuracy,
    bleu,
    exact_match,
    f1_match,
    meteor,
    normalize,
    rouge_l,
    words,
)
from sage_eval.metrics.bootstrap import Difference, paired_bootstrap
from sage_eval.metrics.cost import (
    MemoryPeak,
    degradation,
    memory_peak,
    relative_cost_efficiency,
    relative_maximum,
)
from sage_eval.metrics.evidence import (
    Overlap,
    evidence_overlap,
    found_evidence,
    mrr_at,
    recall_at,
    relevant_pieces,
)
from sage_eval.metrics.registry import METRICS, Metric, metric, score_question
from sage_eval.metrics.statistics import Interval, bootstrap_mean, mcnemar, paired_difference, wilson

__all__ = [
    "METRICS",
    "Difference",
    "Interval",
    "MemoryPeak",
    "Metric",
    "Overlap",
    "accuracy",
    "bleu",
    "bootstrap_mean",
    "degradation",
    "evidence_overlap",
    "exact_match",
    "f1_match",
    "found_evidence",
    "mcnemar",
    "memory_peak",
    "meteor",
    "metric",
    "mrr_at",
    "normalize",
    "paired_bootstrap",
    "paired_difference",
    "recall_at",
    "relative_cost_efficiency",
    "relative_maximum",
    "relevant_pieces",
    "rouge_l",
    "score_question",
    "wilson",
    "words",
]
