"""The settings of a selection, in one place for every caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from sage_core._checks import check_optional_int, near_match
from sage_core.errors import InputError
from sage_core.selection.cut import (
    EmptyBelow,
    Selection,
    check_bounds,
    check_floor,
    effective_min_k,
    select,
)
from sage_core.selection.rules import (
    AUTO_MAX_TOKENS_FOR_TWO,
    Rule,
    RuleName,
    resolve_rule,
    rule_from_data,
    rule_to_data,
)
from sage_core.selection.scales import Scale


@dataclass(frozen=True, slots=True)
class SelectionConfig:
    """How many of the ranked candidates to keep (paper, section V); see `sage_core.selection.select`.

    Examples:
        >>> config = SelectionConfig(rule="gradient", min_k=1)
        >>> config.select([0.9, 0.85, 0.1, 0.05]).indices
        (0, 1)

    Attributes:
        rule: ``"auto"``, ``"gradient"`` (the paper's), or a rule object of `sage_core.selection`.
        min_k: Least number to keep; None for the rule's own, see `effective_min_k`; 0 lets a rule such as
            `Threshold` keep none.
        max_k: Most to keep; None for no limit.
        gradient: The paper's g. Giving it asks for the gradient rule.
        min_context_tokens: Least tokens to keep, in whole candidates. None: for ``"auto"`` where no ``min_k``
            is given as many as come nearest to 250 tokens, else none; 0 for none.
        empty_below: Keep none if the best is less probable than this, so that "nothing relevant" is a
            result: a probability, or ``"auto"`` for `sage_core.selection.rules.EMPTY_BELOW`. None keeps some
            of any candidates; `Selection.low_confidence` then says what there is to doubt.
        max_context_tokens: Most tokens to keep, in whole candidates and at least one, whatever else is asked
            for. None: for rules by name 1,000, or 1,600 for two candidates (`sage_core.selection.rules`:
            `AUTO_MAX_TOKENS`, `AUTO_MAX_TOKENS_FOR_TWO`), but never less than the floor; else no limit.

    Raises:
        InputError: Where a value is out of its range.
    """

    rule: Rule | RuleName = "auto"
    min_k: int | None = None
    max_k: int | None = None
    gradient: float | None = None
    min_context_tokens: int | None = None
    empty_below: EmptyBelow = None
    max_context_tokens: int | None = None

    def __post_init__(self) -> None:
        check_bounds(self.min_k, self.max_k)
        check_floor(self.min_context_tokens, self.empty_below)
        check_optional_int("max_context_tokens", self.max_context_tokens, minimum=1)
        resolve_rule(self.rule, "probability", self.gradient)

    @property
    def effective_min_k(self) -> int:
        """Least number of candidates where their tokens are not known.

        ``min_k``, or what stands for None: 7, or 1 for rules that name the number themselves.
        """
        return effective_min_k(self.min_k, self.max_k, self.rule)

    @property
    def counts_tokens(self) -> bool:
        """Whether `select` makes use of the candidates' tokens."""
        return isinstance(self.rule, str) or bool(self.min_context_tokens or self.max_context_tokens)

    def within_window(self, window: int | None) -> SelectionConfig:
        """With half of an LLM's window as ceiling, where there is none; prompt and answer have the rest."""
        if window is None or self.max_context_tokens is not None:
            return self
        # A rule by name has a ceiling of its own.
        if isinstance(self.rule, str) and window // 2 >= AUTO_MAX_TOKENS_FOR_TWO:
            return self
        return replace(self, max_context_tokens=max(window // 2, 1))

    def select(
        self,
        scores: Sequence[float | None],
        scale: Scale = "probability",
        tokens: Sequence[int] | None = None,
    ) -> Selection:
        """Keep the best of the candidates with these scores.

        Args:
            scores: One per candidate, in any order; None and NaN rank last.
            scale: What the numbers are.
            tokens: Length of each, for the floor in tokens; without them the floor is `effective_min_k`.

        Raises:
            InputError: For scores that are no numbers, or an unknown scale.
        """
        return select(scores, scale=scale, tokens=tokens, **self.keywords)

    def to_dict(self) -> dict[str, Any]:
        """What differs from the defaults, in a JSON-ready form; of a rule of your own it holds the name."""
        default = SelectionConfig().keywords
        settings = {name: value for name, value in self.keywords.items() if value != default[name]}
        return {**settings, "rule": rule_to_data(self.rule)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SelectionConfig:
        """The settings that `to_dict` wrote.

        Raises:
            InputError: For a rule of your own, which is to be passed again.
        """
        names = [field.name for field in fields(cls)]
        for name in data:
            if name not in names:
                hint = near_match(str(name), names) or f"; there are {', '.join(names)}"
                raise InputError(f"there is no setting of the selection {name!r}{hint}")
        return cls(**{**data, "rule": rule_from_data(data.get("rule", "auto"))})

    @property
    def keywords(self) -> dict[str, Any]:
        """The settings as keywords."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def updated(self, **settings: Any) -> SelectionConfig:
        """These settings with those given in their place; None leaves a setting as it is."""
        return replace(self, **{name: value for name, value in settings.items() if value is not None})


def limited(selection: SelectionConfig | None, max_context_tokens: int | None) -> SelectionConfig:
    """The selection that a door was given, with the ``max_context_tokens`` beside it; None says nothing.

    Raises:
        InputError: For what is no selection, or one that has another ``max_context_tokens``.
    """
    if not isinstance(selection, SelectionConfig | None):
        raise InputError(f"selection is a SelectionConfig, not {selection!r}")
    chosen = selection or SelectionConfig()
    if max_context_tokens is None:
        return chosen
    if chosen.max_context_tokens not in (None, max_context_tokens):
        raise InputError("max_context_tokens is given twice: beside the selection, and in it")
    return replace(chosen, max_context_tokens=max_context_tokens)
