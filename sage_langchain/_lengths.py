"""Length functions of LangChain's kind that can be pickled, and names for any."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from typing import Literal

from sage_core.errors import MissingExtraError
from sage_core.text.tokens import TokenizerCounter


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


class TokenizerLength(TokenizerCounter):
    """Number of a Hugging Face tokenizer's tokens: a length function; pickles if the tokenizer does."""

    def __call__(self, text: str) -> int:
        """Number of tokens of ``text``."""
        return self.count(text)
