"""The errors this library raises on purpose. Each message says what to do next."""

from __future__ import annotations

from collections.abc import Sequence


class SageError(Exception):
    """Base of every error raised on purpose by sage-rag.

    Examples:
        >>> from sage_core import select
        >>> try:
        ...     select([0.9, 0.1], gradient=2)
        ... except SageError as error:
        ...     print(type(error).__name__, "-", error)
        InputError - gradient must be between 0 and 1, not 2
    """


class InputError(SageError, ValueError):
    """An argument or a document cannot be used as given."""


class MissingExtraError(SageError, ImportError):
    """An optional dependency is not installed.

    Examples:
        >>> print(MissingExtraError("the LLM", "openai"))
        the LLM needs an optional dependency: pip install "sage-rag[openai]" (in a clone ".[openai]")

    Attributes:
        extra: Name of the extra that brings it.
    """

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f'{what} needs an optional dependency: pip install "sage-rag[{extra}]" (in a clone ".[{extra}]")'
        )
        self.what, self.extra = what, extra

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:
        return type(self), (self.what, self.extra)


class ModelError(SageError):
    """A model's files are missing, damaged or of another kind than expected."""


class StoreError(SageError):
    """A chunk store is missing, damaged or was made with other settings."""


class LLMError(SageError):
    """The LLM could not be reached or did not answer.

    Examples:
        >>> error = LLMError("status 429", chunks=["The ferry leaves at seven."], retryable=True)
        >>> error.retryable, error.chunks
        (True, ('The ferry leaves at seven.',))

    Attributes:
        chunks: Texts of the chunks that had been selected when it failed, best first (empty where
            retrieval had not happened yet), so that no retrieval work is lost.
        retryable: Whether the same call may succeed later.
    """

    def __init__(self, message: str, *, chunks: Sequence[str] = (), retryable: bool = False) -> None:
        super().__init__(message)
        self.chunks = tuple(chunks)
        self.retryable = retryable
