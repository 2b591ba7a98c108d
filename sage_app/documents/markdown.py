"""An HTML tree as Markdown, by ``markdownify``.

What ``markdownify`` would lose or garble is put right in the tree before: cells that span, captions, code in
lines that are elements, formulas, pictures that are words, numbers of lists, levels of headings in sections.
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
_KEPT = word_set("blockquote dd dl dt h1 h2 h3 h4 h5 h6 hr html li ol p pre ul code br q")
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

        def convert_hr(self, el: Any, text: str, parent_tags: Any) -> str:
            return "\n\n"

        def convert_q(self, el: Any, text: str, parent_tags: Any) -> str:
            return f"“{text}”"

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
    for pre in root.iter("pre"):
        for line_break in pre.iter("br"):
            line_break.tail = "\n" + (line_break.tail or "")
        pre.set("language", _language(pre))
    for pre in root.iter("pre"):  # a page that is one long <pre> is a text, not a program
        if not pre.get("language") and len(words(pre)) > 0.8 * len(words(root)):
            pre.set("as", "text")
        break
    for table in reversed(list(root.iter("table"))):  # inner ones first
        if _is_data(table):
            text = "\n".join(_lines(table))
            tail = table.tail
            table.clear()
            table.tag, table.text, table.tail = "pre", text, tail
            table.set("as", "rows")
    _number_items(root)
    _nest_headings(root)
    depth = {root: 0}
    for element in list(root.iter())[1:]:
        depth[element] = depth[element.getparent()] + 1
        if element.tag not in _KEPT:
            element.tag = "div" if element.tag in BLOCKS else "x-"
        if depth[element] > _MOST_NESTED:
            element.tag = "x-"
    for pre in root.iter("pre"):
        etree.strip_tags(pre, "*")
    etree.strip_tags(root, "x-")


def _as_text(root: Any) -> None:
    """Write what is text in another form: pictures that are words, formulas, reading aids, drawings."""
    for power in root.iter("sup"):
        above = power.getprevious()
        before = (power.getparent().text if above is None else above.tail) or ""
        if before[-1:].isdigit() and words(power)[:1].isdigit():
            power.text = f"^{power.text or ''}"
    for element in list(root.iter("img", "math", "svg", "ruby", "br")):
        text = ""
        if element.tag == "br":
            element.tail = (
                (element.tail or "").lstrip(" \t\r\n") if element.getparent().tag != "pre" else element.tail
            )
            continue
        if element.tag == "img":
            text = (element.get("alt") or "") if element.getparent().tag != "a" else ""  # not of a button
        elif element.tag == "math":
            tex = [words(e) for e in element.iter("annotation") if "tex" in (e.get("encoding") or "").lower()]
            text = f"${tex[0]}$" if tex else words(element)
        elif element.tag == "svg":
            text = ", ".join(words(e) for e in element.iter("text"))
        elif not any(True for _ in element.iter("rp")):
            for aid in element.iter("rt"):
                aid.text = f"({words(aid)})"
            continue
        else:
            continue
        drop(element)
        element.text = text


def _code_lines(root: Any) -> None:
    """Write code whose lines are elements as one block."""
    blocks: dict[Any, list[str]] = {}
    for element in root.iter("div", "td"):
        names = (element.get("class") or "").split()
        if element.tag == "td" and "blob-code" in names:
            box = next(element.iterancestors("table"), None)
        elif "line" in names and "fragment" in (element.getparent().get("class") or "").split():
            box = element.getparent()
        else:
            continue
        blocks.setdefault(box, []).append("".join(element.itertext()).strip("\n"))
    for box, lines in blocks.items():
        tail = box.tail
        box.clear()
        box.tag, box.text, box.tail = "pre", "\n".join(lines), tail


def _language(pre: Any) -> str:
    """The language of a block of code, as its own class, its parent's or its ``<code>``'s says."""
    for place in (pre, *pre.iterchildren("code"), *itertools.islice(pre.iterancestors(), 2)):
        match = _LANGUAGE.search(place.get("class") or "")
        if match and match.group(1).lower() not in _NO_LANGUAGE:
            return match.group(1).removeprefix("source-").lower()
    return ""


def _number_items(root: Any) -> None:
    for items in root.iter("ol"):
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


def _nest_headings(root: Any) -> None:
    """Give headings the level that the sections around them say; what is too long for one is a paragraph."""
    sections: dict[Any, list[int]] = {None: [0, 0, 0]}  # level above, of the first heading, the shift to that
    within: dict[Any, Any] = {}
    for element in root.iter():
        around = within.get(element.getparent())
        within[element] = around
        if element.tag in ("section", "article"):
            within[element] = element
            sections[element] = [sections[around][1], 0, 0]
        level = HEADINGS.get(element.tag, 0)
        if element.get("role") == "heading":
            level = _number(element.get("aria-level"), 6) if element.get("aria-level") else 2
        if not level:
            continue
        section = sections[around]
        if not section[1]:
            section[1] = max(level, section[0] + 1)
            section[2] = section[1] - level
        element.tag = f"h{max(1, min(6, level + section[2]))}"
        if len(words(element)) > MAX_HEADING_CHARS:
            element.tag = "p"


def _is_data(table: Any) -> bool:
    """Whether a table holds data; others lay out a page."""
    if table.get("role") in ("presentation", "none") or any(True for _ in table.iterdescendants("table")):
        return False
    cells = list(table.iter("td", "th"))
    if (
        len(cells) < 2
        or any(True for _ in table.iter(*HEADINGS))
        or any("\n" in "".join(p.itertext()).strip() for p in table.iter("pre"))
    ):
        return False
    for cell in cells:
        blocks = cell.iter("ul", "ol", "pre", "blockquote", "dl")
        if any(True for _ in blocks) and len(words(cell)) > 1000:
            return False
    return True


def _lines(table: Any) -> Iterator[str]:
    """Caption and rows of a table; a cell that spans rows is in each of them."""
    yield from filter(None, (words(c, "; ") for c in table.iterchildren("caption")))
    spanning: dict[int, tuple[int, str]] = {}  # column: (rows left, text)
    room = 1000  # cells that may be made up, so that what a page asks for stays in proportion to the page
    is_first = True
    order = {"thead": 0, "tfoot": 2}
    for row in sorted(table.iter("tr"), key=lambda row: order.get(row.getparent().tag, 1)):
        cells: list[str] = []
        for cell in row.iterchildren("td", "th"):
            _fill(cells, spanning)
            text = words(cell, "; ").replace("|", "\\|")
            columns, down = _number(cell.get("colspan")), _number(cell.get("rowspan"))
            room += 2 - columns * down
            if room < 0:
                columns = down = 1
            for extra in range(columns):  # a spanned column is empty but for its first cell
                if down > 1:
                    is_repeated = not extra and len(text) <= _LONGEST_REPEATED
                    spanning[len(cells)] = (down - 1, text if is_repeated else "")
                cells.append("" if extra else text)
        _fill(cells, spanning)
        if any(cells):
            yield f"| {' | '.join(cells)} |"
            if is_first and all(cell.tag == "th" for cell in row.iterchildren("td", "th")):
                yield "|" + " --- |" * len(cells)
            is_first = False


def _fill(cells: list[str], spanning: dict[int, tuple[int, str]]) -> None:
    """Cells that reach down from rows above."""
    while len(cells) in spanning:
        left, text = spanning.pop(len(cells))
        if left > 1:
            spanning[len(cells)] = (left - 1, text)
        cells.append(text)


def _number(text: str | None, most: int = _MOST_SPANNED) -> int:
    """A whole number from 1 to ``most`` that an attribute gives."""
    if text is None or len(text) > 6 or not (text.isascii() and text.strip().isdigit()):
        return 1
    return max(1, min(int(text), most))
