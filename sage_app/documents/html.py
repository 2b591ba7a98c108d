"""The text of an HTML page: what a person came to read, with its structure as Markdown.

Headings, lists, tables, quotations and code keep their form, so that a segmenter sees them. Navigation,
headers, footers (but for lines that say how to reach somebody), banners about cookies, buttons and marks for
links to headings are left out. Linear in the page.
"""

from __future__ import annotations

import codecs
import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sage_core.errors import InputError, MissingExtraError
from sage_core.text.headings import MAX_HEADING_CHARS, Heading

if TYPE_CHECKING:
    from lxml.etree import _Element

_SPACE = re.compile(r"[ \t\n\r\f]+")
_CHARSET = re.compile(
    rb"<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*[\"']?([A-Za-z0-9._:-]+)", re.I
)


class HtmlPage(NamedTuple):
    """What a page says.

    Examples:
        >>> page = read_html("<title>Ferry</title><h2>Times</h2><p>It leaves at <b>seven</b>.</p>")
        >>> page.title, page.headings[0].text
        ('Ferry', 'Times')

    Attributes:
        text: Its main content as Markdown.
        title: Its ``<title>``, else its only ``<h1>``, where it has one.
        headings: ``<h1>`` to ``<h6>`` in ``text``. A heading in a ``<section>`` or ``<article>`` stands below
            the heading of the section around it, whatever its number says.
    """

    text: str
    title: str | None
    headings: list[Heading]


def declared_encoding(data: bytes) -> str | None:
    """The encoding a page declares in its first 2048 bytes, where Python knows it."""
    declaration = _CHARSET.search(data[:2048])
    if not declaration:
        return None
    name = declaration.group(1).decode("ascii")
    try:
        codecs.lookup(name)
    except LookupError:
        return None
    # What calls itself Latin-1 on the web is Windows-1252 (WHATWG Encoding Standard).
    return "cp1252" if codecs.lookup(name).name in {"iso8859-1", "ascii"} else name


def read_html(markup: str, *, name: str = "the page", whole: bool = False) -> HtmlPage:
    """Text, title and headings of a page.

    Args:
        markup: The page, or a part of one.
        name: For messages.
        whole: Keep navigation, footers and the like.

    Raises:
        InputError: For elements nested more than 2,000 deep, which no parser here follows.
        MissingExtraError: Without lxml.
    """
    root = _parse(markup, name)
    if root is None:
        return HtmlPage("", None, [])
    title = next((_words(e) for e in root.iter("title") if e.getparent().tag == "head"), "")
    text, headings = _write(_Page(root, whole))
    if not text and not whole:  # whatever its elements are called, it is not all navigation
        text, headings = _write(_Page(root, True))
    if not title:
        tops = [h for h in headings if h.level == 1]
        title = tops[0].text if len(tops) == 1 else ""
    return HtmlPage(text, title or None, headings)


def _parse(markup: str, name: str) -> _Element | None:
    try:
        from lxml import etree
    except ImportError:
        raise MissingExtraError("Reading HTML", "files") from None
    # lxml reads the declared encoding of bytes unless it is given another; NUL would end the text for it.
    data = markup.replace("\0", "\ufffd").encode("utf-8", "replace")
    parser = etree.HTMLParser(
        encoding="utf-8", recover=True, remove_comments=True, remove_pis=True, huge_tree=True
    )
    try:
        root = etree.fromstring(data, parser)
    except (etree.LxmlError, AssertionError) as error:  # the second: nothing but comments, in some versions
        if not markup.strip() or isinstance(error, AssertionError):
            return None
        raise InputError(f"{name} is not readable HTML: {error}") from error
    if any("depth" in entry.message.lower() for entry in parser.error_log):
        raise InputError(
            f"{name} nests its elements more than 2,000 deep and cannot be read whole: save it as text"
        )
    return root


# --- What is left out --------------------------------------------------------------

