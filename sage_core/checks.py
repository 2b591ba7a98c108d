"""Checks of arguments: what is no number, or out of range, is told by name before it can do harm."""

from __future__ import annotations

import math
import numbers
import operator

from sage_core.errors import InputError


def whole_number(name: str, value: object, least: int) -> int:
    """``value`` as an int; NumPy integers are numbers too, True and False are not.

    Raises:
        InputError: For anything but a whole number of at least ``least``.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")
    number = operator.index(value)
    if number < least:
        raise InputError(f"{name} must be at least {least}, not {number}")
    return number


def optional_whole_number(name: str, value: object, least: int) -> int | None:
    """`whole_number`, or None for no limit.

    Raises:
        InputError: As `whole_number`.
    """
    if value is None:
        return None
    try:
        return whole_number(name, value, least)
    except InputError as error:
        raise InputError(f"{error}; None stands for no limit") from None


def real_number(name: str, value: object, low: float = -math.inf, high: float = math.inf) -> float:
    """``value`` as a float; NumPy numbers are numbers too, True and False are not.

    Raises:
        InputError: For anything but a number from ``low`` to ``high``; NaN is none.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InputError(f"{name} must be a number, not {value!r}")
    number = float(value)
    if math.isnan(number):
        raise InputError(f"{name} must be a number, not NaN")
    if not low <= number <= high:
        if math.isinf(high) and not math.isinf(low):
            raise InputError(f"{name} must be at least {low:g}, not {value!r}")
        raise InputError(f"{name} must be between {low:g} and {high:g}, not {value!r}")
    return number
