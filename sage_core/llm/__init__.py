"""Ask an LLM: plain messages, and an adapter for any OpenAI-compatible server."""

from sage_core.llm.messages import ChatModel, Completion, Message, Role
from sage_core.llm.openai_chat import OpenAIChat

__all__ = ["ChatModel", "Completion", "Message", "OpenAIChat", "Role"]
