"""How long does a retrieval take while others run? Median latency at 1, 5 and 10 simultaneous questions.

    python benchmarks/concurrency.py                       # embedder, store, offline reranker
    python benchmarks/concurrency.py --cross-encoder PATH  # with a cross-encoder instead

Every worker asks its next question as soon as it has the last one's chunks, so that the number in flight is
constant. Cold: no text was ever scored before. Warm: the reranker has met the chunks, no question was asked
before. Levels alternate within each round, so that a busy machine slows all of them alike.
"""

from __future__ import annotations

import argparse
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

from sage_core.embedding import SentenceTransformerEmbedder
from sage_core.rag import Sage
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


def peak_mebibytes() -> float:
    """Most memory that the process ever held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def measure(sage: Sage, asked: list[str], rounds: int, each: int, kind: str, remake: bool) -> None:
    """Print a table; takes its questions off ``asked``, each used once."""
    times: dict[int, list[float]] = {level: [] for level in LEVELS}
    rates: dict[int, list[float]] = {level: [] for level in LEVELS}
    memory = dict.fromkeys(LEVELS, 0.0)
    for _ in range(rounds):
        for level in LEVELS:
            if remake:
                sage.reranker = HybridReranker(sage.embedder)
            found, rate = latencies(sage, [asked.pop() for _ in range(each * level)], level)
            times[level] += found
            rates[level].append(rate)
            memory[level] = max(memory[level], peak_mebibytes())
    alone = statistics.median(times[1])
    print(f"\n{kind}\n\n| in flight | median ms | 95th ms | against one | questions/s | peak MiB so far |")
    print("|---|---|---|---|---|---|")
    for level in LEVELS:
        median, late = statistics.median(times[level]), float(np.percentile(times[level], 95))
        print(
            f"| {level} | {1000 * median:.0f} | {1000 * late:.0f} | {median / alone:.2f}x | "
            f"{statistics.median(rates[level]):.1f} | {memory[level]:.0f} |"
        )


def main() -> None:
    """Build a store, then measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cross-encoder", help="name or folder of a cross-encoder")
    parser.add_argument("--documents", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--each", type=int, default=8, help="questions per worker and round")
    arguments = parser.parse_args()
    embedder = SentenceTransformerEmbedder()
    hybrid = arguments.cross_encoder is None
    reranker: Reranker = HybridReranker(embedder) if hybrid else CrossEncoderReranker(arguments.cross_encoder)
    with tempfile.TemporaryDirectory() as folder:
        texts, store = Path(folder) / "texts", Path(folder) / "store"
        texts.mkdir()
        write_corpus(texts, arguments.documents)
        with Sage(store, embedder=embedder, reranker=reranker) as sage:
            report = sage.ingest([texts])
            asked = questions()
            sage.retrieve(asked.pop())
            print(f"{report.chunks} chunks, {sage.config.candidates} candidates, {reranker.name}")
            if hybrid:
                measure(sage, asked, 1, 2, "Cold", remake=True)
                found = sage.store.search(embedder.embed_query(asked.pop()), report.chunks)
                sage.reranker.score(asked.pop(), [f.chunk.text for f in found])
            kind = "Warm" if hybrid else "Cross-encoder"
            measure(sage, asked, arguments.rounds, arguments.each, kind, remake=False)


if __name__ == "__main__":
    main()
