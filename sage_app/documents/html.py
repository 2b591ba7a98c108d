"""The text of an HTML page: the part that a person came to read, as Markdown.

What is there to use the site is left out: an element that says so by its tag or role, and one whose class or
id says so if it also looks like it (links, controls, or a short text without a sentence). Linear in the page.
"""

from __future__ import annotations

import codecs
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sage_app.documents.discovery import Parsed
from sage_app.documents.markdown import BLOCKS, HEADINGS, drop, to_markdown, words
from sage_core.errors import InputError, MissingExtraError
from sage_core.text.headings import find_headings
from sage_core.text.lexicon import word_set

if TYPE_CHECKING:
    from lxml.etree import _Element

_CHARSET = re.compile(
    rb"<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*[\"']?([A-Za-z0-9._:-]+)", re.I
)


def declared_encoding(data: bytes) -> str | None:
    """The encoding a page declares in its first 2048 bytes, if Python knows it."""
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


def read_html(markup: str, *, name: str = "the page", whole: bool = False) -> Parsed:
    """The main content of a page as Markdown, its ``<title>``, else its only ``<h1>``, and its headings.

    Args:
        markup: The page, or a part of one.
        name: For messages.
        whole: Keep navigation, footers and the like.

    Raises:
        InputError: For elements nested more than 2,000 deep, which no parser here follows.
        MissingExtraError: Without lxml or markdownify.
    """
    root = _parse(markup, name)
    if root is None:
        return Parsed("")
    title = next((words(e) for e in root.iter("title") if e.getparent().tag == "head"), "")
    _drop_unseen(root)
    text = to_markdown(root if whole else _content(root))
    if not text and not whole:  # whatever its elements are called, it is not all navigation
        return read_html(markup, name=name, whole=True)
    # Their words as they stand: a signature such as bind([port][, address]) is no link of Markdown, and a
    # line with a ruler below it is no heading of HTML.
    found = [h for h in find_headings(text, "markdown") if text[h.start] == "#"]
    headings = [h._replace(text=text[h.start : h.end].lstrip("#").strip()) for h in found]
    tops = [h for h in headings if h.level == 1]
    return Parsed(text, title or (tops[0].text if len(tops) == 1 else None), headings)


def _parse(markup: str, name: str) -> _Element | None:
    try:
        import markdownify  # noqa: F401
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


# --- The part with the content -----------------------------------------------------

_UNSEEN = word_set(
    """script style noscript template head iframe object embed applet canvas audio video map select option
    datalist input textarea progress meter dialog title meta link base xml ix:header ix:hidden"""
)
_CONTROLS = word_set("button input select textarea form")
_ROLES = word_set(
    """navigation banner contentinfo search complementary dialog alertdialog menu menubar toolbar tablist
    tooltip"""
)
# Words of class and id. Those of the second kind also name what is content ("menu" of a restaurant): short
# texts without links or controls stay there.
_NAMES = word_set(
    """a11y ad ads adslot advert advertisement announce announcement banner breadcrumb breadcrumbs catlinks
    ccpa consent cookie cookies crumbs docinfo edit editsection feedback footer gdpr hashlink headerlink
    jump likes login masthead modal mostread navbar navbox newsletter nomobile noprint onetrust
    onthispage overlay pagebreak pageid pagenum pager pagetools pagination popup postmenu printfooter
    promo rail recommendations recommended related relatedposts reply respond screenreader search
    secedit share sharedaddy sharing sidebar sidenav signup skip skiplink social sponsored sr subscribe
    tableofcontents toc toolbar tools topbar trace usertools visuallyhidden widget"""
)
_LINKED_NAMES = word_set("nav navigation header aside menu meta tabs")
_WORD = re.compile(r"[a-z0-9]+|[A-Z]+[a-z0-9]*")
_SENTENCE = re.compile(r"\w+\W+\w+\W+\w+[^.!?]*[.!?](?:\s|$)")
_HIDDEN = re.compile(
    r"(?i)display\s{0,9}:\s{0,9}none|visibility\s{0,9}:\s{0,9}hidden|mso-hide\s{0,9}:\s{0,9}all"
)
_LINK_MARKS = frozenset("¶#§🔗⚓∞↩\u200b\ufe0e\uf0c1 \xa0")
_FEW_CHARS = 250
_CONTACT = re.compile(
    r"[\w.+-]{1,64}@[\w-]{1,63}\.\w|(?<!\d)(?:\+\d|\(?0\d)[\d ()/.-]{5,20}\d|\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}"
    r"|(?i:(?:stra(?:ß|ss)e|str\.|platz|gasse) ?\d|\d[\w.,' -]{1,40}\b(?:street|st|road|rd|avenue|lane)\b)"
    r"|(?i:\b(?:mon|tue|wed|thu|fri|sat|sun|montag|freitag|mo|fr|sa|daily|täglich)\w{0,6}\b[^\n]{0,40}\d)"
)
_MOST_CONTACTS, _LONGEST_CONTACT = 20, 300  # lines of a page; characters


