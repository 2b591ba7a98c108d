"""What a question costs over stores of many chunks: the stock retriever and ours, in one run.

    python benchmarks/doors_scale.py --chunks 10000 100000
    python benchmarks/doors_scale.py --chunks 33000 --stores chroma-langchain chroma-llamaindex

Chunks of 45 words, twenty a document, of 50,000 words as unequal as in a language; vectors of 384 random
numbers. Times are of the processor, for one core with OMP_NUM_THREADS=1: of the first question; the median of
ten more, whose candidates no question had before; and of these ten again. "Stock" is the framework's own
retriever with the same number of nodes. Memory is what the process has grown by during our questions.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.ranking.candidates import CANDIDATES, RUNNERS_UP

WORDS, CHUNKS_A_DOCUMENT, QUESTIONS, VOCABULARY = 45, 20, 10, 50_000
FETCHED = CANDIDATES + RUNNERS_UP
LETTERS = "eeeeeetttttaaaaooooiiiinnnnssssrrrhhhddlluuccmmfgpywbvk"


class Texts:
    """Chunks and questions, the same for every store."""

    def __init__(self, n: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        ranks = np.arange(1, VOCABULARY + 1)
        letters = rng.choice(list(LETTERS), (VOCABULARY, 9))
        names = [
            "".join(row[: 3 + rank.bit_length() // 3])
            for rank, row in zip(ranks.tolist(), letters, strict=True)
        ]
        drawn = rng.choice(VOCABULARY, (n, WORDS), p=1 / ranks / (1 / ranks).sum())
        self.texts = [" ".join(names[i] for i in row).capitalize() + "." for row in drawn]
        self.titles = [
            f"{names[VOCABULARY - 1 - i].capitalize()} {i}" for i in range(1 + n // CHUNKS_A_DOCUMENT)
        ]
        asked = rng.integers(0, n, QUESTIONS + 1)
        self.questions = [f"What is said of {' '.join(self.texts[i].split()[:6])}?" for i in asked]
        self.vectors = rng.standard_normal((n, 384)).astype(np.float32)
        self.vectors /= np.linalg.norm(self.vectors, axis=1, keepdims=True)

    def metadata(self, i: int) -> dict[str, Any]:
        """What a reader of files says of a chunk."""
        document, place = divmod(i, CHUNKS_A_DOCUMENT)
        return {"source": f"{document}.md", "title": self.titles[document], "start_index": 1_000 * place}

    def vector(self, question: str) -> NDArray[np.float32]:
        """Of a question, the same each time."""
        row = np.random.default_rng(zlib.crc32(question.encode())).standard_normal(384).astype(np.float32)
        return np.asarray(row / np.linalg.norm(row), np.float32)


Ask = Callable[[str], Sequence[Any]]
"""A retriever's question."""


def langchain(
    made: Callable[[Any, Texts, Path], Any],
) -> Callable[[Texts, Path], tuple[Ask, Callable[[], Ask]]]:
    """The stock retriever of a LangChain store, and how to make ours."""

    def opened(texts: Texts, folder: Path) -> tuple[Ask, Callable[[], Ask]]:
        from langchain_core.embeddings import Embeddings

        from sage_langchain import SageRetriever

        class Random(Embeddings):
            def embed_documents(self, listed: list[str]) -> list[list[float]]:
                raise NotImplementedError

            def embed_query(self, text: str) -> list[float]:
                return list(texts.vector(text).tolist())

        store = made(Random(), texts, folder)
        return store.as_retriever(
            search_kwargs={"k": FETCHED}
        ).invoke, lambda: SageRetriever.from_vectorstore(store).invoke

    return opened


def langchain_faiss(embedding: Any, texts: Texts, folder: Path) -> Any:
    """FAISS, a flat index."""
    import faiss
    from langchain_community.docstore import InMemoryDocstore
    from langchain_community.vectorstores import FAISS

    index = faiss.IndexFlatL2(384)
    index.add(texts.vectors)
    documents = langchain_documents(texts)
    ids = {i: str(document.id) for i, document in enumerate(documents)}
    return FAISS(embedding, index, InMemoryDocstore({str(d.id): d for d in documents}), ids)


def langchain_documents(texts: Texts) -> list[Any]:
    """The chunks."""
    from langchain_core.documents import Document

    return [Document(text, id=f"{i:08}", metadata=texts.metadata(i)) for i, text in enumerate(texts.texts)]


