"""WordPiece ids of sentences, fast: words are remembered, so that each is taken apart once.

The ids are those of the bundled ``tokenizer.json`` (uncased English BERT vocabulary, without special
tokens), by the ``tokenizers`` library, word by word.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.errors import ModelError

TOKENIZER_FILE = Path(__file__).with_name("tokenizer.json")

_REMEMBERED = 200_000  # words kept before the memory is emptied: about 30 MB
_CONTROL = re.compile(r"[\x0b\x0c\x1c-\x1f\x85]")

# Tokens per character of cl100k_base, by the first code point of a range: measured on prose of each script,
# and on base64, hexadecimal and DNA for ASCII, whose long unbroken runs are hardly ever words.
_PER_CHARACTER = (
    (0x0000, 0.6),
    (0x0080, 1.0),  # Latin, Greek, Cyrillic, Hebrew, Arabic
    (0x0900, 1.4),  # Devanagari to Sinhala
    (0x0E00, 1.0),  # Thai
    (0x0E80, 2.1),  # Lao, Tibetan, Burmese, Georgian
    (0x1200, 2.5),  # Ethiopic
    (0x1400, 2.1),  # Khmer, Mongolian
    (0x1E00, 1.2),
    (0x2000, 1.5),  # punctuation and symbols
    (0x3000, 1.1),  # kana
    (0x3400, 1.5),  # Chinese characters
    (0xA000, 2.0),
    (0xAC00, 1.0),  # Hangul
    (0xD7B0, 2.0),
    (0x10000, 3.0),  # emoji
)
_RANGE_STARTS = [start for start, _ in _PER_CHARACTER]
# English tokens that a letter stands for (its marks are letters too) in other languages than English, by the
# first code point of a range: the means of translations into 1 to 14 languages of a script (XQuAD's articles
# and the declaration of human rights), rounded. Alphabets and the scripts of India differ little.
_READING = (
    (0x0000, 0.19),  # alphabets
    (0x0590, 0.32),  # Hebrew
    (0x0600, 0.27),  # Arabic, Persian, Urdu
    (0x0780, 0.22),  # Devanagari to Oriya
    (0x0B80, 0.18),  # Tamil to Malayalam
    (0x0D80, 0.21),  # Sinhala, Thai
    (0x0E80, 0.19),  # Lao, Tibetan
    (0x1000, 0.125),  # Burmese
    (0x10A0, 0.18),  # Georgian
    (0x1100, 0.55),  # Hangul
    (0x1200, 0.42),  # Ethiopic
    (0x1380, 0.19),  # Khmer and others
    (0x3040, 0.25),  # kana
    (0x3400, 0.66),  # Chinese characters
    (0xA000, 0.2),
    (0xAC00, 0.55),  # Hangul
    (0xD7B0, 0.2),
    (0xF900, 0.66),
    (0xFB00, 0.27),
    (0x1F000, 1.0),  # emoji
    (0x20000, 0.66),
)
_READING_STARTS = [start for start, _ in _READING]
_DIGIT, _SIGN = 0.4, 1.0
# Between syllables or words of Tibetan and Amharic, as a space is elsewhere.
_SPACES = "\u0f0b\u1361"


class _Readings(dict[str, float]):
    """English tokens by character, filled on demand."""

    def __missing__(self, character: str) -> float:
        category = unicodedata.category(character)
        if category[0] in "LM" or category == "So":
            size = _READING[bisect_right(_READING_STARTS, ord(character)) - 1][1]
        elif category in ("Cf", "Zs") or character in _SPACES:
            size = 0.0
        else:
            size = _DIGIT if category[0] == "N" else _SIGN
        self[character] = size
        return size


_CHARACTERS = _Readings()
# BERT drops the vowel signs of these scripts, so that a word known to it has far fewer pieces than letters.
_STRIPPED = re.compile("[\u0900-\u10ff\u1200-\u1dff]")


def unknown_tokens(text: str) -> int:
    """Tokens of a text that a vocabulary lacks, judged by its length; at least 1.

    A vocabulary gives one unknown token for any run it does not know, be it three letters or three thousand.
    What such a run costs elsewhere is estimated from its characters, at the rate of a byte-level vocabulary
    (cl100k_base) for their script; for the scripts measured the estimate is within 0.75 to 1.3 of it.
    """
    if text.isascii():
        return max(1, math.ceil(len(text) * _PER_CHARACTER[0][1]))
    rates = (_PER_CHARACTER[bisect_right(_RANGE_STARTS, ord(sign)) - 1][1] for sign in text)
    return max(1, math.ceil(sum(rates) - 1e-9))


class WordPiece(dict[str, tuple[int, ...]]):
    """Token ids by word (a maximal run of characters that are not white space), filled on demand.

    Lengths count unknown runs by what is in them (`unknown_tokens`), so they can exceed the number of ids.

    Args:
        path: A ``tokenizer.json`` with an uncased BERT WordPiece model.

    Raises:
        ModelError: Where the file is missing or is not such a tokenizer.
    """

    def __init__(self, path: Path = TOKENIZER_FILE) -> None:
        super().__init__()
        self._path = path
        self._tokenizer = _load_tokenizer(path)
        unknown = self._tokenizer.token_to_id("[UNK]")
        if unknown is None or self._tokenizer.token_to_id("##s") is None:
            raise ModelError(f"{path} is not a BERT WordPiece tokenizer; use the one bundled with sage-rag")
        self._unknown = unknown
        self._surplus: dict[str, int] = {}  # tokens beyond the ids, of words that have any
        self._sizes: dict[str, float] = {}  # English tokens by word

    def encode(
        self, sentences: Sequence[str]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """Ids of many sentences, one after the other; the number of ids of each (may be 0); and its tokens.

        The tokens are at least the ids: see `count`.
        """
        if len(self) > _REMEMBERED:
            self.clear()
            self._surplus.clear()
            self._sizes.clear()
        lookup = self.__getitem__
        rows = [list(chain.from_iterable(map(lookup, _words(text)))) for text in sentences]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        tokens = lengths
        if self._surplus:
            odd = [
                i
                for i, (text, row) in enumerate(zip(sentences, rows, strict=True))
                if not text.isascii() or self._unknown in row
            ]
            if odd:
                tokens = lengths.copy()
                tokens[odd] += [self._surplus_of(_words(sentences[i])) for i in odd]
        return np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum())), lengths, tokens

    def count(self, text: str) -> int:
        """Number of tokens of ``text``; an unknown run counts as `unknown_tokens` says."""
        words = _words(text)
        total = sum(map(len, map(self.__getitem__, words)))
        return total + self._surplus_of(words) if self._surplus else total

    def reading_size(self, text: str) -> int:
        """Size of a text that is not English: tokens of an English one that says as much.

        By the letters of each word (`_READING`), not by a vocabulary; never more than `count`.
        """
        sizes = self._sizes
        words = _words(text)
        return max(1, round(sum(sizes.get(word) or self._size(word) for word in words))) if words else 0

    def _size(self, word: str) -> float:
        size = sum(map(_CHARACTERS.__getitem__, word))
        size = self._sizes[word] = min(size, len(self[word]) + self._surplus.get(word, 0))
        return size

    def _surplus_of(self, words: list[str]) -> int:
        if self._surplus.keys().isdisjoint(words):
            return 0
        return sum(self._surplus.get(word, 0) for word in words)

    def __missing__(self, word: str) -> tuple[int, ...]:
        read = without_rules(word)
        encoding = self._tokenizer.encode(read, add_special_tokens=False)
        ids = tuple(encoding.ids)
        tokens = len(ids)
        if self._unknown in ids:
            places = zip(ids, encoding.offsets, strict=True)
            tokens += sum(unknown_tokens(read[a:b]) - 1 for i, (a, b) in places if i == self._unknown)
        if _STRIPPED.search(word):
            tokens = max(tokens, unknown_tokens(word))
        if tokens > len(ids):
            self._surplus[word] = tokens - len(ids)
        self[word] = ids
        return ids

    def __reduce__(self) -> tuple[type[WordPiece], tuple[Path]]:
        return WordPiece, (self._path,)


_RUN = re.compile(r"([!-/:-@[-`{-~])\1{3,}")  # of ASCII signs, which other vocabularies join too


def without_rules(text: str) -> str:
    """The text, three signs in place of more: 300 dashes say as much, and would fill what a model reads."""
    return _RUN.sub(r"\1\1\1", text)


def _words(text: str) -> list[str]:
    """Words of ``text``; control characters, which BERT deletes and Python splits at, are deleted first."""
    return (_CONTROL.sub("", text) if _CONTROL.search(text) else text).split()


def _load_tokenizer(path: Path) -> Any:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error}; reinstall sage-rag or name another folder") from error
    except Exception as error:  # the library raises bare Exception for a file that is not a tokenizer
        raise ModelError(f"{path} is not a tokenizer file: {error}") from error
    tokenizer.encode_special_tokens = True  # "[SEP]" in a text is a word
    return tokenizer


@lru_cache(maxsize=1)
def shared_wordpiece() -> WordPiece:
    """One ``WordPiece`` for the whole process, so that models and counters share its memory."""
    return WordPiece()
