"""How long does a retrieval take while others run? Median latency at 1, 5 and 10 simultaneous questions.

    python benchmarks/concurrency.py                       # embedder, store, offline reranker
    python benchmarks/concurrency.py --cross-encoder PATH  # with a cross-encoder instead

Every worker asks its next question as soon as it has the last one's chunks, so that the number in flight is
constant. No question is asked twice. Warm: with context, as by default; in threads, and in asyncio tasks.
Without: a store and 30 candidates without context (`SageConfig.context`). Levels alternate within each
round, so that a busy machine slows all of them alike; the processor's time for one
question depends less on what else runs.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from ranking_data import DATA, read_jsonl

from sage_app.pipeline.sage import Sage, SageConfig
from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.ranking import CrossEncoderReranker, HybridReranker, Reranker

LEVELS = (1, 5, 10)
SET = "squad2_dev16"


def write_corpus(folder: Path, documents: int) -> None:
    """Write the first documents of a development set as text files."""
    for i, row in enumerate(read_jsonl(DATA / "dev" / f"{SET}_docs.jsonl.gz")):
        if i == documents:
            return
        (folder / f"{i}.txt").write_text(row["text"], encoding="utf-8")


def questions() -> list[str]:
    """Questions in a random but fixed order, each once."""
    rows = list(dict.fromkeys(q["question"] for q in read_jsonl(DATA / "dev" / f"{SET}_questions.jsonl.gz")))
    return [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]


def latencies(sage: Sage, batch: Sequence[str], workers: int) -> tuple[list[float], float]:
    """Seconds of each retrieval with ``workers`` in flight, and questions per second."""
    ready = threading.Barrier(workers)

    def work(mine: Sequence[str]) -> list[float]:
        ready.wait()
        times = []
        for question in mine:
            start = time.perf_counter()
            sage.retrieve(question)
            times.append(time.perf_counter() - start)
        return times

    with ThreadPoolExecutor(workers) as pool:
        start = time.perf_counter()
        times = [t for part in pool.map(work, [batch[i::workers] for i in range(workers)]) for t in part]
        return times, len(batch) / (time.perf_counter() - start)


def async_latencies(sage: Sage, batch: Sequence[str], workers: int) -> tuple[list[float], float]:
    """`latencies` of `Sage.aretrieve`, every worker a task."""

    async def work(mine: Sequence[str]) -> list[float]:
        times = []
        for question in mine:
            start = time.perf_counter()
            await sage.aretrieve(question)
            times.append(time.perf_counter() - start)
        return times

    async def run() -> list[list[float]]:
        return await asyncio.gather(*(work(batch[i::workers]) for i in range(workers)))

    start = time.perf_counter()
    times = [t for part in asyncio.run(run()) for t in part]
    return times, len(batch) / (time.perf_counter() - start)


def peak_mebibytes() -> float:
    """Most memory that the process ever held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def measure(
    sage: Sage,
    asked: list[str],
    rounds: int,
    each: int,
    kind: str,
    *,
    remake: bool = False,
    tasks: bool = False,
) -> None:
    """Print a table; takes its questions off ``asked``, each used once."""
    times: dict[int, list[float]] = {level: [] for level in LEVELS}
    rates: dict[int, list[float]] = {level: [] for level in LEVELS}
    processor: dict[int, list[float]] = {level: [] for level in LEVELS}
    memory = dict.fromkeys(LEVELS, 0.0)
    for _ in range(rounds):
        for level in LEVELS:
            if remake:
                sage.reranker = HybridReranker()
            batch = [asked.pop() for _ in range(each * level)]
            start = time.process_time()
            found, rate = (async_latencies if tasks else latencies)(sage, batch, level)
            processor[level].append((time.process_time() - start) / len(batch))
            times[level] += found
            rates[level].append(rate)
            memory[level] = max(memory[level], peak_mebibytes())
    alone = statistics.median(times[1])
    print(
        f"\n{kind}\n\n| in flight | median ms | 95th ms | against one | questions/s | "
        "processor ms a question | peak MiB so far |\n|---|---|---|---|---|---|---|"
    )
    for level in LEVELS:
        median, late = statistics.median(times[level]), float(np.percentile(times[level], 95))
        print(
            f"| {level} | {1000 * median:.1f} | {1000 * late:.1f} | {median / alone:.2f}x | "
            f"{statistics.median(rates[level]):.1f} | {1000 * statistics.median(processor[level]):.1f} | "
            f"{memory[level]:.0f} |",
            flush=True,
        )


def main() -> None:
    """Build a store, then measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cross-encoder", help="name or folder of a cross-encoder")
    parser.add_argument("--skip-without", action="store_true", help="only the store with sentence vectors")
    parser.add_argument("--documents", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--each", type=int, default=8, help="questions per worker and round")
    arguments = parser.parse_args()
    embedder = MiniLMEmbedder()
    hybrid = arguments.cross_encoder is None
    reranker: Reranker = HybridReranker() if hybrid else CrossEncoderReranker(arguments.cross_encoder)
    asked = questions()
    with tempfile.TemporaryDirectory() as folder:
        texts = Path(folder) / "texts"
        texts.mkdir()
        write_corpus(texts, arguments.documents)
        for kept in (True, False) if hybrid and not arguments.skip_without else (True,):
            settings = SageConfig() if kept else SageConfig(candidates=30, context=False)
            store = Path(folder) / f"store-{kept}"
            with Sage(store, embedder=embedder, reranker=reranker, config=settings) as sage:
                report = sage.ingest([texts])
                print(
                    f"\n{report.chunks} chunks, ingested in {report.seconds:.1f} s; "
                    f"{sage.config.candidates} candidates, {reranker.name}"
                )
                sage.retrieve(asked.pop())
                if not kept:
                    measure(sage, asked, arguments.rounds, arguments.each, "Without")
                    continue
                kind = "Warm" if hybrid else "Cross-encoder"
                measure(sage, asked, arguments.rounds, arguments.each, f"{kind}, threads")
                measure(sage, asked, arguments.rounds, arguments.each, f"{kind}, asyncio", tasks=True)


if __name__ == "__main__":
    main()
