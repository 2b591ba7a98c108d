"""`SageRetriever`: any retriever, its results reranked and cut where the scores fall."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    BaseCallbackManager,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams, RetrieverLike
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda, ensure_config, patch_config
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
from sage_core.selection.config import limited
from sage_core.selection.cut import fitting
from sage_core.text.header import with_header
from sage_core.text.outline import header_of, passage_header
from sage_core.text.tokens import get_counter
from sage_langchain._passages import titled
from sage_langchain._private import tracing_params
from sage_langchain._runnables import CheckedModel, as_runnable, checked, inner_input, query_of
from sage_langchain.compressor import Ranked, SageCompressor
from sage_langchain.scored_search import CandidateSearch

ALL_CANDIDATES = "__sage_all_candidates"
"""In ``configurable`` of a call: all candidates are to be returned, reranked. It goes through any wrapper."""


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
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    base_retriever: RetrieverLike | Callable[[str], list[Document]] = Field(
        repr=False,
        description="Any retriever or Runnable that gives documents; a plain function of the question will"
        " do. As in LangChain's `create_retrieval_chain`, a Runnable that is no retriever "
        "(such as `create_history_aware_retriever` makes) is given the whole mapping where "
        "there is one, the others the question. Documents are always ranked for the question.",
    )
    base_compressor: SageCompressor = Field(
        default_factory=SageCompressor,
        description="What reranks and selects. A LangChain compressor that writes scores is put into one.",
    )
    search_kwargs: dict[str, Any] = Field(
        default_factory=dict,
        repr=False,
        description="Passed to every search of the base retriever, such as {'filter': ...}; 'k' in it is "
        "`k`.",
    )
    k: int | None = Field(
        default=None,
        ge=1,
        strict=True,
        description="Return exactly so many documents (or all there are) instead of selecting. A call can "
        "say so too: retriever.invoke(question, k=3).",
    )

    # Read by a retriever around this one.
    takes_whole_input: ClassVar[bool] = True

    @classmethod
    def from_vectorstore(
        cls,
        vectorstore: VectorStore,
        *,
        search_kwargs: dict[str, Any] | None = None,
        k: int | None = None,
        candidates: int = CANDIDATES,
        passages: Literal["auto", "off"] = "auto",
        reranker: Any = "hybrid",
        selection: SelectionConfig | None = None,
        max_context_tokens: int | None = None,
        words: Literal["auto", "off"] | Sequence[Document] = "auto",
        words_path: Path | str | None = None,
    ) -> Self:
        """A retriever over a vector store: candidates from vector and keyword search, as `Sage` finds them.

        Words are searched in the documents of the store where it gives them back: `InMemoryVectorStore`,
        Chroma, FAISS; their index follows the store. `words_from` says what is searched. The similarity of
        each is what the reranker goes by; with ``reranker=None`` it is what documents are selected on.

        Args:
            vectorstore: The store. Nothing in it is changed, and no vector is made again.
            search_kwargs: As of the store's ``as_retriever``; a ``filter`` holds for both searches. Only some
                stores heed a ``score_threshold`` here; most do by ``as_retriever(search_type=
                "similarity_score_threshold", ...)``, as the ``base_retriever`` of the class.
            k: Return exactly so many.
            candidates: Documents of the vector search that are reranked (paper: N). The keyword search gives
                up to half as many more.
            passages: See `SageCompressor`, and so the next three.
            reranker: What ranks.
            selection: How many to keep.
            max_context_tokens: Most tokens to keep, in whole documents and at least one.
            words: ``"auto"``: keyword search if there is a way. ``"off"``: vector search alone. Or the
                documents to search by keyword, for a store that does not give them back.
            words_path: A file that keeps the keyword index; None for memory.
        """
        if not isinstance(vectorstore, VectorStore):
            raise InputError("no vector store: a retriever goes into SageRetriever(base_retriever=...)")
        return cls(
            base_retriever=CandidateSearch(
                vectorstore=vectorstore,
                k=candidates,
                words=words if isinstance(words, str) else list(words),
                words_path=words_path,
            ),
            base_compressor=SageCompressor(
                passages=passages,
                reranker=reranker,
                selection=limited(selection, max_context_tokens),
            ),
            search_kwargs=search_kwargs or {},
            k=k,
        )

    @field_validator("base_retriever", mode="before")
    @classmethod
    def _coerce(cls, value: Any) -> Any:
        if isinstance(value, VectorStore):
            raise InputError("for a vector store use SageRetriever.from_vectorstore(store)")
        return as_runnable(value)

    @field_validator("base_compressor", mode="before")
    @classmethod
    def _adopt(cls, value: Any) -> Any:
        theirs = isinstance(value, BaseDocumentCompressor) and not isinstance(value, SageCompressor)
        return SageCompressor(reranker=value) if theirs else value

    @property
    def _search(self) -> RetrieverLike:
        return cast(RetrieverLike, self.base_retriever)  # a function has been put into a Runnable

    @property
    def words_from(self) -> str:
        """What is searched by keyword besides: ``"none"`` where nothing is."""
        inner = self._search
        return inner.words_from if isinstance(inner, CandidateSearch) else "none"

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """What can be configured at run time: what the inner retriever offers."""
        return get_unique_config_specs(self._search.config_specs)

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
        max_tokens: int | None = None,
    ) -> BaseTool:
        """The retriever as a tool of an agent; the documents are the message's artifact.

        Unlike a tool of `create_retriever_tool`, it shows title, headings and source, and says which other
        sources a passage names, so that the agent need not search for them first.

        Args:
            args_schema: With one field ``query``, or None.
            name: What the model calls it; ``"search"`` where None.
            description: Tells the model when to call it.
            arg_types: Not needed: the question is a text.
            max_tokens: Most tokens of the result, best passages first, in whole ones and at least one: no
                agent cuts what a tool says.
        """

        def search(query: str) -> tuple[str, list[Document]]:
            return self._result(self.invoke(query), max_tokens)

        async def asearch(query: str) -> tuple[str, list[Document]]:
            return await asyncio.to_thread(self._result, await self.ainvoke(query), max_tokens)

        return StructuredTool.from_function(
            search,
            asearch,
            name or "search",
            description or SEARCH_TOOL,
            args_schema=args_schema,
            response_format="content_and_artifact",
        )

    def _result(self, documents: list[Document], max_tokens: int | None) -> tuple[str, list[Document]]:
        """What the tool says, and the documents that it says."""
        texts = []
        for document in documents:
            header = header_of(document.page_content, document.metadata)
            line = passage_header(header, titled(document).source or None)
            texts.append(with_header(line, document.page_content))
        if max_tokens is not None and documents:
            fit = fitting(get_counter("bert").count_many(texts), max_tokens)
            texts, documents = texts[:fit], documents[:fit]
        inner, names = self._search, [dict[str, str]() for _ in documents]
        if isinstance(inner, CandidateSearch):
            limits = {name: value for name, value in self.search_kwargs.items() if name != "k"}
            names = inner.names_in(documents, limits)
        return search_result(texts, names), documents

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
        config, search = patch_config(ensure_config(), callbacks=callbacks), self._search
        all_asked = not select or bool(config.get("configurable", {}).get(ALL_CANDIDATES))
        # Those inside are asked for what they send.
        config = patch_config(config, configurable={ALL_CANDIDATES: False})
        inner = inner_input(search, query, whole_input, config)
        exact, limits = self._limits(k, kwargs)
        try:
            found = yield from Call(search.invoke, search.ainvoke, inner, config, **limits)
        except AttributeError as error:
            if error.obj is not inner:
                raise
            raise InputError(
                f"base_retriever {search.get_name()} reads more of the input than the question, which is all "
                "that it is called with: invoke with the whole mapping, as create_sage_chain does; in "
                "create_retrieval_chain put what rewrites the question around this retriever"
            ) from error
        documents = checked(found, search)
        if not documents:
            return []
        compressor = self.base_compressor
        about: dict[str, Any] = {"query": query, "searched": isinstance(search, CandidateSearch)}
        rank, arank = partial(compressor.rank, **about), partial(compressor.arank, **about)
        ranked: Ranked = yield from _run(RunnableLambda(rank, arank, name="sage_rerank"), documents, config)
        if isinstance(inner, Mapping):
            # Searched with a question rewritten from the history, they may share nothing with this one.
            ranked.selection = replace(ranked.selection, empty_below=None)
        if all_asked:
            if exact is not None:
                ranked.selection = replace(ranked.selection, min_k=exact, max_k=exact)
            return ranked

        def keep(documents: Ranked, config: RunnableConfig) -> list[Document]:
            return compressor.keep(documents, k=exact, callbacks=config.get("callbacks"))

        return list((yield from _run(RunnableLambda(keep, name="sage_select"), ranked, config)))

    def _limits(self, k: int | None, kwargs: dict[str, Any]) -> tuple[int | None, dict[str, Any]]:
        """How many exactly, if anybody says so, and what the inner search is called with."""
        limits = {**self.search_kwargs, **kwargs}
        said = limits.pop("k", None)
        exact = k if k is not None else self.k if said is None else said
        if exact is not None and (isinstance(exact, bool) or not isinstance(exact, int) or exact < 1):
            raise InputError(f"k must be a whole number of at least 1, not {exact!r}")
        inner, fetched = self._search, math.inf
        if isinstance(inner, CandidateSearch):
            fetched = inner.k
        elif isinstance(inner, VectorStoreRetriever):
            fetched = inner.search_kwargs.get("k", 4)
        # More candidates where more are asked for than the inner search would fetch.
        return exact, {"k": exact, **limits} if exact is not None and exact > fetched else limits

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        if isinstance(self._search, BaseRetriever):
            inner = tracing_params(self._search)
            inner.pop("ls_retriever_name", None)
            params.update(inner)
        return params


def _run(step: Runnable[Any, Any], given: Any, config: RunnableConfig) -> Call[Any]:
    return Call(step.invoke, step.ainvoke, given, config)


def _with_whole(kwargs: dict[str, Any], whole: object) -> dict[str, Any]:
    return {**kwargs, "whole_input": whole} if isinstance(whole, Mapping) else kwargs


def _for_children(config: RunnableConfig | None) -> RunnableConfig:
    """``config`` for the context of a call, without what names this one run."""
    shared = ensure_config(config)
    shared.pop("run_name", None)
    shared.pop("run_id", None)
    return shared
