"""A small real LLM behind `transformers serve`: a question ends, tokens are counted, inventions marked."""

import importlib.util
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sage_app import LLMAnswerer, Sage
from sage_app.models import OpenAIChat

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from local_llm import LocalLLM, missing

pytestmark = pytest.mark.soak

GUIDE = (
    "The ferry to the island of Skell leaves at 9:15 on Sundays and takes 40 minutes. It carries twelve cars.",
    "The lighthouse was built in 1874 of white granite. Its lamp can be seen for 21 miles.",
)
# No passage says it: a model of this size makes up a name or a nation all the same.
UNSAID = "Who built the lighthouse?"
STOPS = {"accepted", "max_rounds", "unchanged", "budget", "critic_failed", "contradicted"}
MOST_TOKENS = 32


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAIChat]:
    if lacks := missing() or ("" if importlib.util.find_spec("fastapi") else "no fastapi"):
        pytest.skip(lacks)
    # The server of transformers 5.23 cannot load a .gguf file by itself: it wants the weights unpacked.
    llm, folder = LocalLLM(), tmp_path_factory.mktemp("smollm2")
    llm.model.save_pretrained(folder)
    llm.tokenizer.save_pretrained(folder)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    serve = f"serve {folder} --host 127.0.0.1 --port {port} --device cpu".split()
    command = [sys.executable, "-m", "transformers.cli.transformers", *serve]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + 300
        while not _answers(port):
            assert time.monotonic() < until and process.poll() is None, (folder / "log").read_text()[-2000:]
            time.sleep(1)
        url = f"http://127.0.0.1:{port}/v1"
        yield OpenAIChat(str(folder), base_url=url, api_key="none", max_tokens=MOST_TOKENS)
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200
    except httpx.TransportError:
        return False


async def test_sage(chat: OpenAIChat, tmp_path: Path) -> None:
    (tmp_path / "guide.md").write_text("\n\n".join(GUIDE))
    with Sage(tmp_path / "store", answerer=LLMAnswerer(chat)) as sage:
        sage.ingest([tmp_path / "guide.md"])
        *pieces, streamed = sage.stream(UNSAID)
        for answer in (sage.ask(UNSAID), await sage.aask(UNSAID), streamed):
            feedback = answer.feedback  # type: ignore[union-attr]
            assert answer.text.strip() and feedback.stop_reason in STOPS  # type: ignore[union-attr]
            usage = feedback.rounds[0].answer_usage
            assert usage is not None and 0 < usage.completion <= 2 * MOST_TOKENS and not usage.estimated
            assert feedback.usage.calls >= len(feedback.rounds)
            assert any(m.support in ("unsure", "not found") for m in answer.marks())  # type: ignore[union-attr]
    assert len([piece for piece in pieces if isinstance(piece, str)]) > 3
