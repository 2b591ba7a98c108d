"""A hundred questions at once: throughput against the server's own limit.

    python benchmarks/llm_throughput.py            # 100 questions, 50 ms a reply, several server sizes

A scripted server in a process of its own works on ``slots`` requests at a time, 50 ms each, so it can do
slots / 0.05 requests a second and no more. A hundred loops of answer and grade run at once against it, a
third of them with a second round. Reported is what share of that limit they reach. Timed: run it alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import re
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sage_app.answers import LLMAnswerer
from sage_core.feedback import FeedbackLoop, FeedbackResult, arun_loop
from sage_core.llm import OpenAIChat
from tests.fakes.llm_server import LLMServer, Request

LATENCY = 0.05
SCORES = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.01, 0.01, 0.01, 0.01]


def script(request: Request) -> str:
    """The question's mark back; every third question asks for a second round."""
    mark = re.findall(r"mark-(\d+)", request.user)[0]
    if not request.is_critic:
        return f"the answer to mark-{mark}"
    low = int(mark) % 3 == 0 and request.user.count("passage of") < len(SCORES)
    return json.dumps({"reason": mark, "score": 3 if low else 9, "adjust": 1 if low else 0})


def serve(slots: int, pipe: Connection) -> None:
    """Serve until told to stop; send the address first, the number of requests last."""
    with LLMServer(script, latency=LATENCY, slots=slots) as server:
        pipe.send(server.base_url)
        pipe.recv()
        pipe.send(len(server.requests))


async def ask(answerer: LLMAnswerer, number: int) -> FeedbackResult:
    """One question from first answer to last grade."""
    texts = [
        f"passage of mark-{number}, the {i}th. " + "Some more words to read. " * 20
        for i in range(len(SCORES))
    ]
    question = f"What is mark-{number}?"
    return await arun_loop(
        FeedbackLoop(SCORES, "probability"),
        lambda s: answerer.agenerate(question, [texts[i] for i in s.indices]),
        lambda s, a: answerer.ajudge(question, [texts[i] for i in s.indices], a),
    )


async def measure(base_url: str, questions: int) -> tuple[float, int]:
    """Seconds for all questions, and how many came back with another question's answer."""
    answerer = LLMAnswerer(OpenAIChat("scripted", base_url=base_url, api_key="none"))
    await ask(answerer, 1)  # Imports and connections are not what is measured.
    begun = time.perf_counter()
    results = await asyncio.gather(*(ask(answerer, n) for n in range(questions)))
    taken = time.perf_counter() - begun
    return taken, sum(r.answer != f"the answer to mark-{n}" for n, r in enumerate(results))


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--slots", type=int, nargs="+", default=[5, 10, 20])
    args = parser.parse_args()
    print("| slots | limit, requests/s | reached | share | answers wrong or lost |\n|---|---|---|---|---|")
    context = multiprocessing.get_context("spawn")
    for slots in args.slots:
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(slots, theirs), daemon=True)
        process.start()
        taken, wrong = asyncio.run(measure(ours.recv(), args.questions))
        ours.send("stop")
        requests = ours.recv() - 2
        process.join()
        limit = slots / LATENCY
        print(
            f"| {slots} | {limit:.0f} | {requests / taken:.0f} | {requests / taken / limit:.0%} | {wrong} |"
        )


if __name__ == "__main__":
    main()
