"""Token counters, by name. Every length limit in this library is in tokens of one of these."""

from __future__ import annotations

import re
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sage_core._checks import check_installed, near_match
from sage_core.errors import InputError, MissingExtraError, ModelError
from sage_core.text.cache import LRUCache
from sage_core.text.language import MIN_WORDS, is_english, sample

if TYPE_CHECKING:
    from sage_core.text.wordpiece import WordPiece

_SURROGATE = re.compile("[\ud800-\udfff]")
_REMEMBERED = 200
_SIZES: LRUCache[int] = LRUCache(16_384)
"""Sizes of texts of so many characters and more, some 150 bytes each."""
_TIKTOKEN = ("cl100k_base", "o200k_base", "p50k_base", "r50k_base")


def in_english(text: str) -> bool:
    """Whether a text, or the sample that is read of a long one, looks like English."""
    return is_english(sample(text), MIN_WORDS)


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the tokens of a text. Special tokens (``[CLS]``, ``</s>``) are never counted.

    A counter may also have ``additive = True``, which promises that parts of a text in one language,
    joined by white space, have as many tokens as all together; the segmenter then need not count them again.

    Examples:
        >>> from sage_core import get_counter
        >>> counter = get_counter("words")
        >>> isinstance(counter, TokenCounter), counter.count_many(["The cat sat."])
        (True, [3])
    """

    @property
    def name(self) -> str:
        """Identifies the counter in fingerprints; equal names, equal counts."""
        ...

    def count(self, text: str) -> int:
        """Number of tokens of ``text``."""
        ...

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each text."""
        ...


def get_counter(name: str = "bert") -> TokenCounter:
    """The counter of that name, whose vocabulary loads on first use.

    Args:
        name: ``"bert"`` (the default: English tokens; text in another language counts as many as its
            translation), ``"words"`` (split at white space), or a tiktoken encoding (``"cl100k_base"``,
            ``"o200k_base"``). For characters there is ``CallableCounter(len, "chars")``.

    Raises:
        InputError: For any other name.
        MissingExtraError: Where it needs tiktoken, which is not installed.
    """
    if isinstance(name, str) and name in _BUNDLED:
        return _BUNDLED[name]()
    if name in _TIKTOKEN:
        check_installed(f"the token counter {name!r}", "tiktoken", "tiktoken")
        return TiktokenCounter(name)
    known = (*_BUNDLED, *_TIKTOKEN)
    raise InputError(
        f"no token counter {name!r}{near_match(str(name), known)}; there are {', '.join(known)}, and "
        "TokenizerCounter(tokenizer) for one of Hugging Face"
    )


class _Counter(ABC):
    """What counters share: those of one kind and name are the same counter."""

    name: str

    def count(self, text: str) -> int:
        """Number of tokens of ``text``."""
        return self.count_many([text])[0]

    @abstractmethod
    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each text."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.name == getattr(other, "name", None)

    def __hash__(self) -> int:
        return hash((type(self), self.name))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class WordCounter(_Counter):
    """Words: maximal runs of characters that are not white space."""

    name = "words"
    additive = True

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Number of words of each text."""
        return [len(text.split()) for text in texts]


class BertCounter(_Counter):
    """How much there is to read, in English tokens: the same for a text and its translations, within 20%.

    Of English text the word pieces of the bundled vocabulary, as all-MiniLM-L6-v2 counts them without
    ``[CLS]`` and ``[SEP]``; a run that it does not know counts by its length. Of other text what an English
    one that says as much would have, by its letters. `PieceCounter` counts word pieces in every language.
    """

    name = "bert"
    additive = True

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Size of each text."""
        # Chunks come again with the next question, sentences of a document do not.
        again = (text for text in texts if len(text) >= _REMEMBERED)
        sizes = _SIZES.get_many(again, lambda new: list(map(_size, new)))
        return [sizes[text] if text in sizes else _size(text) for text in texts]

    def foreign_sizes(self, parts: Iterable[str]) -> list[int]:
        """Sizes of parts of a text that is not English, which a part may not show."""
        return list(map(_wordpiece().reading_size, parts))


def _size(text: str) -> int:
    pieces = _wordpiece()
    return (pieces.count if in_english(text) else pieces.reading_size)(without_lone_surrogates(text))


