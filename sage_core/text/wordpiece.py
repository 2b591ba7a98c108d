"""WordPiece ids of sentences, fast: words are remembered, so that each is taken apart once.

The ids are those of the bundled ``tokenizer.json`` (uncased English BERT vocabulary, without special
tokens). ASCII words are taken apart here; anything else goes to the ``tokenizers`` library, word by word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.errors import ModelError

TOKENIZER_FILE = Path(__file__).with_name("tokenizer.json")

_REMEMBERED = 200_000  # words kept before the memory is emptied: about 30 MB
_LONGEST_WORD = 100  # BERT's own limit: longer runs of letters are one unknown token
_PIECES = re.compile(r"[a-z0-9]+|[!-/:-@\[-`{-~]")
_NOT_PRINTABLE_ASCII = re.compile(r"[^!-~]")
_CONTROL = re.compile(r"[\x0b\x0c\x1c-\x1f\x85]")


class WordPiece(dict[str, tuple[int, ...]]):
    """Token ids by word (a maximal run of characters that are not white space), filled on demand.

    Args:
        path: A ``tokenizer.json`` with an uncased BERT WordPiece model.

    Raises:
        ModelError: Where the file is missing or is not such a tokenizer.
    """

    def __init__(self, path: Path = TOKENIZER_FILE) -> None:
        super().__init__()
        self._path = path
        self._tokenizer = _load_tokenizer(path)
        self._vocabulary: dict[str, int] = self._tokenizer.get_vocab()
        unknown = self._vocabulary.get("[UNK]")
        if unknown is None or "##s" not in self._vocabulary:
            raise ModelError(f"{path} is not a BERT WordPiece tokenizer; use the one bundled with sage-rag")
        self._unknown = unknown

    @property
    def size(self) -> int:
        """Number of ids."""
        return len(self._vocabulary)

    def encode(self, sentences: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Ids of many sentences, one after the other, and the number of ids of each (may be 0)."""
        if len(self) > _REMEMBERED:
            self.clear()
        lookup = self.__getitem__
        rows = [list(chain.from_iterable(map(lookup, _words(text)))) for text in sentences]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum())), lengths

    def count(self, text: str) -> int:
        """Number of tokens of ``text``."""
        return sum(map(len, map(self.__getitem__, _words(text))))

    def __missing__(self, word: str) -> tuple[int, ...]:
        if _NOT_PRINTABLE_ASCII.search(word):
            ids = tuple(self._tokenizer.encode(word, add_special_tokens=False).ids)
        else:
            ids = tuple(chain.from_iterable(map(self._pieces, _PIECES.findall(word.lower()))))
        self[word] = ids
        return ids

    def __reduce__(self) -> tuple[type[WordPiece], tuple[Path]]:
        return WordPiece, (self._path,)

    def _pieces(self, word: str) -> Iterable[int]:
        """Greedy longest match first, as BERT does; ``word`` is lower-case letters and digits, or a sign."""
        if len(word) > _LONGEST_WORD:
            return (self._unknown,)
        found: list[int] = []
        start, prefix = 0, ""
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = self._vocabulary.get(prefix + word[start:end])
                if piece is not None:
                    break
            else:
                return (self._unknown,)
            found.append(piece)
            start, prefix = end, "##"
        return found


def _words(text: str) -> list[str]:
    """Words of ``text``; control characters, which BERT deletes and Python splits at, are deleted first."""
    return (_CONTROL.sub("", text) if _CONTROL.search(text) else text).split()


def _load_tokenizer(path: Path) -> Any:
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error}; reinstall sage-rag or name another folder") from error
    except Exception as error:  # the library raises bare Exception for a file that is not a tokenizer
        raise ModelError(f"{path} is not a tokenizer file: {error}") from error


@lru_cache(maxsize=4)
def shared_wordpiece(path: Path = TOKENIZER_FILE) -> WordPiece:
    """One ``WordPiece`` a file for the whole process, so that models and counters share its memory."""
    return WordPiece(path)
