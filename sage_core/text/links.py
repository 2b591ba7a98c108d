"""Names by which texts refer to other documents, where a text mentions them, and links that it writes down.

A document is named by its title, by the initials that it introduces for itself, and by its file's name where
that reads like code. A mention is a run of words that is such a name: the longest one at each place. Nothing
here knows a language or needs a model; whether a name is too common to say anything is for the caller to
judge, by how many texts have its words. A link leads to a file, and to a heading in it, by its path alone:
whether there is such a document is found out when it is followed.
"""

from __future__ import annotations

import os.path
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import PurePath
from typing import Literal, NamedTuple, Protocol
from urllib.parse import unquote

from sage_core.text.keywords import UNSPACED

MAX_NAME_WORDS = 12
"""A longer title is a sentence, which no other text repeats word for word."""

# What may be read of a text to find mentions in it.
_MAX_TEXT = 20_000
_MAX_WORD = 64
_WORD = re.compile(r"\w+")
# At the end of a title: "Mercury (planet)".
_PARENTHESIS = re.compile(r"\s*[(（][^()（）]*[)）]\s*$")
# After a name: "(ESA)".
_INITIALS = r" ?[(（]([^\W\d_][\w.&-]{1,9})[)）]"
# "snake_case", "camelCase": nobody writes such words by chance.
_CODE_STYLE = re.compile(r"\w*[^\W_]_[^\W_]\w*|\w*[a-z0-9][A-Z]\w*")


# "[text](target)" or "[text](<target>)"; "[text][label]" or "[label]", and what labels stand for.
_INLINE = re.compile(
    r"\[([^\[\]]{0,300})\]\(\s{0,9}(?:<([^<>\n]{1,1000})>|([^\s<>()]{1,1000}(?:\([^\s()]{0,200}\)[^\s<>()]{0,200})?))"
)
_LABEL = re.compile(r"^ {0,3}\[([^\[\]]{1,300})\]:[ \t]{1,9}<?([^\s<>]{1,1000})", re.M)
_USE = re.compile(r"\[([^\[\]]{1,300})\](?:\[([^\[\]]{0,300})\])?(?![(:])")
# "`text <target>`_", ":doc:`target`" and ":doc:`text <target>`"; ".. _text: target" and its use "text_".
_ROLE = re.compile(r"(?<!`)(:doc:|:download:)?`([^`<>]{0,300})(?:<([^`<>\n]{1,1000})>)?`(?!`)_{0,2}")
_RST_LABEL = re.compile(r"^[ \t]{0,99}\.\. _`?([^:`\n]{1,300})`?:[ \t]{1,9}(\S{1,1000})", re.M)
_RST_USE = re.compile(r"`([^`<>]{1,300})`_\b|\b([A-Za-z][\w.-]{0,99})_(?![\w`])")
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):", re.I)  # one letter is a drive
_MAX_TARGET = 1_000
_PAGES = (".html", ".htm")


class Hyperlink(NamedTuple):
    """A run of characters that leads to a file.

    Attributes:
        start: Offset of its first character.
        end: Offset after its last character.
        target: The path and the heading, as the document writes them.
    """

    start: int
    end: int
    target: str


class Mention(NamedTuple):
    """A run of words in a text that is a name.

    Attributes:
        key: The name, as `name_key` writes it.
        start: Offset of its first character.
        end: Offset after its last character.
    """

    key: str
    start: int
    end: int


class NameTable(Protocol):
    """Names by their keys: a table in a store, or `sage_core.ranking.NameIndex`."""

    def known(self, keys: Sequence[str]) -> Collection[str]:
        """Those of ``keys`` that are names."""
        ...

    def beginnings(self, keys: Sequence[str]) -> Collection[str]:
        """Those of ``keys``, of two words or more, with which a name begins or that are one."""
        ...


def name_key(name: str) -> str:
    """The words of a name in the form in which names are compared; empty for none, or for too many.

    Letters lose case and accents. In scripts without spaces between words every character is a word.

    Examples:
        >>> name_key("The  Étude, No. 2")
        'the etude no 2'
    """
    words = [word for word, _, _ in _words(name[:2_000])]
    return " ".join(words) if len(words) <= MAX_NAME_WORDS else ""


