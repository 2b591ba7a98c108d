"""Models of both frameworks that answer by rule from what stands in the prompt, and documents to ask about."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from llama_index.core.base.llms.types import CompletionResponse, CompletionResponseGen, LLMMetadata
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from pydantic import Field

FOLDER = Path(__file__).parents[2] / "demo" / "documents"
GUIDES = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}


def read(prompt: str, replies: Mapping[str, str]) -> str:
    """The reply to the first of these phrases in the prompt; else the sentence nearest to its last question."""
    for phrase, reply in replies.items():
        if phrase in prompt:
            return reply
    sentences = [s.strip() for s in re.split(r"(?<=[.!?])\s|\n", prompt) if s.strip()]
    asked = next((s for s in reversed(sentences) if s.endswith("?")), "")
    said = [s for s in sentences if not s.endswith("?")]
    return max(said, key=lambda s: len(_words(s) & _words(asked)), default="I do not know.")


def _words(text: str) -> set[str]:
    return {word[:4] for word in re.findall(r"\w{4,}", text.lower())} - {"what", "does", "user"}


class ReadingChat(BaseChatModel):
    """For LangChain; keeps what it was asked. A reply that is a list is that of the tool calls in it, in turn."""

    replies: dict[str, str] = Field(default_factory=dict)
    calls: list[dict[str, Any]] = Field(default_factory=list)
    seen: list[str] = Field(default_factory=list)

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages))])

    def _stream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> Any:
        for word in re.findall(r"\S+\s*", self._reply(messages).text):
            yield ChatGenerationChunk(message=AIMessageChunk(word))

    def _reply(self, messages: Sequence[BaseMessage]) -> AIMessage:
        human = [m for m in messages if m.type == "human"]
        # The question comes last, whatever tools have said since.
        rest = "\n".join(m.text for m in messages if m is not human[-1]) if human else ""
        self.seen.append(f"{rest}\n{human[-1].text if human else ''}")
        if self.calls:
            return AIMessage("", tool_calls=[{"id": f"call-{len(self.seen)}", **self.calls.pop(0)}])
        return AIMessage(read(self.seen[-1], self.replies))

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self

    @property
    def _llm_type(self) -> str:
        return "by rule"


class ReadingLLM(CustomLLM):
    """For LlamaIndex; keeps what it was asked."""

    replies: dict[str, str] = Field(default_factory=dict)
    seen: list[str] = Field(default_factory=list)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(context_window=8_000)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        self.seen.append(prompt)
        return CompletionResponse(text=read(prompt, self.replies))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        text, so_far = self.complete(prompt).text, ""
        for word in re.findall(r"\S+\s*", text):
            so_far += word
            yield CompletionResponse(text=so_far, delta=word)
