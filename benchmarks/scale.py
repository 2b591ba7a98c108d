"""How a store behaves as it grows: writing, size, memory, and searches before and after a change.

    python benchmarks/scale.py --sizes 10000,100000,1000000 --out scale.jsonl
    python benchmarks/scale.py --table scale.jsonl

Every system and size runs in a process of its own, on random unit vectors, which cost a search as much as
real ones; no embedding model takes part. A document has 20 chunks of 190 characters. "after a change" is the
first search after one document was replaced. Plain Chroma is measured through LangChain and LlamaIndex, with
the settings that they choose.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

PER_DOCUMENT, CHARACTERS = 20, 190
CANDIDATES = 30
SEARCHES, CHANGES = 100, 10
TOGETHER = 2_000  # chunks handed over in one call


class System(Protocol):
    """What is measured."""

    def write(self, documents: list[int], vectors: NDArray[np.float32], edition: str) -> None:
        """Put these documents in place of what there is of them."""

    def reopen(self) -> None:
        """Open the store as a new process would."""

    def search(self, vector: NDArray[np.float32]) -> int:
        """Search; the number of hits."""


def text_of(document: int, chunk: int, edition: str) -> str:
    """A chunk's text."""
    return f"Chunk {chunk} of document {document}, edition {edition}. ".ljust(CHARACTERS, "x")


class Folder:
    """`FolderStore`, what `Sage("folder")` uses."""

    def __init__(self, path: Path) -> None:
        from sage_app.store import FolderStore
        from sage_app.store.identity import StoreIdentity

        self.path = path
        self.store = FolderStore(path)
        self.identity = StoreIdentity("random", unit(np.random.default_rng(1), 1)[0], "none")

    def write(self, documents: list[int], vectors: NDArray[np.float32], edition: str) -> None:
        from sage_app.store.chunks import Chunk, NewDocument, chunk_ids

        spans = [(i * CHARACTERS, (i + 1) * CHARACTERS) for i in range(PER_DOCUMENT)]
        new = []
        for position, document in enumerate(documents):
            source, digest = f"/documents/{document}.txt", f"{edition:0<64}"
            ids = chunk_ids(source, digest, spans)
            chunks = [
                Chunk(key, text_of(document, i, edition), source, *spans[i]) for i, key in enumerate(ids)
            ]
            rows = vectors[position * PER_DOCUMENT : (position + 1) * PER_DOCUMENT]
            new.append(NewDocument(source, digest, chunks, rows))
        with self.store.writing(self.identity):
            self.store.put(new)

    def reopen(self) -> None:
        self.store.close()
        self.__init__(self.path)  # type: ignore[misc]

    def search(self, vector: NDArray[np.float32]) -> int:
        return len(self.store.search(vector, CANDIDATES))


def ids_of(documents: list[int]) -> list[str]:
    """Ids of the chunks of documents."""
    return [f"{document}-{i}" for document in documents for i in range(PER_DOCUMENT)]


def texts_of(documents: list[int], edition: str) -> list[str]:
    """Texts of the chunks of documents."""
    return [text_of(document, i, edition) for document in documents for i in range(PER_DOCUMENT)]


class LangChain:
    """Chroma through LangChain."""

    def __init__(self, path: Path) -> None:
        from langchain_chroma import Chroma
        from langchain_core.embeddings import Embeddings

        class Given(Embeddings):
            """Gives the vectors that are at hand."""

            rows: NDArray[np.float32]

            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                return self.rows[: len(texts)].tolist()

            def embed_query(self, text: str) -> list[float]:
                raise NotImplementedError

        self.path, self.given = path, Given()
        self.store = Chroma("chunks", self.given, persist_directory=str(path))

    def write(self, documents: list[int], vectors: NDArray[np.float32], edition: str) -> None:
        self.given.rows = vectors
        ids = ids_of(documents)
        if edition != "first":
            self.store.delete(ids)
        metadatas = [{"source": f"/documents/{key.split('-')[0]}.txt"} for key in ids]
        self.store.add_texts(texts_of(documents, edition), metadatas, ids)

    def reopen(self) -> None:
        forget_chroma()
        self.__init__(self.path)  # type: ignore[misc]

    def search(self, vector: NDArray[np.float32]) -> int:
        return len(self.store.similarity_search_by_vector(vector.tolist(), k=CANDIDATES))


class LlamaIndex:
    """Chroma through LlamaIndex."""

    def __init__(self, path: Path) -> None:
        import chromadb
        from llama_index.vector_stores.chroma import ChromaVectorStore

        self.path = path
        collection = chromadb.PersistentClient(str(path)).get_or_create_collection("chunks")
        self.store = ChromaVectorStore(chroma_collection=collection)

    def write(self, documents: list[int], vectors: NDArray[np.float32], edition: str) -> None:
        from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

        if edition != "first":
            for document in documents:
                self.store.delete(str(document))
        rows = vectors.tolist()
        nodes = [
            TextNode(
                id_=f"{key}-{edition}",
                text=text,
                embedding=row,
                relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=key.split("-")[0])},
            )
            for key, text, row in zip(ids_of(documents), texts_of(documents, edition), rows, strict=True)
        ]
        self.store.add(nodes)

    def reopen(self) -> None:
        forget_chroma()
        self.__init__(self.path)  # type: ignore[misc]

    def search(self, vector: NDArray[np.float32]) -> int:
        from llama_index.core.vector_stores import VectorStoreQuery

        asked = VectorStoreQuery(query_embedding=vector.tolist(), similarity_top_k=CANDIDATES)
        return len(self.store.query(asked).nodes or ())


