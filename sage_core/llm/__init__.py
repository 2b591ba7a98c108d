"""What an LLM is to this library: plain messages in, text and token counts out."""

from sage_core.llm.messages import ChatModel, Completion, Message, Role

__all__ = ["ChatModel", "Completion", "Message", "Role"]
