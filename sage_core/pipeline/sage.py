"""Sage: documents in, answers out. Composes the parts for people without a framework, and for the CLI."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from sage_core._checks import check_part, checked_options, whole_number
from sage_core.answering import Answerer, ExtractiveAnswerer
from sage_core.documents.discovery import PathArgument
from sage_core.embedding.sentence_transformer import Embedder, SentenceTransformerEmbedder
from sage_core.errors import InputError, LLMError
from sage_core.feedback import FeedbackConfig, FeedbackLoop, FeedbackResult, Verdict, arun_loop, run_loop
from sage_core.ingest_report import IngestReport, ProgressFunction
from sage_core.llm.usage import TokenUsage
from sage_core.pipeline.context import ORDERS, Order
from sage_core.pipeline.ingest import DocumentSegmenter, ingest
from sage_core.pipeline.results import Answer, Retrieval
from sage_core.pipeline.retriever import Retriever
from sage_core.ranking import HybridReranker, Reranker, VectorReranker, named_reranker
from sage_core.segmentation import Segmenter
from sage_core.selection.cut import Selection
from sage_core.store.chroma_store import ChromaStore
from sage_core.text.tokens import TokenCounter, get_counter, without_lone_surrogates


@dataclass(frozen=True, slots=True)
class SageConfig:
    """Settings of `Sage`.

    Attributes:
        candidates: Chunks fetched from the store before reranking (paper: N).
        top_k: Size of the plain top-k retrieval that token figures are compared with; changes nothing else.
        feedback: Settings of the selection and the feedback loop.
        text_vectors: At ingest, also embed the sentences of chunks for a reranker that uses them, as the
            default one does. Ingest takes about twice as long, the store grows by some 2 KB a chunk, and no
            question waits for it.
        order: What is sent: ``"rank"``, best chunk first; ``"document"``, chunks of a document in its order,
            those with nothing but white space between them joined to one passage.
        max_context_tokens: Most tokens of the chunks sent in any round; the lowest scored are left out, the
            best one never is. None for no limit.

    Raises:
        InputError: Where a number is no whole number, or below 1.
    """

    candidates: int = 30
    top_k: int = 10
    feedback: FeedbackConfig = field(default_factory=FeedbackConfig)
    text_vectors: bool = True
    order: Order = "rank"
    max_context_tokens: int | None = None

    def __post_init__(self) -> None:
        whole_number("candidates", self.candidates, 1)
        whole_number("top_k", self.top_k, 1)
        if self.order not in ORDERS:
            raise InputError(f"unknown order {self.order!r}: {' or '.join(ORDERS)}")
        if self.max_context_tokens is not None:
            whole_number("max_context_tokens", self.max_context_tokens, 1)
        if not isinstance(self.feedback, FeedbackConfig):
            raise InputError(f"feedback is a FeedbackConfig, not {self.feedback!r}")


class Sage:
    """Retrieval and answers over one store. Models load on first use; safe across threads and tasks.

        sage = Sage("my-store")
        sage.ingest(["docs"])
        print(sage.ask("When does the ferry leave?").text)

    Args:
        store: The folder of the store, or an opened one.
        segmenter: Cuts documents; the bundled `Segmenter` where None.
        embedder: all-MiniLM-L6-v2 where None.
        reranker: A reranker, or the name of one (`sage_core.ranking.named_reranker`), over ``embedder`` where
            it embeds; ``"hybrid"`` where None.
        answerer: `ExtractiveAnswerer`, which needs no LLM, where None.
        counter: Token counter of all token figures; that of the default segmenter where None.
        config: Settings.

    Raises:
        InputError: For a part that is something else, such as the name of a model in its place.
    """

    def __init__(
        self,
        store: str | Path | ChromaStore,
        *,
        segmenter: DocumentSegmenter | None = None,
        embedder: Embedder | None = None,
        reranker: Reranker | str | None = None,
        answerer: Answerer | None = None,
        counter: TokenCounter | None = None,
        config: SageConfig | None = None,
    ) -> None:
        check_part("segmenter", segmenter, ("segment_many",), "Segmenter(...)")
        check_part(
            "embedder", embedder, ("embed_query", "embed_documents"), "SentenceTransformerEmbedder(...)"
        )
        if not isinstance(reranker, str):
            check_part("reranker", reranker, ("score",), "CrossEncoderReranker(...), or its name")
        check_part("answerer", answerer, ("generate", "judge"), "LLMAnswerer(OpenAIChat(...))")
        check_part("counter", counter, ("count_many",), "get_counter('words')")
        if config is not None and not isinstance(config, SageConfig):
            raise InputError(f"config is a SageConfig, not {config!r}")
        self.store = store if isinstance(store, ChromaStore) else ChromaStore(store)
        self.segmenter: DocumentSegmenter = segmenter if segmenter is not None else Segmenter()
        self.embedder: Embedder = embedder if embedder is not None else SentenceTransformerEmbedder()
        self.answerer: Answerer = answerer if answerer is not None else ExtractiveAnswerer(self.embedder)
        if reranker is not None:
            self.reranker = (
                named_reranker(reranker, embedder=self.embedder) if isinstance(reranker, str) else reranker
            )
        self.counter = counter if counter is not None else get_counter()
        self.config = config if config is not None else SageConfig()
        self._retriever = Retriever(self)

    @cached_property
    def reranker(self) -> Reranker:
        """Scores what the store finds. The default is made where it is first needed."""
        return HybridReranker(self.embedder)

    # -- in -------------------------------------------------------------------------------------------

    def ingest(
        self,
        paths: PathArgument | Iterable[PathArgument],
        *,
        progress: bool | ProgressFunction = False,
        encoding: str | None = None,
        rebuild: bool = False,
    ) -> IngestReport:
        """Bring the store into step with files and folders; see `sage_core.pipeline.ingest.ingest`.

        Args:
            paths: A file or folder, or any iterable of them.
            progress: True draws a bar on standard error; a function is called after every document.
            encoding: Of text files that are not UTF-8.
            rebuild: Empty the store first.
        """
        if progress is True:
            from sage_core.rendering.terminal.progress import ingest_bar

            with ingest_bar() as bar:
                return self.ingest(paths, progress=bar, encoding=encoding, rebuild=rebuild)
        report = ingest(
            self.store,
            paths,
            self.segmenter,
            self.embedder,
            encoding=encoding,
            rebuild=rebuild,
            progress=progress or None,
            reranker=self._keeps_vectors_for(),
        )
        self._retriever.store_changed()  # the store may have been emptied, or made by this very run
        return report

    def _keeps_vectors_for(self) -> VectorReranker | None:
        """The reranker whose embeddings are made at ingest."""
        reranker = self.reranker
        return reranker if self.config.text_vectors and isinstance(reranker, VectorReranker) else None

    # -- out ------------------------------------------------------------------------------------------

    def retrieve(self, question: str) -> Retrieval:
        """Find, score and select chunks.

        Raises:
            InputError: For a blank question.
            StoreError: Where there is no store, it is empty, or was made with another embedding model.
        """
        return self._retriever.retrieve(_checked_question(question))

    async def aretrieve(self, question: str) -> Retrieval:
        """`retrieve` without blocking the event loop."""
        return await self._retriever.aretrieve(_checked_question(question))

    def ask(self, question: str, options: Sequence[str] | None = None) -> Answer:
        """Retrieve, answer, grade, and try again with other chunks where the grade says so.

        Args:
            question: The question.
            options: Options of a multiple-choice question.

        Raises:
            InputError: For a blank question, and options that are no list of texts.
            StoreError: As `retrieve`.
            LLMError: Where the LLM gave no answer; its ``chunks`` are those selected.
        """
        options = checked_options(options)
        return self.answer(self.retrieve(question), options)

    async def aask(self, question: str, options: Sequence[str] | None = None) -> Answer:
        """`ask` as a coroutine: computation in threads, the LLM awaited."""
        options = checked_options(options)
        return await self.aanswer(await self.aretrieve(question), options)

    def answer(self, retrieval: Retrieval, options: Sequence[str] | None = None) -> Answer:
        """The second half of `ask`, for chunks already retrieved."""
        question, texts, options = retrieval.question, retrieval.texts, checked_options(options)

        def generate(selection: Selection) -> tuple[str, TokenUsage]:
            return self.answerer.generate(question, texts(selection), options=options)

        def judge(selection: Selection, answer: str) -> tuple[Verdict, TokenUsage]:
            return self.answerer.judge(question, texts(selection), answer, options=options)

        try:
            return self._answer(retrieval, run_loop(self._loop(retrieval), generate, judge))
        except LLMError as error:
            raise _with_chunks(error, retrieval) from error

    async def aanswer(self, retrieval: Retrieval, options: Sequence[str] | None = None) -> Answer:
        """`answer` as a coroutine."""
        question, texts, options = retrieval.question, retrieval.texts, checked_options(options)
        if isinstance(self.answerer, ExtractiveAnswerer):
            # Its coroutines compute where they stand.
            return await asyncio.to_thread(self.answer, retrieval, options)

        async def generate(selection: Selection) -> tuple[str, TokenUsage]:
            return await self.answerer.agenerate(question, texts(selection), options=options)

        async def judge(selection: Selection, answer: str) -> tuple[Verdict, TokenUsage]:
            return await self.answerer.ajudge(question, texts(selection), answer, options=options)

        try:
            return self._answer(retrieval, await arun_loop(self._loop(retrieval), generate, judge))
        except LLMError as error:
            raise _with_chunks(error, retrieval) from error

    # -- parts ----------------------------------------------------------------------------------------

    def _loop(self, retrieval: Retrieval) -> FeedbackLoop:
        return FeedbackLoop(
            [c.score for c in retrieval.candidates],
            retrieval.scale,
            retrieval.bounded(self.config.feedback),
            sizes=[c.tokens for c in retrieval.candidates],
        )

    def _answer(self, retrieval: Retrieval, result: FeedbackResult) -> Answer:
        return Answer(result.answer, self.answerer.label, retrieval, result)

    def close(self) -> None:
        """Release the store's files."""
        self._retriever.close()
        self.store.close()

    def __enter__(self) -> Sage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _checked_question(question: str) -> str:
    if not isinstance(question, str) or not question.strip():
        raise InputError("the question is blank")
    return without_lone_surrogates(question.strip())


def _with_chunks(error: LLMError, retrieval: Retrieval) -> LLMError:
    """The error with the chunks that had been selected, so that retrieval is not lost."""
    chunks = error.chunks or [c.chunk.text for c in retrieval.hits]
    return LLMError(str(error), chunks=chunks, retryable=error.retryable)
