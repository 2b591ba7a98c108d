"""What a user's function computes, as a fingerprint: for caches that must not take one for another."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

_PLAIN = (str, bytes, int, float, bool, complex, type(None), type(Ellipsis))


class _UnknowableError(Exception):
    """Part of what a function computes cannot be told from outside."""


def function_fingerprint(function: Callable[..., Any]) -> str | None:
    """SHA-256 over what decides the results of a function; None where that cannot be known.

    That is its code and those of the functions it calls in its own module, its defaults, and the plain values
    it reads from an enclosing function or its module. Two lambdas on one line differ, and so do two
    closures over different values. Of other modules' objects only the names count. Nothing is known of an
    object with state, such as a bound method's, unless it has a text ``fingerprint`` of its own.
    """
    try:
        described = _describe(function, frozenset())
    except _UnknowableError:
        return None
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()


def _describe(value: Any, seen: frozenset[int]) -> Any:
    """JSON-ready data that is equal for equal behavior."""
    own = None if isinstance(value, type) else getattr(value, "fingerprint", None)
    if isinstance(own, str) and own:
        return ["fingerprint", own]
    if isinstance(value, partial):
        bound = [_describe(part, seen) for part in (value.func, *value.args)]
        return ["partial", bound, [[k, _describe(v, seen)] for k, v in sorted(value.keywords.items())]]
    if isinstance(value, FunctionType):
        return _function(value, seen)
    if isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, ModuleType | type(None)):
        return ["builtin", value.__module__, value.__qualname__]
    if isinstance(value, type):
        if "<" in value.__qualname__:  # defined in a function: its name says nothing
            raise _UnknowableError
        return ["class", value.__module__, value.__qualname__]
    if isinstance(value, ModuleType):
        return ["module", value.__name__]
    return _plain(value, seen)


def _plain(value: Any, seen: frozenset[int]) -> Any:
    if isinstance(value, _PLAIN):
        return [type(value).__name__, repr(value)]
    if isinstance(value, CodeType):
        return _code(value)
    if type(value) in (tuple, list):
        return [type(value).__name__, [_describe(part, seen) for part in value]]
    if type(value) in (set, frozenset):
        return ["set", sorted(json.dumps(_describe(part, seen)) for part in value)]
    if type(value) is dict:
        return ["dict", [[_describe(k, seen), _describe(v, seen)] for k, v in value.items()]]
    if type(value).__module__ == "re":
        return ["pattern", value.pattern if isinstance(value.pattern, str) else repr(value), value.flags]
    raise _UnknowableError


def _function(function: FunctionType, seen: frozenset[int]) -> Any:
    if id(function) in seen:
        return ["again", function.__qualname__]
    seen = seen | {id(function)}
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(_describe(cell.cell_contents, seen))
        except ValueError:  # not filled yet
            cells.append(None)
    return [
        "function",
        _code(function.__code__),
        [_describe(value, seen) for value in function.__defaults__ or ()],
        [[k, _describe(v, seen)] for k, v in sorted((function.__kwdefaults__ or {}).items())],
        cells,
        _globals(function, seen),
    ]


def _code(code: CodeType) -> Any:
    constants = [_describe(value, frozenset()) for value in code.co_consts]
    names = [list(code.co_names), list(code.co_varnames), list(code.co_freevars)]
    return ["code", code.co_code.hex(), constants, names]


def _globals(function: FunctionType, seen: frozenset[int]) -> Any:
    """What the function reads from its module: values and functions there, of all else the kind."""
    described = []
    for name in _names(function.__code__):
        if name not in function.__globals__:
            continue
        value = function.__globals__[name]
        if isinstance(value, FunctionType) and value.__module__ != function.__module__:
            described.append([name, "function", value.__module__, value.__qualname__])
            continue
        try:
            described.append([name, _describe(value, seen)])
        except _UnknowableError:
            described.append([name, "object", type(value).__module__, type(value).__qualname__])
    return described


def _names(code: CodeType) -> list[str]:
    """Names looked up by the code, inner functions included, each once."""
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names.update(dict.fromkeys(_names(constant)))
    return list(names)
