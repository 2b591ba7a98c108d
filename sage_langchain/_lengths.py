"""Lengths in LangChain's terms: any length function as a counter, limits in its unit, white space kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import FunctionType
from typing import Any, Literal

from tokenizers import Tokenizer

from sage_core.errors import InputError, MissingExtraError
from sage_core.segmentation.limits import DEFAULT_MAX_TOKENS, DEFAULT_MIN_TOKENS
from sage_core.text.spans import Span
from sage_core.text.tokens import CharCounter

# English text has a little over four characters per word piece.
CHARACTERS_PER_TOKEN = 4
DEFAULT_COARSE_TOKENS = 400


class TiktokenLength:
    """Number of tiktoken tokens of a text: a length function that can be pickled.

    Args:
        encoding_name: Name of a tiktoken encoding.
        model_name: Name of an OpenAI model, which overrides ``encoding_name``.
        allowed_special: Special tokens allowed in the text.
        disallowed_special: Special tokens that raise an error when met in the text.

    Raises:
        MissingExtraError: If tiktoken is not installed.
    """

    def __init__(
        self,
        encoding_name: str,
        model_name: str | None,
        allowed_special: Literal["all"] | AbstractSet[str],
        disallowed_special: Literal["all"] | Collection[str],
    ) -> None:
        try:
            import tiktoken
        except ImportError as error:
            raise MissingExtraError("from_tiktoken_encoder", "tiktoken") from error
        # An Encoding pickles as its name alone.
        self._encoding = (
            tiktoken.get_encoding(encoding_name)
            if model_name is None
            else tiktoken.encoding_for_model(model_name)
        )
        self._allowed = allowed_special
        self._disallowed = disallowed_special
        self.name = f"tiktoken:{self._encoding.name}"

    def __call__(self, text: str) -> int:
        """Number of tokens of ``text``."""
        return len(
            self._encoding.encode(text, allowed_special=self._allowed, disallowed_special=self._disallowed)
        )


class TokenizerLength:
    """Number of a Hugging Face tokenizer's tokens, special ones not counted; pickles if the tokenizer does.

    Args:
        tokenizer: A tokenizer of `transformers`, or a bare `tokenizers.Tokenizer`.

    Raises:
        InputError: If it is neither.
    """

    def __init__(self, tokenizer: Any) -> None:
        if not callable(getattr(tokenizer, "tokenize", None)) and not isinstance(tokenizer, Tokenizer):
            raise InputError(
                "from_huggingface_tokenizer takes a transformers tokenizer or a tokenizers.Tokenizer, "
                f"not {type(tokenizer).__name__}"
            )
        self._tokenizer = tokenizer
        source = getattr(tokenizer, "name_or_path", "") or f"{id(tokenizer):x}"
        self.name = f"{type(tokenizer).__qualname__}:{source}"

    def __call__(self, text: str) -> int:
        """Number of tokens of ``text``."""
        if isinstance(self._tokenizer, Tokenizer):
            return len(self._tokenizer.encode(text, add_special_tokens=False))
        return len(self._tokenizer.tokenize(text))


def length_name(function: Callable[[str], int]) -> str:
    """A name for a length function, for fingerprints.

    Its own ``name``, or where a module defines it. What cannot be told from another of its kind by either
    (closures, lambdas, methods) is named for this process only: better a cache missed than a wrong chunk
    found.
    """
    own = getattr(function, "name", None)
    if isinstance(own, str) and own:
        return own
    if (
        isinstance(function, FunctionType)
        and function.__closure__ is None
        and "<" not in function.__qualname__
    ):
        return f"{function.__module__}.{function.__qualname__}"
    return f"{type(function).__qualname__}@{id(function):x}"


def padded(text: str, spans: Sequence[Span], length: Callable[[str], int], limit: int) -> list[Span]:
    """Spans widened over the white space between them, as far as ``limit`` allows.

    The white space after a chunk goes with it; where that would make it too long, with the chunk after it;
    where that one would be too long as well, with none. Leading white space goes with the first chunk on the
    same condition. So the limit stays hard, and the chunks joined give the text wherever it can be done.
    """
    result: list[Span] = []
    cursor = 0
    for i, span in enumerate(spans):
        start, end = span
        if start > cursor and length(text[cursor:end]) <= limit:
            start = cursor
        following = spans[i + 1].start if i + 1 < len(spans) else len(text)
        if following > end and length(text[start:following]) <= limit:
            end = following
        result.append(Span(start, end))
        cursor = end
    return result


# What the splitter calls a segmenter's settings.
_OWN_NAMES = {
    "max_tokens": "chunk_size",
    "min_tokens": "min_chunk_size",
    "coarse_tokens": "coarse_size",
    "counter": "length_function",
}


def own_names(settings: Mapping[str, Any]) -> list[str]:
    """The settings as the user of a splitter names them."""
    return [_OWN_NAMES.get(name, name) for name in settings]


def check_sizes(settings: Mapping[str, Any]) -> None:
    """See that the sizes given are whole numbers and fit each other, in the user's own names.

    Args:
        settings: Arguments for a `Segmenter`, as far as they were given.

    Raises:
        InputError: If not.
    """
    for name, least in (("max_tokens", 1), ("min_tokens", 0), ("coarse_tokens", 1)):
        value = settings.get(name, least)
        if hasattr(value, "embed_documents"):
            raise InputError("SageTextSplitter takes no embeddings: leave them out, SageTextSplitter()")
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InputError(f"{_OWN_NAMES[name]} is a whole number of at least {least}, not {value!r}")
    filled = segmenter_settings(settings)
    size, coarse = filled["max_tokens"], filled["coarse_tokens"]
    if filled["min_tokens"] > size:
        raise InputError(
            f"min_chunk_size must be at most chunk_size ({size}), not {filled['min_tokens']}: lower "
            "min_chunk_size or raise chunk_size"
        )
    if size > coarse and filled.get("strategy", "threshold") == "threshold":
        raise InputError(
            f"chunk_size must be at most coarse_size ({coarse}), not {size}: raise coarse_size, the window "
            "that strategy='threshold' cuts, or leave it out"
        )


def segmenter_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for a `Segmenter`, with the limits that were not given made to fit those that were.

    Args:
        settings: Arguments for a `Segmenter`; ``max_tokens`` and the like in the unit of ``counter``.
    """
    result = dict(settings)
    unit = CHARACTERS_PER_TOKEN if isinstance(result.get("counter"), CharCounter) else 1
    size = result.get("max_tokens", DEFAULT_MAX_TOKENS * unit)
    if "max_tokens" not in result and result.get("strategy", "threshold") == "threshold":
        size = min(size, result.get("coarse_tokens", size))
    share = max(size * DEFAULT_MIN_TOKENS // DEFAULT_MAX_TOKENS, 1)
    result.setdefault("max_tokens", size)
    result.setdefault("min_tokens", min(DEFAULT_MIN_TOKENS * unit, share))
    result.setdefault("coarse_tokens", max(DEFAULT_COARSE_TOKENS * unit, size))
    return result