def forget_chroma() -> None:
    """Have the next client open the files anew."""
    from chromadb.api.shared_system_client import SharedSystemClient

    SharedSystemClient.clear_system_cache()


SYSTEMS: dict[str, Callable[[Path], System]] = {
    "FolderStore": Folder,
    "Chroma, LangChain": LangChain,
    "Chroma, LlamaIndex": LlamaIndex,
}


def unit(rng: np.random.Generator, rows: int, dimension: int = 384) -> NDArray[np.float32]:
    """Random unit vectors."""
    vectors = rng.standard_normal((rows, dimension), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def timed(action: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    action()
    return 1000 * (time.perf_counter() - began)


def size_of(folder: Path) -> int:
    """Bytes on disk, holes not counted."""
    return sum(512 * path.stat().st_blocks for path in folder.rglob("*") if path.is_file())


def memory() -> int:
    """Bytes of this process that are its own: mapped files, which the system drops at will, do not count."""
    fields = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(fields["RssAnon"].split()[0])


def measure(name: str, chunks: int, seconds: float) -> dict[str, Any]:
    """One row of the table; writing ends after ``seconds``, and the row then says how far it came."""
    folder = Path(tempfile.mkdtemp(prefix="scale-"))
    try:
        rng = np.random.default_rng(0)
        system = SYSTEMS[name](folder / "store")
        before = memory()
        began = time.perf_counter()
        written = making = 0.0
        while written < chunks and time.perf_counter() - began < seconds:
            first = int(written) // PER_DOCUMENT
            documents = list(range(first, first + min(TOGETHER, chunks - int(written)) // PER_DOCUMENT))
            start = time.perf_counter()
            vectors = unit(rng, len(documents) * PER_DOCUMENT)
            making += time.perf_counter() - start
            system.write(documents, vectors, "first")
            written += len(vectors)
        taken = time.perf_counter() - began - making
        queries = unit(rng, SEARCHES + CHANGES + 1)
        peak_writing = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        opening = timed(lambda: (system.reopen(), system.search(queries[0])))
        busy = time.process_time()
        warm = [timed(lambda q=q: system.search(q)) for q in queries[1 : SEARCHES + 1]]  # type: ignore[misc]
        busy = time.process_time() - busy
        after, after_busy = [], []
        for i, query in enumerate(queries[SEARCHES + 1 :]):
            system.write([i], unit(rng, PER_DOCUMENT), f"edition{i}")
            cpu = time.process_time()
            after.append(timed(lambda q=query: system.search(q)))  # type: ignore[misc]
            after_busy.append(1000 * (time.process_time() - cpu))
        return {
            "system": name,
            "chunks": int(written),
            "wanted": chunks,
            "chunks_per_second": written / taken,
            "bytes_on_disk": size_of(folder),
            "peak_bytes": peak_writing,
            "searching_bytes": memory() - before,
            "opening_ms": opening,
            "p50_ms": float(np.percentile(warm, 50)),
            "cpu_ms": 1000 * busy / len(warm),
            "p95_ms": float(np.percentile(warm, 95)),
            "after_change_ms": float(np.median(after)),
            "after_change_cpu_ms": float(np.median(after_busy)),
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Markdown, with the exponents of growth below."""
    yield (
        "| system | chunks | written, chunks/s | on disk | memory of its own | open and first search | "
        "search p50 | p95 | processor time | first after a change |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for row in sorted(rows, key=lambda r: (list(SYSTEMS).index(r["system"]), r["chunks"])):
        yield (
            f"| {row['system']} | {row['chunks']:,} | {row['chunks_per_second']:,.0f} "
            f"| {row['bytes_on_disk'] / 1e6:,.0f} MB | {row['searching_bytes'] / 1e6:,.0f} MB "
            f"| {row['opening_ms']:,.0f} ms | {row['p50_ms']:.1f} ms | {row['p95_ms']:.1f} ms "
            f"| {row['cpu_ms']:.1f} ms | {row['after_change_ms']:.1f} ms |"
        )
    yield ""
    for name in SYSTEMS:
        mine = [r for r in rows if r["system"] == name]
        if len({r["chunks"] for r in mine}) > 1:
            low, high = min(mine, key=lambda r: r["chunks"]), max(mine, key=lambda r: r["chunks"])
            power = math.log(high["cpu_ms"] / low["cpu_ms"]) / math.log(high["chunks"] / low["chunks"])
            yield f"- {name}: processor time of a search grows with chunks ** {power:.2f}"


def main() -> None:
    """Measure, or print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", default="10000,100000")
    parser.add_argument(
        "--systems",
        default=",".join(name.replace(", ", "; ") for name in SYSTEMS),
        help='"; " in a name stands for ", "',
    )
    parser.add_argument("--seconds", type=float, default=900, help="most for the writing of one store")
    parser.add_argument("--out", type=Path, default=Path("scale.jsonl"))
    parser.add_argument("--table", type=Path, help="only print the table of this file")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.table:
        rows = [json.loads(line) for line in options.table.read_text().splitlines()]
        print("\n".join(table(rows)))
        return
    if options.one:
        row = measure(options.one[0], int(options.one[1]), options.seconds)
        print(json.dumps(row))
        return
    names = [name.replace("; ", ", ") for name in options.systems.split(",")]
    for size in map(int, options.sizes.split(",")):
        for name in names:
            command = [sys.executable, __file__, "--one", name, str(size), "--seconds", str(options.seconds)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
            if done.returncode:
                print(f"{name}, {size:,} chunks: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
                continue
            line = done.stdout.strip().splitlines()[-1]
            print(line, flush=True)
            with options.out.open("a") as out:
                out.write(line + "\n")


if __name__ == "__main__":
    main()
