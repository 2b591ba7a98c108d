"""`SageRetriever`: any retriever, its results reranked and cut where the scores fall."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    BaseCallbackManager,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams, RetrieverLike
from langchain_core.runnables import RunnableConfig, RunnableLambda, ensure_config, patch_config
from langchain_core.runnables.config import set_config_context
from langchain_core.runnables.utils import ConfigurableFieldSpec, get_unique_config_specs
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from pydantic import BaseModel, ConfigDict, Field, field_validator
from typing_extensions import Self

from sage_core.errors import InputError
from sage_core.feedback.drivers import Call, Steps, adrive, drive
from sage_core.llm.prompting import SEARCH_TOOL, search_result
from sage_core.ranking.candidates import CANDIDATES
from sage_core.selection import SelectionConfig
from sage_langchain._private import tracing_params
from sage_langchain._runnables import CheckedModel, as_runnable, checked, inner_input, query_of
from sage_langchain.compressor import (
    HYBRID,
    SCALE_KEY,
    SCORE_KEY,
    SageCompressor,
    texts_of,
)
from sage_langchain.scored_search import CandidateSearch, ScoredVectorStoreRetriever


class SageRetriever(CheckedModel, BaseRetriever):
    """Fetches candidates from any retriever, reranks them, and keeps as many as the question needs.

    Takes the arguments of LangChain's `ContextualCompressionRetriever` and stands wherever a `BaseRetriever`
    does. Besides a string, `invoke` takes the whole input of a chain: a mapping with the question under
    ``input``, ``query`` or ``question``.

    Examples:
        >>> from langchain_core.embeddings import DeterministicFakeEmbedding
        >>> from langchain_core.vectorstores import InMemoryVectorStore
        >>> embedding = DeterministicFakeEmbedding(size=8)
        >>> store = InMemoryVectorStore.from_texts(["The ferry leaves at seven."], embedding)
        >>> [found] = SageRetriever.from_vectorstore(store).invoke("When does the ferry leave?")
        >>> found.page_content
        'The ferry leaves at seven.'

    Attributes:
        base_retriever: Any retriever or Runnable that gives documents; a plain function of the question will
            do. As in LangChain's `create_retrieval_chain`, a Runnable that is no retriever (such as
            `create_history_aware_retriever` makes) is given the whole mapping where there is one, the others
            the question. Documents are always ranked for the question.
        base_compressor: What reranks and selects: a `SageCompressor`, or any LangChain compressor.
        scores: Whether the documents selected have their scores in the metadata. False for what compares
            whole documents (RAG fusion, `MultiQueryRetriever`), to which a passage with another score is
            another one. Candidates (``select=False``) always have them.
        k: Return exactly so many documents (or all there are) instead of selecting. A call can say so too:
            ``retriever.invoke(question, k=3)``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    base_retriever: RetrieverLike = Field(repr=False)
    base_compressor: BaseDocumentCompressor = Field(default_factory=SageCompressor)
    scores: bool = True
    k: int | None = Field(default=None, ge=1, strict=True)

    # Read by a retriever around this one.
    takes_whole_input: ClassVar[bool] = True

    @classmethod
    def from_vectorstore(
        cls,
        vectorstore: VectorStore,
        *,
        candidates: int = CANDIDATES,
        filter: Any = None,  # noqa: A002  # LangChain's name
        search_kwargs: Mapping[str, Any] | None = None,
        k: int | None = None,
        passages: Literal["auto", "off"] = "auto",
        reranker: Any = HYBRID,
        selection: SelectionConfig | None = None,
        max_context_tokens: int | None = None,
        base_compressor: BaseDocumentCompressor | None = None,
        words: Literal["auto", "off"] | Sequence[Document] = "auto",
        words_path: Path | str | None = None,
        select: bool = True,
        scores: bool = True,
    ) -> Self:
        """A retriever over a vector store: candidates from vector and keyword search, as `Sage` finds them.

        Words are searched in the documents of the store where it gives them back: `InMemoryVectorStore`,
        Chroma, FAISS; their index follows the store. `words_from` says what is searched. A ``filter``
        holds for both searches. The similarity of each is noted under ``metadata["score"]``, for the
        reranker; with ``reranker=None`` documents are selected on it.

        Args:
            vectorstore: The store. Nothing in it is changed, and no vector is made again.
            candidates: Documents of the vector search that are reranked (paper: N). The keyword search gives
                up to half as many more.
            filter: Which documents may be returned, in the form that the store takes.
            search_kwargs: Passed to every search; ``k`` in it is that of the class.
            k: Return exactly so many.
            passages: See `SageCompressor`.
            reranker: See `SageCompressor`.
            selection: How many to keep.
            max_context_tokens: Most tokens to keep, in whole documents and at least one.
            base_compressor: In the place of these four and ``select``: a `SageCompressor`, or any other.
            words: ``"auto"``: keyword search if there is a way. ``"off"``: vector search alone. Or the
                documents to search by keyword, for a store that does not give them back.
            words_path: A file that keeps the keyword index; None for memory.
            select: False returns all candidates, reranked.
            scores: See the class.

        Raises:
            InputError: For what is no vector store, or a selection beside a compressor.
        """
        if not isinstance(vectorstore, VectorStore):
            raise InputError(
                f"from_vectorstore takes a vector store, not a {type(vectorstore).__name__}; for a retriever "
                "there is SageRetriever(base_retriever=retriever)"
            )
        if base_compressor is None:
            base_compressor = SageCompressor(
                passages=passages,
                reranker=reranker,
                selection=selection or SelectionConfig(),
                max_context_tokens=max_context_tokens,
                select=select,
            )
        elif not (passages == "auto" and reranker == HYBRID and select) or selection or max_context_tokens:
            raise InputError(
                "passages, reranker, selection, max_context_tokens, select go into the base_compressor"
            )
        # A copy: keys are taken out below, and the dict is the caller's.
        limits = dict(search_kwargs or {})
        if "score_threshold" in limits:
            raise InputError(
                "score_threshold: use SelectionConfig(rule=Threshold(...)) of sage_core.selection"
            )
        given = {"filter": filter, "k": k}
        if twice := [name for name, value in given.items() if value is not None and name in limits]:
            raise InputError(f"{', '.join(twice)}: give it directly or in search_kwargs, not both")
        if filter is not None:
            limits["filter"] = filter
        k = limits.pop("k", k)
        search = CandidateSearch(
            vectorstore=vectorstore,
            k=candidates,
            search_kwargs=limits,
            words=words if isinstance(words, str) else list(words),
            words_path=words_path,
        )
        if isinstance(base_compressor, SageCompressor) and base_compressor.search_score_key is None:
            # A copy: the caller's may serve other retrievers.
            base_compressor = base_compressor.model_copy(update={"search_score_key": search.score_key})
        return cls(
            base_retriever=search,
            base_compressor=base_compressor,
            k=k,
            scores=scores,
        )

    @field_validator("base_retriever", mode="before")
    @classmethod
    def _coerce(cls, value: Any) -> Any:
        if isinstance(value, VectorStore):
            raise InputError("for a vector store use SageRetriever.from_vectorstore(store)")
        return as_runnable(value)

    @property
    def words_from(self) -> str:
        """What is searched by keyword besides: ``"none"`` where nothing is."""
        inner = self.base_retriever
        return inner.words_from if isinstance(inner, CandidateSearch) else "none"

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """What can be configured at run time: what the inner retriever offers."""
        return get_unique_config_specs(self.base_retriever.config_specs)

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
    ) -> BaseTool:
        """The retriever as a tool of an agent; the documents are the message's artifact.

        Unlike a tool of `create_retriever_tool`, it shows title and headings, and says which other sources a
        passage names, so that the agent need not search for them first.

        Args:
            args_schema: With one field ``query``, or None.
            name: What the model calls it; ``"search"`` where None.
            description: Tells the model when to call it.
            arg_types: Not needed: the question is a text.
        """

        def search(query: str) -> tuple[str, list[Document]]:
            documents = self.invoke(query)
            return self._result(documents), documents

        async def asearch(query: str) -> tuple[str, list[Document]]:
            documents = await self.ainvoke(query)
            return await asyncio.to_thread(self._result, documents), documents

        return StructuredTool.from_function(
            search,
            asearch,
            name or "search",
            description or SEARCH_TOOL,
            args_schema=args_schema,
            response_format="content_and_artifact",
        )

    def _result(self, documents: Sequence[Document]) -> str:
        inner = self.base_retriever
        names = inner.names_in(documents) if isinstance(inner, CandidateSearch) else [{} for _ in documents]
        return search_result(texts_of(documents)[1], names)

    def invoke(
        self,
        input: str | Mapping[str, Any],  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Documents for a question, best first.

        Args:
            input: The question, or a mapping that holds it.
            config: As everywhere; ``configurable`` and ``max_concurrency`` reach the inner retriever.
            **kwargs: ``k`` (exactly so many), ``select=False`` (all candidates, reranked); others go to the
                inner retriever.
        """
        query, call = query_of(input), super().invoke
        kwargs = _with_whole(kwargs, input)
        with set_config_context(_for_children(config)) as context:
            return context.run(lambda: call(query, config, **kwargs))

    async def ainvoke(
        self,
        input: str | Mapping[str, Any],  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """`invoke`, awaited all the way down."""
        query, kwargs = query_of(input), _with_whole(kwargs, input)
        with set_config_context(_for_children(config)) as context:
            # A task made inside the context runs in a copy of it, on Python 3.10 too.
            task = context.run(asyncio.create_task, super().ainvoke(query, config, **kwargs))
            return await task

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return drive(self._finding(query, run_manager.get_child(), **kwargs))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return await adrive(self._finding(query, run_manager.get_child(), **kwargs))

    def _finding(
        self,
        query: str,
        callbacks: BaseCallbackManager,
        k: int | None = None,
        select: bool = True,
        whole_input: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Steps[list[Document]]:
        config, search = patch_config(ensure_config(), callbacks=callbacks), self.base_retriever
        exact = self._exact(k)
        inner = inner_input(search, query, whole_input, config)
        kwargs = self._inner_kwargs(exact, kwargs)
        documents = checked((yield from Call(search.invoke, search.ainvoke, inner, config, **kwargs)), search)
        compressor = self.base_compressor
        if isinstance(compressor, SageCompressor) and isinstance(inner, Mapping):
            compressor = compressor.never_empty()
        for step in self._steps(compressor, query, exact, select) if documents else ():
            documents = yield from Call(step.invoke, step.ainvoke, documents, config)
        if not select:
            return (
                compressor.ranked(documents, exact) if isinstance(compressor, SageCompressor) else documents
            )
        return self._shown(documents)

    def _shown(self, documents: Sequence[Document]) -> list[Document]:
        return [*documents] if self.scores else self._without_scores(documents)

    def _without_scores(self, documents: Sequence[Document]) -> list[Document]:
        keys, inner = {SCORE_KEY, SCALE_KEY}, self.base_retriever
        if isinstance(inner, ScoredVectorStoreRetriever):
            keys |= {inner.score_key, inner.distance_key}
        # Chroma gives the entries in another order with each question, which JSON keeps.
        plain = [{k: d.metadata[k] for k in sorted(d.metadata, key=str) if k not in keys} for d in documents]
        return [d.model_copy(update={"metadata": m}) for d, m in zip(documents, plain, strict=True)]

    def _exact(self, k: int | None) -> int | None:
        if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
            raise InputError(f"k must be a whole number of at least 1, not {k!r}")
        return self.k if k is None else k

    def _inner_kwargs(self, exact: int | None, kwargs: dict[str, Any]) -> dict[str, Any]:
        """``kwargs``, and more candidates where ``exact`` asks for more than the inner search would fetch."""
        inner = self.base_retriever
        if exact is None or not isinstance(inner, VectorStoreRetriever | ScoredVectorStoreRetriever):
            return kwargs
        default = inner.k if isinstance(inner, ScoredVectorStoreRetriever) else 4
        fetched = inner.search_kwargs.get("k", default)
        return {"k": exact, **kwargs} if exact > fetched else kwargs

    def _steps(
        self, compressor: BaseDocumentCompressor, query: str, exact: int | None, select: bool
    ) -> list[RunnableLambda[Any, list[Document]]]:
        """What follows the search, each a run of its own in traces."""
        if not isinstance(compressor, SageCompressor):
            return [_foreign(compressor, query, exact)]

        def rank(documents: list[Document]) -> list[Document]:
            return compressor.rank(documents, query)

        async def arank(documents: list[Document]) -> list[Document]:
            return await compressor.arank(documents, query)

        steps = [RunnableLambda(rank, arank, name="sage_rerank")]
        if select:

            def keep(documents: list[Document], config: RunnableConfig) -> list[Document]:
                callbacks = config.get("callbacks")
                return compressor.keep(documents, k=exact, callbacks=callbacks)

            steps.append(RunnableLambda(keep, name="sage_select"))
        return steps

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        if isinstance(self.base_retriever, BaseRetriever):
            inner = tracing_params(self.base_retriever)
            inner.pop("ls_retriever_name", None)
            params.update(inner)
        return params


def _foreign(
    compressor: BaseDocumentCompressor, query: str, exact: int | None
) -> RunnableLambda[Any, list[Document]]:
    """Somebody else's compressor as one step; its result is cut where an exact number was asked for."""

    def run(documents: list[Document], config: RunnableConfig) -> list[Document]:
        ranked = compressor.compress_documents(documents, query, config.get("callbacks"))
        return [*ranked][:exact]

    async def arun(documents: list[Document], config: RunnableConfig) -> list[Document]:
        ranked = await compressor.acompress_documents(documents, query, config.get("callbacks"))
        return [*ranked][:exact]

    return RunnableLambda(run, arun, name=type(compressor).__name__)


def _with_whole(kwargs: dict[str, Any], whole: object) -> dict[str, Any]:
    return {**kwargs, "whole_input": whole} if isinstance(whole, Mapping) else kwargs


def _for_children(config: RunnableConfig | None) -> RunnableConfig:
    """``config`` for the context of a call, without what names this one run."""
    shared = ensure_config(config)
    shared.pop("run_name", None)
    shared.pop("run_id", None)
    return shared
