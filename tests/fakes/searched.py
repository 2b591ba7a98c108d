"""Real stores of both frameworks, and what a search over them gives, behind one interface."""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

from sage_langchain import SageRetriever as ChainRetriever
from sage_langchain.scored_search import CandidateSearch
from sage_llamaindex import SageRetriever
from sage_llamaindex._words import nearness
from tests.fakes.doors import at_door
from tests.fakes.langchain import WordEmbeddings
from tests.fakes.llamaindex import HashEmbedding


class Passage(NamedTuple):
    """A passage, which is a document of its own: ``0.md``, ``1.md`` and so on."""

    text: str
    title: str


class Sent(NamedTuple):
    """A passage that was sent, the id of the node that it is cut from, and where it stands in its document."""

    text: str
    title: str
    id: Any
    node: Any
    start: Any


class Nodes:
    """An index of LlamaIndex; over a vector store where one is given, with ids of the form that it takes."""

    def __init__(
        self,
        passages: Sequence[Passage],
        vectors: Any = None,
        model: Any = None,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self.model = model or HashEmbedding()
        self.in_docstore = vectors is None or not vectors.stores_text
        storage = None if vectors is None else StorageContext.from_defaults(vector_store=vectors)
        self.index = VectorStoreIndex([], storage_context=storage, embed_model=self.model)
        self.ids = _Ids(new_id)
        for i, passage in enumerate(passages):
            self.add(passage, f"{i}.md")

    def node(self, passage: Passage, key: str) -> TextNode:
        node = TextNode(text=passage.text, id_=self.ids[key], metadata={"title": passage.title})
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=key)
        return node

    def add(self, passage: Passage, key: str) -> None:
        self.index.insert_nodes([self.node(passage, key)])

    def remove(self, key: str) -> None:
        self.index.delete_nodes([self.ids[key]], delete_from_docstore=self.in_docstore)

    def replace(self, passage: Passage, key: str) -> None:
        if self.in_docstore:
            self.remove(key)
        else:  # as whoever else has the collection
            self.index.vector_store.client.delete([key])
        self.add(passage, key)

    def given(self, passages: Sequence[Passage], prefix: str = "") -> dict[str, Any]:
        """For a store that cannot be read."""
        return {"words": [self.node(p, f"{prefix}{i}.md") for i, p in enumerate(passages)]}

    def retriever(self, title: str = "", **settings: Any) -> SageRetriever:
        """Over all passages, or those of one title."""
        filters = MetadataFilters(filters=[MetadataFilter(key="title", value=title)])
        only = filters if title else None
        return SageRetriever.from_index(self.index, filters=only, **at_door(**settings))

    def found(self, retriever: Any, question: str, awaited: bool = False) -> dict[str, float | None]:
        nodes = asyncio.run(retriever.aretrieve(question)) if awaited else retriever.retrieve(question)
        scores = {n.text: n.score for n in nodes}
        assert len(scores) == len(nodes), "nobody comes twice"
        return scores

    def passages(self, retriever: Any, question: str) -> list[Sent]:
        nodes = [n.node for n in retriever.retrieve(question)]
        kept = [(n.metadata["title"], n.node_id, n.metadata.get("node_id"), n.start_char_idx) for n in nodes]
        return [Sent(n.text, *rest) for n, rest in zip(nodes, kept, strict=True)]

    def exact(self, question: str) -> dict[str, float | None]:
        """What a search of the framework's own for all passages gives, read as ours reads it."""
        found = self.found(self.index.as_retriever(similarity_top_k=1000), question)
        read = nearness(self.index.vector_store, [*found.values()])
        return {text: read(score) for text, score in found.items()}

    def scored(self, question: str, n: int) -> list[tuple[str, Any]]:
        """What the framework's own search gives, with the store's scores."""
        found = self.index.as_retriever(similarity_top_k=n).retrieve(question)
        return [(node.text, node.score) for node in found]


