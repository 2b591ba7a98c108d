"""Colors and layout. Every rule is below ``.sage``, so that a notebook's own page is left alone."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

COLORS = {
    "bg": ("#ffffff", "#12171a"),
    "panel": ("#f5f7f6", "#1a2124"),
    "ink": ("#1b2420", "#e7ecea"),
    "muted": ("#55615b", "#a5b1ac"),
    "line": ("#d8dfdb", "#344044"),
    "accent": ("#1b6e50", "#6fcfa6"),
    "on-accent": ("#ffffff", "#0d1513"),
    "kept": ("#1b7a57", "#5cc596"),
    "kept-fill": ("#d9efe4", "#1d3a2f"),
    "dropped": ("#76807b", "#8f9a96"),
    "cut": ("#b3361e", "#ff8f78"),
    "cut-fill": ("#fbe6e1", "#43221c"),
    "other": ("#7a5a00", "#e2bb63"),
    "tint1": ("#e2f2ea", "#1c352b"),
    "tint2": ("#e6edfb", "#222f4a"),
    "tint3": ("#fdf0d9", "#3d311a"),
    "tint4": ("#f7e7f3", "#3b2637"),
    "edge1": ("#3f9672", "#5cc596"),
    "edge2": ("#4f74c8", "#86a6f0"),
    "edge3": ("#b98419", "#dfb055"),
    "edge4": ("#b0609b", "#dd93c9"),
    "warn": ("#7a4b00", "#f2c872"),
    "warn-fill": ("#fff3d6", "#3a2e14"),
}
"""Every color by name: on a light and on a dark page. Text on its ground has a contrast of 4.5 or more."""


@cache
def piece_css() -> str:
    """For a piece of a page."""
    return _palette(".sage") + _rules("report.css")


@cache
def page_css() -> str:
    """For a whole page."""
    return _palette(":root") + piece_css() + _rules("page.css")


@cache
def svg_css() -> str:
    """For a picture that stands alone. Holds no character that XML would read as markup."""
    return _palette(".sage-svg") + _rules("curve.css")


def _palette(selector: str) -> str:
    light, dark = (";".join(f"--{name}:{pair[i]}" for name, pair in COLORS.items()) for i in (0, 1))
    return f"{selector}{{{light}}}@media (prefers-color-scheme:dark){{{selector}{{{dark}}}}}"


def _rules(name: str) -> str:
    """A style sheet beside this module, without comments and needless space."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"\s+", " ", text)
    return re.sub(r" ?([{};,]) ?", r"\1", text).strip()
