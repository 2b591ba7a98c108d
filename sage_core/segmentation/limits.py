"""What shapes the chunks, checked."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from sage_core._checks import check_float, check_int
from sage_core.errors import InputError

Strategy = Literal["threshold", "optimal"]
Size = Literal["sentence", "passage", "section", "topic"]

SIZES: dict[str, int] = {"sentence": 35, "passage": 80, "section": 250}
"""Target tokens by name: a statement, a paragraph, a section."""

TOPIC = "topic"
"""In place of a target: chunks end where the text changes, and their sizes follow from that."""

DEFAULT_MAX_TOKENS = 130
"""Twice the mean that retrieves most evidence; a whole paragraph of usual length fits."""

TOPIC_MAX_TOKENS = 300
"""The limit with `TOPIC`: of the cuts inside paragraphs four of five then fall where the text changes."""

_USUAL_SHARE = 0.5  # of the hard limit: the size that costs nothing, and the highest mean
_TOPIC_SHARE = 0.385  # of the hard limit: the size that costs nothing where only the text decides
_TABLE_SHARE = 2  # of the default limit: a table of up to so many tokens stays whole where no limit is given
_LEAST_MAX = 100  # with a small target, whole sentences must still fit
_SHORT_SHARE = 0.25  # of the target: below this a chunk is avoided
DEFAULT_COARSE_TOKENS = 400


def target_of(chunk_size: int) -> int:
    """The target for a framework's ``chunk_size``: two thirds, the mean size that its own splitters reach."""
    return max(1, round(2 * chunk_size / 3))


@dataclass(frozen=True, slots=True)
class Limits:
    """What shapes the chunks (see ``Segmenter``).

    Attributes:
        coarse_tokens: Window of the paper's strategy.
        threshold: P(same) from which two sentences are kept together.
        max_tokens: Hard limit of a chunk.
        min_tokens: Below this chunks are avoided.
        strategy: How probabilities become chunks.
        target_tokens: The mean that was requested; None for the default.
        by_topic: Whether sizes follow from the text alone, without a mean.
        table_tokens: Up to so many tokens a table or fence is one chunk, if that is more than ``max_tokens``.
    """

    coarse_tokens: int
    threshold: float
    max_tokens: int
    min_tokens: int
    strategy: Strategy
    target_tokens: int | None = None
    by_topic: bool = False
    table_tokens: int = 0

    @property
    def most_of_a_table(self) -> int:
        """Up to so many tokens a table stays whole."""
        return max(self.table_tokens, self.max_tokens)

    @property
    def usual_tokens(self) -> int:
        """The size at which a chunk costs nothing: the target, or half of the hard limit."""
        if self.target_tokens is not None:
            return self.target_tokens
        usual = (_TOPIC_SHARE if self.by_topic else _USUAL_SHARE) * self.max_tokens
        if self.min_tokens > usual:  # a high floor: halfway between floor and ceiling
            usual = (self.min_tokens + self.max_tokens) / 2
        return max(1, round(usual))

    def lowered_to(self, max_tokens: int) -> Limits:
        """The same with a lower hard limit; what does not fit below it is lowered too."""
        target = self.target_tokens
        if target is not None:
            target = min(target, target_of(max_tokens))
        least = min(self.min_tokens, max_tokens if target is None else target)
        return replace(self, max_tokens=max_tokens, min_tokens=least, target_tokens=target, table_tokens=0)

    @classmethod
    def checked(
        cls,
        coarse_tokens: int | None,
        threshold: float,
        max_tokens: int | None,
        min_tokens: int | None,
        strategy: Strategy,
        target_tokens: int | Size | None = None,
    ) -> Limits:
        """Limits with the defaults filled in; the arguments are those of ``Segmenter``.

        Raises:
            InputError: For a number out of its range, or limits that contradict each other.
        """
        if strategy not in get_args(Strategy):
            raise InputError(f"strategy is 'threshold' or 'optimal', not {strategy!r}")
        coarse = DEFAULT_COARSE_TOKENS
        if coarse_tokens is not None:
            coarse = check_int("coarse_tokens", coarse_tokens, minimum=1)
            if strategy == "optimal":
                warnings.warn(
                    "coarse_tokens does nothing with strategy='optimal': leave it out",
                    stacklevel=4,
                )
        target = _target("target_tokens", target_tokens)
        if target_tokens is not None and strategy == "threshold":
            raise InputError(
                "target_tokens needs strategy='optimal': with 'threshold' sizes follow from the probabilities"
            )
        by_topic = target_tokens == TOPIC
        most = TOPIC_MAX_TOKENS if by_topic else DEFAULT_MAX_TOKENS
        if target is not None:
            most = max(2 * target, _LEAST_MAX)
        if strategy == "threshold":
            most = min(most, coarse)
        if max_tokens is not None:
            most = check_int("max_tokens", max_tokens, minimum=1)
        if target is not None and target > most:
            raise InputError(
                f"target_tokens must be at most max_tokens ({most}), not {target}: "
                f"raise max_tokens, or leave it out"
            )
        usual = (_TOPIC_SHARE if by_topic else _USUAL_SHARE) * most if target is None else target
        least = round(_SHORT_SHARE * usual)
        if min_tokens is not None:
            least = check_int("min_tokens", min_tokens, minimum=0)
        name, bound = ("max_tokens", most) if target is None else ("target_tokens", target)
        if least > bound:
            raise InputError(
                f"min_tokens must be at most {name} ({bound}), not {least}: lower min_tokens or raise {name}"
            )
        if most > coarse and strategy == "threshold":
            raise InputError(
                f"max_tokens must be at most coarse_tokens ({coarse}), not {most}: "
                f"raise coarse_tokens, the window that strategy='threshold' cuts"
            )
        ratio = check_float("threshold", threshold, minimum=0, maximum=1)
        table = 0 if max_tokens is not None or strategy == "threshold" else _TABLE_SHARE * DEFAULT_MAX_TOKENS
        return cls(coarse, ratio, most, least, strategy, target, by_topic, table)


def chunk_sizes(chunk_size: int | None, target_tokens: int | Size | None = None) -> dict[str, Any]:
    """Size arguments of a ``Segmenter`` for a framework's ``chunk_size``: limit, and two thirds the mean.

    So a number that somebody brings along from another splitter gives chunks of about the size it gave there.
    ``target_tokens`` comes before two thirds of it.

    Raises:
        InputError: For a number out of its range, or a mean above the limit.
    """
    if chunk_size is None:
        return {} if target_tokens is None else {"target_tokens": target_tokens}
    most = check_int("chunk_size", chunk_size, minimum=1)
    mean = target_of(most) if target_tokens is None else target_tokens
    target = _target("target_tokens", mean)
    if target is not None and target > most:
        raise InputError(f"target_tokens must be at most chunk_size ({most}), not {target}")
    return {"target_tokens": mean, "max_tokens": most}


def _target(name: str, value: int | Size | None) -> int | None:
    if value is None or value == TOPIC:
        return None
    if isinstance(value, str):
        if value not in SIZES:
            known = ", ".join([*(f"{size!r} ({tokens})" for size, tokens in SIZES.items()), repr(TOPIC)])
            raise InputError(f"{name} is a whole number or one of {known}, not {value!r}")
        return SIZES[value]
    return check_int(name, value, minimum=1)
