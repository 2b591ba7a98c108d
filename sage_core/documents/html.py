"""The text of an HTML page: what a reader sees, with a blank line between blocks."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from sage_core.errors import MissingExtraError

if TYPE_CHECKING:
    from bs4 import BeautifulSoup

_UNSEEN = frozenset(
    (
        "script",
        "style",
        "noscript",
        "template",
        "head",
        "nav",
        "iframe",
        "object",
        "svg",
        "math",
        "canvas",
        "select",
    )
)
_BLOCK_NAMES = """
    address article aside blockquote body caption dd details dialog div dl dt fieldset figcaption figure
    footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend main menu nav ol p pre section summary
    table tbody tfoot thead ul
"""
_BLOCKS = frozenset(_BLOCK_NAMES.split())
_LINES = frozenset(("br", "li", "tr"))
_CELLS = frozenset(("td", "th"))
_SPACE = re.compile(r"[ \t\n\r\f]+")
_CHARSET = re.compile(
    rb"<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*[\"']?([A-Za-z0-9._:-]+)", re.I
)


class _Piece(NamedTuple):
    """A run of text, or a separator of some strength (0: not a separator)."""

    text: str
    strength: int = 0
    verbatim: bool = False


_CELL, _LINE, _BLOCK = _Piece("\t", 1), _Piece("\n", 2), _Piece("\n\n", 3)


def declared_encoding(data: bytes) -> str | None:
    """The encoding a page declares in its first 2048 bytes, where Python knows it."""
    found = _CHARSET.search(data[:2048])
    if not found:
        return None
    name = found.group(1).decode("ascii")
    try:
        codecs.lookup(name)
    except LookupError:
        return None
    # What calls itself Latin-1 on the web is Windows-1252 (WHATWG Encoding Standard).
    return "cp1252" if codecs.lookup(name).name in {"iso8859-1", "ascii"} else name


def read_html(markup: str) -> tuple[str, str | None]:
    """Text and title of a page.

    White space runs become one space outside ``<pre>``; blocks are parted by a blank line, rows, list items
    and ``<br>`` by a newline, cells by a tab. Scripts, styles, navigation and what is marked ``hidden`` are
    left out.

    Raises:
        MissingExtraError: Without beautifulsoup4.
    """
    soup = _parse(markup)
    title = _SPACE.sub(" ", soup.title.get_text()).strip() if soup.title else None
    return _join(_pieces(soup)), title or None


def _parse(markup: str) -> BeautifulSoup:
    try:
        from bs4 import BeautifulSoup
    except ImportError:
        raise MissingExtraError("Reading HTML", "files") from None
    return BeautifulSoup(markup, "html.parser")


def _pieces(soup: BeautifulSoup) -> list[_Piece]:
    """Runs of text and separators in document order. Iterative: pages nest deeper than Python recurses."""
    from bs4.element import NavigableString, PreformattedString, Tag

    out: list[_Piece] = []
    stack: list[tuple[Any, bool] | _Piece] = [(soup, False)]
    while stack:
        item = stack.pop()
        if isinstance(item, _Piece):
            out.append(item)
            continue
        node, verbatim = item
        if isinstance(node, Tag):
            if node.name in _UNSEEN or node.has_attr("hidden"):
                continue
            separator = _separator(node.name)
            if separator:
                out.append(separator)
                stack.append(separator)
            verbatim = verbatim or node.name == "pre"
            stack.extend((child, verbatim) for child in reversed(node.contents))
        elif isinstance(node, NavigableString) and not isinstance(node, PreformattedString):
            text = str(node)
            out.append(_Piece(text, verbatim=True) if verbatim else _Piece(_SPACE.sub(" ", text)))
    return out


def _separator(name: str) -> _Piece | None:
    if name in _BLOCKS:
        return _BLOCK
    if name in _LINES:
        return _LINE
    return _CELL if name in _CELLS else None


def _join(pieces: list[_Piece]) -> str:
    """Pieces as one text: the strongest of neighbouring separators counts; no line starts with a space."""
    out: list[str] = []
    pending: _Piece | None = None
    for piece in pieces:
        if piece.strength:
            if pending is None or piece.strength > pending.strength:
                pending = piece
            continue
        starts = pending is not None or not out
        text = piece.text
        if piece.verbatim:
            text = text.strip("\r\n") if starts else text
        elif starts or out[-1].endswith(" "):
            text = text.lstrip(" ")
        if not text or (starts and not text.strip()):
            continue
        if pending is not None and out:
            out[-1] = out[-1].rstrip()
            out.append(pending.text)
        pending = None
        out.append(text)
    return "".join(out).strip()
