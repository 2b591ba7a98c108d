"""Where an index keeps its nodes, and how to search them by words."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from llama_index.core.indices import VectorStoreIndex
from llama_index.core.schema import BaseNode, MetadataMode, QueryBundle
from llama_index.core.utils import get_tqdm_iterable
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from sage_core.selection.scales import rises
from sage_core.text.header import with_header
from sage_core.text.outline import header_of
from sage_core.word_index.search import ChromaCollection, Limits, WordSource, cosines
from sage_core.word_index.words import Entry
from sage_llamaindex._neighbors import titled

_EXPONENTIAL = ("ChromaVectorStore", "LanceDBVectorStore")  # Their scores are exp(-distance).


def entry(node: BaseNode) -> Entry:
    """What the keyword index holds of a node."""
    about, text = titled(node), node.get_content(metadata_mode=MetadataMode.NONE)
    header = header_of(text, node.metadata)
    return Entry(node.node_id, with_header(header, text), about.document, about.names)


def in_pages(shown: bool, pages: range) -> Iterable[int]:
    """The pages behind LlamaIndex's progress bar, if it is shown and there are some 20,000 nodes."""
    return get_tqdm_iterable(pages, shown and len(pages) >= 4, "Indexing words")


class _Nodes(WordSource[BaseNode]):
    """Nodes that can be read one by one."""

    def passing(self, ids: Sequence[str], limits: Limits) -> Collection[str]:
        """Which of these nodes pass `limits_of` a retriever."""
        nodes, documents, filters = (limits.get(name) for name in ("node_ids", "doc_ids", "filters"))
        # The cheapest test first: the others read the nodes from their store.
        some = [i for i in ids if not nodes or i in nodes]
        if documents is not None:
            some = [node.node_id for node in self.chunks(some) if node.ref_doc_id in documents]
        return set(self._filtered(some, filters) if filters and filters.filters else some)

    def _filtered(self, ids: Sequence[str], filters: MetadataFilters) -> Collection[str]:
        """Ids of the nodes that pass, as LlamaIndex's simple store decides it."""
        metadata: dict[str, Mapping[str, Any]] = {}
        for node in self.chunks(ids):
            # Stores write the document's id under one of these; filters name any of them.
            document = dict.fromkeys(("document_id", "doc_id", "ref_doc_id"), node.ref_doc_id)
            metadata[node.node_id] = {**document, **node.metadata}
        passes = _filter(metadata.__getitem__, filters)
        return {node_id for node_id in metadata if passes(node_id)}


class GivenNodes(_Nodes):
    """Nodes that the caller handed over."""

    name = "nodes given"

    def __init__(self, nodes: Sequence[BaseNode]) -> None:
        self._nodes = {node.node_id: node for node in nodes}
        self._versions = {node.node_id: node.hash for node in nodes}

    def state(self) -> object:
        return len(self._nodes)

    def versions(self) -> Mapping[str, str]:
        return self._versions

    def chunks(self, ids: Sequence[str]) -> list[BaseNode]:
        return [self._nodes[i] for i in ids if i in self._nodes]


class DocstoreNodes(_Nodes):
    """The nodes of an index that are in its docstore."""

    name = "docstore"

    def __init__(self, index: VectorStoreIndex) -> None:
        self._index = index

    def state(self) -> object:
        return [(len(ids), next(reversed(ids), None)) for ids in self._ids()]

    def versions(self) -> Mapping[str, str]:
        hashes = {node_id: own for own, node_id in self._index.docstore.get_all_document_hashes().items()}
        first, *others = self._ids()
        return {i: hashes.get(i, "") for i in first if all(i in ids for ids in others)}

    def _ids(self) -> list[Any]:
        """Lists of the index's nodes; a node counts that is in each."""
        # A node deleted from the index may stay in its docstore.
        nodes, store = self._index.index_struct.nodes_dict.values(), self._index.vector_store
        return [nodes, store.data.embedding_dict] if isinstance(store, SimpleVectorStore) else [nodes]

    def chunks(self, ids: Sequence[str]) -> list[BaseNode]:
        nodes = self._index.docstore.get_nodes(list(ids), raise_error=False)
        # Docstores return what they have, in any order, and None for what is gone.
        by_id = {node.node_id: node for node in nodes if node is not None}
        return [by_id[i] for i in ids if i in by_id]


