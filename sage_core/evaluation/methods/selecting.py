"""Settings of selection and feedback from a configuration."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, cast

from sage_core.errors import InputError
from sage_core.evaluation.specs import Settings
from sage_core.feedback import FeedbackConfig
from sage_core.selection import rules as selection_rules
from sage_core.selection.cut import PAPER_GRADIENT, Rule, RuleName
from sage_core.selection.rules import FixedK

_LOOP = ("accept_score", "max_rounds", "policy", "max_calls", "max_tokens")
_RULES = {
    "autocut": "Autocut",
    "gap": "LargestGap",
    "knee": "Knee",
    "relative": "RelativeToTop",
    "threshold": "Threshold",
    "top_p": "TopP",
}


def read_selection(
    settings: Settings, *, top_k: int | None, feedback: bool, paper: bool = False
) -> FeedbackConfig:
    """Selection and loop.

    Settings: ``rule`` (``"auto"``, ``"gradient"``, or ``{"kind": ..., ...}`` with a rule of
    `sage_core.selection.rules`), ``min_k``, ``gradient``, ``max_k``; and of the loop ``accept_score``,
    ``max_rounds``, ``policy``, ``max_calls``, ``max_tokens``.

    Args:
        settings: The method's configuration.
        top_k: Take so many, whatever their scores; None selects by the rule.
        feedback: Whether there is a loop; without one its settings are left for `Settings.end` to complain.
        paper: Whether the paper's values stand where a setting is left out.

    Raises:
        InputError: For a value out of range.
    """
    values: dict[str, Any] = {"policy": "paper"} if paper else {}
    if feedback:
        values.update((name, settings.raw(name)) for name in _LOOP if name in settings)
    if top_k is not None:
        # The rule takes min_k alone, so that the loop's steps of min_k are steps of the number of chunks.
        return FeedbackConfig(rule=FixedK(1), min_k=top_k, **values)
    if paper:
        values = {"min_k": 7, "gradient": PAPER_GRADIENT, **values}
    for name in ("min_k", "max_k", "gradient"):
        if name in settings:
            values[name] = settings.raw(name)
    if "rule" in settings:
        values["rule"] = _rule(settings.spec("rule", "auto"))
    return FeedbackConfig(**values)


def _rule(spec: object) -> Rule | RuleName:
    if isinstance(spec, str) and spec not in _RULES:
        return cast("RuleName", spec)  # FeedbackConfig says what names there are
    settings = Settings(cast("Any", spec), "selection rule")
    if settings.kind not in _RULES:
        raise InputError(f"unknown selection rule {settings.kind!r}: one of {', '.join(_RULES)}")
    rule = getattr(selection_rules, _RULES[settings.kind])
    known = {field.name: field.default is MISSING for field in fields(rule)}
    given = settings.rest()
    if not given.keys() <= known.keys() or any(needed and n not in given for n, needed in known.items()):
        raise InputError(f"selection rule {settings.kind!r} takes {', '.join(known) or 'no settings'}")
    made: Rule = rule(**given)
    return made
