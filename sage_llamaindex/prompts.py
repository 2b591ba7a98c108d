"""The core's prompts as LlamaIndex templates, word for word."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.prompts import BasePromptTemplate, ChatPromptTemplate, PromptType

from sage_core.feedback.critic import CRITIC_SYSTEM, CRITIC_USER
from sage_core.llm.prompting import delimiter, quote_block, quote_question
from sage_core.llm.prompts import ANSWER_SYSTEM, ANSWER_USER


def critic_template() -> BasePromptTemplate:
    """The critic's prompt; its fields are ``question``, ``context`` and ``answer``."""
    return _chat(CRITIC_SYSTEM, CRITIC_USER)


def answer_template() -> BasePromptTemplate:
    """An answer prompt that keeps retrieved text apart from instructions, for ``text_qa_template``.

    Takes ``query_str`` and ``context_str`` like LlamaIndex's own. Where the passages do not hold the answer
    it asks for the one sentence by which `SageQueryEngine` knows that more context is needed.
    """
    return _chat(
        ANSWER_SYSTEM,
        ANSWER_USER,
        prompt_type=PromptType.QUESTION_ANSWER,
        function_mappings={"context": _fenced_context, "question": _fenced_question},
    )


def _chat(system: str, user: str, **settings: Any) -> ChatPromptTemplate:
    messages = [
        ChatMessage(role=MessageRole.SYSTEM, content=system),
        ChatMessage(role=MessageRole.USER, content=user),
    ]
    return ChatPromptTemplate(message_templates=messages, **settings)


# LlamaIndex also formats a template without its fields, to see how much room it leaves.


def _fenced_context(query_str: str = "", context_str: str = "", **_: Any) -> str:
    # The mark depends on both texts, so that neither can close its block; both functions make the same.
    return quote_block("PASSAGES", context_str, delimiter((query_str, context_str)))


def _fenced_question(query_str: str = "", context_str: str = "", **_: Any) -> str:
    return quote_question(query_str, delimiter((query_str, context_str)), query_str)
