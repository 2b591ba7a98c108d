"""Embeddings of OpenAI, or of any server with the same interface."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.protocol import unit_rows
from sage_core.errors import InputError, LLMError, MissingExtraError
from sage_core.llm.access import OPENAI_URL, api_key, server_url
from sage_core.llm.failures import MalformedReplyError, classify, shown_url, transport_errors
from sage_core.llm.usage import TokenUsage, estimate_tokens

# The service takes 2,048 texts and 300,000 tokens in one request.
_MOST_TEXTS = 2_048
_MOST_CHARACTERS = 300_000


class OpenAIEmbedder:
    """An `Embedder` over the embeddings endpoint; texts are sent in batches. Safe across threads.

    The client repeats what fails with 408, 409, 429, 5xx or a broken connection. A text above the model's
    limit (8,191 tokens for OpenAI's) is refused by the server, and the error says so.

    Args:
        model: The model's name.
        api_key: The key; from ``OPENAI_API_KEY`` where None. A server of your own needs none. It is in no
            repr, error or pickle of this class.
        base_url: The server's address up to ``/v1``; from ``OPENAI_BASE_URL``, else OpenAI's, where None.
        dimensions: Asks for shorter vectors, where the model can; None for the model's own.
        batch_size: Most texts in one request.
        timeout: Seconds one attempt may take.
        max_retries: Attempts after the first.

    Raises:
        InputError: Where a value is out of its range; when embedding, for an address or a key that cannot be
            one.
        LLMError: When embedding: where the server gave no vectors.
        MissingExtraError: When embedding: where the client is not installed.
    """

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        dimensions: int | None = None,
        batch_size: int = 256,
        timeout: float = 60.0,
        max_retries: int = 4,
    ) -> None:
        if not model:
            raise InputError("give the name of an embedding model")
        if not 1 <= batch_size <= _MOST_TEXTS:
            raise InputError(f"batch_size must be between 1 and {_MOST_TEXTS}, not {batch_size}")
        if dimensions is not None and dimensions < 1:
            raise InputError(f"dimensions must be at least 1, not {dimensions}")
        if not timeout > 0 or max_retries < 0:
            raise InputError("timeout must be above 0, max_retries at least 0")
        self.model = model
        self._api_key = api_key
        self._base_url = base_url
        self._dimensions = dimensions
        self._batch_size = batch_size
        self._timeout = timeout
        self._max_retries = max_retries
        self._start()

    def _start(self) -> None:
        """What cannot be pickled."""
        self._lock = threading.Lock()
        self._client: Any = None
        self._usage = TokenUsage()

    @property
    def name(self) -> str:
        """The model, and the dimensions where they were asked for."""
        return self.model if self._dimensions is None else f"{self.model}({self._dimensions})"

    @property
    def endpoint(self) -> str:
        """The server's address, without what may be secret in it."""
        return shown_url(server_url(self._base_url))

    @property
    def usage(self) -> TokenUsage:
        """Tokens embedded so far. They have a price of their own, so no method's usage holds them."""
        return self._usage

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, base_url={self.endpoint!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_api_key": None, "_lock": None, "_client": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `Embedder.embed_documents`; shape ``(0, 0)`` for no texts."""
        parts = [self._ask(batch) for batch in self._batches(texts)]
        return np.concatenate(parts) if parts else np.zeros((0, 0), np.float32)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """See `Embedder.embed_query`."""
        row: NDArray[np.float32] = self._ask([text or " "])[0]
        return row

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """The texts in requests that the service takes."""
        batch: list[str] = []
        size = 0
        for text in texts:
            sent = text or " "  # the service refuses an empty text
            if batch and (len(batch) == self._batch_size or size + len(sent) > _MOST_CHARACTERS):
                yield batch
                batch, size = [], 0
            batch.append(sent)
            size += len(sent)
        if batch:
            yield batch

    def _ask(self, texts: list[str]) -> NDArray[np.float32]:
        """Unit rows of one request."""
        client = self._connected()
        arguments: dict[str, Any] = {"model": self.model, "input": texts, "encoding_format": "float"}
        if self._dimensions is not None:
            arguments["dimensions"] = self._dimensions
        try:
            reply = client.embeddings.create(**arguments)
            rows = _rows(reply, len(texts))
        except transport_errors() as error:
            failure = classify(error, timeout=self._timeout, key=api_key(self._api_key))
            problem = LLMError(
                f"embeddings of {self.model!r} at {self.endpoint}: {failure.message}",
                retryable=failure.retryable,
            )
        else:
            self._count(reply, texts)
            return unit_rows(rows)
        raise problem  # outside the except, so that the client's error, which holds the key, is not shown

    def _count(self, reply: Any, texts: list[str]) -> None:
        tokens = getattr(getattr(reply, "usage", None), "prompt_tokens", None)
        spent = TokenUsage(sum(map(estimate_tokens, texts)), 0, 1, estimated=True)
        if isinstance(tokens, int) and tokens >= 0:
            spent = TokenUsage(tokens, 0, 1)
        with self._lock:
            self._usage += spent

    def _connected(self) -> Any:
        try:
            import openai
        except ImportError as error:
            raise MissingExtraError("OpenAI embeddings", "openai") from error
        with self._lock:
            if self._client is None:
                key = api_key(self._api_key)
                if key is None and server_url(self._base_url) == OPENAI_URL:
                    raise LLMError(
                        "no API key for OpenAI embeddings: set OPENAI_API_KEY, or give base_url for a server "
                        "of your own"
                    )
                self._client = openai.OpenAI(
                    api_key=key or "none-needed",
                    base_url=server_url(self._base_url),
                    timeout=self._timeout,
                    max_retries=self._max_retries,
                )
            return self._client


def _rows(reply: Any, expected: int) -> NDArray[np.float32]:
    """The vectors of a reply, in the order asked.

    Raises:
        MalformedReplyError: Where there is not one vector per text, all of one length.
    """
    data = getattr(reply, "data", None)
    if not isinstance(data, list) or sorted(getattr(d, "index", -1) for d in data) != list(range(expected)):
        raise MalformedReplyError(f"not one vector for each of {expected} texts")
    try:
        rows = np.array([d.embedding for d in sorted(data, key=lambda d: d.index)], dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise MalformedReplyError("vectors that are no rows of numbers") from error
    if rows.ndim != 2 or not rows.shape[1]:
        raise MalformedReplyError("vectors of different lengths")
    return rows
