"""Questions over HTTP: throughput, waiting times and memory, beside plain LangChain with Chroma.

    python benchmarks/serving.py --out serving.jsonl
    python benchmarks/serving.py --table serving.jsonl

Both are Starlette apps under uvicorn that answer `/search` with chunks of the same documents, embedded by
all-MiniLM-L6-v2: sage-rag with words, reranker and selection; LangChain with
`Chroma.asimilarity_search(k=10)` over chunks of 1,000 characters. Every process loads its models before it
serves. Each number of processes and of questions at once is measured after a warm-up, the systems in turn.
Memory is the proportional set size of all processes of a server, so that what they share counts once.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
DOCUMENTS = ROOT / "demo" / "documents"
AT_ONCE = (1, 10, 100)
PROCESSES = (1, 4)

COMMON = """
import os
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

async def search(request):
    return JSONResponse(await found((await request.json())["question"]))

app = Starlette(routes=[Route("/search", search, methods=["POST"])])
"""

SAGE = """
from sage_core import Sage

sage = Sage(os.environ["STORE"])
sage.retrieve("Every process loads its models before it serves.")

async def found(question):
    return [hit.chunk.text for hit in (await sage.aretrieve(question)).hits]
"""

LANGCHAIN = """
from langchain_chroma import Chroma
from langchain_core.embeddings import Embeddings
from sentence_transformers import SentenceTransformer

class MiniLM(Embeddings):
    def __init__(self):
        self.model = SentenceTransformer(os.environ["MODEL"])

    def embed_documents(self, texts):
        return self.model.encode(texts, normalize_embeddings=True).tolist()

    def embed_query(self, text):
        return self.embed_documents([text])[0]

store = Chroma("chunks", MiniLM(), persist_directory=os.environ["STORE"])

async def found(question):
    return [d.page_content for d in await store.asimilarity_search(question, k=10)]
"""

FILL = """
from pathlib import Path
import sys
from langchain_text_splitters import RecursiveCharacterTextSplitter
from serve import store
from sage_app.documents.reader import read_document

splitter = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200)
for path in sorted(Path(sys.argv[1]).iterdir()):
    store.add_texts(splitter.split_text(read_document(path).text))
"""
APPS = {"sage-rag": SAGE, "LangChain with Chroma": LANGCHAIN}


def model_path() -> str:
    """Where all-MiniLM-L6-v2 lies on this machine (`SAGE_MINILM`), or its name."""
    return os.environ.get("SAGE_MINILM", "sentence-transformers/all-MiniLM-L6-v2")


def questions() -> list[str]:
    """What is asked: the first words of sentences of the documents, each asked for."""
    from sage_app.documents.reader import read_document

    sentences = [
        " ".join(line.split()[:9])
        for path in sorted(DOCUMENTS.iterdir())
        for line in re.split(r"(?<=[.!?])\s+", read_document(path).text)
        if len(line.split()) > 9
    ]
    return [f"What do the documents say of {s}?" for s in sentences]


@contextmanager
def server(name: str, folder: Path, processes: int, environment: dict[str, str]) -> Iterator[tuple[str, int]]:
    """A running server: its address, and the number of its first process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "serve:app", "--port", str(port), "--log-level", "error"]
    process = subprocess.Popen([*command, "--workers", str(processes)], cwd=folder, env=environment)
    try:
        until = time.monotonic() + 300
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > until or process.poll() is not None:
                    raise SystemExit(f"{name}: the server does not start") from None
                time.sleep(0.3)
        yield f"http://127.0.0.1:{port}/search", process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def memory(pid: int) -> int:
    """Bytes of a process and its children, what they share counted once."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    own = next(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))
    return own * 1024 + sum(memory(int(child)) for child in children)


def processor_seconds(pid: int) -> float:
    """Processor time of a process and its children so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(processor_seconds(int(child)) for child in children)


