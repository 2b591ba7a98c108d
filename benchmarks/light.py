"""The light path beside torch: cold start, rate of embedding and of ingest, evidence, install size.

    SAGE_MINILM=FOLDER python benchmarks/light.py speed --kilobytes 1000
    SAGE_MINILM=FOLDER python benchmarks/light.py evidence --sets onestopqa clapnq_dev --questions 200
    python benchmarks/light.py cold
    python benchmarks/light.py install

``SAGE_MINILM`` is the folder of the original all-MiniLM-L6-v2; without it the hub is asked. ``speed`` runs
everything in turn, ``--repeats`` times, on as many threads as OMP_NUM_THREADS allows, and prints ratios of
processor time and of wall time. LlamaIndex and LangChain read, cut and embed the same text with their own
splitters (256 tokens, 1,000 characters) and sentence-transformers in float32. ``evidence`` is recall of
evidence by cosine alone, chunks with their headers, in points; vectors of 8 bits are what is shipped.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sage_app import Sage
from sage_app.models import SentenceTransformerEmbedder
from sage_core import MiniLMEmbedder
from sage_core.embedding.encoder import WORDS, Encoder

ROOT = Path(__file__).resolve().parent.parent
MINILM = os.environ.get("SAGE_MINILM", "sentence-transformers/all-MiniLM-L6-v2")
DATA = Path(os.environ.get("SAGE_DATA", "../shared/data"))


class Float32(MiniLMEmbedder):
    """The numpy encoder with the original weights."""

    name = "numpy, 32 bits"

    def _load(self) -> Any:
        from safetensors.numpy import load_file

        folder = Path(MINILM)
        tensors = {f"bert.{n}": v for n, v in load_file(folder / "model.safetensors").items()}
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        tokenizer, _ = super()._load()
        return tokenizer, Encoder(config, tensors, tensors[WORDS])


class Torch(SentenceTransformerEmbedder):
    """sentence-transformers, in float32 or bfloat16."""

    def __init__(self, kind: str) -> None:
        super().__init__(MINILM, device="cpu")
        self._kind = kind

    @property
    def name(self) -> str:
        """Tells the kinds apart, also in the cache of vectors."""
        return f"torch, {self._kind}"

    def _load(self) -> Any:
        import torch

        return super()._load().to(getattr(torch, self._kind))

    def _encode(self, texts: Sequence[str], *, question: bool) -> Any:
        vectors = [v.float().numpy() for v in self._loaded().encode(list(texts), convert_to_numpy=False)]
        return np.stack(vectors) / np.linalg.norm(vectors, axis=1, keepdims=True)


class Shipped(MiniLMEmbedder):
    """What the package ships, under a name of its own in the cache of vectors."""

    name = "numpy, 8 bits"


def embedders() -> list[Any]:
    """The four that are compared."""
    return [Shipped(), Float32(), Torch("float32"), Torch("bfloat16")]


def sample(kilobytes: int) -> str:
    """Running text of the development sets."""
    import gzip

    path = DATA / "dev" / "squad2_dev16_docs.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        text = "\n\n".join(json.loads(line)["text"] for line in lines)
    return text[: kilobytes * 1000]


def timed(jobs: dict[str, Callable[[], object]], repeats: int) -> None:
    """Print the best of each job's times, and their ratios to the last job's."""
    best = dict.fromkeys(jobs, (np.inf, np.inf))
    for _ in range(repeats):
        for name, job in jobs.items():
            wall, used = time.perf_counter(), time.process_time()
            job()
            wall, used = time.perf_counter() - wall, time.process_time() - used
            best[name] = (min(best[name][0], wall), min(best[name][1], used))
    last = best[list(jobs)[-1]]
    for name, (wall, used) in best.items():
        ratios = f"{last[0] / wall:.2f} x wall, {last[1] / used:.2f} x processor"
        print(f"  {name:26} {wall:7.2f} s wall, {used:7.2f} s processor; as fast as the last: {ratios}")


def speed(options: argparse.Namespace) -> None:
    """Embedding the same chunks, and ingest of the same text."""
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore
    from langchain_text_splitters import RecursiveCharacterTextSplitter
    from llama_index.core import Document, VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.node_parser import SentenceSplitter

    from sage_core import Segmenter

    text = sample(options.kilobytes)
    chunks = [span.of(text) for span in Segmenter().segment(text)]
    models = embedders()
    for model in models:
        model.embed_documents(chunks[:4])
    print(f"embedding {len(chunks)} chunks of {len(text):,} characters")
    order = [models[0], models[1], models[3], models[2]]
    timed({m.name: lambda m=m: m.embed_documents(chunks) for m in order}, options.repeats)

    plain = models[2]

    class LangChain(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return plain.embed_documents(texts).tolist()

        def embed_query(self, text: str) -> list[float]:
            return plain.embed_query(text).tolist()

    class LlamaIndex(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return plain.embed_documents([text])[0].tolist()

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return plain.embed_documents(texts).tolist()

        _get_query_embedding = _get_text_embedding

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

    def sage() -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "text.txt").write_text(text, encoding="utf-8")
            with Sage(Path(folder) / "store", embedder=models[0]) as rag:
                rag.ingest([Path(folder) / "text.txt"])

    def langchain() -> None:
        store = InMemoryVectorStore(LangChain())
        store.add_texts(RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200).split_text(text))

    def llamaindex() -> None:
        VectorStoreIndex.from_documents(
            [Document(text=text)],
            transformations=[SentenceSplitter(chunk_size=256, chunk_overlap=20)],
            embed_model=LlamaIndex(embed_batch_size=32),
        )

    print("ingest")
    jobs = {"sage-rag, numpy": sage, "LlamaIndex, torch float32": llamaindex}
    timed({**jobs, "LangChain, torch float32": langchain}, options.repeats)


def evidence(options: argparse.Namespace) -> None:
    """Recall of evidence within 250, 500 and 1,000 tokens."""
    from ranking_data import BUDGETS, DevSet, cosines

    rows: dict[str, list[Any]] = {}
    for name in options.sets:
        for model in embedders():
            dev = DevSet(name, model, max_questions=options.questions)
            figures = cosines(dev)[:, : len(BUDGETS)]
            rows.setdefault(model.name, []).append(figures)
            shown = ", ".join(f"{100 * f:.1f}" for f in figures.mean(axis=0))
            print(f"{name:14} {model.name:16} {shown}  (n = {len(figures)})", flush=True)
    exact = rows["torch, float32"]
    for name, sets in rows.items():
        mean = np.mean([s.mean(axis=0) for s in sets], axis=0)
        lost = np.mean([(s - e).mean(axis=0) for s, e in zip(sets, exact, strict=True)], axis=0)
        print(f"mean of sets   {name:16} {(100 * mean).round(2)}, less torch float32 {(100 * lost).round(2)}")


def cold(options: argparse.Namespace) -> None:
    """Seconds of new processes: importing the core, and asking a store of the demo's documents."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "sage_app.cli.main"]
        store = ["--store", str(Path(folder) / "store")]
        documents = str(ROOT / "demo" / "documents")
        subprocess.run([*command, "ingest", documents, *store], check=True, capture_output=True)
        for name, arguments in {
            "import numpy": [sys.executable, "-c", "import numpy"],
            "import sage_core": [sys.executable, "-c", "import sage_core"],
            "sage-rag ask": [*command, "ask", "When does the ferry leave on Sundays?", *store],
        }.items():
            walls, used = [], []
            for _ in range(5):
                start, before = time.perf_counter(), os.times()
                subprocess.run(arguments, check=True, capture_output=True)
                after = os.times()
                walls.append(time.perf_counter() - start)
                used.append(sum(after[2:4]) - sum(before[2:4]))
            print(f"{name:16} best of 5: {min(walls):.2f} s wall, {min(used):.2f} s processor")


