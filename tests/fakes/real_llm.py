"""SmolLM2-135M behind `transformers serve`, and models of both frameworks that ask it by the `openai` client."""

import importlib.util
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from llama_index.core.base.llms.types import CompletionResponse, CompletionResponseGen, LLMMetadata
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from local_llm import LocalLLM, missing

MOST_TOKENS = 32


class RealServer:
    """An OpenAI-compatible server of another process; skips where a package is missing."""

    def __init__(self, folder: Path) -> None:
        lacks = missing() or (
            "" if importlib.util.find_spec("fastapi") else "no fastapi: pip install fastapi"
        )
        if lacks:
            pytest.skip(lacks)
        # The server of transformers 5.23 cannot load a .gguf file by itself: it wants the weights unpacked.
        llm = LocalLLM()
        llm.model.save_pretrained(folder)
        llm.tokenizer.save_pretrained(folder)
        self.tokenizer = llm.tokenizer
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.model, self.base_url = str(folder), f"http://127.0.0.1:{port}/v1"
        serve = f"serve {folder} --host 127.0.0.1 --port {port} --device cpu".split()
        self._log = (folder / "log").open("w")
        command = [sys.executable, "-m", "transformers.cli.transformers", *serve]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT)

    def __enter__(self) -> "RealServer":
        until = time.monotonic() + 300
        while time.monotonic() < until and self._process.poll() is None:
            try:
                if httpx.get(self.base_url.replace("/v1", "/health")).status_code == 200:
                    return self
            except httpx.TransportError:
                time.sleep(1)
        raise RuntimeError(Path(self.model, "log").read_text()[-2000:])

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()

    def tokens(self, text: str) -> int:
        return len(self.tokenizer.encode(text, add_special_tokens=False))


def _ask(server: RealServer, messages: Sequence[Any], **options: Any) -> Any:
    from openai import OpenAI

    client = OpenAI(base_url=server.base_url, api_key="none")
    return client.chat.completions.create(
        model=server.model, messages=list(messages), temperature=0, max_tokens=MOST_TOKENS, **options
    )


class RealLLM(CustomLLM):
    """Of LlamaIndex."""

    server: Any

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_chat_model=False, num_output=MOST_TOKENS)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        reply = _ask(self.server, [{"role": "user", "content": prompt}])
        return CompletionResponse(text=reply.choices[0].message.content or "", raw=reply)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        text = ""
        for chunk in _ask(self.server, [{"role": "user", "content": prompt}], stream=True):
            delta = (chunk.choices[0].delta.content if chunk.choices else "") or ""
            text += delta
            yield CompletionResponse(text=text, delta=delta, raw=chunk)


class RealChat(BaseChatModel):
    """Of LangChain."""

    server: Any

    @property
    def _llm_type(self) -> str:
        return "real"

    def _messages(self, messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
        roles = {"human": "user", "ai": "assistant", "system": "system"}
        return [{"role": roles[m.type], "content": m.content} for m in messages]

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        reply = _ask(self.server, self._messages(messages))
        usage: Any = {
            "input_tokens": reply.usage.prompt_tokens,
            "output_tokens": reply.usage.completion_tokens,
            "total_tokens": reply.usage.total_tokens,
        }
        message = AIMessage(reply.choices[0].message.content or "", usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in _ask(self.server, self._messages(messages), stream=True):
            if chunk.choices and chunk.choices[0].delta.content:
                yield ChatGenerationChunk(message=AIMessageChunk(chunk.choices[0].delta.content))
