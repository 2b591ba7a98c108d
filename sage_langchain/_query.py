"""The question in whatever a chain passes on."""

from __future__ import annotations

from collections.abc import Mapping

from sage_core.errors import InputError

QUERY_KEYS = ("input", "query", "question")


def query_of(given: object) -> str:
    """The question: ``given`` itself, or the first of its keys ``input``, ``query``, ``question``.

    Raises:
        InputError: If it is neither a string nor a mapping with such a string.
    """
    if isinstance(given, str):
        return given
    if isinstance(given, Mapping):
        for key in QUERY_KEYS:
            if isinstance(given.get(key), str):
                return str(given[key])
        raise InputError(f"a mapping needs the question as a string under one of {', '.join(QUERY_KEYS)}")
    raise InputError(f"a question is a string or a mapping that holds one, not {type(given).__name__}")