class PieceCounter(_Counter):
    """Word pieces of the bundled vocabulary in every language: what all-MiniLM-L6-v2 reads.

    To BERT a run of letters that it does not know is one token, whatever its length: Thai, Khmer, emoji,
    base64. Such a run counts by its length instead, at the rate of cl100k_base for its script.
    """

    name = "pieces"
    additive = True

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Number of word pieces of each text."""
        count = _wordpiece().count
        return [count(without_lone_surrogates(text)) for text in texts]


class TiktokenCounter(_Counter):
    """Tokens of an OpenAI encoding. Special tokens in the text are counted as the ordinary text they are.

    Args:
        name: Name of a tiktoken encoding.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each text."""
        encode = _tiktoken(self.name).encode_ordinary
        return [len(encode(without_lone_surrogates(text))) for text in texts]


class TokenizerCounter(_Counter):
    """Tokens of a tokenizer that is at hand: of `transformers`, or a bare `tokenizers.Tokenizer`.

    It neither cuts nor pads, whatever the tokenizer's own file asks for, and the tokenizer is left as it is.
    A run that the tokenizer does not know counts by its length. Pickles if the tokenizer does.

    Args:
        tokenizer: The tokenizer.

    Raises:
        InputError: If it is neither.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._bare = _bare_form(tokenizer)
        if self._bare is None and not callable(getattr(tokenizer, "tokenize", None)):
            raise InputError(
                "a transformers tokenizer or a tokenizers.Tokenizer is needed, "
                f"not {type(tokenizer).__name__}"
            )
        source = getattr(tokenizer, "name_or_path", "") or f"{id(tokenizer):x}"
        self.name = f"{type(tokenizer).__qualname__}:{source}"

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each text."""
        if self._bare is not None:
            return count_with(self._bare, texts)
        return [len(self._tokenizer.tokenize(without_lone_surrogates(text))) for text in texts]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_bare": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._bare = _bare_form(self._tokenizer)


class CallableCounter(_Counter):
    """A counter from any function.

    Examples:
        >>> CallableCounter(lambda text: len(text.split()), "white space").count_many(["one two", ""])
        [2, 0]

    Args:
        function: From a text to its number of tokens. To pickle the counter it must be a module's function.
        name: Identifies the function in fingerprints: two functions that count differently need two names.

    Raises:
        InputError: If ``function`` cannot be called or ``name`` is empty.
    """

    def __init__(self, function: Callable[[str], int], name: str) -> None:
        if not callable(function):
            raise InputError("a counter needs a function from a text to its number of tokens")
        if not name:
            raise InputError("a counter needs a name, which stands for it in cache keys")
        self._function = function
        self.name = name

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """What the function says of each text."""
        return [int(self._function(text)) for text in texts]


_LOADING = threading.Lock()
_BUNDLED: dict[str, type[_Counter]] = {
    "bert": BertCounter,
    "words": WordCounter,
}


def count_with(tokenizer: Any, texts: Sequence[str]) -> list[int]:
    """Tokens of each text by a `tokenizers.Tokenizer` that neither cuts nor pads; special ones not counted.

    A run that the tokenizer does not know counts by its length, not as the one token it becomes.
    """
    clean = [without_lone_surrogates(text) for text in texts]
    encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
    encodings = encode(clean, add_special_tokens=False)
    counts = [len(encoding) for encoding in encodings]
    unknown = _unknown_id(tokenizer)
    if unknown is None:
        return counts
    odd = [i for i, encoding in enumerate(encodings) if unknown in encoding.ids]
    if odd:
        from sage_core.text.wordpiece import unknown_tokens

        # The fast way above gives no offsets.
        encodings = tokenizer.encode_batch([clean[i] for i in odd], add_special_tokens=False)
        for i, encoding in zip(odd, encodings, strict=True):
            counts[i] = sum(
                unknown_tokens(clean[i][a:b]) if token == unknown else 1
                for token, (a, b) in zip(encoding.ids, encoding.offsets, strict=True)
            )
    return counts


def bare_tokenizer(tokenizer: Any) -> Any:
    """A copy of a `tokenizers.Tokenizer` that neither cuts nor pads; the user's own is left as it is."""
    own = type(tokenizer).from_str(tokenizer.to_str())
    own.no_truncation()
    own.no_padding()
    return own


def _bare_form(tokenizer: Any) -> Any:
    """The `tokenizers.Tokenizer` in or behind a tokenizer, made bare; None if there is none."""
    from tokenizers import Tokenizer

    own = tokenizer if isinstance(tokenizer, Tokenizer) else getattr(tokenizer, "backend_tokenizer", None)
    return bare_tokenizer(own) if isinstance(own, Tokenizer) else None


def function_name(function: Callable[..., object]) -> str:
    """A name for a function that counts, for fingerprints.

    Its own ``name`` or ``fingerprint``. Without one the name is new each time: better a cache missed than a
    wrong chunk found.
    """
    for own in (getattr(function, name, None) for name in ("name", "fingerprint")):
        if isinstance(own, str) and own:
            return own
    return f"{getattr(function, '__qualname__', type(function).__qualname__)}@{uuid.uuid4().hex[:16]}"


def _unknown_id(tokenizer: Any) -> int | None:
    """Id of the token that stands for unknown text; None if the tokenizer has none."""
    name = getattr(tokenizer.model, "unk_token", None)
    if isinstance(name, str):
        number = tokenizer.token_to_id(name)
        return None if number is None else int(number)
    number = getattr(tokenizer.model, "unk_id", None)
    return int(number) if isinstance(number, int) else None


def without_lone_surrogates(text: str) -> str:
    """``text`` with each lone surrogate, which no tokenizer accepts, replaced by one U+FFFD."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return _SURROGATE.sub("\ufffd", text)


def _wordpiece() -> WordPiece:
    from sage_core.text.wordpiece import shared_wordpiece

    with _LOADING:
        return shared_wordpiece()


@lru_cache(maxsize=8)
def _tiktoken(name: str) -> Any:
    try:
        import tiktoken
    except ImportError as error:
        raise MissingExtraError(f"the token counter {name!r}", "tiktoken") from error
    try:
        return tiktoken.get_encoding(name)
    except OSError as error:  # what requests raises is one too
        raise ModelError(
            f"the vocabulary of {name!r} could not be fetched ({error}); set TIKTOKEN_CACHE_DIR to a folder "
            'that holds it, or count with "bert"'
        ) from error
