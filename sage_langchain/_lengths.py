"""Length functions of LangChain's kind that can be pickled, and names for any."""

from __future__ import annotations

from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet
from types import FunctionType
from typing import Any, Literal

from tokenizers import Tokenizer

from sage_core.errors import InputError, MissingExtraError


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
