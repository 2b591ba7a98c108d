"""Checks of arguments, with errors that name the argument."""

from __future__ import annotations

import difflib
import importlib.util
import math
import numbers
import operator
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sage_core.errors import InputError, MissingExtraError

_LARGEST = 2**63 - 1


def check_int(name: str, value: object, *, minimum: int) -> int:
    """``value`` as an int; NumPy integers are numbers too, True and False are not.

    Raises:
        InputError: For anything but a whole number of at least ``minimum``.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InputError(f"{name} must be a whole number of at least {minimum}, not {value!r}")
    number = operator.index(value)
    if abs(number) > _LARGEST:  # Beyond floats, and beyond what Python writes down.
        raise InputError(f"{name} is too large: it must be a whole number of 64 bits")
    if number < minimum:
        raise InputError(f"{name} must be at least {minimum}, not {number}")
    return number


def check_optional_int(name: str, value: object, *, minimum: int) -> int | None:
    """`check_int`, or None for no limit.

    Raises:
        InputError: As `check_int`.
    """
    if value is None:
        return None
    try:
        return check_int(name, value, minimum=minimum)
    except InputError as error:
        raise InputError(f"{error}; None stands for no limit") from None


def check_text(name: str, value: object) -> None:
    """Refuse what is no text.

    Raises:
        InputError: For anything else.
    """
    if not isinstance(value, str):
        raise InputError(f"{name} is a text, not {type(value).__name__}")


def check_float(name: str, value: object, *, minimum: float = -math.inf, maximum: float = math.inf) -> float:
    """``value`` as a float; NumPy numbers are numbers too, True and False are not.

    Raises:
        InputError: For anything but a number from ``minimum`` to ``maximum``; NaN is none.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InputError(f"{name} must be a number, not {value!r}")
    try:
        number = float(value)
    except OverflowError:  # an int of so many digits cannot even be written down
        raise InputError(f"{name} is too large: it must be a float, up to 1.8e308") from None
    if math.isnan(number):
        raise InputError(f"{name} must be a number, not NaN")
    if not minimum <= number <= maximum:
        if math.isinf(maximum) and not math.isinf(minimum):
            raise InputError(f"{name} must be at least {minimum:g}, not {value!r}")
        raise InputError(f"{name} must be between {minimum:g} and {maximum:g}, not {value!r}")
    return number


def check_part(name: str, value: object, methods: Sequence[str], example: str) -> None:
    """Raise InputError unless ``value`` is an object with these methods.

    Args:
        name: The argument.
        value: What was given for it; None, for the default, passes.
        methods: What such an object can do.
        example: How to make one.
    """
    if value is None:
        return
    if isinstance(value, type) or not all(callable(getattr(value, method, None)) for method in methods):
        raise InputError(
            f"{name} is an object with {' and '.join(methods)}, such as {example}, not {value!r}"
        )


def checked_options(options: object) -> tuple[str, ...] | None:
    """Options of a multiple-choice question; None if there are none.

    Raises:
        InputError: Where they are no list of texts.
    """
    if options is None:
        return None
    if isinstance(options, str) or not isinstance(options, Sequence):
        raise InputError(f"options are a list of texts, one for each option, not {options!r}")
    if not all(isinstance(option, str) and option.strip() for option in options):
        raise InputError(f"every option is a text that is not blank, not {list(options)!r}")
    return tuple(options) or None


def near_match(name: str, known: Iterable[str]) -> str:
    """What to say after "there is no argument ``name``": the nearest known name; empty if none is near."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def refused(owner: str, problems: Iterable[Mapping[str, Any]], known: Iterable[str]) -> InputError:
    """What pydantic found wrong with the arguments of a class, as one error in a line or two.

    Args:
        owner: Name of the class.
        problems: ``ValidationError.errors()``.
        known: Names of its arguments.
    """
    known, said, wrong = list(known), list[str](), dict[str, tuple[list[str], object]]()
    meant: set[str] = set()
    for problem in problems:
        name = str(problem["loc"][0]) if problem["loc"] else ""
        if problem["type"] == "extra_forbidden":
            hint = near_match(name, known)
            meant.update(other for other in known if f"{other!r}?" in hint)
            said.append(f"{owner} has no argument {name!r}{hint or '; it has ' + ', '.join(sorted(known))}")
        elif problem["type"] == "missing":
            wrong.setdefault(name, (["missing"], None))
        elif isinstance(error := problem.get("ctx", {}).get("error"), ValueError | AssertionError):
            said.append(str(error))
        else:
            # A union has a problem for each of its members.
            words = str(problem["msg"]).partition(", unable")[0].removeprefix("Input should be ")
            wrong.setdefault(name, ([], problem["input"]))[0].append(words)
    for name, (expected, value) in wrong.items():
        if expected == ["missing"]:
            said += [] if name in meant else [f"{owner} needs {name}="]
        else:
            said.append(
                f"{name} of {owner} should be {' or '.join(dict.fromkeys(expected))}, not {value!r:.80}"
            )
    return InputError("; ".join(dict.fromkeys(said)))


def check_installed(what: str, extra: str, *modules: str) -> None:
    """Raise MissingExtraError where one of the modules is not installed; none is loaded."""
    for module in modules:
        try:
            spec = sys.modules[module] if module in sys.modules else importlib.util.find_spec(module)
        except (ImportError, ValueError):
            spec = None
        if spec is None:
            raise MissingExtraError(what, extra)


def shortened(text: object, most: int = 80) -> str:
    """The text in a message: its beginning where it is long, the end of a path."""
    words = " ".join(str(text).split())
    if len(words) > most and isinstance(text, Path | str) and os.sep in words and " " not in words:
        return repr(f"...{words[-most:]}")
    return repr(words if len(words) <= most else f"{words[:most]}...")


def counted(number: int, noun: str) -> str:
    """A number and its noun, such as "1 chunk" and "1,200 chunks"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