def _drop_unseen(root: Any) -> None:
    """Take out what is not shown. A panel that a tab or a button opens stays, under the name of its tab."""
    tabs = root.xpath("//*[@role='tab']")
    panels = root.xpath("//*[@role='tabpanel']")
    if len(tabs) == len(panels):
        for tab, panel in zip(tabs, panels, strict=True):
            label = panel.makeelement("p")
            label.text = words(tab)
            label.tail, panel.text = panel.text, None
            panel.insert(0, label)
            drop(tab)
    for formula in root.xpath("//script[starts-with(@type, 'math/tex')]"):
        formula.tag, formula.text = "span", f"${formula.text}$"
    opened = {i for each in root.xpath("//@aria-controls") for i in each.split()} - {""}
    for element in [e for e in root.iter() if e is not root and e.tag != "body"]:
        hidden = element.get("hidden", "until-found") != "until-found" or element.get("aria-hidden") == "true"
        hidden = hidden or bool(_HIDDEN.search(element.get("style") or ""))
        is_panel = element.get("role") == "tabpanel" or element.get("id") in opened
        if element.tag in _UNSEEN or (hidden and not is_panel) or _is_link_mark(element):
            drop(element)


def _is_link_mark(element: Any) -> bool:
    """Whether a link is only the mark beside a heading that links to it."""
    if element.tag != "a" or "#" not in (element.get("href") or "#") or len(element) > 2:
        return False
    text = words(element)
    return 0 < len(text) <= 4 and _LINK_MARKS.issuperset(text)


def _sizes(elements: list[Any]) -> dict[Any, Counter[str]]:
    """Characters below each element, those within links; how many links, controls and headings there are."""
    sizes: dict[Any, Counter[str]] = {element: Counter() for element in elements}
    for element in reversed(elements):
        size, tag = sizes[element], element.tag
        size["chars"] += len((element.text or "").strip())
        if tag == "a":
            size["linked"], size["links"] = size["chars"], 1
        size["controls"] += tag in _CONTROLS
        size["headings"] += tag in HEADINGS
        size["h1"] += tag == "h1"
        if (above := sizes.get(element.getparent())) is not None:
            above.update(size)
            above["chars"] += len((element.tail or "").strip())
    return sizes


