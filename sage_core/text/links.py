"""Names by which texts refer to other documents, and where a text mentions them.

A document is named by its title, by the initials that it introduces for itself, and by its file's name where
that reads like code. A mention is a run of words that is such a name: the longest one at each place. Nothing
here knows a language or needs a model; whether a name is too common to say anything is for the caller to
judge, by how many texts have its words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import PurePath
from typing import NamedTuple, Protocol

from sage_core.text.headings import TOP, title_on_top
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
_INITIALS = re.compile(r" ?[(（]([^\W\d_][\w.&-]{1,9})[)）]")
# "snake_case", "camelCase": nobody writes such words by chance.
_CODE_STYLE = re.compile(r"\w*[^\W_]_[^\W_]\w*|\w*[a-z0-9][A-Z]\w*")


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
    """Names by their keys: a table in a store, or `sage_core.ranking.links.NameIndex`."""

    def known(self, keys: Sequence[str]) -> Collection[str]:
        """Those of ``keys`` that are names."""
        ...

    def beginnings(self, keys: Sequence[str]) -> Collection[str]:
        """Those of ``keys``, of two words or more, with which a name begins or that are one."""
        ...

    def named(self, keys: Sequence[str], limit: int) -> Mapping[str, Sequence[str]]:
        """For each key up to ``limit`` documents of that name."""
        ...

    def counts(self, terms: Sequence[str]) -> tuple[Mapping[str, int], int]:
        """In how many chunks each of these `index_terms` stands, and how many there are; 0 if not known."""
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


@lru_cache(maxsize=8_192)
def document_names(title: str | None, source: str = "", beginning: str = "") -> tuple[str, ...]:
    """Keys of all names of a document, that of its title first.

    Args:
        title: What it calls itself; None or blank for nothing.
        source: Its path or address; of a document without a title perhaps that.
        beginning: How its text begins, where a title may stand, and initials are introduced.

    Examples:
        >>> document_names("European Space Agency", "esa.md", "The European Space Agency (ESA) is in Paris.")
        ('european space agency', 'esa', 'esa md')
        >>> document_names("Mercury (planet)")
        ('mercury', 'mercury planet')
    """
    names: list[str] = []
    own = " ".join((title or title_on_top(beginning[:TOP]) or "").split())[:2_000]
    if own:
        bare = _PARENTHESIS.sub("", own)
        names += [bare, own]
        for text in (own, " ".join(beginning[:1_000].split())) if bare else ():
            found = (x[1] for x in _INITIALS.finditer(text) if text.endswith(bare, 0, x.start()))
            if (introduced := next(found, None)) and _are_initials(introduced, bare):
                names.append(introduced)
    path = PurePath(source.rsplit("://", 1)[-1].replace("\\", "/"))
    if not title and not path.suffix and any(c.isalpha() for c in path.name):
        names.append(path.name)  # a title under the key of a source
    if path.suffix and path.stem:
        names.append(path.name)
        if _CODE_STYLE.fullmatch(path.stem) or (not title and " " in path.stem):
            names.append(path.stem)
    return tuple(key for key in dict.fromkeys(map(name_key, dict.fromkeys(names))) if key)


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
