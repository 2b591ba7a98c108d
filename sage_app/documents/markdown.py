"""An HTML tree as Markdown, by ``markdownify``.

What ``markdownify`` would lose or garble is put right in the tree before: cells that span, captions, code in
lines that are elements, formulas, pictures that are words, numbers of lists.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from sage_core.text.headings import MAX_HEADING_CHARS
from sage_core.text.lexicon import word_set

HEADINGS = {f"h{n}": n for n in range(1, 7)}
BLOCKS = word_set(
    """address article aside blockquote body caption center dd details dialog dir div dl dt fieldset
    figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu nav ol p
    pre search section summary table tbody td tfoot th thead tr ul"""
)
_KEPT = word_set("blockquote dd dl dt h1 h2 h3 h4 h5 h6 html li ol p pre ul code br q")
_SPACE = re.compile(r"[ \t\n\r\f]+")
_MOST_NESTED = 80  # deeper elements are text of the one at this depth: markdownify recurses
_MOST_SPANNED = 100
_LONGEST_REPEATED = 100  # characters of a cell that are repeated in every row it spans
_BLANKS = re.compile(r"(?ms)(^[> ]*(`{3,}).*?^[> ]*\2)|\n{3,}")  # but not within code
_LANGUAGE = re.compile(
    r"(?:^|\s)(?:language|lang|highlight|brush:|sourceCode|highlight-source)[- ]([\w+#-]{1,20})"
)
_NO_LANGUAGE = frozenset(["default", "none", "text", "plaintext", "notranslate", "plain", "source"])
_ROMAN = ["i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii"]


def drop(element: Any) -> None:
    """Take an element out of its tree, but not the text behind it."""
    tail, is_block = element.tail, element.tag in BLOCKS
    element.clear()
    element.tag, element.tail = "p" if is_block else "x-", tail


def words(element: Any, sep: str = " ") -> str:
    """The text of an element in one line, ``sep`` between its blocks."""
    from lxml import etree

    parts: list[str] = []
    for event, node in etree.iterwalk(element, events=("start", "end")):
        if node.tag in BLOCKS or node.tag == "br":
            parts.append("\0")
        parts.append((node.text if event == "start" else node.tail if node is not element else "") or "")
    pieces = (_SPACE.sub(" ", piece).strip() for piece in "".join(parts).split("\0"))
    out = ""
    for piece in filter(None, pieces):
        out += ("" if not out else " " if sep == "; " and out[-1] in ".!?:;," else sep) + piece
    return out


def to_markdown(root: Any) -> str:
    """The text of a tree, which is changed."""
    from lxml import etree
    from markdownify import MarkdownConverter

    base: Any = MarkdownConverter

    class Writer(base):  # type: ignore[misc]
        def convert_br(self, el: Any, text: str, parent_tags: Any) -> str:
            return " " if "_inline" in parent_tags else "\n"

        def convert_p(self, el: Any, text: str, parent_tags: Any) -> str:
            return str(super().convert_p(el, text, parent_tags)) or "\n\n"

        def convert_code(self, el: Any, text: str, parent_tags: Any) -> str:
            return text if "_inline" in parent_tags else str(super().convert_code(el, text, parent_tags))

        def convert_blockquote(self, el: Any, text: str, parent_tags: Any) -> str:
            return f"\n{super().convert_blockquote(el, text, parent_tags)}"

        def convert_dt(self, el: Any, text: str, parent_tags: Any) -> str:
            return f"\n\n{text.strip()}\n"

        def convert_dd(self, el: Any, text: str, parent_tags: Any) -> str:
            return f"\n{text.strip()}\n"

        def convert_li(self, el: Any, text: str, parent_tags: Any) -> str:
            mark = el.get("mark", "-") + " "
            text = text.strip().replace("\n", "\n" + " " * len(mark))
            return f"{mark}{text}\n" if text else ""

        def convert_pre(self, el: Any, text: str, parent_tags: Any) -> str:
            text = text.strip("\n").rstrip()
            if not text or el.get("as"):
                return f"\n\n{text}\n\n"
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
            return f"\n\n{fence}{el.get('language', '')}\n{text}\n{fence}\n\n"

    _prepare(root)
    root.tail, root.tag = None, "html" if root.tag == "html" else "div"
    markup = etree.tostring(root, encoding="unicode", method="html")
    text = Writer(
        heading_style="atx",
        bs4_options="lxml",
        escape_asterisks=False,
        escape_underscores=False,
        wrap=True,
        wrap_width=None,
    ).convert(markup)
    text = re.sub(r"[ \t]+\n", "\n", text.replace("\xad", "")).strip("\n").rstrip()
    return _BLANKS.sub(lambda match: match[1] or "\n\n", text)


def _prepare(root: Any) -> None:
    from lxml import etree

    _as_text(root)
    _code_lines(root)
    for number, pre in enumerate(root.iter("pre")):
        pre.set("language", _language(pre))
        # A page that is one long <pre> is a text, not a program.
        if not number and not pre.get("language") and len(words(pre)) > 0.8 * len(words(root)):
            pre.set("as", "text")
    for table in reversed(list(root.iter("table"))):  # inner ones first
        if _is_data(table):
            _replace(table, "\n".join(_lines(table))).set("as", "rows")
    depth = {root: 0}
    for element in list(root.iter())[1:]:
        depth[element] = depth[element.getparent()] + 1
        if element.get("role") == "heading":
            element.tag = f"h{_number(element.get('aria-level') or '2', 6)}"
        if element.tag in HEADINGS and len(words(element)) > MAX_HEADING_CHARS:
            element.tag = "p"
        elif element.tag == "ol":
            _number_items(element)
        elif element.tag not in _KEPT:
            element.tag = "p" if element.tag == "hr" else "div" if element.tag in BLOCKS else "x-"
        if depth[element] > _MOST_NESTED:
            element.tag = "x-"
    for pre in root.iter("pre"):
        etree.strip_tags(pre, "*")
    etree.strip_tags(root, "x-")


def _replace(element: Any, text: str) -> Any:
    """Make an element a block of text that stands as it is."""
    tail = element.tail
    element.clear()
    element.tag, element.text, element.tail = "pre", text, tail
    return element


def _as_text(root: Any) -> None:
    """Write what is text in another form: powers, pictures of words, formulas, reading aids, drawings."""
    for element in list(root.iter("sup", "br", "img", "math", "svg", "ruby")):
        parent, above, text = element.getparent(), element.getprevious(), ""
        if element.tag == "sup":
            before = (parent.text if above is None else above.tail) or ""
            if before[-1:].isdigit() and words(element)[:1].isdigit():
                element.text = f"^{element.text or ''}"
        elif element.tag == "br":
            is_code = next(element.iterancestors("pre"), None) is not None
            tail = element.tail or ""
            element.tail = f"\n{tail}" if is_code else tail.lstrip(" \t\r\n")
        elif element.tag == "ruby":
            if not any(True for _ in element.iter("rp")):
                for aid in element.iter("rt"):
                    aid.text = f"({words(aid)})"
        else:
            if element.tag == "img":
                text = (element.get("alt") or "") if parent.tag != "a" else ""  # not of a button
            elif element.tag == "svg":
                text = ", ".join(words(e) for e in element.iter("text"))
            else:
                tex = element.xpath(".//annotation[contains(translate(@encoding, 'TEX', 'tex'), 'tex')]")
                text = f"${words(tex[0])}$" if tex else words(element)
            drop(element)
            element.text = text


def _code_lines(root: Any) -> None:
    """Write code whose lines are elements as one block."""
    blocks: dict[Any, list[str]] = {}
    for element in root.iter("div", "td"):
        names, box = (element.get("class") or "").split(), element.getparent()
        if element.tag == "td" and "blob-code" in names:
            box = next(element.iterancestors("table"), box)
        elif "line" not in names or "fragment" not in (box.get("class") or "").split():
            continue
        blocks.setdefault(box, []).append("".join(element.itertext()).strip("\n"))
    for box, lines in blocks.items():
        _replace(box, "\n".join(lines))


def _language(pre: Any) -> str:
    """The language of a block of code, as its own class, its parent's or its ``<code>``'s says."""
    for place in (pre, *pre.iterchildren("code"), *itertools.islice(pre.iterancestors(), 2)):
        match = _LANGUAGE.search(place.get("class") or "")
        if match and match.group(1).lower() not in _NO_LANGUAGE:
            return match.group(1).removeprefix("source-").lower()
    return ""


def _number_items(items: Any) -> None:
    number, form = _number(items.get("start"), 999_999), items.get("type")
    for item in items.iterchildren("li"):
        number = _number(item.get("value"), 999_999) if item.get("value") else number
        mark = str(number)
        if form in ("a", "A") and number <= 26:
            mark = chr(ord(form) + number - 1)
        elif form in ("i", "I") and number <= len(_ROMAN):
            mark = _ROMAN[number - 1] if form == "i" else _ROMAN[number - 1].upper()
        item.set("mark", f"{mark}.")
        number += 1


def _is_data(table: Any) -> bool:
    """Whether a table holds data; others lay out a page."""
    cells = list(table.iter("td", "th"))
    if table.get("role") in ("presentation", "none") or len(cells) < 2:
        return False
    if any(True for _ in table.iterdescendants("table", *HEADINGS)):
        return False
    if any("\n" in "".join(pre.itertext()).strip() for pre in table.iter("pre")):
        return False
    blocks = ("ul", "ol", "pre", "blockquote", "dl")
    return not any(next(cell.iter(*blocks), None) is not None and len(words(cell)) > 1000 for cell in cells)


def _lines(table: Any) -> Iterator[str]:
    """Caption and rows of a table; a cell that spans rows is in each of them."""
    yield from filter(None, (words(c, "; ") for c in table.iterchildren("caption")))
    order = {"thead": 0, "tfoot": 2}
    rows = sorted(table.iter("tr"), key=lambda row: order.get(row.getparent().tag, 1))
    grid: list[dict[int, str]] = [{} for _ in rows]
    room = 1000  # cells that may be made up, so that what a page asks for stays in proportion to the page
    is_first = True
    for number, row in enumerate(rows):
        column, cells = 0, list(row.iterchildren("td", "th"))
        for cell in cells:
            while column in grid[number]:  # it reaches down from a row above
                column += 1
            text = words(cell, "; ").replace("|", "\\|")
            columns, down = _number(cell.get("colspan")), _number(cell.get("rowspan"))
            room += 2 - columns * down
            if room < 0:
                columns = down = 1
            for spanned in grid[number : number + down]:
                repeated = text if spanned is grid[number] or len(text) <= _LONGEST_REPEATED else ""
                spanned.update({column + n: "" if n else repeated for n in range(columns)})
        texts = [grid[number].get(n, "") for n in range(max(grid[number], default=-1) + 1)]
        if any(texts):
            yield f"| {' | '.join(texts)} |"
            if is_first and all(cell.tag == "th" for cell in cells):
                yield "|" + " --- |" * len(texts)
            is_first = False


def _number(text: str | None, most: int = _MOST_SPANNED) -> int:
    """A whole number from 1 to ``most`` that an attribute gives."""
    if text is None or len(text) > 6 or not (text.isascii() and text.strip().isdigit()):
        return 1
    return max(1, min(int(text), most))
