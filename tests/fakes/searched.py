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
from sage_langchain import ScoredVectorStoreRetriever
from sage_llamaindex import SageRetriever
from tests.fakes.langchain import WordEmbeddings
from tests.fakes.llamaindex import HashEmbedding


class Passage(NamedTuple):
    """A passage, which is a document of its own: ``0.md``, ``1.md`` and so on."""

    text: str
    title: str


class Nodes:
    """An index of LlamaIndex."""

    def __init__(self, passages: Sequence[Passage], *, chroma: bool = False) -> None:
        self.in_docstore, self.model = not chroma, HashEmbedding()
        self.index = VectorStoreIndex(
            [], storage_context=_chroma() if chroma else None, embed_model=self.model
        )
        for i, passage in enumerate(passages):
            self.add(passage, f"{i}.md")

    def add(self, passage: Passage, key: str) -> None:
        node = TextNode(text=passage.text, id_=key, metadata={"title": passage.title})
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=key)
        self.index.insert_nodes([node])

    def remove(self, key: str) -> None:
        self.index.delete_nodes([key], delete_from_docstore=self.in_docstore)

    def replace(self, passage: Passage, key: str) -> None:
        if self.in_docstore:
            self.remove(key)
        else:  # as whoever else has the collection
            self.index.vector_store.client.delete([key])
        self.add(passage, key)

    def retriever(self, title: str = "", **settings: Any) -> SageRetriever:
        """Over all passages, or those of one title."""
        filters = MetadataFilters(filters=[MetadataFilter(key="title", value=title)])
        args = {"filters": filters} if title else {}
        return SageRetriever.from_index(self.index, retriever_args=args, **settings)

    def found(self, retriever: Any, question: str, awaited: bool = False) -> dict[str, float | None]:
        nodes = asyncio.run(retriever.aretrieve(question)) if awaited else retriever.retrieve(question)
        scores = {n.text: n.score for n in nodes}
        assert len(scores) == len(nodes), "nobody comes twice"
        return scores

    def exact(self, question: str) -> dict[str, float | None]:
        """What a search of the framework's own for all passages gives."""
        return self.found(self.index.as_retriever(similarity_top_k=1000), question)


def _chroma() -> StorageContext:
    chromadb = pytest.importorskip("chromadb")
    stores = pytest.importorskip("llama_index.vector_stores.chroma")
    collection = chromadb.EphemeralClient().create_collection(f"t{uuid.uuid4().hex}")
    return StorageContext.from_defaults(vector_store=stores.ChromaVectorStore(chroma_collection=collection))


class Documents:
    """A store of LangChain."""

    def __init__(
        self, passages: Sequence[Passage], make: Callable[[WordEmbeddings], VectorStore] = InMemoryVectorStore
    ) -> None:
        self.model = WordEmbeddings()
        self.store = make(self.model)
        for i, passage in enumerate(passages):
            self.add(passage, f"{i}.md")

    def add(self, passage: Passage, key: str) -> None:
        self.store.add_texts([passage.text], [{"title": passage.title, "source": key}], ids=[key])

    def remove(self, key: str) -> None:
        self.store.delete([key])

    def replace(self, passage: Passage, key: str) -> None:
        self.add(passage, key)

    def retriever(self, title: str = "", **settings: Any) -> ChainRetriever:
        """Over all passages, or those of one title."""
        only: Any = {"title": title}
        if isinstance(self.store, InMemoryVectorStore):
            only = lambda document: document.metadata["title"] == title  # noqa: E731
        args = {"filter": only} if title else {}
        return ChainRetriever.from_vectorstore(self.store, search_kwargs=args, **settings)

    def found(self, retriever: Any, question: str, awaited: bool = False) -> dict[str, float | None]:
        documents = asyncio.run(retriever.ainvoke(question)) if awaited else retriever.invoke(question)
        scores = {d.page_content: d.metadata["score"] for d in documents}
        assert len(scores) == len(documents), "nobody comes twice"
        return scores

    def exact(self, question: str) -> dict[str, float | None]:
        """What a search of the framework's own for all passages gives."""
        return self.found(ScoredVectorStoreRetriever(vectorstore=self.store, k=1000), question)


def chroma(model: WordEmbeddings, space: str = "cosine") -> VectorStore:
    """A collection of Chroma with one of its distances."""
    module = pytest.importorskip("langchain_chroma")
    return module.Chroma(
        collection_name=f"t{uuid.uuid4().hex}",
        embedding_function=model,
        collection_configuration={"hnsw": {"space": space}},
    )


class WithDocstore(VectorStore):
    """A stand-in with the attributes of LangChain's FAISS, which is in a package that is not imported here."""

    def __init__(self, model: WordEmbeddings) -> None:
        self._inner = InMemoryVectorStore(model)
        self.docstore = self
        self._dict: dict[str, Document] = {}
        self.index_to_docstore_id: dict[int, str] = {}

    @property
    def embeddings(self) -> Any:
        return self._inner.embeddings

    def add_texts(self, texts: Any, metadatas: Any = None, *, ids: Any = None, **_: Any) -> list[str]:
        self._inner.add_texts(texts, metadatas, ids=ids)
        for key, text, metadata in zip(ids, texts, metadatas, strict=True):
            self._dict[key] = Document(text, metadata=metadata)
            self.index_to_docstore_id[len(self.index_to_docstore_id)] = key
        return list(ids)

    def similarity_search_with_score_by_vector(self, vector: Any, k: int, filter: Any = None) -> Any:  # noqa: A002
        passes = None if filter is None else lambda d: all(d.metadata[x] == y for x, y in filter.items())
        found = self._inner.similarity_search_with_score_by_vector(vector, k, filter=passes)
        return [(document, 1 - score) for document, score in found]  # distances

    def delete(self, ids: Any = None, **_: Any) -> None:
        for key in ids:
            self._dict.pop(key, None)
        self.index_to_docstore_id = {i: x for i, x in self.index_to_docstore_id.items() if x in self._dict}
        self._inner.delete(ids)

    def similarity_search(self, query: str, k: int = 4, **_: Any) -> Any:
        raise NotImplementedError

    @classmethod
    def from_texts(cls, *_: Any, **__: Any) -> Any:
        raise NotImplementedError
