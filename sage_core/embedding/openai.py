"""Embeddings of OpenAI, or of any server with the same interface."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.protocol import unit_rows
from sage_core.errors import InputError
from sage_core.llm.attempts import Attempts, MalformedReplyError
from sage_core.llm.transport import Clients, redact_url, run_blocking
from sage_core.llm.usage import TokenUsage, estimate_tokens
from sage_core.text.tokens import without_lone_surrogates

# The service takes 2,048 texts and 300,000 tokens in one request.
_MOST_TEXTS = 2_048
_MOST_CHARACTERS = 300_000

_BACKOFF = 0.5  # seconds before the first retry
_MOST_BYTES_PER_TEXT = 2**18  # a vector of 4,096 numbers is some 90,000 bytes of JSON
_SLACK = 2**20


class OpenAIEmbedder:
    """An `Embedder` over the embeddings endpoint; texts are sent in batches. Safe across threads.

    What fails with 408, 409, 429, 5xx, a broken connection or an unreadable reply is repeated with growing
    pauses. A reply of more than 256 KiB for each of ``batch_size`` texts is an error. A text above the
    model's limit (8,191 tokens for OpenAI's) is refused by the server, and the error says so.

    Examples:
        >>> embedder = OpenAIEmbedder("text-embedding-3-small", dimensions=256)
        >>> vector = embedder.embed_query("When does the ferry leave?")  # doctest: +SKIP

    Args:
        model: The model's name.
        api_key: The key; from ``OPENAI_API_KEY`` where None. A server of your own needs none. It is in no
            repr, error or pickle of this class.
        base_url: The server's address up to ``/v1``; from ``OPENAI_BASE_URL``, else OpenAI's, where None.
        dimensions: Asks for shorter vectors, where the model can; None for the model's own.
        batch_size: Most texts in one request.
        timeout: Seconds one request may take in all: attempts, retries and the pauses between them.
        max_retries: Most attempts after the first.

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
        timeout: float = 120.0,
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
        self._clients = Clients(
            "OpenAI embeddings", base_url, api_key, _SLACK + _MOST_BYTES_PER_TEXT * batch_size
        )
        self._dimensions = dimensions
        self._batch_size = batch_size
        self._timeout = timeout
        self._max_retries = max_retries
        self._init_runtime_state()

    def _init_runtime_state(self) -> None:
        """Create the lock and the count; called again after unpickling."""
        self._lock = threading.Lock()
        self._usage = TokenUsage()

    @property
    def name(self) -> str:
        """The model, and the dimensions where they were requested."""
        return self.model if self._dimensions is None else f"{self.model}({self._dimensions})"

    @property
    def endpoint(self) -> str:
        """The server's address, without what may be secret in it."""
        return redact_url(self._clients.url)

    @property
    def usage(self) -> TokenUsage:
        """Tokens embedded so far. They have a price of their own, so no method's usage holds them."""
        return self._usage

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, base_url={self.endpoint!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._init_runtime_state()

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `Embedder.embed_documents`; shape ``(0, 0)`` for no texts."""
        parts = [self._ask(batch) for batch in self._batches(texts)]
        return np.concatenate(parts) if parts else np.zeros((0, 0), np.float32)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """See `Embedder.embed_query`."""
        row: NDArray[np.float32] = self._ask([without_lone_surrogates(text) or " "])[0]
        return row

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """The texts in requests that the service takes."""
        batch: list[str] = []
        size = 0
        for text in texts:
            sent = without_lone_surrogates(text) or " "  # the service refuses an empty text
            if batch and (len(batch) == self._batch_size or size + len(sent) > _MOST_CHARACTERS):
                yield batch
                batch, size = [], 0
            batch.append(sent)
            size += len(sent)
        if batch:
            yield batch

    def close(self) -> None:
        """Close the connections."""
        self._clients.close()

    def _ask(self, texts: list[str]) -> NDArray[np.float32]:
        return run_blocking(self._aask(texts))

    async def _aask(self, texts: list[str]) -> NDArray[np.float32]:
        arguments: dict[str, Any] = {"model": self.model, "input": texts, "encoding_format": "float"}
        if self._dimensions is not None:
            arguments["dimensions"] = self._dimensions
        client = self._clients.get()
        attempts = Attempts(
            where=f"embeddings of {self.model!r} at {redact_url(self._clients.url)}",
            max_retries=self._max_retries,
            backoff=_BACKOFF,
            timeout=self._timeout,
            secrets=self._clients.secrets,
        )

        def read(reply: Any) -> NDArray[np.float32]:
            rows = _rows(reply, len(texts))
            self._count(reply, texts)
            return unit_rows(rows)

        return await attempts.run(lambda: client.embeddings.create(**arguments), read)

    def _count(self, reply: Any, texts: list[str]) -> None:
        tokens = getattr(getattr(reply, "usage", None), "prompt_tokens", None)
        spent = TokenUsage(sum(map(estimate_tokens, texts)), 0, 1, estimated=True)
        if isinstance(tokens, int) and tokens >= 0:
            spent = TokenUsage(tokens, 0, 1)
        with self._lock:
            self._usage += spent


def _rows(reply: Any, expected: int) -> NDArray[np.float32]:
    """The vectors of a reply, in the order of the texts; MalformedReplyError unless they fit."""
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