def _content(root: Any) -> Any:
    """The part of a page with the content, without the furniture in it."""
    sizes = _sizes(list(root.iter()))  # which keeps lxml's proxies alive, so that they can be keys
    total, part = sizes[root], _part(root, sizes)
    for footer in root.xpath("//*[@role='contentinfo']"):
        footer.tag = "footer"
    contacts = dict.fromkeys(_contacts(root))
    if not sizes[part]["h1"] and (title := next(root.iter("h1"), None)) is not None:  # it stands outside
        title.tail, part.text = part.text, None
        part.insert(0, title)
    furniture: list[Any] = []
    for element in part.iterdescendants():
        size = sizes[element]
        if (size["h1"] and size["h1"] == total["h1"]) or size["chars"] > 0.5 * total["chars"]:
            continue
        if element.tag in HEADINGS or not _is_furniture(element, size, guess=part is root):
            continue
        if (heading := next(element.iterancestors(*HEADINGS), None)) is not None:
            if size["chars"] >= sizes[heading]["chars"]:
                continue  # a heading that is a link or a button keeps its words
            sizes[heading]["chars"] -= size["chars"]
        furniture.append(element)
    for element in furniture:
        drop(element)
    text = "".join(part.itertext())
    for line in itertools.islice((c for c in contacts if c not in text), _MOST_CONTACTS):
        part.append(part.makeelement("p"))
        part[-1].text = line
    return part


def _part(root: Any, sizes: dict[Any, Counter[str]]) -> Any:
    """``main``, or the only article, if they hold enough of the text, else the page."""
    mains = root.xpath("//main | //*[@role='main'] | //*[@itemprop='articleBody']")
    main = next((e for e in mains if sizes[e]["chars"] >= 0.1 * sizes[root]["chars"]), root)
    first, *others = list(main.iterdescendants("article")) or [main]
    is_enough = sizes[first]["chars"] >= 0.3 * sizes[main]["chars"]
    return first if is_enough and others == list(first.iterdescendants("article")) else main


def _is_furniture(element: Any, size: Counter[str], guess: bool) -> bool:
    """Whether an element is there to use the site, not to be read; ``guess`` if the page has no main part."""
    tag = element.tag
    if tag in ("nav", "button", "footer") or element.get("role") in _ROLES:
        return True
    if guess and tag in ("header", "aside"):
        return next(element.iterancestors("article", "section", "blockquote"), None) is None
    if tag in ("main", "article", "a"):
        return False
    if tag == "sup":
        return "reference" in (element.get("class") or "").split()
    if guess and tag in ("ul", "ol", "td", "div", "p", "table", "center") and _is_link_list(element, size):
        return True
    names, is_short = _names(element), size["chars"] < _FEW_CHARS
    if size["linked"] > 0.4 * size["chars"] or (size["controls"] and is_short):
        return not names.isdisjoint(_NAMES | _LINKED_NAMES) or tag == "form"
    if not is_short or tag in ("dt", "dd", "table", "td", "th", "tr", "pre", "code"):
        return False
    if size["headings"]:  # what is called like its heading
        names -= set(_WORD.findall(words(next(element.iter(*HEADINGS))).lower()))
    return not names.isdisjoint(_NAMES) and not _SENTENCE.search(words(element))


def _names(element: Any) -> set[str]:
    """The words of class and id, single and joined."""
    tokens = f"{element.get('class') or ''} {element.get('id') or ''}"[:2000].split()
    return {part.lower() for token in tokens for part in (*_WORD.findall(token), re.sub("[-_]", "", token))}


def _is_link_list(element: Any, size: Counter[str]) -> bool:
    """Whether links stand together that no heading and no sentence above them introduces."""
    few = size["links"] < 3 or size["headings"] or size["chars"] >= 40 * size["links"]
    if few or size["linked"] <= 0.8 * size["chars"]:
        return False
    while element.getprevious() is None and element.getparent() is not None:
        element = element.getparent()
    above = element.getprevious()
    return above is None or above.tag not in ("p", "dt", *HEADINGS)


def _contacts(root: Any) -> Iterator[str]:
    """Lines of footers that say how to reach somebody: they often stand nowhere else on a site."""
    above = ""
    for block in root.iter(*BLOCKS):
        in_footer = block.tag == "footer" or next(block.iterancestors("footer"), None) is not None
        if not in_footer or any(element.tag in BLOCKS for element in block):
            continue
        for line in words(block, "\n").split("\n"):
            if len(line) <= _LONGEST_CONTACT and (block.tag == "address" or _CONTACT.search(line)):
                yield from [above, line] if above.endswith(":") else [line]
            above = line
