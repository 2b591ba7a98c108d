"""What shapes the chunks, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from sage_core._checks import real_number, whole_number
from sage_core.errors import InputError

Strategy = Literal["threshold", "optimal"]

DEFAULT_MAX_TOKENS = 100
DEFAULT_MIN_TOKENS = 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What shapes the chunks (see ``Segmenter``)."""

    coarse_tokens: int
    threshold: float
    max_tokens: int
    min_tokens: int
    strategy: Strategy

    @classmethod
    def checked(
        cls,
        coarse_tokens: int,
        threshold: float,
        max_tokens: int | None,
        min_tokens: int | None,
        strategy: Strategy,
    ) -> Limits:
        """Limits with the defaults filled in.

        Raises:
            InputError: For a number out of its range, or limits that contradict each other.
        """
        coarse = whole_number("coarse_tokens", coarse_tokens, 1)
        most = min(DEFAULT_MAX_TOKENS, coarse)
        if max_tokens is not None:
            most = whole_number("max_tokens", max_tokens, 1)
        least = min(DEFAULT_MIN_TOKENS, most)
        if min_tokens is not None:
            least = whole_number("min_tokens", min_tokens, 0)
        if least > most:
            raise InputError(
                f"min_tokens must be at most max_tokens ({most}), not {least}: "
                "lower min_tokens or raise max_tokens"
            )
        if strategy not in get_args(Strategy):
            raise InputError(f"strategy is 'threshold' or 'optimal', not {strategy!r}")
        if most > coarse and strategy == "threshold":
            raise InputError(
                f"max_tokens must be at most coarse_tokens ({coarse}), not {most}: raise "
                "coarse_tokens, the window that strategy='threshold' cuts"
            )
        return cls(coarse, real_number("threshold", threshold, 0, 1), most, least, strategy)