_UNSEEN = """
    script style noscript template head iframe object embed applet svg math canvas audio video map select
    option datalist input textarea progress meter dialog title meta link base
"""
_UNSEEN_TAGS = frozenset(_UNSEEN.split())
_ROLE_NAMES = """
    navigation banner contentinfo search complementary dialog alertdialog menu menubar toolbar tablist
    tooltip doc-backlink
"""
_CHROME_ROLES = frozenset(_ROLE_NAMES.split())
# Words in class and id. Those of the first kind name what is never content; those of the second may ("menu"
# of a restaurant), so the element must also look like it: links, controls, or hardly any text.
_CHROME_NAMES = """
    cookie cookies consent gdpr ccpa onetrust breadcrumb breadcrumbs navbar navbox toc tableofcontents
    pagination pager skip skiplink skiplinks headerlink hashlink editsection catlinks printfooter noprint
    newsletter advert adverts advertisement advertisements ads adslot sharedaddy sharing jumplink nomobile
    screenreader sronly visuallyhidden assistive relatedposts backlink sidebar sidenav masthead a11y pagenum
    pagebreak topbar
"""
_CHROME = frozenset(_CHROME_NAMES.split())
_MAYBE_NAMES = """
    nav navigation menu header footer related recommendation recommendations recommended share social
    promo banner feedback modal popup overlay toolbar tools pagetools signup subscribe announcement announce
    aside widget rail ad sponsored respond reply login search tabs crumbs trace meta mostread likes
"""
_MAYBE = frozenset(_MAYBE_NAMES.split())
_NEEDS_LINKS = frozenset(["nav", "navigation", "header", "aside", "menu", "meta", "tabs"])
_PAIR_NAMES = """
    skip-link jump-link screen-reader sr-only visually-hidden on-this table-of back-to most-read post-menu
    side-bar header-link hash-link edit-section edit-link skip-to page-tools user-tools doc-info page-id
    site-title md-skip view-this secedit-editbutton
"""
_PAIRS = frozenset(_PAIR_NAMES.split())
_WORD = re.compile(r"[a-z0-9]+|[A-Z]+[a-z0-9]*")
_HIDDEN_STYLE = re.compile(
    r"display\s{0,9}:\s{0,9}none|visibility\s{0,9}:\s{0,9}hidden|mso-hide\s{0,9}:\s{0,9}all", re.IGNORECASE
)
_LINK_MARKS = frozenset("¶#§🔗⚓∞\u200b\ufe0e\uf0c1 \xa0")
_FEW_CHARS = 250
_HEADINGS = {f"h{n}": n for n in range(1, 7)}