def langchain_memory(embedding: Any, texts: Texts, folder: Path) -> Any:
    """LangChain's in-memory store."""
    from langchain_core.vectorstores import InMemoryVectorStore

    store = InMemoryVectorStore(embedding)
    for document, vector in zip(langchain_documents(texts), texts.vectors.tolist(), strict=True):
        store.store[str(document.id)] = {
            "id": document.id,
            "vector": vector,
            "text": document.page_content,
            "metadata": document.metadata,
        }
    return store


def langchain_chroma(embedding: Any, texts: Texts, folder: Path) -> Any:
    """A Chroma collection on disk."""
    from langchain_chroma import Chroma

    store = Chroma(embedding_function=embedding, persist_directory=str(folder))
    metadatas = [texts.metadata(i) for i in range(len(texts.texts))]
    for page in pages(len(texts.texts)):
        store._collection.add(
            ids=[f"{i:08}" for i in page],
            embeddings=texts.vectors[page.start : page.stop],
            documents=texts.texts[page.start : page.stop],
            metadatas=[dict(metadatas[i]) for i in page],
        )
    return store


def pages(n: int) -> Iterator[range]:
    """As many at a time as Chroma takes."""
    return (range(i, min(i + 5_000, n)) for i in range(0, n, 5_000))


def llamaindex(chroma: bool) -> Callable[[Texts, Path], tuple[Ask, Callable[[], Ask]]]:
    """The stock retriever of a LlamaIndex index, over Chroma or the simple store, and how to make ours."""

    def opened(texts: Texts, folder: Path) -> tuple[Ask, Callable[[], Ask]]:
        from llama_index.core import StorageContext, VectorStoreIndex
        from llama_index.core.embeddings import BaseEmbedding
        from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

        from sage_llamaindex import SageRetriever

        class Random(BaseEmbedding):
            def _get_query_embedding(self, query: str) -> list[float]:
                return list(texts.vector(query).tolist())

            async def _aget_query_embedding(self, query: str) -> list[float]:
                return self._get_query_embedding(query)

            def _get_text_embedding(self, text: str) -> list[float]:
                raise NotImplementedError

        def node(i: int) -> TextNode:
            about, document = texts.metadata(i), RelatedNodeInfo(node_id=f"d{i // CHUNKS_A_DOCUMENT}")
            start = about.pop("start_index")
            return TextNode(
                text=texts.texts[i],
                id_=f"{i:08}",
                metadata=about,
                start_char_idx=start,
                end_char_idx=start + len(texts.texts[i]),
                relationships={NodeRelationship.SOURCE: document},
                embedding=texts.vectors[i].tolist(),
            )

        storage = StorageContext.from_defaults()
        if chroma:
            import chromadb
            from llama_index.vector_stores.chroma import ChromaVectorStore

            collection = chromadb.PersistentClient(str(folder)).create_collection("nodes")
            storage = StorageContext.from_defaults(
                vector_store=ChromaVectorStore(chroma_collection=collection)
            )
        index = VectorStoreIndex([], storage_context=storage, embed_model=Random())
        for page in pages(len(texts.texts)):
            index.insert_nodes([node(i) for i in page])
        stock = index.as_retriever(similarity_top_k=FETCHED)
        return stock.retrieve, lambda: SageRetriever.from_index(index).retrieve

    return opened


STORES = {
    "faiss-langchain": langchain(langchain_faiss),
    "memory-langchain": langchain(langchain_memory),
    "chroma-langchain": langchain(langchain_chroma),
    "simple-llamaindex": llamaindex(chroma=False),
    "chroma-llamaindex": llamaindex(chroma=True),
}


def milliseconds(ask: Ask, questions: Sequence[str]) -> tuple[float, float, float]:
    """CPU time of the first question; the median of the others; the median of the same once more."""
    spent = []
    for question in [*questions, *questions[1:]]:
        begin = time.process_time()
        ask(question)
        spent.append(1_000 * (time.process_time() - begin))
    more = len(questions)
    return spent[0], statistics.median(spent[1:more]), statistics.median(spent[more:])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each store and size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chunks", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--stores", nargs="+", choices=STORES, default=list(STORES))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    heads = ("store", "chunks", "stock, ms", "ours, ms", "again", "first, s", "memory, MB")
    print(f"| {' | '.join(heads)} |\n" + "|---" * len(heads) + "|")
    for name in options.stores:
        for n in options.chunks:
            texts = Texts(n, options.seed)
            # Chroma's files may still be open when the folder goes.
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                stock, make = STORES[name](texts, Path(folder))
                _, _, of_stock = milliseconds(stock, texts.questions)
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                first, ours, again = milliseconds(make(), texts.questions)
                grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1_024
            cells = f"{of_stock:.1f} | {ours:.1f} | {again:.1f} | {first / 1_000:.2f} | {grown:.0f}"
            print(f"| {name} | {n:,} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