def document_names(title: str | None, source: str = "", beginning: str = "") -> list[str]:
    """Keys of all names of a document, that of its title first.

    Args:
        title: What it calls itself; None or blank for nothing.
        source: Its path or address.
        beginning: How its text begins, where initials are introduced.

    Examples:
        >>> document_names("European Space Agency", "esa.md", "The European Space Agency (ESA) is in Paris.")
        ['european space agency', 'esa', 'esa md']
        >>> document_names("Mercury (planet)")
        ['mercury', 'mercury planet']
    """
    names: list[str] = []
    title = " ".join((title or "").split())[:2_000]
    if title:
        bare = _PARENTHESIS.sub("", title)
        names += [bare, title]
        for text in (title, " ".join(beginning[:1_000].split())) if bare else ():
            introduced = re.search(re.escape(bare) + _INITIALS, text)
            if introduced and _are_initials(introduced.group(1), bare):
                names.append(introduced.group(1))
    path = PurePath(source.rsplit("://", 1)[-1].replace("\\", "/"))
    if path.suffix and path.stem:
        names.append(path.name)
        if _CODE_STYLE.fullmatch(path.stem) or (not title and " " in path.stem):
            names.append(path.stem)
    return [key for key in dict.fromkeys(map(name_key, names)) if key]


def find_mentions(texts: Iterable[str], names: NameTable) -> list[list[Mention]]:
    """Where texts mention names: of names that begin at one place the longest, none within another.

    No more than the first 20,000 characters of each text are read. ``names`` is asked a few times, however
    many texts there are.
    """
    texts = [text[:_MAX_TEXT] for text in texts]
    words = [_keys(text) for text in texts]
    alone = names.known(list({*chain.from_iterable(words)}))
    # The longest name that begins at each place. Few words begin one, of those fewer go on like one.
    longest = {(t, i): 1 for t, row in enumerate(words) for i, word in enumerate(row) if word in alone}
    begun = [(t, i, word) for t, row in enumerate(words) for i, word in enumerate(row)]
    for length in range(2, MAX_NAME_WORDS + 1):
        runs = [
            (t, i, f"{run} {words[t][i + length - 1]}") for t, i, run in begun if i + length <= len(words[t])
        ]
        some = names.beginnings(list({run for _, _, run in runs})) if runs else ()
        begun = [read for read in runs if read[2] in some]
        if not begun:
            break
        whole = names.known(list({run for _, _, run in begun}))
        longest |= {(t, i): length for t, i, run in begun if run in whole}
    named = {t for t, _ in longest}
    results: list[list[Mention]] = []
    for t, text in enumerate(texts):
        mentions: list[Mention] = []
        free = 0
        for i, (_, start, _) in enumerate(row := list(_words(text)) if t in named else []):
            if i >= free and (t, i) in longest:
                free = i + longest[t, i]
                mentions.append(Mention(" ".join(words[t][i:free]), start, row[free - 1][2]))
        results.append(mentions)
    return results


def find_hyperlinks(text: str, markup: Literal["markdown", "rst"]) -> list[Hyperlink]:
    """The links to files of a text in light markup, in order.

    Examples:
        >>> find_hyperlinks("See [the dues](rules.md#dues) or [us](https://example.org).", "markdown")
        [Hyperlink(start=4, end=29, target='rules.md#dues')]
    """
    links: dict[int, Hyperlink] = {}

    def add(match: re.Match[str], target: str | None) -> None:
        if target and is_file_link(target):
            links.setdefault(match.start(), Hyperlink(match.start(), match.end(), target))

    label, use = (_LABEL, _USE) if markup == "markdown" else (_RST_LABEL, _RST_USE)
    targets = {_label_key(m.group(1)): m.group(2) for m in label.finditer(text)}
    if markup == "markdown":
        for match in _INLINE.finditer(text):
            add(match, match.group(2) or match.group(3))
    else:
        for match in _ROLE.finditer(text):
            role, said, target = match.groups()
            add(match, target or (said if role else None))
    for match in use.finditer(text) if targets else ():
        add(match, targets.get(_label_key(match.group(2) or match.group(1) or "")))
    # What is said with its closing bracket, for the reader.
    return [
        link._replace(end=link.end + 1) if text[link.end : link.end + 1] == ")" else link
        for _, link in sorted(links.items())
    ]