async def asked(address: str, texts: list[str], at_once: int) -> tuple[list[float], float]:
    """Seconds of every answer, and of all."""
    import httpx

    waiting = asyncio.Queue[str]()
    for text in texts:
        waiting.put_nowait(text)
    times: list[float] = []
    limits = httpx.Limits(max_connections=at_once)
    async with httpx.AsyncClient(timeout=300, limits=limits) as client:

        async def ask() -> None:
            while not waiting.empty():
                text = waiting.get_nowait()
                began = time.perf_counter()
                reply = await client.post(address, json={"question": text})
                reply.raise_for_status()
                assert reply.json(), text
                times.append(time.perf_counter() - began)

        began = time.perf_counter()
        await asyncio.gather(*(ask() for _ in range(at_once)))
        return times, time.perf_counter() - began


def prepared(name: str, folder: Path, environment: dict[str, str]) -> None:
    """Write the app and fill its store."""
    folder.mkdir(parents=True)
    (folder / "serve.py").write_text(COMMON + APPS[name])
    if name == "sage-rag":
        from sage_app import Sage

        with Sage(environment["STORE"]) as sage:
            sage.ingest(DOCUMENTS)
    else:
        (folder / "fill.py").write_text(FILL)
        subprocess.run([sys.executable, "fill.py", DOCUMENTS], cwd=folder, env=environment, check=True)


def measure(out: Path, rounds: int) -> None:
    """Measure all of it."""
    asking = questions()
    with tempfile.TemporaryDirectory() as temporary:
        places = {name: Path(temporary) / str(i) for i, name in enumerate(APPS)}
        environments = {}
        for name, folder in places.items():
            environments[name] = {
                **os.environ,
                "STORE": str(folder / "store"),
                "MODEL": model_path(),
                "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            }
            prepared(name, folder, environments[name])
        for processes in PROCESSES:
            for name, folder in places.items():
                with server(name, folder, processes, environments[name]) as (address, pid):
                    waiting = iter(itertools.cycle(asking))  # each question once, as long as they last
                    asyncio.run(asked(address, list(itertools.islice(waiting, 8 * processes)), 8))
                    for at_once in AT_ONCE:
                        count = rounds * max(at_once, 10)
                        busy = processor_seconds(pid)
                        texts = list(itertools.islice(waiting, count))
                        times, taken = asyncio.run(asked(address, texts, at_once))
                        busy = processor_seconds(pid) - busy
                        times.sort()
                        row = {
                            "system": name,
                            "processes": processes,
                            "at_once": at_once,
                            "questions": count,
                            "per_second": count / taken,
                            "p50_ms": 1000 * times[count // 2],
                            "p95_ms": 1000 * times[int(0.95 * (count - 1))],
                            "cpu_ms": 1000 * busy / count,
                            "bytes": memory(pid),
                        }
                        print(json.dumps(row), flush=True)
                        with out.open("a") as file:
                            file.write(json.dumps(row) + "\n")


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Markdown."""
    yield "| system | processes | at once | questions/s | p50 | p95 | processor time a question | memory |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in sorted(rows, key=lambda r: (r["processes"], r["at_once"], r["system"])):
        yield (
            f"| {row['system']} | {row['processes']} | {row['at_once']} | {row['per_second']:.1f} "
            f"| {row['p50_ms']:,.0f} ms | {row['p95_ms']:,.0f} ms | {row['cpu_ms']:,.0f} ms "
            f"| {row['bytes'] / 1e6:,.0f} MB |"
        )


def main() -> None:
    """Measure, or print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("serving.jsonl"))
    parser.add_argument("--rounds", type=int, default=4, help="questions for each that is asked at once")
    parser.add_argument("--table", type=Path, help="only print the table of this file")
    options = parser.parse_args()
    if options.table:
        rows: list[dict[str, Any]] = [json.loads(line) for line in options.table.read_text().splitlines()]
        print("\n".join(table(rows)))
        return
    measure(options.out, options.rounds)


if __name__ == "__main__":
    main()
