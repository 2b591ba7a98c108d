"""Building HTML and SVG so that text is escaped unless somebody says otherwise."""

from __future__ import annotations

import html
from collections.abc import Iterable

from sage_core.text.sanitize import terminal_safe

_VOID = frozenset(("br", "hr", "input", "meta"))


class Markup(str):
    """A string that is HTML already. Everything else is text, and is escaped."""

    __slots__ = ()


Child = str | int | None
"""What an element holds: markup as it is, text and numbers escaped, None left out."""


def escape(text: object) -> Markup:
    """Text as HTML: inert wherever it stands, control characters shown as signs."""
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(terminal_safe(str(text)), quote=True))


def join(parts: Iterable[Child]) -> Markup:
    """Several children one after the other."""
    return Markup("".join(escape(part) for part in parts if part is not None))


def tag(name: str, /, *children: Child, **attributes: str | float | None) -> Markup:
    """An element: ``class_`` stands for ``class``, an underscore within a name for a hyphen.

    Text in it is escaped; an attribute of None is left out.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def foreign(text: str, name: str = "span", **attributes: str | float | None) -> Markup:
    """Text of a document or an LLM: escaped, and isolated so that its direction cannot disturb the rest."""
    return tag(name, text, dir="auto", **attributes)


def _number(value: str | float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