@dataclass(slots=True)
class _Stats:
    """Counts of what is below an element: ``linked`` are characters within links."""

    chars: int = 0
    linked: int = 0
    links: int = 0
    controls: int = 0
    headings: int = 0
    h1: int = 0
    tables: int = 0
    blocks: int = 0  # lists, code and quotations

    def add(self, other: _Stats) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class _Page:
    """A parsed page and what is known of its elements."""

    def __init__(self, root: _Element, whole: bool) -> None:
        self.root = root
        # The list keeps lxml's proxies alive, so that they can be keys.
        self.elements: list[Any] = [e for e in root.iter() if isinstance(e.tag, str)]
        self.stats = {e: _Stats() for e in self.elements}
        self.unseen = {e for e in self.elements if _is_unseen(e)}
        self._count()
        self.total = self.stats[root]
        self.chrome: set[Any] = set()
        self.footers: set[Any] = set()
        self.main: Any = None
        self.around_main: set[Any] = set()
        self.h1_outside: Any = None
        self.in_content: dict[Any, Any] = {}
        self.openers: dict[Any, Any] = {}
        if not whole:
            self.main = self._find_main()
            if self.main is not None:
                self.around_main = set(self.main.iterancestors())
            self.in_content = _nearest_above(self.elements, _is_content)
            self.openers = _nearest_above(self.elements, lambda e: e.tag in _HEADINGS or e.tag == "summary")
            self.chrome = {e for e in self.elements if self._is_chrome(e)}
            self.chrome -= self._whole_headings()
            self.footers = {e for e in self.elements if e.tag == "footer" or e.get("role") == "contentinfo"}
            if self.main is not None and not self.stats[self.main].h1:
                hidden = _nearest_above(self.elements, lambda e: e in self.chrome or e in self.unseen)
                titles = (e for e in self.elements if e.tag == "h1" and e not in hidden)
                self.h1_outside = next(titles, None)
            if self.main is None:
                self._drop_link_lists()

    def _count(self) -> None:
        """Statistics of every element, from the leaves up."""
        for element in reversed(self.elements):
            stats = self.stats[element]
            if element not in self.unseen:
                stats.chars += _visible(element.text)
                tag = element.tag
                if tag == "a":
                    stats.linked = stats.chars
                    stats.links = 1
                elif tag in ("button", "input", "select", "textarea", "form"):
                    stats.controls += 1
                elif tag in _HEADINGS:
                    stats.headings += 1
                    stats.h1 += tag == "h1"
            else:
                stats = self.stats[element] = _Stats()
                stats.controls = element.tag in ("input", "select", "textarea")
            parent = element.getparent()
            if parent is not None and parent in self.stats:
                above = self.stats[parent]
                above.add(stats)
                above.chars += _visible(element.tail)
                above.tables += element.tag == "table"
                above.blocks += element.tag in ("ul", "ol", "pre", "blockquote", "dl")

    def _find_main(self) -> Any:
        """The element with the content: ``main``, or the only article, where they hold enough of the text."""
        total = self.total.chars
        mains = [
            e
            for e in self.elements
            if (e.tag == "main" or e.get("role") == "main" or e.get("itemprop") == "articleBody")
            and e not in self.unseen
            and self.stats[e].chars >= 0.1 * total
        ]
        main = mains[0] if mains else None
        articles = [e for e in (self.root if main is None else main).iter("article") if e is not main]
        within_article = _nearest_above(self.elements, lambda e: e.tag == "article")
        outer = [e for e in articles if e not in within_article]
        if len(outer) == 1 and outer[0] not in self.unseen:
            within = total if main is None else self.stats[main].chars
            if self.stats[outer[0]].chars >= 0.3 * within:
                return outer[0]
        return main

    def _is_chrome(self, element: Any) -> bool:
        """Whether an element is there to use the site, not to be read."""
        tag = element.tag
        if element in self.unseen or tag in ("html", "body", "main", "article") or element is self.main:
            return False
        if tag in _HEADINGS:
            return False
        stats = self.stats[element]
        named = _named(element)
        role = element.get("role", "")
        by_tag = tag in ("nav", "button", "footer") or (
            tag in ("header", "aside") and element not in self.in_content
        )
        if not (named or role in _CHROME_ROLES or by_tag or tag in ("a", "form", "sup")):
            return False
        if tag == "a":
            return "chrome" in named or (stats.chars <= 4 and _is_link_mark(element))
        if tag == "button":  # the headings of an accordion are buttons
            above = self.openers.get(element)
            return above is None or stats.chars < 0.9 * self.stats[above].chars
        if tag == "sup":
            return "reference" in element.get("class", "").split()
        if self._holds_the_content(element, stats):
            return False
        if role in _CHROME_ROLES or by_tag or "chrome" in named:
            return True
        if tag == "form":
            return stats.chars < 0.3 * self.total.chars
        few = stats.chars < _FEW_CHARS
        return stats.linked > 0.4 * stats.chars or (stats.controls > 0 and few) or (few and "sure" in named)

    def _whole_headings(self) -> set[Any]:
        """What would leave a heading without words, such as a link back to the contents; marks stay out."""
        above = _nearest_above(self.elements, lambda e: e in self.chrome)
        taken: Counter[Any] = Counter()
        for element in self.chrome:
            heading = self.openers.get(element)
            if heading is not None and self.openers.get(above.get(element)) is not heading:
                taken[heading] += self.stats[element].chars
        bare = {heading for heading, chars in taken.items() if chars >= self.stats[heading].chars}
        return {e for e in self.chrome if self.openers.get(e) in bare and not _is_link_mark(e)}

    def _holds_the_content(self, element: Any, stats: _Stats) -> bool:
        """Whether so much is in an element that it cannot be left out, whatever it is called."""
        has_titles = stats.h1 > 0 and stats.h1 == self.total.h1
        return element in self.around_main or has_titles or stats.chars > 0.5 * self.total.chars

    def _drop_link_lists(self) -> None:
        """On a page that does not say where its content is, columns of links are navigation."""
        lists = {
            e
            for e in self.elements
            if e.tag in ("ul", "ol", "td", "div", "p", "table", "center")
            and self.stats[e].links >= 3
            and self.stats[e].linked > 0.8 * self.stats[e].chars
            and self.stats[e].chars < 40 * self.stats[e].links
            and not self.stats[e].headings
        }
        outer = [e for e in lists if e.getparent() not in lists]
        if sum(self.stats[e].chars for e in outer) < 0.6 * self.total.chars:
            self.chrome.update(outer)


