"""What the scores of retrievers and rerankers in LlamaIndex are: their scale, and rules by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any, Literal

from sage_core.errors import InputError
from sage_core.selection import rules as selection_rules
from sage_core.selection.cut import Gradient, Rule, Scale

ScaleName = Scale | Literal["auto"]

# Cosines of unit vectors come out a little above 1.
_ROUNDING = 1e-3
_RANK_FUSION = 0.1  # six lists, each with the chunk at its head: 6 / 60

_RULES: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        selection_rules.FixedK,
        selection_rules.Threshold,
        selection_rules.RelativeToTop,
        selection_rules.LargestGap,
        selection_rules.Autocut,
        selection_rules.Knee,
        selection_rules.TopP,
        selection_rules.ExpectedF,
        Gradient,
    )
}


def plain_score(score: float | None) -> float | None:
    """A score as a Python float; None for None and NaN, which no store or JSON file can hold."""
    if score is None:
        return None
    value = float(score)
    return None if math.isnan(value) else value


def guess_scale(scores: Sequence[float | None]) -> Scale:
    """The scale that scores of one candidate list look like.

    Between -1 and 1: ``cosine``, taken relative to the list, which is also safe for what Chroma and relative
    score fusion give, and for probabilities. At or above 0, some above 1: ``unbounded`` (BM25, an LLM's
    grades from 1 to 10), and likewise where all are above 0 and at most 0.1 (reciprocal rank fusion, which
    says nothing of relevance). Else ``logit`` (a cross-encoder without activation).

    Logits that are all positive look like BM25; name the scale where that can happen.
    """
    known = [s for s in scores if s is not None and math.isfinite(s)]
    if known and min(known) > 0 and max(known) <= _RANK_FUSION:
        return "unbounded"
    if not known or (min(known) >= -1 - _ROUNDING and max(known) <= 1 + _ROUNDING):
        return "cosine"
    return "unbounded" if min(known) >= 0 else "logit"


def rule_to_data(rule: Rule | str) -> Any:
    """A rule as JSON-ready data; see `rule_from_data`."""
    if isinstance(rule, str):
        return rule
    settings: dict[str, Any] = {}
    if isinstance(rule, selection_rules.Earliest):
        return {"rule": "Earliest", "rules": [rule_to_data(part) for part in rule.rules]}
    if is_dataclass(rule) and not isinstance(rule, type):
        settings = asdict(rule)
    return {"rule": type(rule).__name__, **settings}


def rule_from_data(data: Any) -> Any:
    """A rule from `rule_to_data`; rules themselves and names pass unchanged.

    Raises:
        InputError: For a rule that is not one of `sage_core.selection`.
    """
    if not isinstance(data, Mapping):
        return data
    settings = dict(data)
    name = settings.pop("rule", None)
    if name == "Earliest":
        return selection_rules.Earliest(tuple(rule_from_data(part) for part in settings["rules"]))
    if name not in _RULES:
        raise InputError(
            f"the rule {name!r} is not one of {', '.join(_RULES)}: pass it again, from_dict(data, rule=...)"
        )
    return _RULES[name](**settings)
