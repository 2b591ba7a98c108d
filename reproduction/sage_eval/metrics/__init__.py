"""Metrics of answers, of retrieval, of cost and of time, and what their differences are worth."""

from sage_eval.metrics.bootstrap import Difference, paired_bootstrap
from sage_eval.metrics.cost import (
    MemoryPeak,
    degradation,
    memory_peak,
    relative_cost_efficiency,
    relative_maximum,
)
from sage_eval.metrics.registry import METRICS, Metric, metric, score_question
from sage_eval.metrics.statistics import Interval, bootstrap_mean, mcnemar, paired_difference, wilson

__all__ = [
    "METRICS",
    "Difference",
    "Interval",
    "MemoryPeak",
    "Metric",
    "bootstrap_mean",
    "degradation",
    "mcnemar",
    "memory_peak",
    "metric",
    "paired_bootstrap",
    "paired_difference",
    "relative_cost_efficiency",
    "relative_maximum",
    "score_question",
    "wilson",
]
