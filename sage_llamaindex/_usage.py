"""Tokens of the LLM calls made while something runs, whoever makes them.

A response synthesizer hides its LLM calls, and callback managers are shared by concurrent questions.
LlamaIndex's instrumentation sends an event after each call, in the caller's own context: a listener, which
is there only while something is measured, adds it to the meter of that context.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.callbacks.token_counting import get_tokens_from_response
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.events.llm import (
    LLMChatEndEvent,
    LLMChatStartEvent,
    LLMCompletionEndEvent,
    LLMCompletionStartEvent,
)
from llama_index.core.utils import get_tokenizer
from llama_index_instrumentation import get_dispatcher

from sage_core.llm.usage import NO_USAGE, TokenUsage


class Meter:
    """Adds up the usage of LLM calls. Safe across threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._total = NO_USAGE
        self._open = 0  # calls begun and not ended, such as a stream that is still to be read

    @contextmanager
    def active(self) -> Iterator[None]:
        """Measure what happens inside too; calls that began in an earlier stretch may end here."""
        tokens = _meter.set(self), _depth.set(self._open)
        _listen(+1)
        try:
            yield
        finally:
            _listen(-1)
            # A stream is read in stretches: calls open at the end of one are still open in the next.
            self._open = _depth.get()
            _meter.reset(tokens[0])
            _depth.reset(tokens[1])

    @property
    def usage(self) -> TokenUsage | None:
        """What was used; None if no call was seen."""
        return self._total if self._total.calls else None

    def see(self, event: BaseEvent) -> None:
        """Count an event that ends an LLM call, unless the call is part of another one.

        LLMs without a chat interface of their own chat by completing, and some async methods call the sync
        one: two events, one call. Calls side by side run in contexts of their own, so depth tells them apart.
        """
        if isinstance(event, LLMChatStartEvent | LLMCompletionStartEvent):
            _depth.set(_depth.get() + 1)
        elif isinstance(event, LLMChatEndEvent | LLMCompletionEndEvent):
            outer = _depth.get() - 1
            # An end without a start was begun before this meter: it is counted, never below 0.
            _depth.set(max(outer, 0))
            if outer <= 0:
                prompt = event.prompt if isinstance(event, LLMCompletionEndEvent) else _joined(event.messages)
                with self._lock:
                    self._total += _usage(prompt, event.response)


_meter: ContextVar[Meter | None] = ContextVar("sage_usage_meter", default=None)
_depth: ContextVar[int] = ContextVar("sage_usage_depth", default=0)


class _Listener(BaseEventHandler):
    @classmethod
    def class_name(cls) -> str:
        return "SageUsageListener"

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        meter = _meter.get()
        if meter is not None:
            meter.see(event)


_listener = _Listener()
_changing = threading.Lock()
_measuring = 0


def _listen(change: int) -> None:
    """Count who measures; the root dispatcher has the listener while anybody does."""
    global _measuring
    root = get_dispatcher()
    with _changing:
        _measuring += change
        # A new list: other threads may be going through the old one.
        others = [handler for handler in root.event_handlers if handler is not _listener]
        root.event_handlers = [*others, _listener] if _measuring else others


@contextmanager
def metered() -> Iterator[Meter]:
    """Measure the LLM calls made inside, in this thread or task and those started from it."""
    meter = Meter()
    with meter.active():
        yield meter


def measured(source: Iterator[str], meter: Meter) -> Iterator[str]:
    """The same stream, measured while it is read and not while its reader does something else."""
    while True:
        with meter.active():
            try:
                # Active only here: between two tokens the reader may call LLMs of its own.
                token = next(source)
            except StopIteration:
                return
        yield token


async def ameasured(source: AsyncIterator[str], meter: Meter) -> AsyncIterator[str]:
    """`measured` for async streams."""
    while True:
        with meter.active():
            try:
                token = await anext(source)
            except StopAsyncIteration:
                return
        yield token


def _usage(prompt: str, response: ChatResponse | CompletionResponse | None) -> TokenUsage:
    """As the server reported it, else counted with LlamaIndex's tokenizer."""
    sent, received = get_tokens_from_response(response) if response is not None else (0, 0)
    if sent or received:
        return TokenUsage(sent, received, 1)
    count = get_tokenizer()
    text = ""
    if isinstance(response, ChatResponse):
        text = response.message.content or ""
    elif response is not None:
        text = response.text
    return TokenUsage(len(count(prompt)), len(count(text)), 1, estimated=True)


def _joined(messages: list[ChatMessage]) -> str:
    return "\n".join(message.content or "" for message in messages)