def _visible(text: str | None) -> int:
    """Characters of ``text`` without white space at its ends, about."""
    return len(text.strip()) if text else 0


def _is_unseen(element: Any) -> bool:
    tag = element.tag
    if tag in _UNSEEN_TAGS or ":" in tag:
        return tag not in ("o:p", "st1:place")
    if element.get("hidden", "until-found") != "until-found":
        return True
    if element.get("aria-hidden") == "true" and tag not in ("html", "body"):
        return True
    style = element.get("style")
    return bool(style and _HIDDEN_STYLE.search(style))


def _named(element: Any) -> frozenset[str]:
    """What class and id say: "chrome", "maybe", "sure" (maybe, but short is enough)."""
    names = f"{element.get('class') or ''} {element.get('id') or ''}"
    if names == " " or len(names) > 2000:
        return frozenset()
    return frozenset().union(*map(_name_says, names.split()))


@functools.lru_cache(maxsize=4096)
def _name_says(name: str) -> frozenset[str]:
    """What one class or id says: sites use few, again and again."""
    said: set[str] = set()
    words = [word.lower() for word in _WORD.findall(name)]
    if not _CHROME.isdisjoint(words) or name.lower() in _CHROME:
        said.add("chrome")
    if any(f"{a}-{b}" in _PAIRS for a, b in itertools.pairwise(words)):
        said.add("chrome")
    if not _MAYBE.isdisjoint(words):
        said.add("maybe")
        if _NEEDS_LINKS.isdisjoint(words):
            said.add("sure")
    return frozenset(said)


def _is_content(element: Any) -> bool:
    return element.tag in ("main", "article", "section", "blockquote") or element.get("role") == "main"


def _nearest_above(elements: Sequence[Any], test: Callable[[Any], bool]) -> dict[Any, Any]:
    """For every element below one that passes ``test``, the nearest such one; parents come before children.

    In one pass: asking each element for its ancestors takes quadratic time where elements are nested deeply.
    """
    nearest: dict[Any, Any] = {}
    for element in elements:
        parent = element.getparent()
        if parent is None:
            continue
        if test(parent):
            nearest[element] = parent
        elif parent in nearest:
            nearest[element] = nearest[parent]
    return nearest


def _is_link_mark(element: Any) -> bool:
    """Whether a link is only the mark beside a heading that links to it."""
    if not (element.get("href") or "").startswith("#") and "headerlink" not in (element.get("class") or ""):
        return False
    text = "".join(element.itertext())
    return len(text) <= 4 and _LINK_MARKS.issuperset(text)


def _words(element: Any) -> str:
    return _SPACE.sub(" ", "".join(element.itertext())).strip()


# --- Writing -----------------------------------------------------------------------

