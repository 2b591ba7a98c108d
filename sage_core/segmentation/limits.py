"""What shapes the chunks, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from sage_core._checks import check_float, check_int
from sage_core.errors import InputError

Strategy = Literal["threshold", "optimal"]

DEFAULT_MAX_TOKENS = 100
DEFAULT_MIN_TOKENS = 20
DEFAULT_COARSE_TOKENS = 400
CHARACTERS_PER_TOKEN = 4
"""English text has a little over four characters per word piece."""


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
        *,
        names: Mapping[str, str] | None = None,
    ) -> Limits:
        """Limits with the defaults filled in.

        Args:
            coarse_tokens: See ``Segmenter``, as for the others.
            threshold: See there.
            max_tokens: See there.
            min_tokens: See there.
            strategy: See there.
            names: What the caller calls these arguments, for messages; their own names where missing.

        Raises:
            InputError: For a number out of its range, or limits that contradict each other.
        """
        called = _Names(names or {})
        coarse = check_int(called["coarse_tokens"], coarse_tokens, minimum=1)
        most = min(DEFAULT_MAX_TOKENS, coarse)
        if max_tokens is not None:
            most = check_int(called["max_tokens"], max_tokens, minimum=1)
        least = min(DEFAULT_MIN_TOKENS, most)
        if min_tokens is not None:
            least = check_int(called["min_tokens"], min_tokens, minimum=0)
        if least > most:
            raise InputError(
                f"{called['min_tokens']} must be at most {called['max_tokens']} ({most}), not {least}: "
                f"lower {called['min_tokens']} or raise {called['max_tokens']}"
            )
        if strategy not in get_args(Strategy):
            raise InputError(f"strategy is 'threshold' or 'optimal', not {strategy!r}")
        if most > coarse and strategy == "threshold":
            raise InputError(
                f"{called['max_tokens']} must be at most {called['coarse_tokens']} ({coarse}), not {most}: "
                f"raise {called['coarse_tokens']}, the window that strategy='threshold' cuts"
            )
        return cls(coarse, check_float("threshold", threshold, minimum=0, maximum=1), most, least, strategy)


class _Names(dict[str, str]):
    """What a caller calls an argument: itself where nothing else is said."""

    def __missing__(self, name: str) -> str:
        return name


def fitted_sizes(
    *,
    max_tokens: int | None = None,
    min_tokens: int | None = None,
    coarse_tokens: int | None = None,
    strategy: Strategy | None = None,
    unit: int = 1,
    names: Mapping[str, str] | None = None,
) -> dict[str, int]:
    """The three sizes of a ``Segmenter``, those that were not given made to fit those that were.

    Args:
        max_tokens: As given by the caller, like the others; None where not given.
        min_tokens: See there. Where not given it keeps the default's share of ``max_tokens``.
        coarse_tokens: See there. Where not given it is never below ``max_tokens``.
        strategy: None counts as ``"threshold"``, whose window must hold a chunk: so the sizes fit either.
        unit: What one token is in the caller's unit: `CHARACTERS_PER_TOKEN` for characters.
        names: As for `Limits.checked`.

    Raises:
        InputError: As `Limits.checked`, in the caller's own names.
    """
    called = _Names(names or {})
    coarse = None if coarse_tokens is None else check_int(called["coarse_tokens"], coarse_tokens, minimum=1)
    if max_tokens is not None:
        most = check_int(called["max_tokens"], max_tokens, minimum=1)
    else:
        most = DEFAULT_MAX_TOKENS * unit
        if coarse is not None and strategy != "optimal":
            most = min(most, coarse)
    window = max(DEFAULT_COARSE_TOKENS * unit, most) if coarse is None else coarse
    share = max(most * DEFAULT_MIN_TOKENS // DEFAULT_MAX_TOKENS, 1)
    least = min(DEFAULT_MIN_TOKENS * unit, share) if min_tokens is None else min_tokens
    limits = Limits.checked(window, 0.5, most, least, strategy or "threshold", names=names)
    return {
        "max_tokens": limits.max_tokens,
        "min_tokens": limits.min_tokens,
        "coarse_tokens": limits.coarse_tokens,
    }
