"""Whole pages, pieces for a notebook, and pages as files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from sage_app.rendering.html.markup import Child, Markup, foreign, tag
from sage_app.rendering.html.style import page_css, piece_css
from sage_core._version import __version__
from sage_core.errors import InputError

# Nothing may be loaded or run. What a document holds is escaped; this holds even if it were not.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(title: str, *body: Child, policy: str = POLICY) -> str:
    """A whole HTML page: no script, no request, light and dark. The title and all text are escaped."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="generator", content="sage-rag"),
        tag("title", title),
        tag("style", Markup(page_css())),
    )
    content = tag("body", tag("main", *body, class_="sage"))
    return f"<!doctype html>\n{tag('html', head, content, lang='en')}\n"


def piece(*body: Child) -> str:
    """Markup with its style, for the inside of somebody else's page."""
    return tag("div", tag("style", Markup(piece_css())), *body, class_="sage")


def section(title: str, *body: Child) -> Markup:
    """A part of a page under a heading."""
    return tag("section", tag("h2", title), *body)


def note(*children: Child) -> Markup:
    """A remark in small print."""
    return tag("p", *children, class_="note")


def tile(name: str, value: str, note: str = "") -> Markup:
    """A figure to see at a glance."""
    return tag("div", tag("dt", name), tag("dd", value), tag("dd", note) if note else None, class_="tile")


def tiles(*parts: Markup) -> Markup:
    """Several figures side by side."""
    return tag("dl", *parts, class_="tiles")


def settings_html(settings: Mapping[str, object]) -> Markup:
    """Names and values; a value of None reads "none"."""
    rows: list[Markup] = []
    for name, value in settings.items():
        words = "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
        rows += [tag("dt", name.replace("_", " ")), tag("dd", foreign(words))]
    return tag("dl", *rows, class_="settings")


def made_now(made: datetime | None = None) -> dict[str, object]:
    """When and with what a report was made."""
    moment = made or datetime.now().astimezone()
    return {"made": moment.strftime("%Y-%m-%d %H:%M %Z").strip(), "sage-rag": __version__}


def check_page_path(path: str | Path) -> Path:
    """The path, if a page can be written there: asked before work is begun that would be lost otherwise.

    Raises:
        InputError: Where its folder does not exist or cannot be written to, or it is a folder itself.
    """
    target = Path(path).expanduser()
    try:
        fits = target.parent.is_dir() and not target.is_dir() and os.access(target.parent, os.W_OK)
    except OSError as error:  # too long a name
        raise InputError(f"the report {target} could not be written: {error.strerror or error}") from error
    if not fits:
        raise InputError(
            f"the report {target} cannot be written: name a file in a folder that is there, and writable"
        )
    return target


def write_page(path: str | Path, page: str) -> Path:
    """Write a page and return its path; InputError where the file cannot be written."""
    target = check_page_path(path)
    try:
        target.write_text(page, encoding="utf-8")
    except (OSError, RuntimeError) as error:  # a RuntimeError is a loop of links
        raise InputError(f"the report {target} could not be written: {error}") from error
    return target
