"""`SageRetriever`: candidates of vector and keyword search, ranked in context, cut where scores fall."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.tools import FunctionTool
from llama_index.core.utils import print_text
from llama_index.core.vector_stores.types import MetadataFilters
from typing_extensions import Self

from sage_core._checks import check_int
from sage_core.errors import InputError
from sage_core.feedback.drivers import Call, Compute, Steps, adrive, as_many, drive
from sage_core.llm.prompting import SEARCH_TOOL, search_result
from sage_core.ranking import names_in
from sage_core.ranking.candidates import CANDIDATES, RUNNERS_UP, Hit, join_named, merge, words_of
from sage_core.selection import SelectionConfig
from sage_core.selection.config import limited
from sage_core.selection.cut import fitting
from sage_core.word_index.search import WordSearch
from sage_llamaindex._component import text_counter
from sage_llamaindex._neighbors import neighbors_of, show_places, titled
from sage_llamaindex._private import (
    embedding_model_of,
    follow_new_nodes,
    index_of,
    limits_of,
    searching_words,
    shows_progress,
    undiversified,
)
from sage_llamaindex._words import GivenNodes, entry, in_pages, nearness, similarities, source_of, sparse_mode
from sage_llamaindex.postprocessor import SageNodePostprocessor, postprocessed

logger = logging.getLogger(__name__)


class SageRetriever(BaseRetriever):
    """Retrieves as `Sage` does, from the index that is there.

    Candidates come from the vector store and from a keyword search; chunks beside good ones come in for
    their sake. `SageNodePostprocessor` cuts what is long into passages, ranks them and keeps as many as the
    question needs. `words_from` says what is searched by keyword: the nodes of the docstore, or of a Chroma
    collection, in a keyword index that follows their changes; the vector store's own sparse search, if it
    was made with one; or nothing.
    Metadata filters of the retriever hold for both searches. Holds no state of a question: safe to share.

    Examples:
        >>> from llama_index.core import MockEmbedding, VectorStoreIndex
        >>> from llama_index.core.schema import TextNode
        >>> nodes = [TextNode(text="The ferry leaves at seven."), TextNode(text="Bees fly.")]
        >>> retriever = SageRetriever.from_index(VectorStoreIndex(nodes, embed_model=MockEmbedding(8)))
        >>> retriever.words_from
        'docstore'
        >>> retriever.retrieve("When does the ferry leave?")[0].text
        'The ferry leaves at seven.'

    Args:
        retriever: Any retriever. One of a vector index is made to return enough candidates; another must
            return plenty by itself, some 60.
        candidates: Chunks of the vector search that are ranked (paper: N). The keyword search gives up to
            half as many more.
        passages: ``"auto"``: nodes of more than 300 tokens are cut into passages, and those are ranked and
            sent. ``"off"``: whole nodes.
        reranker: See `SageNodePostprocessor`.
        selection: How many nodes to keep.
        max_context_tokens: Most tokens to keep, in whole nodes and at least one.
        words: ``"auto"``: keyword search if there is a way. ``"off"``: vector search alone. Or the nodes to
            search by keyword, for an index that cannot be read back, such as a pgvector table without sparse
            search.
        words_path: A file that keeps the keyword index, beside the persisted index, say; None for memory.
        select: False returns the candidates as they were found, for a postprocessor after this.
        callback_manager: As for every retriever.
        object_map: As for every retriever.
        verbose: Print how many nodes each search found, and how many are sent.

    Raises:
        InputError: For what is no retriever, or a number out of range.
    """

    def __init__(
        self,
        retriever: BaseRetriever,
        *,
        candidates: int = CANDIDATES,
        passages: Literal["auto", "off"] = "auto",
        reranker: Any = "hybrid",
        selection: SelectionConfig | None = None,
        max_context_tokens: int | None = None,
        words: Literal["auto", "off"] | Sequence[BaseNode] = "auto",
        words_path: Path | str | None = None,
        select: bool = True,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        verbose: bool = False,
    ) -> None:
        if isinstance(retriever, BaseIndex):
            raise InputError("that is an index: SageRetriever.from_index(index) takes one")
        if not isinstance(retriever, BaseRetriever) or isinstance(retriever, SageRetriever):
            raise InputError(f"retriever is a LlamaIndex retriever, not {type(retriever).__name__}")
        if isinstance(words, str) and words not in ("auto", "off"):
            raise InputError(f"words is 'auto', 'off' or the nodes to search, not {words!r}")
        check_int("candidates", candidates, minimum=1)
        super().__init__(callback_manager, object_map, verbose=verbose)
        self._candidates = candidates
        self._select = select
        self._postprocessor = SageNodePostprocessor(
            passages=passages,
            reranker=reranker,
            selection=limited(selection, max_context_tokens),
        )
        self._retriever = retriever
        self._index: Any = None
        self._sparse: VectorIndexRetriever | None = None
        self._words: WordSearch[BaseNode] | None = None
        if isinstance(retriever, VectorIndexRetriever):
            self._index = index_of(retriever)
            # The caller's retriever keeps its own top k.
            self._retriever = copy.copy(retriever)
            self._retriever.similarity_top_k = max(retriever.similarity_top_k, candidates + RUNNERS_UP)
            self._postprocessor._searched = True
        if words == "off":
            return
        if words != "auto":
            self._words = WordSearch(GivenNodes(words), entry, words_path)
        elif (source := source_of(self._index)) is not None:
            self._words = WordSearch(
                source, entry, words_path, partial(in_pages, shows_progress(self._index))
            )
        elif isinstance(retriever, VectorIndexRetriever):
            # Only where the nodes cannot be read: an index of our own can be filtered and named.
            mode = sparse_mode(self._index.vector_store)
            self._sparse = None if mode is None else searching_words(retriever, mode, words_of(candidates))
        logger.info("words are searched in: %s", self.words_from)

    @classmethod
    def from_index(
        cls,
        index: BaseIndex[Any],
        *,
        candidates: int = CANDIDATES,
        passages: Literal["auto", "off"] = "auto",
        reranker: Any = "hybrid",
        selection: SelectionConfig | None = None,
        max_context_tokens: int | None = None,
        words: Literal["auto", "off"] | Sequence[BaseNode] = "auto",
        words_path: Path | str | None = None,
        select: bool = True,
        filters: MetadataFilters | None = None,
    ) -> Self:
        """A retriever over an index.

        Args:
            index: Any index. Nothing in it is changed, and no vector is made again.
            candidates: As for the class, and so the next seven.
            passages: Whether nodes are cut.
            reranker: See `SageNodePostprocessor`.
            selection: How many nodes to keep.
            max_context_tokens: Most tokens to keep.
            words: What is searched by keyword.
            words_path: A file that keeps the keyword index.
            select: Whether to rank and select.
            filters: Which nodes may be returned, by their metadata. For other arguments of
                ``index.as_retriever`` there is ``SageRetriever(index.as_retriever(...))``.

        Raises:
            InputError: For what is no index.
        """
        if not isinstance(index, BaseIndex):
            raise InputError(
                f"from_index takes an index, as VectorStoreIndex.from_documents(...) gives, not {index!r:.80}"
                "; for a retriever there is SageRetriever(retriever)"
            )
        limits = {} if filters is None else {"filters": filters}
        retriever = index.as_retriever(similarity_top_k=candidates, **limits)
        follow_new_nodes(retriever)
        return cls(
            retriever,
            candidates=candidates,
            passages=passages,
            reranker=reranker,
            selection=selection,
            max_context_tokens=max_context_tokens,
            words=words,
            words_path=words_path,
            select=select,
            callback_manager=retriever.callback_manager,
        )

    @property
    def words_from(self) -> str:
        """What is searched by keyword: ``"none"`` where nothing can be."""
        if self._words is not None:
            return self._words.source.name
        return "none" if self._sparse is None else "the vector store's own sparse search"

    @property
    def postprocessor(self) -> SageNodePostprocessor:
        """What ranks and selects."""
        return self._postprocessor

    @property
    def selects(self) -> bool:
        """Whether nodes are ranked and selected here."""
        return self._select

    def unselected(self) -> SageRetriever:
        """The same search without ranking and selection, which another part then does."""
        made = copy.copy(self)
        made._select = False
        return made

    def as_tool(
        self, name: str = "search", description: str = SEARCH_TOOL, *, max_tokens: int | None = None
    ) -> FunctionTool:
        """The retriever as a tool of an agent.

        Unlike LlamaIndex's `RetrieverTool`, it says which other documents a passage names, so that the agent
        need not search for them first.

        Args:
            name: What the model calls it.
            description: Tells the model when to call it.
            max_tokens: Most tokens of the result, best passages first, in whole ones and at least one: no
                agent cuts what a tool says.
        """

        def search(query: str) -> str:
            return self._result(self.retrieve(query), max_tokens)

        async def asearch(query: str) -> str:
            nodes = await self.aretrieve(query)
            return await asyncio.to_thread(self._result, nodes, max_tokens)

        # FunctionTool compares annotations with the class itself, not with its name.
        search.__annotations__ = asearch.__annotations__ = {"query": str, "return": str}
        return FunctionTool.from_defaults(search, name, description, async_fn=asearch)

    def _result(self, nodes: Sequence[NodeWithScore], max_tokens: int | None) -> str:
        texts = [n.node.get_content(metadata_mode=MetadataMode.LLM) for n in show_places(nodes)]
        if max_tokens is not None and nodes:
            nodes = nodes[: fitting(text_counter().count_many(texts), max_tokens)]
        names: list[dict[str, str]] = [{} for _ in nodes]
        if self._words is not None:
            about = [titled(n.node) for n in nodes]
            names = names_in(about, self._words, titled, limits_of(self._retriever))
        return search_result(texts[: len(nodes)], names)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self._retriever).__name__}, words_from={self.words_from!r})"

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return drive(self._retrieving(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await adrive(self._retrieving(query_bundle))

    def _retrieving(self, query_bundle: QueryBundle) -> Steps[list[NodeWithScore]]:
        checked_question(query_bundle)
        bundle = query_bundle
        model = embedding_model_of(self._retriever)
        if model is not None and bundle.embedding is None and bundle.embedding_strs:
            # Into the caller's bundle on purpose: it is needed twice, and the inner retriever would embed it.
            embed, aembed = model.get_agg_embedding_from_queries, model.aget_agg_embedding_from_queries
            bundle.embedding = yield from Call(embed, aembed, bundle.embedding_strs)

        def both() -> tuple[list[NodeWithScore], list[BaseNode]]:
            return drive(self._asking(bundle)), self._by_words(bundle)

        async def aboth() -> tuple[list[NodeWithScore], list[BaseNode]]:
            # The vector search waits for a network, the keyword search computes: side by side.
            by_words = asyncio.to_thread(self._by_words, bundle)
            return await asyncio.gather(adrive(self._asking(bundle)), by_words)

        near, by_words = yield from Call(both, aboth)
        nodes = yield from Compute(self._merged, bundle, near, by_words)
        if not self._select:
            return nodes
        sent = yield from postprocessed(self._postprocessor, nodes, query_bundle)
        if self._verbose:
            print_text(f"{len(near)} nodes near, {len(by_words)} by words, {len(sent)} sent\n", color="blue")
        return sent

    def _asking(self, bundle: QueryBundle) -> Steps[list[NodeWithScore]]:
        """What the search gives."""
        retriever = self._retriever
        if not isinstance(retriever, VectorIndexRetriever):
            return (yield from Call(retriever.retrieve, retriever.aretrieve, bundle))

        def found(searching: VectorIndexRetriever) -> Steps[list[NodeWithScore]]:
            def ask(k: int) -> Steps[list[NodeWithScore]]:
                asked = copy.copy(searching)
                asked.similarity_top_k = k
                return (yield from Call(asked.retrieve, asked.aretrieve, bundle))

            return as_many(ask, searching.similarity_top_k)

        near = yield from found(retriever)
        if (plain := undiversified(retriever)) is not None:
            # Scores of a search for different nodes say what is new in each as well.
            by_id = {n.node.node_id: n for n in near}
            listed = [n for n in (yield from found(plain)) if by_id.pop(n.node.node_id, None)]
            near = [*listed, *(NodeWithScore(node=n.node, score=None) for n in by_id.values())]
        return near

    def _by_words(self, bundle: QueryBundle) -> list[BaseNode]:
        """Nodes found by keyword, best first."""
        n = words_of(self._candidates)
        if self._sparse is not None:
            return [hit.node for hit in self._sparse.retrieve(QueryBundle(bundle.query_str))][:n]
        if self._words is None:
            return []
        return self._words.search(bundle.query_str, n, limits_of(self._retriever))

    def _merged(
        self, bundle: QueryBundle, near: Sequence[NodeWithScore], by_words: Sequence[BaseNode]
    ) -> list[NodeWithScore]:
        """The candidates: no node and no text twice, each with its similarity where the store knows it."""
        own = isinstance(self._retriever, VectorIndexRetriever)
        near_of = nearness(self._index.vector_store if own else None, [n.score for n in near])

        def scores(nodes: Sequence[BaseNode]) -> list[float | None]:
            known = similarities(self._index, bundle, [node.node_id for node in nodes])
            return [near_of(known.get(node.node_id)) for node in nodes]

        # A retriever that is not ours to ask for more has said how many there are to be.
        whole = not own and not by_words
        hits = merge(
            [_hit(found.node, near_of(found.score)) for found in near],
            [_hit(node) for node in by_words],
            len(near) if whole else self._candidates,
            links=neighbors_of,
            scores=scores,
        )
        if (words := self._words) is not None:
            hits = join_named(
                bundle.query_str,
                hits,
                words.index,
                titled=titled,
                links=neighbors_of,
                fetch=lambda ids: [_hit(node) for node in words.passing(ids, limits_of(self._retriever))],
                scores=scores,
            )
        return [NodeWithScore(node=hit.item, score=hit.score) for hit in hits]


def checked_question(question: QueryBundle) -> None:
    """Refuse a blank question.

    Raises:
        InputError: If it is blank, and no picture or embedding stands for it.
    """
    if not (question.query_str.strip() or question.embedding or question.image_path):
        raise InputError("the question is blank")


def _hit(node: BaseNode, score: float | None = None) -> Hit[BaseNode]:
    return Hit(node, node.get_content(metadata_mode=MetadataMode.NONE), node.node_id, score)
