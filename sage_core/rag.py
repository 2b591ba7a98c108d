"""Sage: documents in, answers out. Composes the parts for people without a framework, and for the CLI."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from sage_core.answering import Answerer, ExtractiveAnswerer
from sage_core.checks import check_part, checked_options, whole_number
from sage_core.chunks import Found
from sage_core.embedding import Embedder, SentenceTransformerEmbedder
from sage_core.errors import InputError, LLMError, StoreError
from sage_core.feedback import FeedbackConfig, FeedbackLoop, FeedbackResult, Verdict, arun_loop, run_loop
from sage_core.files import PathArgument
from sage_core.identity import StoreIdentity
from sage_core.ingest import PROBE, DocumentSegmenter, ingest
from sage_core.ingest_report import IngestReport, ProgressFunction
from sage_core.ranking import HybridReranker, Reranker, ascore
from sage_core.ranking.protocol import checked_scores
from sage_core.results import Answer, Candidate, Retrieval
from sage_core.segmentation import Segmenter
from sage_core.selection import Selection, rank_order, select
from sage_core.store import ChromaStore
from sage_core.tokens import TokenCounter, get_counter, without_lone_surrogates
from sage_core.usage import TokenUsage


@dataclass(frozen=True, slots=True)
class SageConfig:
    """Settings of `Sage`.

    Attributes:
        candidates: Chunks fetched from the store before reranking (paper: N).
        top_k: Size of the plain top-k retrieval that token figures are compared with; changes nothing else.
        feedback: Settings of the selection and the feedback loop.

    Raises:
        InputError: Where a number is no whole number, or below 1.
    """

    candidates: int = 30
    top_k: int = 10
    feedback: FeedbackConfig = field(default_factory=FeedbackConfig)

    def __post_init__(self) -> None:
        whole_number("candidates", self.candidates, 1)
        whole_number("top_k", self.top_k, 1)
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
        reranker: `HybridReranker` over ``embedder`` where None.
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
        reranker: Reranker | None = None,
        answerer: Answerer | None = None,
        counter: TokenCounter | None = None,
        config: SageConfig | None = None,
    ) -> None:
        check_part("segmenter", segmenter, ("segment_many",), "Segmenter(...)")
        check_part(
            "embedder", embedder, ("embed_query", "embed_documents"), "SentenceTransformerEmbedder(...)"
        )
        check_part("reranker", reranker, ("score",), "CrossEncoderReranker(...)")
        check_part("answerer", answerer, ("generate", "judge"), "LLMAnswerer(OpenAIChat(...))")
        check_part("counter", counter, ("count_many",), "get_counter('words')")
        if config is not None and not isinstance(config, SageConfig):
            raise InputError(f"config is a SageConfig, not {config!r}")
        self.store = store if isinstance(store, ChromaStore) else ChromaStore(store)
        self.segmenter: DocumentSegmenter = segmenter if segmenter is not None else Segmenter()
        self.embedder: Embedder = embedder if embedder is not None else SentenceTransformerEmbedder()
        self.answerer: Answerer = answerer if answerer is not None else ExtractiveAnswerer(self.embedder)
        if reranker is not None:
            self.reranker = reranker
        self.counter = counter if counter is not None else get_counter()
        self.config = config if config is not None else SageConfig()
        self._checked = False
        self._lock = threading.Lock()

    @cached_property
    def reranker(self) -> Reranker:
        """Scores what the store finds. The default is made where it is first needed, not for ingesting."""
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
        """Bring the store into step with files and folders; see `sage_core.ingest.ingest`.

        Args:
            paths: A file or folder, or any iterable of them.
            progress: True draws a bar on standard error; a function is called after every document.
            encoding: Of text files that are not UTF-8.
            rebuild: Empty the store first.
        """
        if progress is True:
            from sage_core.rendering.progress import ingest_bar

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
        )
        self._checked = False  # the store may have been emptied, or made by this very run
        return report

    # -- out ------------------------------------------------------------------------------------------

    def retrieve(self, question: str) -> Retrieval:
        """Find, score and select chunks.

        Raises:
            InputError: For a blank question.
            StoreError: Where there is no store, it is empty, or was made with another embedding model.
        """
        question = _checked_question(question)
        found = self._search(question)
        texts = [f.chunk.text for f in found]
        scores = self.reranker.score(question, texts) if found else []
        return self._retrieval(question, found, checked_scores(self.reranker.name, scores, len(found)))

    async def aretrieve(self, question: str) -> Retrieval:
        """`retrieve` without blocking the event loop."""
        question = _checked_question(question)
        found = await asyncio.to_thread(self._search, question)
        scores = await ascore(self.reranker, question, [f.chunk.text for f in found]) if found else []
        return await asyncio.to_thread(self._retrieval, question, found, scores)

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

    def _search(self, question: str) -> list[Found]:
        self._check()
        return self.store.search(self.embedder.embed_query(question), self.config.candidates)

    def _check(self) -> None:
        """Once: the store was made with this embedding model. Its name is checked before the model loads."""
        with self._lock:
            if self._checked:
                return
            self.store.check(StoreIdentity(self.embedder.name))
            if not self.store.info().chunks:
                raise StoreError(f"the store at {self.store.path} is empty: run `sage-rag ingest` first")
            self.store.check(StoreIdentity(self.embedder.name, self.embedder.embed_query(PROBE)))
            self._checked = True

    def _retrieval(self, question: str, found: Sequence[Found], scores: Sequence[float]) -> Retrieval:
        order = rank_order(scores)
        tokens = self.counter.count_many([found[i].chunk.text for i in order])
        candidates = tuple(
            Candidate(found[i].chunk, _known(scores[i]), found[i].similarity, count)
            for i, count in zip(order, tokens, strict=True)
        )
        settings = self.config.feedback
        selection = select(
            [c.score for c in candidates],
            scale=self.reranker.scale,
            rule=settings.rule,
            min_k=settings.min_k,
            gradient=settings.gradient,
            max_k=settings.max_k,
        )
        return Retrieval(
            question,
            candidates,
            selection,
            self.reranker.scale,
            self.reranker.name,
            self.config.top_k,
            self.counter.name,
        )

    def _loop(self, retrieval: Retrieval) -> FeedbackLoop:
        return FeedbackLoop(
            [c.score for c in retrieval.candidates],
            retrieval.scale,
            self.config.feedback,
            sizes=[c.tokens for c in retrieval.candidates],
        )

    def _answer(self, retrieval: Retrieval, result: FeedbackResult) -> Answer:
        return Answer(result.answer, self.answerer.label, retrieval, result)

    def close(self) -> None:
        """Release the store's files."""
        self.store.close()

    def __enter__(self) -> Sage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _checked_question(question: str) -> str:
    if not isinstance(question, str) or not question.strip():
        raise InputError("the question is blank")
    return without_lone_surrogates(question.strip())


def _known(score: float) -> float | None:
    """A score as a Python float; None for NaN."""
    value = float(score)
    return None if value != value else value


def _with_chunks(error: LLMError, retrieval: Retrieval) -> LLMError:
    """The error with the chunks that had been selected, so that retrieval is not lost."""
    chunks = error.chunks or [c.chunk.text for c in retrieval.hits]
    return LLMError(str(error), chunks=chunks, retryable=error.retryable)
