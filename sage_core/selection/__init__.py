"""Selection: how many of the ranked chunks to keep (paper, Algorithm 2), on any score scale."""

from sage_core.selection.config import SelectionConfig
from sage_core.selection.cut import Selection, effective_min_k, select
from sage_core.selection.rules import (
    PAPER_GRADIENT,
    Earliest,
    FixedK,
    Gradient,
    RankedScores,
    RelativeToTop,
    Rule,
    RuleName,
    Threshold,
    rule_from_data,
    rule_to_data,
)
from sage_core.selection.scales import (
    SCALES,
    Scale,
    ScaleName,
    ScoreReading,
    finite_score,
    guess_scale,
    rank_order,
    read_scores,
    to_ratio_scale,
)

__all__ = [
    "PAPER_GRADIENT",
    "SCALES",
    "Earliest",
    "FixedK",
    "Gradient",
    "RankedScores",
    "RelativeToTop",
    "Rule",
    "RuleName",
    "Scale",
    "ScaleName",
    "ScoreReading",
    "Selection",
    "SelectionConfig",
    "Threshold",
    "effective_min_k",
    "finite_score",
    "guess_scale",
    "rank_order",
    "read_scores",
    "rule_from_data",
    "rule_to_data",
    "select",
    "to_ratio_scale",
]
