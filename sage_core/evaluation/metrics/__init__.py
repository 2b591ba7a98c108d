"""Metrics of answers, of retrieval, of cost and of time, and what their differences are worth."""

from sage_core.evaluation.metrics.answers import accuracy, exact_match, f1_match
from sage_core.evaluation.metrics.cost import CostSummary, summarise_cost
from sage_core.evaluation.metrics.evidence import (
    Overlap,
    complete,
    evidence_overlap,
    found_evidence,
    pooled_precision,
    relevant_pieces,
)
from sage_core.evaluation.metrics.overlap import bleu, meteor, rouge_l
from sage_core.evaluation.metrics.ranking import mrr_at, ndcg_at, recall_at
from sage_core.evaluation.metrics.registry import METRICS, Metric, metric, score_question
from sage_core.evaluation.metrics.relative import degradation, relative_cost_efficiency, relative_maximum
from sage_core.evaluation.metrics.resources import Latency, MemoryPeak, latency_summary, memory_peak
from sage_core.evaluation.metrics.statistics import (
    Difference,
    Interval,
    bootstrap_mean,
    mcnemar,
    paired_bootstrap,
    paired_difference,
    wilson,
)
from sage_core.evaluation.metrics.words import normalise, words

__all__ = [
    "METRICS",
    "CostSummary",
    "Difference",
    "Interval",
    "Latency",
    "MemoryPeak",
    "Metric",
    "Overlap",
    "accuracy",
    "bleu",
    "bootstrap_mean",
    "complete",
    "degradation",
    "evidence_overlap",
    "exact_match",
    "f1_match",
    "found_evidence",
    "latency_summary",
    "mcnemar",
    "memory_peak",
    "meteor",
    "metric",
    "mrr_at",
    "ndcg_at",
    "normalise",
    "paired_bootstrap",
    "paired_difference",
    "pooled_precision",
    "recall_at",
    "relative_cost_efficiency",
    "relative_maximum",
    "relevant_pieces",
    "rouge_l",
    "score_question",
    "summarise_cost",
    "wilson",
    "words",
]
