"""Ask an LLM: plain messages, and an adapter for any OpenAI-compatible server."""

from sage_core.llm.messages import ChatModel, Completion, Message, Role

__all__ = ["ChatModel", "Completion", "Message", "Role"]