def _label_key(label: str) -> str:
    return " ".join(label.casefold().split())


def is_file_link(target: str) -> bool:
    """Whether a link may lead to a file: not to another site, an address of mail or a script."""
    scheme = _SCHEME.match(target)
    if not target or len(target) > _MAX_TARGET or "\0" in target or target.startswith("//"):
        return False
    return scheme is None or scheme.group(1).lower() == "file"


def link_target(target: str, source: str) -> tuple[list[str], str]:
    """Paths that a link may mean, and the key of the heading there (`heading_key`), empty for none.

    A path without a suffix, and a page's, may mean a file of the source's own kind: that is how the pages
    of a site are written. Nothing is looked up.

    Args:
        target: As the document writes it, `is_file_link`.
        source: The document's absolute path.

    Examples:
        >>> link_target("../rules.md#4.2-Dues", "/club/notes/minutes.md")
        (['/club/rules.md'], '42dues')
        >>> link_target("rules", "/club/index.rst")[0]
        ['/club/rules', '/club/rules.rst', '/club/rules/index.rst']
    """
    if target.lower().startswith("file:"):
        target = target[5:].removeprefix("//localhost").removeprefix("//")
    path, _, anchor = target.partition("#")
    path, anchor = unquote(path.partition("?")[0].strip()), heading_key(unquote(anchor))
    if not path:
        return [source] if anchor else [], anchor
    own = PurePath(source).suffix
    whole = os.path.normpath(PurePath(source).parent / path)
    suffix = PurePath(whole).suffix
    if own and not suffix:
        return [whole, whole + own, str(PurePath(whole, "index" + own))], anchor
    if own and suffix.lower() in _PAGES and suffix != own:
        return [whole, whole.removesuffix(suffix) + own], anchor
    return [whole], anchor


def heading_key(heading: str) -> str:
    """A heading as anchors are compared, which leave out and exchange other characters."""
    return "".join(c for c in heading.casefold() if c.isalnum())


def rarest(
    terms: Mapping[str, Sequence[str]], counts: Mapping[str, int], total: int
) -> dict[str, tuple[int, int]]:
    """For each key the least of its terms' ``counts``, and ``total``; keys without terms are left out."""
    return {key: (min(counts.get(t, 0) for t in some), total) for key, some in terms.items() if some}


def _keys(text: str) -> list[str]:
    """The words of a text as names have them."""
    if text.isascii():
        return [word[:_MAX_WORD] for word in _WORD.findall(text.lower())]
    return [word for word, _, _ in _words(text)]


def _words(text: str) -> Iterable[tuple[str, int, int]]:
    """The words of a text as names have them, and where they stand."""
    for match in _WORD.finditer(text):
        word, start, end = match.group(), match.start(), match.end()
        if not word.isascii():
            if UNSPACED.search(word):
                yield from ((_folded(c), start + i, start + i + 1) for i, c in enumerate(word))
                continue
            word = _folded(word[:_MAX_WORD])
        yield word[:_MAX_WORD].casefold(), start, end


def _folded(word: str) -> str:
    plain = unicodedata.normalize("NFKD", word)
    # Marks of scripts whose letters they change ("が", "й") stay where the letter alone is another one.
    folded = "".join(c for c in plain if not unicodedata.combining(c)) if word[0] < "\u0400" else word
    return "".join(c for c in folded.casefold() if c.isalnum() or c == "_") or word.casefold()


def _are_initials(short: str, name: str) -> bool:
    """Whether letters are those with which the words of a name begin, in order: "ESA", "UNESCO"."""
    letters = [c for c in short.casefold() if c.isalnum()]
    firsts = [word[0] for word, _, _ in _words(name)]
    if len(letters) < 2 or not firsts or letters[0] != firsts[0] or short.islower():
        return False
    left = iter(letters)
    letter = next(left)
    for first in firsts:  # words like "of" may be passed over, letters may not
        if first == letter:
            letter = next(left, "")
            if not letter:
                return True
    return False
