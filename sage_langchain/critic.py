"""The critic's call: structured output where the model has it, plain text where it has not."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig, ensure_config
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.runnables.fallbacks import RunnableWithFallbacks

from sage_core.feedback import Verdict
from sage_core.feedback.critic import VERDICT_SCHEMA
from sage_core.feedback.drivers import Call, Compute, Steps
from sage_core.feedback.parsing import parse_verdict
from sage_core.llm.usage import NO_USAGE, TokenUsage
from sage_core.text.tokens import TokenCounter
from sage_langchain._messages import text_of, usage_of
from sage_langchain._runnables import layers

logger = logging.getLogger(__name__)

_LOST = TokenUsage(calls=1, estimated=True)


@dataclass(frozen=True, slots=True)
class Critic:
    """Asks a model for a verdict.

    Attributes:
        llm: The model. Where it has structured output, that is asked for; where it has not, or the call
            fails, plain text.
        counter: Counts tokens where the model does not report them.
    """

    llm: Runnable[Any, Any]
    counter: TokenCounter

    def grading(
        self, messages: Sequence[BaseMessage], config: RunnableConfig
    ) -> Steps[tuple[Verdict, TokenUsage]]:
        """The model's verdict, and what it took. One that cannot be read has ``parsed=False``.

        Raises:
            Exception: What the model raised, where no other way was left.
        """
        before = NO_USAGE
        structured, prepared = self._structured(config)
        if structured is not None:
            try:
                output = yield from Call(structured.invoke, structured.ainvoke, messages, prepared)
                return (yield from Compute(self._read, output, messages))
            except Exception as error:  # any: models have errors of their own, and text is still to try
                _give_up_on_structure(error)
                before = _LOST
        output = yield from Call(self.llm.invoke, self.llm.ainvoke, messages, config)
        verdict, usage = yield from Compute(self._read, output, messages)
        return verdict, before + usage

    def _structured(self, config: RunnableConfig) -> tuple[Runnable[Any, Any] | None, RunnableConfig]:
        """The model made to reply in the verdict's schema, and its config; no model for plain text.

        ``include_raw`` is the only way to see what the call took, and what was said where it was no verdict.
        """
        try:
            llm, config = _configured(self.llm, config)
            made: Runnable[Any, Any] = llm.with_structured_output(dict(VERDICT_SCHEMA), include_raw=True)
        except (AttributeError, NotImplementedError):
            return None, config
        except Exception as error:
            # Models and wrappers refuse a schema with errors of every kind (a NameError under with_fallbacks,
            # a TypeError for include_raw). None of them says that the plain call would fail.
            _give_up_on_structure(error)
            return None, config
        return made, config

    def _read(self, output: Any, messages: Sequence[BaseMessage]) -> tuple[Verdict, TokenUsage]:
        if not (isinstance(output, Mapping) and "raw" in output):
            return parse_verdict(text_of(output)), usage_of(output, messages, self.counter)
        verdict = parse_verdict(None)
        for reply in _replies(output):
            read = parse_verdict(reply)
            # Kept though unreadable: what the model said helps whoever reads the trace.
            verdict = read if read.parsed or read.raw else verdict
            if read.parsed:
                break
        return verdict, usage_of(output["raw"], messages, self.counter)


def _give_up_on_structure(error: Exception) -> None:
    logger.warning("the critic's structured call failed, asking in plain text: %s", error)


def _configured(llm: Runnable[Any, Any], config: RunnableConfig) -> tuple[Any, RunnableConfig]:
    """The model that a call with this config reaches, where configuration decides which that is.

    Attributes of a configurable model are those of its default, so its structured output would be too.
    """
    pair: tuple[Any, RunnableConfig] = (llm, config)
    configurable = False
    for layer, inner_config in layers(llm, config):
        if configurable:
            pair = (layer, ensure_config(inner_config))
        configurable = isinstance(layer, DynamicRunnable)
        if isinstance(layer, RunnableWithFallbacks):  # its structured output is that of all its choices
            break
    return pair


def _replies(output: Mapping[str, Any]) -> Iterator[object]:
    """Wherever a structured call may have left its verdict, the likeliest first."""
    raw = output["raw"]
    yield output.get("parsed")
    for call in getattr(raw, "tool_calls", None) or ():
        yield call["args"]
    for call in getattr(raw, "invalid_tool_calls", None) or ():
        yield call["args"]
    yield text_of(raw)
