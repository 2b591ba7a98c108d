"""Text of documents, file names and LLMs made safe to show: no character of it can steer a terminal."""

from __future__ import annotations

import re

_BREAKS = re.compile("\r\n|[\r\x0b\x0c\x85]")
# C0 but tab and line break, DEL, C1, what puts text into another order, and what UTF-8 cannot hold.
_UNSAFE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_PICTURES = 0x2400  # the block of control pictures: U+241B shows ESC


def terminal_safe(text: str) -> str:
    """The text with every control character replaced by a visible sign, lone surrogates too.

    A document may hold escape sequences that recolor, clear or retitle a terminal, or that make it type. ESC
    becomes ``␛``, other C0 characters their pictures, everything else that acts ``�``. Carriage returns, form
    feeds and their like become line breaks; tabs and line breaks stay.
    """
    return _UNSAFE.sub(_picture, _BREAKS.sub("\n", text))


def one_line(text: str) -> str:
    """`terminal_safe` on a single line: runs of white space become one space."""
    return " ".join(terminal_safe(text).split())


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(_PICTURES + code)
    return "␡" if code == 0x7F else "�"
