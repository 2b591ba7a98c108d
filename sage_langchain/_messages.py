"""Messages, texts and token counts, between the core's terms and LangChain's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.prompt_values import PromptValue
from pydantic import BaseModel

from sage_core.llm import Message
from sage_core.llm.reasoning import without_reasoning
from sage_core.llm.usage import TokenUsage
from sage_core.text.tokens import TokenCounter

_KINDS = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}


def to_langchain(messages: Sequence[Message]) -> list[BaseMessage]:
    """The core's messages as LangChain's, word for word."""
    return [_KINDS[message.role](content=message.content) for message in messages]


def text_of(output: Any) -> str:
    """The text of what a model gave: a message (its text blocks only), a string, or an object as JSON."""
    if isinstance(output, BaseMessage):
        return str(output.text)
    if isinstance(output, BaseModel):
        return output.model_dump_json()
    return json.dumps(output, ensure_ascii=False, default=str) if is_structured(output) else str(output)


def answer_of(output: Any) -> str:
    """As `text_of`, without the model's reasoning."""
    return without_reasoning(text_of(output))


def is_structured(output: Any) -> bool:
    """Whether a model gave an object, as `with_structured_output` makes it do."""
    return not isinstance(output, str | BaseMessage)


def usage_of(output: Any, prompt: Any, counter: TokenCounter) -> TokenUsage:
    """Tokens of one call: as the model reported them, else counted here and marked as an estimate.

    Args:
        output: What the model gave.
        prompt: What it was given: messages, a prompt value or a string.
        counter: Counts where the model reported nothing.
    """
    reported = getattr(output, "usage_metadata", None)
    if reported:
        return TokenUsage(reported["input_tokens"], reported["output_tokens"], calls=1)
    read, written = counter.count_many([_prompt_text(prompt), text_of(output)])
    return TokenUsage(read, written, calls=1, estimated=True)


def _prompt_text(prompt: Any) -> str:
    if isinstance(prompt, PromptValue):
        return prompt.to_string()
    if isinstance(prompt, str):
        return prompt
    return "\n".join(text_of(message) for message in prompt)
