"""The core's prompts as LlamaIndex templates, word for word."""

from __future__ import annotations

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.prompts import BasePromptTemplate, ChatPromptTemplate

from sage_core.feedback.critic import CRITIC_SYSTEM, CRITIC_USER


def critic_template() -> BasePromptTemplate:
    """The critic's prompt; its fields are ``question``, ``context`` and ``answer``."""
    return ChatPromptTemplate(
        message_templates=[
            ChatMessage(role=MessageRole.SYSTEM, content=CRITIC_SYSTEM),
            ChatMessage(role=MessageRole.USER, content=CRITIC_USER),
        ]
    )
