"""Words, and parts of words, that a question and its candidates share, as shares of the best possible."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.text.language import MIN_WORDS, is_english
from sage_core.text.lexicon import EMPTY_WORDS, STOP_WORDS, singular, stem

_K1, _B = 1.5, 0.75

# Vowel signs and other marks belong to the letter before them, which `\w` does not know. The ranges also hold
# some signs of punctuation that stand by themselves.
MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0711\u0730-\u074a"
    "\u07a6-\u07b0\u0816-\u082d\u08d3-\u0963\u0971-\u0df3\u0e31-\u0e3a\u0e47-\u0e4e\u0eb1-\u0ebc\u0ec8-\u0ecd"
    "\u0f71-\u0f84\u0f8d-\u0fbc\u102b-\u1049\u1056-\u109d\u135d-\u135f\u1712-\u1734\u17b4-\u17d3"
)
_ASCII_WORD = re.compile(r"\w+")
_WORD = re.compile(rf"\w[\w{MARKS}]*")
# Written or left out as one likes: points of vowels, the line that stretches an Arabic word, and joiners.
_OPTIONAL = re.compile("[\u0591-\u05bd\u05bf\u05c1-\u05c7\u064b-\u065f\u0670\u0640\u200c\u200d]")

# Scripts without spaces between words: Thai to Khmer, kana, Han, and what is only used beside them.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003134f]+"
)
_CHARACTER = re.compile(rf".[{MARKS}]*", re.DOTALL)
# Only from where a word begins: from each of its letters, a word of 100,000 letters would take minutes.
_COMPOUND = re.compile(r"(?<!\w)\w+(?:[-./:_+]\w+)+")

_CONTENT_WORD = re.compile(rf"[^\W_](?:[^\W_]|[{MARKS}])*(?:['’][^\W\d_]+)?")


def words(text: str) -> list[str]:
    """Words in lower case, as search and ranking compare them. Numbers are words.

    Of scripts without spaces between words every two neighboring characters, with their marks. A plural
    in s loses it. Of English text without stop words; what is common in another language, the list tells.
    """
    plain = text.lower()
    if plain.isascii():
        found = _ASCII_WORD.findall(plain)
    else:
        found = _WORD.findall(_OPTIONAL.sub("", unicodedata.normalize("NFKC", plain)))
        if UNSPACED.search(plain):
            found = [part for word in found for part in pairs_of(word)]
    if is_english(text, MIN_WORDS):
        found = [word for word in found if word not in STOP_WORDS]
    # Whatever the language: a question of three words does not show its own, and would lose the ending that
    # its text keeps.
    found = [singular(word) for word in found]
    # Interned: the words of many texts that are kept are then the same few strings.
    return [sys.intern(word) for word in found]


def index_terms(text: str) -> list[str]:
    """What is looked up of a question in an index of `indexed` texts.

    `words`, and of "XK-200/7b" also ``xk-200/7b``, to be found in one piece, and ``xk2007b``, so that a part
    number is rarer than its parts.
    """
    terms = words(text)
    for compound in _COMPOUND.findall(text.lower()):
        if any(c.isdigit() for c in compound):
            terms += [compound, "".join(c for c in compound if c.isalnum())]
    return terms


def indexed(text: str) -> str:
    """A text as an index of words takes it, which cuts at spaces and signs by itself.

    Scripts without spaces between words as pairs of neighboring characters.
    """
    if text.isascii():
        return text
    plain = _OPTIONAL.sub("", unicodedata.normalize("NFKC", text))
    return UNSPACED.sub(lambda run: f" {' '.join(pairs_of(run.group()))} ", plain)


def pairs_of(word: str) -> Iterator[str]:
    """A word, its runs of scripts without spaces as pairs of neighboring characters."""
    rest = 0
    for run in UNSPACED.finditer(word):
        if run.start() > rest:
            yield word[rest : run.start()]
        characters = _CHARACTER.findall(run.group())
        yield from map("".join, pairwise(characters)) if len(characters) > 1 else characters
        rest = run.end()
    if rest < len(word):
        yield word[rest:]


def bm25_share(query: Sequence[str], documents: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """BM25 (Lucene's form, k1 1.5, b 0.75) of each document over the most that any document could have.

    Word weights come from the given documents alone, so a score depends on its list, but not much on the
    length of the list: it is divided by the sum of the query's weights, in which a word that no document has
    counts in full. 1 is every word of the query without end, 0 is no word. The formula is bm25s's, whose
    index over thirty candidates would take longer to build than everything else here. Query and documents are
    `words`.
    """
    shares = np.zeros(len(documents))
    terms = list(dict.fromkeys(query))
    filled = [i for i, document in enumerate(documents) if document]
    if not terms or not filled:
        return shares
    texts = [documents[i] for i in filled]
    counts = np.zeros((len(texts), len(terms)))
    columns = {term: column for column, term in enumerate(terms)}
    for row, document in enumerate(texts):
        for term in columns.keys() & set(document):
            counts[row, columns[term]] = document.count(term)
    lengths = np.array([len(document) for document in texts], dtype=np.float64)
    weights = _idf(np.count_nonzero(counts, axis=0), len(texts))
    damping = _K1 * (1 - _B + _B * lengths / lengths.mean())
    shares[filled] = (counts / (counts + damping[:, None])) @ weights / weights.sum()
    return np.asarray(np.clip(shares, 0.0, 1.0))


def gram_share(
    query: Sequence[str],
    documents: Sequence[Sequence[str]],
    codes: Sequence[NDArray[np.uint16]] | None = None,
) -> NDArray[np.float64]:
    """Weight of the query's letter sequences that each document has, over the weight of all of them: 0 to 1.

    Finds what whole words miss: "govern" and "governing", a misspelt name, scripts without spaces. Query and
    documents are `words`; ``codes`` are the `gram_codes` of each document, where known.
    """
    grams = _grams(_spaced(query))
    if not grams or not documents:
        return np.zeros(len(documents))
    matches = _matching_grams(documents, codes or [gram_codes(document) for document in documents], grams)
    weights = _idf(matches.sum(axis=0), len(documents))
    # Rounding must not lift a document that has all of them above 1.
    return np.asarray(np.minimum(matches @ weights / weights.sum(), 1.0))


def _spaced(listed: Sequence[str]) -> str:
    """Words with a space at either end of each; empty for none."""
    return f" {' '.join(listed)} " if listed else ""


def _grams(text: str) -> list[str]:
    """Runs of four characters, each once; a text that is shorter is its only one."""
    return list(dict.fromkeys(text[i : i + 4] for i in range(max(len(text) - 3, min(len(text), 1)))))


# Any odd numbers: they spread the codes of letter sequences over 16 bits.
_SPREAD = np.array([0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F], dtype=np.uint32)


def gram_codes(listed: Sequence[str]) -> NDArray[np.uint16]:
    """A code of 16 bits for each run of four characters of a text's `words`, for `gram_share`."""
    letters = _letters(_spaced(listed))
    if len(letters) < 4:
        return np.zeros(0, dtype=np.uint16)
    return _codes(np.stack([letters[i : len(letters) - 3 + i] for i in range(4)], axis=1))


def _letters(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.uint32)


def _codes(runs: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """Codes of runs of letters, shape ``(n, 4)``."""
    return np.asarray((runs @ _SPREAD) >> np.uint32(16)).astype(np.uint16)


def _matching_grams(
    documents: Sequence[Sequence[str]], codes: Sequence[NDArray[np.uint16]], grams: Sequence[str]
) -> NDArray[np.float64]:
    """Which of ``grams`` are among the `_grams` of each document: 1 or 0, by document."""
    matches = np.zeros((len(documents), len(grams)))
    if len(grams[0]) < 4:  # the only one of a question that short
        matches[:, 0] = [_spaced(document) == grams[0] for document in documents]
        return matches
    # Nearly all that a document does not have is ruled out by its codes, all documents at once.
    of_document = np.repeat(np.arange(len(documents)), [len(own) for own in codes])
    every = np.concatenate(codes)
    sought = _codes(_letters("".join(grams)).reshape(-1, 4))
    known = np.zeros(1 << 16, dtype=bool)
    known[sought] = True
    near = np.flatnonzero(known[every])
    columns: dict[int, list[int]] = {}
    for column, code in enumerate(sought.tolist()):
        columns.setdefault(code, []).append(column)
    spaced: dict[int, str] = {}
    for row, code in zip(of_document[near].tolist(), every[near].tolist(), strict=True):
        text = spaced.get(row)
        if text is None:
            text = spaced[row] = _spaced(documents[row])
        for column in columns[code]:
            if grams[column] in text:
                matches[row, column] = 1
    return matches


def _idf(counts: NDArray[Any], n: int) -> NDArray[np.float64]:
    """Weights of terms that ``counts`` of ``n`` documents have."""
    return np.asarray(np.log1p((n - counts + 0.5) / (counts + 0.5)), dtype=np.float64)


def stem_list(text: str) -> list[str]:
    """Content words of a text in order, stemmed; pairs of characters in scripts without spaces."""
    return [stem(w) for w in content_words(text)]


def content_words(text: str) -> list[str]:
    """As `stem_list`, with their endings."""
    found = [w for w in _CONTENT_WORD.findall(text.lower()) if w not in EMPTY_WORDS]
    return found if text.isascii() else [part for w in found for part in pairs_of(w)]
