"""Rerankers behind HTTP: the ``/rerank`` request that Cohere, Jina, Voyage, vLLM and TEI share."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sage_core._checks import check_int
from sage_core.errors import InputError, LLMError, MissingExtraError, RerankerError
from sage_core.llm.attempts import Attempts
from sage_core.llm.transport import (
    check_url,
    limit_reply,
    login_secrets,
    redact_url,
    run_blocking,
    stay_on_host,
    without_login,
)
from sage_core.ranking.protocol import check_request
from sage_core.selection import SCALES, Scale

_BACKOFF = 0.5  # seconds before the first retry
_SECRET_LENGTH = 8  # to blot out a shorter header would blot out the message


class RemoteReranker:
    """A reranker served over HTTP.

    Sends ``{"query", "documents" or "texts", "model"}`` and reads ``{"results": [{"index",
    "relevance_score"}]}`` (Cohere, Jina, vLLM), ``{"data": [...]}`` (Voyage) or ``[{"index", "score"}]``
    (Text Embeddings Inference). Holds no connection, so it is safe across threads and pickles.

    Examples:
        >>> reranker = RemoteReranker("https://api.example.com/v1/rerank", model="rerank-v3")
        >>> scores = reranker.score("When?", ["At seven.", "By boat."])  # doctest: +SKIP

    Args:
        url: The whole address, such as ``https://api.jina.ai/v1/rerank``.
        model: Sent as ``"model"`` where given; most servers need it.
        api_key: Sent as a bearer token.
        documents_key: ``"documents"``, or ``"texts"`` for Text Embeddings Inference.
        scale: What the server's scores are; most give a probability.
        batch_size: Most texts in a request.
        timeout: Seconds one call of `score` may take in all: requests, retries and the waits between them.
        max_retries: How often to try a request again that was refused or failed (429, 5xx, no connection),
            with growing waits or the server's ``Retry-After``.
        max_reply_bytes: Most bytes of a reply; a larger one is an error.
        options: Further fields of the request, such as ``{"truncation": True}``.
        headers: Further HTTP headers.

    Raises:
        InputError: For an address that is not http(s), or arguments out of range.
        MissingExtraError: From `score`, where no HTTP client is installed (both frameworks bring one).
        RerankerError: From `score`, where the server cannot be reached, refuses, or answers in
            another shape.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        api_key: str | None = None,
        documents_key: Literal["documents", "texts"] = "documents",
        scale: Scale = "probability",
        batch_size: int = 64,
        timeout: float = 30.0,
        max_retries: int = 3,
        options: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        max_reply_bytes: int = 16 * 2**20,
    ) -> None:
        check_url(url)
        if scale not in SCALES:
            raise InputError(f"unknown score scale {scale!r}: one of {', '.join(SCALES)}")
        if batch_size < 1 or timeout <= 0 or max_retries < 0:
            raise InputError("batch_size must be at least 1, timeout above 0, max_retries at least 0")
        self.name = model or redact_url(url)
        self.scale: Scale = scale
        self._url, login = without_login(url)
        self._where = redact_url(url)
        self._model = model
        self._api_key = api_key
        self._documents_key = documents_key
        self._batch_size = batch_size
        self._timeout = timeout
        self._max_retries = max_retries
        self._options = dict(options or {})
        self._headers = {**({"Authorization": login} if login else {}), **(headers or {})}
        self._max_reply_bytes = check_int("max_reply_bytes", max_reply_bytes, minimum=1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._where!r}, model={self._model!r})"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score per text; see `Reranker.score`."""
        check_request(query, texts)
        return run_blocking(self._ascore(query, list(texts))) if len(texts) else []

    async def _ascore(self, query: str, texts: list[str]) -> list[float]:
        try:
            import httpx
        except ImportError as error:
            raise MissingExtraError("RemoteReranker", "openai") from error
        headers = {"Accept": "application/json", **self._headers}
        if self._api_key is not None:
            headers["Authorization"] = f"Bearer {self._api_key}"
        attempts = Attempts(
            where=f"the reranker at {self._where}",
            max_retries=self._max_retries,
            backoff=_BACKOFF,
            timeout=self._timeout,
            # What a server says may repeat what it was sent.
            secrets=(
                *([self._api_key] if self._api_key else []),
                *login_secrets(self._headers.get("Authorization")),
                *(value for value in self._headers.values() if len(value) >= _SECRET_LENGTH),
            ),
        )
        scores: list[float] = []
        hooks = {"response": [limit_reply(self._max_reply_bytes), stay_on_host]}
        async with httpx.AsyncClient(
            headers=headers, timeout=None, follow_redirects=True, event_hooks=hooks
        ) as client:
            for start in range(0, len(texts), self._batch_size):
                batch = texts[start : start + self._batch_size]
                body = {**self._options, "query": query, self._documents_key: batch}
                if self._model is not None:
                    body["model"] = self._model
                attempts.failed = 0  # retries are counted by request, the time by call

                async def send(body: dict[str, Any] = body) -> str:
                    return (await client.post(self._url, json=body)).raise_for_status().text

                try:
                    reply = await attempts.run(send, str)
                except LLMError as error:
                    raise RerankerError(str(error), retryable=error.retryable) from None
                scores += self._read_scores(reply, len(batch))
        return scores

    def _read_scores(self, reply: str, expected: int) -> list[float]:
        """Scores in the order of the texts sent, whatever the order they came back in."""
        try:
            rows = answer = json.loads(reply)
        except (ValueError, RecursionError) as error:
            raise RerankerError(f"the reranker at {self._where} did not answer in JSON ({error})") from error
        if isinstance(answer, dict):
            rows = answer.get("results", answer.get("data"))
        scores = [math.nan] * expected
        seen: set[int] = set()
        try:
            for row in rows:
                index = row["index"]
                value = row["relevance_score"] if "relevance_score" in row else row["score"]
                if not 0 <= index < expected or index in seen:
                    raise ValueError(f"index {index} is out of range or twice there")
                seen.add(index)
                scores[index] = math.nan if value is None else float(value)
        except (TypeError, KeyError, ValueError) as error:
            raise RerankerError(
                f"the reranker at {self._where} answered in an unknown shape "
                f'({type(error).__name__}: {error}); expected "results" with "index" and "relevance_score"'
            ) from error
        if len(seen) != expected:
            raise RerankerError(
                f"the reranker at {self._where} scored {len(seen)} of {expected} texts: a default top_n of "
                "the server? Ask for all of them through `options`"
            )
        return scores
