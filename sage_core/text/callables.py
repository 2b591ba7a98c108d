"""What a user's function computes, as a fingerprint: for caches that must not take one for another."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

_PLAIN = (str, bytes, int, float, bool, complex, type(None), type(Ellipsis))


class _UnknowableError(Exception):
    """Part of what a function computes cannot be told from outside."""


def function_fingerprint(function: Callable[..., Any]) -> str | None:
    """SHA-256 over what decides the results of a function; None if that cannot be known.

    That is its code and those of the functions it calls in its own module, its defaults, and the plain values
    it reads from an enclosing function or its module. Two lambdas on one line differ, and so do two
    closures over different values. Of other modules' objects only the names count. Nothing is known of an
    object with state, such as a bound method's, unless it has a text ``fingerprint`` of its own.
    """
    try:
        return hashlib.sha256(json.dumps(_describe(function)).encode()).hexdigest()
    except _UnknowableError:
        return None


def _describe(value: Any, seen: frozenset[int] = frozenset()) -> list[Any]:
    """JSON-ready data that is equal for equal behavior; ``seen`` are the functions around it."""
    kind = type(value)

    def parts(values: Iterable[Any]) -> list[Any]:
        return [_describe(part, seen) for part in values]

    own = None if isinstance(value, type) else getattr(value, "fingerprint", None)
    if isinstance(own, str) and own:
        return ["fingerprint", own]
    if isinstance(value, _PLAIN):
        return [kind.__name__, repr(value)]
    if kind in (tuple, list):
        return [kind.__name__, parts(value)]
    if kind in (set, frozenset):
        return ["set", sorted(map(json.dumps, parts(value)))]
    if kind is dict:
        return ["dict", parts(value.items())]
    if isinstance(value, re.Pattern):
        return ["pattern", repr(value.pattern), value.flags]
    if isinstance(value, partial):
        return ["partial", parts((value.func, *value.args)), parts(sorted(value.keywords.items()))]
    if isinstance(value, CodeType):
        return ["code", value.co_code.hex(), parts(value.co_consts), value.co_names, value.co_varnames]
    if isinstance(value, FunctionType):
        return _function(value, seen)
    builtin = isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, ModuleType | type(None))
    # The name of a class that is defined in a function says nothing.
    if builtin or (isinstance(value, type) and "<" not in value.__qualname__):
        return ["name", value.__module__, value.__qualname__]
    raise _UnknowableError


def _function(function: FunctionType, seen: frozenset[int]) -> list[Any]:
    if id(function) in seen:  # it calls itself
        return ["again", function.__qualname__]
    seen = seen | {id(function)}
    code, cells = function.__code__, []
    for cell in function.__closure__ or ():
        try:
            cells.append(_describe(cell.cell_contents, seen))
        except ValueError:  # not filled yet
            cells.append(["empty"])
    defaults = _describe([function.__defaults__, sorted((function.__kwdefaults__ or {}).items())], seen)
    read = [[name, _global(function, name, seen)] for name in _names(code) if name in function.__globals__]
    return ["function", _describe(code), defaults, cells, read]


def _global(function: FunctionType, name: str, seen: frozenset[int]) -> list[Any]:
    """What the function reads from its module: values and functions there, of all else the kind."""
    value = function.__globals__[name]
    if isinstance(value, ModuleType):
        return ["module", value.__name__]
    if isinstance(value, FunctionType) and value.__module__ != function.__module__:
        return ["name", value.__module__, value.__qualname__]
    try:
        return _describe(value, seen)
    except _UnknowableError:
        return ["object", type(value).__module__, type(value).__qualname__]


def _names(code: CodeType) -> dict[str, None]:
    """Names looked up by the code, inner functions included, in their order."""
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return dict.fromkeys([*code.co_names, *(name for names in inner for name in names)])