_BLOCK_NAMES = """
    address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption
    figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu nav ol p pre search section
    summary table tbody td tfoot th thead tr ul
"""
_BLOCKS = frozenset(_BLOCK_NAMES.split())
_LISTS = frozenset(["ul", "ol", "menu", "dir"])
_SECTIONS = frozenset(["section", "article"])
_MOST_NESTED = 10  # deeper lists and quotations are written at this depth, so that indents stay linear
_MOST_SPANNED = 100
_LONGEST_REPEATED = 100  # characters of a cell that are repeated in every row it spans
_LANGUAGE = re.compile(
    r"(?:^|\s)(?:language|lang|highlight|brush:|sourceCode|highlight-source)[- ]([\w+#-]{1,20})"
)
_NO_LANGUAGE = frozenset(["default", "none", "text", "plaintext", "notranslate", "plain", "source"])
_CONTACT = re.compile(
    r"[\w.+-]{1,64}@[\w-]{1,63}\.\w"
    r"|(?i:\b(?:tel|phone|fax|mobile|telefon|fon|call)\b[^\d\n]{0,20}\d)"
    r"|(?i:\b(?:address|adresse|anschrift)\b[^\n]{0,80}\d|(?:stra(?:ß|ss)e|str\.|platz|gasse) ?\d)"
    r"|(?i:\d[\w.,' -]{1,40}\b(?:street|st|road|rd|avenue|ave|lane)\b)"
    r"|(?<!\d)(?:\+\d|\(?0\d)[\d ()/.-]{5,20}\d|\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}"
    r"|(?i:\b(?:mon|tue|wed|thu|fri|sat|sun|montag|freitag|mo|fr|sa|daily|täglich)\w{0,6}\b[^\n]{0,40}\d)"
)
_MOST_CONTACTS, _LONGEST_CONTACT = 20, 300  # lines of a page; characters
_BREAK = "\x1d"  # stands for <br> until the white space around it is known


@dataclass(slots=True)
class _Container:
    """A list item or a quotation that is open."""

    first: str  # what its first line starts with
    rest: str  # what the others start with
    begun: bool = False


@dataclass(slots=True)
class _Writer:
    """Blocks of text, one after the other, with exact offsets of headings."""

    parts: list[str] = field(default_factory=list)
    size: int = 0
    headings: list[Heading] = field(default_factory=list)
    inline: list[str] = field(default_factory=list)
    containers: list[_Container] = field(default_factory=list)
    tight: bool = False  # the next block follows with a single line break

    def add(self, text: str | None) -> None:
        if text:
            self.inline.append(text)

    def flush(self) -> None:
        """End the paragraph that is open."""
        if not self.inline:
            return
        text = "".join(self.inline)
        self.inline.clear()
        lines = [_SPACE.sub(" ", line).strip(" ") for line in text.split(_BREAK)]
        block = "\n".join(lines).strip("\n ")
        if block.strip():
            self.block(re.sub(r"\n{3,}", "\n\n", block))

    def block(self, text: str) -> int:
        """Write a block; returns the offset of its text."""
        if self.parts:
            self._put("\n" if self.tight else "\n" + self._prefix(blank=True).rstrip() + "\n")
        self.tight = False
        prefix = self._prefix()
        self._put(prefix)
        start = self.size
        rest = self._prefix()
        if rest:
            text = "\n".join(
                line if i == 0 else (rest + line if line else rest.rstrip())
                for i, line in enumerate(text.split("\n"))
            )
        self._put(text)
        return start

    def heading(self, text: str, level: int) -> None:
        if len(text) > MAX_HEADING_CHARS:
            self.block(text)
            return
        marks = "#" * min(level, 6)
        start = self.block(f"{marks} {text}")
        if not self.containers:
            self.headings.append(Heading(start, start + len(marks) + 1 + len(text), level, text))

    def _put(self, text: str) -> None:
        self.parts.append(text)
        self.size += len(text)

    def _prefix(self, *, blank: bool = False) -> str:
        """What a line starts with inside the open containers; uses up the marks of list items."""
        out: list[str] = []
        for container in self.containers[:_MOST_NESTED]:
            if container.begun:
                out.append(container.rest)
            elif not blank:
                out.append(container.first)
                container.begun = True
        return "".join(out)

    def finish(self) -> tuple[str, list[Heading]]:
        self.flush()
        text = "".join(self.parts)
        # Blocks start and end with what is no white space, but for code; offsets stay as they are.
        return text.rstrip(), self.headings