class ChromaNodes(ChromaCollection, _Nodes):
    """The nodes of a Chroma collection."""

    def __init__(self, vector_store: Any) -> None:
        self._store, self.collection = vector_store, vector_store.client

    def chunks(self, ids: Sequence[str]) -> list[BaseNode]:
        nodes = {node.node_id: node for node in self._store.get_nodes(list(ids))} if ids else {}
        return [nodes[i] for i in ids if i in nodes]

    def _filtered(self, ids: Sequence[str], filters: MetadataFilters) -> Collection[str]:
        return {node.node_id for node in self._store.get_nodes(list(ids), filters)} if ids else set()


def is_a(store: Any, *names: str) -> bool:
    """Whether a vector store is of a class of one of these names, whose package need not be installed."""
    return any(base.__name__ in names for base in type(store).__mro__)


def nearness(store: Any, raw: Sequence[float | None]) -> Callable[[float | None], float | None]:
    """From a store's scores to numbers that fall as cosines do; ``raw`` are those of a search, in order.

    None for the store leaves them: a list from elsewhere need not be in the order of a search.
    """
    known = [score for score in raw if score is not None]
    if is_a(store, *_EXPONENTIAL) and min(known, default=0.0) > 0:  # 0 is in a hybrid search's places
        return lambda score: None if score is None else 1 + math.log(score or math.ulp(0.0)) / 2
    # Divided, so that none is below -1, which looks like a logit.
    sign = -1.0 / max(1.0, *known) if store is not None and rises(raw) else 1.0
    return lambda score: None if score is None else sign * score


def source_of(index: Any) -> WordSource[BaseNode] | None:
    """Where the nodes of an index can be read; None if nowhere."""
    if not isinstance(index, VectorStoreIndex):
        return None
    # Filled only where the vector store keeps no text: then the docstore has the nodes.
    if index.index_struct.nodes_dict:
        return DocstoreNodes(index)
    store = index.vector_store
    if is_a(store, "ChromaVectorStore") and store.client is not None:
        return ChromaNodes(store)
    # Filled later: nodes go where those of a store that keeps no text go.
    return DocstoreNodes(index) if not store.stores_text else None


def sparse_mode(vector_store: Any) -> VectorStoreQueryMode | None:
    """The mode in which the vector store keyword searches alone; None if it does not."""
    # Qdrant's and Milvus' name; Postgres'.
    settings = ("enable_hybrid", "enable_sparse", "hybrid_search")
    on = any(getattr(vector_store, setting, False) is True for setting in settings)
    return VectorStoreQueryMode.SPARSE if on else None


def similarities(index: Any, bundle: QueryBundle, ids: Sequence[str]) -> dict[str, float]:
    """Similarity of an embedded question and each of these nodes, as the vector store's own search gives it.

    Those that it cannot tell of are missing.
    """
    if not ids or bundle.embedding is None or not isinstance(index, VectorStoreIndex):
        return {}
    store: Any = index.vector_store
    if is_a(store, "ChromaVectorStore"):
        return {i: math.exp(-d) for i, d in ChromaNodes(store).distances(bundle.embedding, ids).items()}
    if isinstance(store, SimpleVectorStore):  # its own search walks all nodes for each filter
        vectors = store.data.embedding_dict
        return cosines({i: vectors[i] for i in ids if i in vectors}, bundle.embedding)
    if not is_a(store, "QdrantVectorStore"):
        return {}
    # It takes ids as a filter, so that the store's own similarity comes back for exactly these.
    query = VectorStoreQuery(query_embedding=bundle.embedding, similarity_top_k=len(ids), node_ids=[*ids])
    result = store.query(query)
    # Some stores fill one of the two.
    known = result.ids or [node.node_id for node in result.nodes or []]
    return dict(zip(known, result.similarities or [], strict=False))


def _filter(lookup: Callable[[str], Mapping[str, Any]], filters: MetadataFilters) -> Callable[[str], bool]:
    """As LlamaIndex's own for its simple store, which refuses filters within filters."""
    parts = [
        _filter(lookup, part)
        if isinstance(part, MetadataFilters)
        else build_metadata_filter_fn(lookup, MetadataFilters(filters=[part]))
        for part in filters.filters
    ]
    some, none = filters.condition == FilterCondition.OR, filters.condition == FilterCondition.NOT
    decide = any if some or none else all
    return lambda node_id: decide(part(node_id) for part in parts) is not none
