"""Embeddings for LlamaIndex: all-MiniLM-L6-v2 from a package, and vectors that know their neighbors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import BaseNode, NodeRelationship, TransformComponent
from pydantic import ConfigDict, Field, PrivateAttr

from sage_core.embedding import DEFAULT_EMBEDDER, SentenceTransformerEmbedder
from sage_core.errors import InputError
from sage_core.ranking.neighbors import WEIGHT, Links, Place, link, mix_neighbors
from sage_llamaindex._component import SageComponent
from sage_llamaindex._neighbors import neighbors_of


class MiniLMEmbedding(BaseEmbedding):
    """An embedding model that works offline: all-MiniLM-L6-v2, as the extra ``local`` brings it.

        from llama_index.core import Settings
        from sage_llamaindex import MiniLMEmbedding

        Settings.embed_model = MiniLMEmbedding()

    It is the model that the default reranker is calibrated for. Any other sentence-transformers model works
    by its name or folder; LlamaIndex's own ``HuggingFaceEmbedding`` does the same with more options.

    Examples:
        >>> len(MiniLMEmbedding().get_text_embedding("The ferry leaves at seven."))
        384

    Args:
        model_name: Name or folder of a sentence-transformers model.
        device: As in torch; None chooses.

    Raises:
        MissingExtraError: When embedding, without sentence-transformers: ``pip install "sage-rag[models]"``.
        ModelError: When embedding, for a model that cannot be loaded.
    """

    _embedder: SentenceTransformerEmbedder = PrivateAttr()

    def __init__(
        self, model_name: str = DEFAULT_EMBEDDER, *, device: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(model_name=model_name, **kwargs)
        self._embedder = SentenceTransformerEmbedder(model_name, device=device)

    @classmethod
    def class_name(cls) -> str:
        """Name of the class in serialized pipelines."""
        return "MiniLMEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        vector: list[float] = self._embedder.embed_query(query).tolist()
        return vector

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        rows: list[list[float]] = self._embedder.embed_documents(texts).tolist()
        return rows

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await asyncio.to_thread(self._get_text_embedding, text)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)


class NeighborEmbedding(SageComponent, TransformComponent):
    """Mixes the vectors of a node's neighbors into its own, for an `IngestionPipeline`.

        IngestionPipeline(transformations=[SageNodeParser(), embed_model, NeighborEmbedding()])

    A short chunk is then found for the sake of those around it, by any retriever and in any vector store. The
    vector stored is ``v + weight * (previous + next)``, scaled to length 1. A cosine is linear, so this does
    what `sage_core.ranking.vouch` does with the scores of a search, and needs no neighbors among its results.

    Neighbors are found by their PREVIOUS and NEXT relationships, else by document and offsets, else by their
    order in the document; only those in the same call count, so give a document's nodes together (not with
    ``num_workers``, which divides documents, but not a document). Given nodes are not changed: copies are
    returned. Nodes that an index is updated with later take in each other, and not what is stored already.

    Examples:
        >>> from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
        >>> nodes = [TextNode(text=t, embedding=v) for t, v in [("a", [1.0, 0.0]), ("b", [0.0, 1.0])]]
        >>> for node in nodes:
        ...     node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="guide")
        >>> [[round(x, 2) for x in node.embedding] for node in NeighborEmbedding()(nodes)]
        [[0.96, 0.29], [0.29, 0.96]]

    Raises:
        InputError: When called, for nodes without an embedding or with embeddings of several lengths.
    """

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    weight: float = Field(
        default=WEIGHT,
        ge=0,
        le=1,
        description="How much a neighbor's vector counts, beside 1 for the node's own; 0 has no effect.",
    )

    @classmethod
    def class_name(cls) -> str:
        """Name in serialised form."""
        return "NeighborEmbedding"

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """Copies of the nodes with mixed embeddings, in the same order. Further arguments are ignored."""
        if not nodes:
            return []
        vectors: list[list[float]] = []
        for node in nodes:
            if node.embedding is None:
                raise InputError(
                    f"node {node.node_id} has no embedding to mix: put NeighborEmbedding after the embedding "
                    "model, transformations=[SageNodeParser(), embed_model, NeighborEmbedding()]"
                )
            vectors.append(node.embedding)
        if len({len(vector) for vector in vectors}) > 1:
            raise InputError("the nodes have embeddings of several lengths: embed all with one model")
        mixed = mix_neighbors(np.array(vectors), _beside(nodes), weight=self.weight)
        return [
            node.model_copy(update={"embedding": row.tolist()})
            for node, row in zip(nodes, mixed, strict=True)
        ]

    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """`__call__` in a thread."""
        return await asyncio.to_thread(self.__call__, nodes, **kwargs)


def _beside(nodes: Sequence[BaseNode]) -> list[Links]:
    """Each node's neighbors; of nodes that say nothing about their place, by their order in a document."""
    sides = (NodeRelationship.PREVIOUS, NodeRelationship.NEXT)
    silent = [
        node.ref_doc_id is not None
        and getattr(node, "start_char_idx", None) is None
        and not any(side in node.relationships for side in sides)
        for node in nodes
    ]
    places = [Place(n.ref_doc_id, i, i + 1) if silent[i] else None for i, n in enumerate(nodes)]
    by_order = link(places, longest_gap=len(nodes))
    return [by_order[i] if silent[i] else known for i, known in enumerate(neighbors_of(nodes))]