def _write(page: _Page) -> tuple[str, list[Heading]]:
    """Write the seen elements in document order. Iterative: pages nest deeper than Python recurses."""
    from lxml import etree

    writer = _Writer()
    state = _Walk(page, writer)
    contacts = _contacts(page)
    events = etree.iterwalk(page.root, events=("start", "end"))
    for event, element in events:
        if not isinstance(element.tag, str):
            continue
        if event == "start":
            if state.start(element):
                events.skip_subtree()
        else:
            state.end(element)
    writer.flush()
    if contacts and writer.parts:
        text = "".join(writer.parts)
        for line in (line for line in contacts if line not in text):
            writer.block(line)
    return writer.finish()


def _contacts(page: _Page) -> list[str]:
    """Lines of the footers that say how to reach somebody: they often stand nowhere else on a site."""
    footers = page.footers
    within = _nearest_above(page.elements, footers.__contains__) if footers else {}
    lines: dict[str, None] = {}
    # Whole addresses first: of one within a footer the street alone would be taken out.
    for element in sorted(page.elements, key=lambda each: each.tag != "address"):
        is_address = element.tag == "address" and element in within and element not in page.unseen
        if not is_address and (element not in footers or element in within):
            continue
        above = ""
        for piece in _pieces(_texts(element, page, frozenset())):
            if len(piece) <= _LONGEST_CONTACT and (is_address or _CONTACT.search(piece)):
                lines |= dict.fromkeys([above, piece] if above.endswith(":") else [piece])
            above = piece
    return list(itertools.islice(lines, _MOST_CONTACTS))


@dataclass(slots=True)
class _Section:
    """An open section: the level above it, of its first heading (0 for none yet), and the shift to that."""

    above: int = 0
    first: int = 0
    shift: int = 0


