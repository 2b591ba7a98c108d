"""An OpenAI-compatible server on 127.0.0.1 that answers by script, after a fixed delay. It is no LLM.

It stands in for one where only times, calls and tokens are measured. The real client speaks to it, over a
real connection. Its answers are made up from a digest of the request, so they are the same every time and as
good as chance.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from sage_core.errors import InputError
from sage_core.feedback import CRITIC_SYSTEM
from sage_core.llm.usage import estimate_tokens
from sage_eval.readers import PAPER_CRITIC_SYSTEM

MODEL = "scripted (no LLM)"
_OPTION = re.compile(r"^([A-Z])\. ", re.MULTILINE)
# The first words of a critic's instructions, ours and the paper's.
_CRITICS = (CRITIC_SYSTEM[:40], PAPER_CRITIC_SYSTEM[:40])


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds that replies take.

    Attributes:
        answer: Of an answer.
        critic: Of a grade.
    """

    answer: float = 0.2
    critic: float = 0.2

    def __post_init__(self) -> None:
        if not (0 <= self.answer <= 600 and 0 <= self.critic <= 600):
            raise InputError(f"a latency lies between 0 and 600 seconds: {self}")


class ScriptedServer:
    """Serves while the ``with`` block runs, each request in a thread of its own.

    Args:
        latency: How long replies take.
        port: Where to listen; 0 for any free port.
    """

    def __init__(self, latency: Latency | None = None, *, port: int = 0) -> None:
        self.latency = latency if latency is not None else Latency()
        self.calls = 0
        self._lock = threading.Lock()
        self._http = _Http(("127.0.0.1", port), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, name="scripted-llm", daemon=True)

    @property
    def base_url(self) -> str:
        """Address up to ``/v1``."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5)

    def reply(self, request: dict[str, Any]) -> dict[str, Any]:
        """The body for a chat request, after the delay."""
        messages = request.get("messages") or []
        texts = [m["content"] if isinstance(m.get("content"), str) else json.dumps(m) for m in messages]
        critic = any(
            text.startswith(_CRITICS)
            for message, text in zip(messages, texts, strict=True)
            if message.get("role") == "system"
        )
        time.sleep(self.latency.critic if critic else self.latency.answer)
        with self._lock:
            self.calls += 1
        text = _grade(texts) if critic else _answer(texts)
        prompt = sum(estimate_tokens(t) + 4 for t in texts)
        completion = estimate_tokens(text)
        return {
            "id": "chatcmpl-scripted",
            "object": "chat.completion",
            "created": 0,
            "model": MODEL,
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            ],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "total_tokens": prompt + completion,
            },
        }


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    owner: ScriptedServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or every reply waits for a delayed acknowledgement
    server: _Http

    def do_POST(self) -> None:
        """A chat request; anything else is refused."""
        raw = self.rfile.read(int(self.headers.get("content-length", "0")))
        try:
            request = json.loads(raw)
            if not self.path.endswith("/chat/completions") or not isinstance(request, dict):
                raise ValueError(f"only chat completions are served, not {self.path}")
            if request.get("stream"):
                raise ValueError("streams are not served")
            status, body = 200, self.server.owner.reply(request)
        except (ValueError, KeyError, AttributeError) as error:
            status, body = 400, {"error": {"message": str(error), "type": "invalid_request_error"}}
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


def _draw(texts: list[str], among: int) -> int:
    """A number below ``among`` that the request decides."""
    digest = hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") % among


def _answer(texts: list[str]) -> str:
    """The letter of an option where the prompt offers any, else a sentence."""
    question = texts[-1].rpartition("<<BEGIN QUESTION")[2] if texts else ""
    options = _OPTION.findall(question)
    if len(options) > 1 and "offers options" in texts[0]:
        return str(options[_draw(texts, len(options))])
    return "This is a scripted reply."


def _grade(texts: list[str]) -> str:
    """A grade below the usual threshold two times in three, so that feedback has rounds to time."""
    number = _draw(texts, 3)
    return json.dumps({"reason": "scripted", "score": 9 if number == 0 else 6, "adjust": (0, 1, -1)[number]})