def install(options: argparse.Namespace) -> None:
    """Size and seconds of a new environment with the base install and the readers of files."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        venv.create(folder, with_pip=True)
        pip = [str(Path(folder) / "bin" / "python"), "-m", "pip", "install", "-q"]
        subprocess.run([*pip, f"{ROOT}[files]"], check=True)
        size = sum(f.lstat().st_size for f in Path(folder).rglob("*") if f.is_file())
        print(f"sage-rag[files]: {size / 1e6:.0f} MB in {time.perf_counter() - start:.0f} s")
        start = time.perf_counter()
        demo = [str(Path(folder) / "bin" / "sage-rag"), "demo"]
        subprocess.run(demo, check=True, capture_output=True, cwd=folder)
        print(f"sage-rag demo: {time.perf_counter() - start:.0f} s")


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(required=True)
    for part in (speed, evidence, cold, install):
        sub = parts.add_parser(part.__name__, help=part.__doc__)
        sub.set_defaults(run=part)
        if part is speed:
            sub.add_argument("--kilobytes", type=int, default=1000)
            sub.add_argument("--repeats", type=int, default=3)
        if part is evidence:
            sub.add_argument("--sets", nargs="+", default=["onestopqa", "clapnq_dev", "squad2_dev16"])
            sub.add_argument("--questions", type=int, default=300)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