class _Walk:
    """Where a walk over a page stands."""

    def __init__(self, page: _Page, writer: _Writer) -> None:
        self.page = page
        self.writer = writer
        self.skipped: Any = None
        self.inside = page.main is None
        self.lists: list[list[int]] = []  # [next number] of ordered lists, [] of others
        self.opened: list[Any] = []  # elements for which a container is open
        self.sections = [_Section()]
        self.heading: Any = None

    def start(self, element: Any) -> bool:
        """Open an element. Returns whether what is below it was dealt with."""
        page, writer, tag = self.page, self.writer, element.tag
        if element is page.main:
            self.inside = True
        if element in page.unseen or element in page.chrome:
            if tag in _BLOCKS:
                writer.flush()
            self.skipped = element
            return True
        if element is page.h1_outside:
            self.inside = True
        if not self.inside:
            return False
        if self._write_unwalked(element):
            self.skipped = element
            return True
        if tag == "br":
            writer.add(" " if self.heading is not None else _BREAK)
        elif tag in _HEADINGS:
            writer.flush()
            self.heading = element
        elif tag in _BLOCKS:
            self._open(element)
        elif tag == "q":
            writer.add("“")
        writer.add(element.text)
        return False

    def _write_unwalked(self, element: Any) -> bool:
        """Write code and tables, which are not walked into."""
        page, tag = self.page, element.tag
        if tag == "code" and not page.stats[element].blocks:
            self._inline_code(element)
            return True
        if self.heading is not None:
            return False
        if tag == "pre":
            self.writer.flush()
            self._code(element)
            return True
        if tag == "table" and _is_data(page, element):
            self.writer.flush()
            self._table(element)
            return True
        return False

    def _open(self, element: Any) -> None:
        writer, tag = self.writer, element.tag
        if self.heading is not None:
            writer.add(" ")
            return
        writer.flush()
        if tag in _LISTS:
            self.lists.append([_number(element.get("start"), 999_999)] if tag == "ol" else [])
            writer.tight = writer.tight or bool(writer.containers and writer.containers[-1].begun)
        elif tag == "li":
            counter = self.lists[-1] if self.lists else []
            marker = "- "
            if counter:
                marker = f"{counter[0]}. "
                counter[0] += 1
            self.opened.append(element)
            previous = element.getprevious()
            writer.tight = writer.tight or (previous is not None and previous.tag == "li")
            writer.containers.append(_Container(marker, " " * len(marker)))
        elif tag == "blockquote":
            self.opened.append(element)
            writer.containers.append(_Container("> ", "> "))
        elif tag in ("dd", "tr", "td", "th"):
            writer.tight = tag != "td" and element.getprevious() is not None
        elif tag in _SECTIONS:
            self.sections.append(_Section(self.sections[-1].first))

    def end(self, element: Any) -> None:
        """Close an element and take the text behind it."""
        page, writer, tag = self.page, self.writer, element.tag
        if element is self.skipped:
            self.skipped = None
        elif self.inside:
            self._close(element)
        if element is page.main or element is page.h1_outside:
            writer.flush()
            self.inside = False
        if self.inside:
            if tag in _BLOCKS and element in page.chrome:
                writer.flush()
            writer.add(element.tail)

    def _close(self, element: Any) -> None:
        writer, tag = self.writer, element.tag
        if element is self.heading:
            self.heading = None
            text = _SPACE.sub(" ", "".join(writer.inline)).strip()
            writer.inline.clear()
            if text:
                writer.heading(text, self._level(_HEADINGS[tag]))
        elif self.heading is not None:
            if tag in _BLOCKS:
                writer.add(" ")
        elif tag in _BLOCKS:
            writer.flush()
            if self.opened and self.opened[-1] is element:
                self.opened.pop()
                writer.containers.pop()
            elif tag in _LISTS and self.lists:
                self.lists.pop()
                writer.tight = False
            elif tag in _SECTIONS and len(self.sections) > 1:
                self.sections.pop()
        elif tag == "q":
            writer.add("”")

    def _level(self, said: int) -> int:
        """The level of a heading: its own number, but below the heading of the section around its section."""
        section = self.sections[-1]
        if not section.first:
            section.first = max(said, section.above + 1) if len(self.sections) > 1 else said
            section.shift = section.first - said
        return max(1, said + section.shift)

    def _code(self, element: Any) -> None:
        texts = _texts(element, self.page)
        code = "".join("\n" if node is not None and node.tag == "br" else text for text, node in texts)
        code = code.replace("\r\n", "\n").replace("\r", "\n").strip("\n").rstrip()
        if not code.strip():
            return
        language = _language(element)
        if not language and self.page.stats[element].chars > 0.8 * self.page.total.chars:
            self.writer.block(code)  # a page that is one long <pre> is a text, not a program
            return
        longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
        fence = "`" * max(3, longest + 1)
        self.writer.block(f"{fence}{language}\n{code}\n{fence}")

    def _inline_code(self, element: Any) -> None:
        text = _SPACE.sub(" ", "".join(text for text, _ in _texts(element, self.page)))
        if not text.strip() or "`" in text or self.heading is not None:
            self.writer.add(text)
            return
        lead = " " if text[0] == " " else ""
        tail = " " if text[-1] == " " else ""
        self.writer.add(f"{lead}`{text.strip()}`{tail}")

    def _table(self, element: Any) -> None:
        caption = next(iter(element.iterchildren("caption")), None)
        if caption is not None and caption not in self.page.unseen and (words := self._cell(caption)):
            self.writer.block(words)
            self.writer.tight = True
        rows = _rows(element, self)
        if not rows:
            return
        lines = [f"| {' | '.join(cells)} |" for _, cells in rows]
        if rows[0][0]:
            lines.insert(1, "|" + " --- |" * len(rows[0][1]))
        self.writer.block("\n".join(lines))

    def _cell(self, element: Any) -> str:
        """A cell in one line: its blocks parted by semicolons where they do not end in a stop."""
        out = ""
        for words in _pieces(_texts(element, self.page)):
            out += ("" if not out else " " if out[-1] in ".!?:;," else "; ") + words
        return out.replace("|", "\\|")


