"""Over stores of any size the first question answers: in both frameworks, at once and awaited.

Two stores are in memory and in the fast suite; those on disk are of `soak`, of other packages of `stores`.
"""

import asyncio
import re
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import TextNode

from sage_langchain import SageRetriever as ChainRetriever
from sage_llamaindex import SageRetriever

MANY, MOST = 33_000, 300_000
"""SQLite takes 32,766 values in one statement."""
FOUND = "The zeppelin lands at noon."
QUESTION = "When does the zeppelin land?"
PAGE = 5_000


def vector(text: str) -> list[float]:
    """Near the question for any lamp; opposite to it for what only its words find."""
    number = re.search(r"\d+", text)
    if number is None:
        return [1.0 if text == QUESTION else -1.0, 0.0, 0.0, 0.0]
    i = int(number[0])
    row = np.array([2.0, np.sin(i), np.cos(i), np.sin(2 * i)])
    return [float(x) for x in row / np.linalg.norm(row)]


class Vectors(Embeddings):
    """For LangChain."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return vector(text)


class VectorModel(BaseEmbedding):
    """For LlamaIndex."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return vector(text)

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return vector(query)


def pages(n: int) -> Iterator[list[str]]:
    texts = [f"Lamp {i}." for i in range(n)]
    texts[n // 2] = FOUND
    return (texts[i : i + PAGE] for i in range(0, n, PAGE))


def chain(store: Any, n: int) -> Callable[[], ChainRetriever]:
    for page in pages(n):
        store.add_texts(page, ids=[str(uuid.uuid4()) for _ in page])
    return lambda: ChainRetriever.from_vectorstore(store)


def index(vectors: Any, n: int) -> Callable[[], SageRetriever]:
    context = StorageContext.from_defaults(vector_store=vectors)
    made = VectorStoreIndex([], storage_context=context, embed_model=VectorModel())
    for page in pages(n):
        made.insert_nodes([TextNode(text=text, embedding=vector(text)) for text in page])
    return lambda: SageRetriever.from_index(made)


class Place:
    """Where a store may be, and what is served to it."""

    def __init__(self, folder: Path, request: pytest.FixtureRequest) -> None:
        self.folder = folder
        self._request = request

    def postgres(self, driver: str) -> str:
        url: str = self._request.getfixturevalue("postgres")
        return url.replace("postgresql:", f"postgresql+{driver}:")

    def chroma(self) -> Any:
        """A client of a server of its own."""
        chromadb = pytest.importorskip("chromadb")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        program = [sys.executable, "-c", "from chromadb.cli.cli import app; app()"]
        arguments = ["run", "--path", str(self.folder), "--host", "127.0.0.1", "--port", str(port)]
        server = subprocess.Popen(
            [*program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._request.addfinalizer(lambda: (server.kill(), server.wait()))
        for _ in range(600):
            try:
                return chromadb.HttpClient("127.0.0.1", port)
            except Exception:  # whatever it raises, until the server listens
                time.sleep(0.1)
        raise AssertionError("no server")


def on_disk(place: Place) -> Any:
    return pytest.importorskip("chromadb").PersistentClient(str(place.folder))


def chroma_chain(client: Callable[[Place], Any], n: int) -> Any:
    def made(place: Place) -> Any:
        stores = pytest.importorskip("langchain_chroma")
        return chain(stores.Chroma("lamps", Vectors(), client=client(place)), n)

    return made


def chroma_index(client: Callable[[Place], Any], n: int) -> Any:
    def made(place: Place) -> Any:
        stores = pytest.importorskip("llama_index.vector_stores.chroma")
        collection = client(place).create_collection("lamps")
        return index(stores.ChromaVectorStore(chroma_collection=collection), n)

    return made


def faiss_chain(place: Place) -> Any:
    stores = pytest.importorskip("langchain_community.vectorstores")
    docstores = pytest.importorskip("langchain_community.docstore")
    flat = pytest.importorskip("faiss").IndexFlatL2(4)
    return chain(stores.FAISS(Vectors(), flat, docstores.InMemoryDocstore(), {}), MOST)


def faiss_index(place: Place) -> Any:
    stores = pytest.importorskip("llama_index.vector_stores.faiss")
    flat = pytest.importorskip("faiss").IndexFlatL2(4)
    return index(stores.FaissVectorStore(faiss_index=flat), MOST)


def lance_chain(place: Place) -> Any:
    stores, lancedb = pytest.importorskip("langchain_community.vectorstores"), pytest.importorskip("lancedb")
    return chain(stores.LanceDB(lancedb.connect(place.folder), Vectors(), mode="append"), MANY)


def lance_index(place: Place) -> Any:
    stores = pytest.importorskip("llama_index.vector_stores.lancedb")
    return index(stores.LanceDBVectorStore(uri=str(place.folder), mode="create"), MANY)


def qdrant_chain(place: Place) -> Any:
    stores, client = pytest.importorskip("langchain_qdrant"), pytest.importorskip("qdrant_client")
    connection = client.QdrantClient(":memory:")
    settings = client.models.VectorParams(size=4, distance=client.models.Distance.COSINE)
    connection.create_collection("lamps", vectors_config=settings)
    return chain(stores.QdrantVectorStore(connection, "lamps", Vectors()), MANY)


def qdrant_index(place: Place) -> Any:
    stores, client = (
        pytest.importorskip("llama_index.vector_stores.qdrant"),
        pytest.importorskip("qdrant_client"),
    )
    return index(stores.QdrantVectorStore("lamps", client=client.QdrantClient(":memory:")), MANY)


def postgres_chain(place: Place) -> Any:
    stores = pytest.importorskip("langchain_postgres")
    store = stores.PGVector(Vectors(), connection=place.postgres("psycopg"), collection_name="lamps")
    return chain(store, MANY)


def postgres_index(place: Place) -> Any:
    stores = pytest.importorskip("llama_index.vector_stores.postgres")
    vectors = stores.PGVectorStore(
        connection_string=place.postgres("psycopg2"),
        async_connection_string=place.postgres("asyncpg"),
        table_name="lamps",
        embed_dim=4,
    )
    return index(vectors, MANY)


SOAK, OTHERS = pytest.mark.soak, pytest.mark.stores
STORES = {
    "LangChain, in memory": pytest.param(lambda place: chain(InMemoryVectorStore(Vectors()), MANY)),
    "LlamaIndex, simple": pytest.param(lambda place: index(None, MANY)),
    "LangChain, Chroma on disk": pytest.param(chroma_chain(on_disk, MOST), marks=SOAK),
    "LlamaIndex, Chroma on disk": pytest.param(chroma_index(on_disk, MOST), marks=SOAK),
    "LangChain, Chroma's server": pytest.param(chroma_chain(Place.chroma, MANY), marks=OTHERS),
    "LlamaIndex, Chroma's server": pytest.param(chroma_index(Place.chroma, MANY), marks=OTHERS),
    "LangChain, FAISS": pytest.param(faiss_chain, marks=OTHERS),
    "LlamaIndex, FAISS": pytest.param(faiss_index, marks=OTHERS),
    "LangChain, LanceDB": pytest.param(lance_chain, marks=OTHERS),
    "LlamaIndex, LanceDB": pytest.param(lance_index, marks=OTHERS),
    "LangChain, Qdrant": pytest.param(qdrant_chain, marks=OTHERS),
    "LlamaIndex, Qdrant": pytest.param(qdrant_index, marks=OTHERS),
    "LangChain, pgvector": pytest.param(postgres_chain, marks=OTHERS),
    "LlamaIndex, pgvector": pytest.param(postgres_index, marks=OTHERS),
}
ONCE = (
    "LangChain, pgvector",
    "LlamaIndex, Qdrant",
    "LangChain, LanceDB",
)  # made without a client that awaits


@pytest.mark.parametrize(
    "made", [pytest.param(*p.values, id=name, marks=p.marks) for name, p in STORES.items()]
)
def test_the_first_question_answers(made: Any, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    retriever = made(Place(tmp_path, request))
    found = [
        retriever().invoke(QUESTION) if "LangChain" in request.node.name else retriever().retrieve(QUESTION)
    ]
    if not any(name in request.node.name for name in ONCE):
        ours = retriever()
        awaited = ours.ainvoke(QUESTION) if "LangChain" in request.node.name else ours.aretrieve(QUESTION)
        found.append(asyncio.run(awaited))
    for items in found:
        texts = [getattr(item, "page_content", None) or item.text for item in items]
        assert texts and (FOUND in texts) is (retriever().words_from != "none")