class _Ids(dict[str, str]):
    """Of each key the id in the store: the key itself, or a new one."""

    def __init__(self, new_id: Callable[[], str] | None) -> None:
        super().__init__()
        self._new_id = new_id

    def __missing__(self, key: str) -> str:
        self[key] = key if self._new_id is None else self._new_id()
        return self[key]


def chroma_vectors(space: str = "cosine") -> Any:
    """A collection of Chroma as a vector store of LlamaIndex."""
    chromadb = pytest.importorskip("chromadb")
    stores = pytest.importorskip("llama_index.vector_stores.chroma")
    collection = chromadb.EphemeralClient().create_collection(
        f"t{uuid.uuid4().hex}", metadata={"hnsw:space": space}
    )
    return stores.ChromaVectorStore(chroma_collection=collection)


class Documents:
    """A store of LangChain; ``only`` makes the filter for one title, in the form that the store takes."""

    def __init__(
        self,
        passages: Sequence[Passage],
        make: Callable[[Any], VectorStore] = InMemoryVectorStore,
        model: Any = None,
        only: Callable[[str], Any] | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self.model = model or WordEmbeddings()
        self.store = make(self.model)
        self.ids = _Ids(new_id)
        if only is None:
            memory = isinstance(self.store, InMemoryVectorStore)
            only = (lambda t: lambda d: d.metadata["title"] == t) if memory else (lambda t: {"title": t})
        self.only = only
        for i, passage in enumerate(passages):
            self.add(passage, f"{i}.md")

    def add(self, passage: Passage, key: str) -> None:
        metadata = {"title": passage.title, "source": key}
        self.store.add_texts([passage.text], [metadata], ids=[self.ids[key]])

    def remove(self, key: str) -> None:
        self.store.delete([self.ids[key]])

    def replace(self, passage: Passage, key: str) -> None:
        self.add(passage, key)

    def retriever(self, title: str = "", select: bool = True, **settings: Any) -> Any:
        """Over all passages, or those of one title."""
        limits = {"filter": self.only(title)} if title else {}
        made = ChainRetriever.from_vectorstore(self.store, search_kwargs=limits, **at_door(**settings))
        return made if select else made.bind(select=False)

    def given(self, passages: Sequence[Passage], prefix: str = "") -> dict[str, Any]:
        """For a store that cannot be read."""
        return {"words": [Document(p.text, metadata={"title": p.title}) for p in passages]}

    def found(self, retriever: Any, question: str, awaited: bool = False) -> dict[str, float | None]:
        documents = asyncio.run(retriever.ainvoke(question)) if awaited else retriever.invoke(question)
        scores = {d.page_content: d.metadata["relevance_score"] for d in documents}
        assert len(scores) == len(documents), "nobody comes twice"
        return scores

    def passages(self, retriever: Any, question: str) -> list[Sent]:
        documents = retriever.invoke(question)
        kept = [
            (d.metadata["title"], d.id, *map(d.metadata.get, ("node_id", "start_index"))) for d in documents
        ]
        return [Sent(d.page_content, *rest) for d, rest in zip(documents, kept, strict=True)]

    def exact(self, question: str) -> dict[str, float | None]:
        """What a search of the framework's own for all passages gives."""
        return self.found(CandidateSearch(vectorstore=self.store, k=1000, words="off"), question)

    def scored(self, question: str, n: int) -> list[tuple[str, Any]]:
        """What the framework's own search gives, with the store's scores."""
        found = self.store.similarity_search_with_score(question, k=n)
        return [(document.page_content, score) for document, score in found]


def chroma(model: Any, space: str = "cosine") -> VectorStore:
    """A collection of Chroma with one of its distances."""
    module = pytest.importorskip("langchain_chroma")
    return module.Chroma(
        collection_name=f"t{uuid.uuid4().hex}",
        embedding_function=model,
        collection_configuration={"hnsw": {"space": space}},
    )