def _pieces(texts: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """The text between the beginnings and ends of blocks, what is blank left out; texts as from `_texts`."""
    pieces: list[list[str]] = [[]]
    for text, node in texts:
        if node is not None and (node.tag in _BLOCKS or node.tag == "br"):
            pieces.append([])
        pieces[-1].append(text)
    words = (_SPACE.sub(" ", "".join(piece)).strip() for piece in pieces)
    return filter(None, words)


def _texts(element: Any, page: _Page, chrome: Collection[Any] | None = None) -> Iterator[tuple[str, Any]]:
    """Runs of seen text below an element, each with the element that starts or ends there."""
    from lxml import etree

    chrome = page.chrome if chrome is None else chrome
    skipped: Any = None
    events = etree.iterwalk(element, events=("start", "end"))
    for event, node in events:
        if not isinstance(node.tag, str):
            continue
        if event == "start":
            if node is not element and (node in page.unseen or node in chrome):
                events.skip_subtree()
                skipped = node
            else:
                yield node.text or "", None if node is element else node
        elif node is not element:
            seen = node is not skipped and node.tag != "br"
            yield node.tail or "", node if seen else None


def _is_data(page: _Page, table: Any) -> bool:
    """Whether a table holds data; others lay out a page."""
    stats = page.stats[table]
    if table.get("role") in ("presentation", "none") or stats.tables or not stats.chars:
        return False
    cells = list(table.iter("td", "th"))
    if any(page.stats[c].headings for c in cells) or len(cells) < 2:
        return False
    if any(page.stats[c].chars > 1000 for c in cells) and stats.blocks:
        return False
    return not any(True for _ in table.iter("pre"))


def _rows(table: Any, state: _Walk) -> list[tuple[bool, list[str]]]:
    """The rows of a table as (is a header, cells); a cell that spans rows or columns is in each of them."""
    rows: list[tuple[bool, list[str]]] = []
    spanning: dict[int, tuple[int, str]] = {}  # column: (rows left, text)
    room = 1000  # cells that may be made up, so that what a page asks for stays in proportion to the page
    for row in table.iter("tr"):
        if row in state.page.unseen or row in state.page.chrome:
            continue
        own = [c for c in row.iterchildren("td", "th") if c not in state.page.unseen]
        cells: list[str] = []
        for cell in own:
            _fill(cells, spanning)
            text = state._cell(cell)
            columns, down = _number(cell.get("colspan")), _number(cell.get("rowspan"))
            room += 2 - columns * down
            if room < 0:
                columns = down = 1
            again = text if len(text) <= _LONGEST_REPEATED else ""
            for extra in range(columns):  # a spanned column is empty but for its first cell
                if down > 1:
                    spanning[len(cells)] = (down - 1, "" if extra else again)
                cells.append("" if extra else text)
        _fill(cells, spanning)
        if any(cells):
            rows.append((bool(own) and all(c.tag == "th" for c in own), cells))
    width = max((len(cells) for _, cells in rows), default=0)
    if len(rows) * width > 4 * sum(len(cells) for _, cells in rows) + 1000:
        return rows  # one row is far wider than the others: padding would be the larger part
    return [(head, cells + [""] * (width - len(cells))) for head, cells in rows]


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


def _language(element: Any) -> str:
    """The language of a block of code, as its own class, its parent's or its ``<code>``'s says."""
    for place in (element, *element.iterchildren("code"), *itertools.islice(element.iterancestors(), 2)):
        match = _LANGUAGE.search(place.get("class") or "")
        if match and match.group(1).lower() not in _NO_LANGUAGE:
            return match.group(1).removeprefix("source-").lower()
    return ""
