"""Sage: documents in, answers out. Composes the parts for use without a framework, and for the CLI."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sage_app.answers import Answerer, ExtractiveAnswerer, StreamingAnswerer, capabilities_of
from sage_app.models import named_embedder
from sage_app.pipeline.ingest import DocumentSegmenter, IngestReport, ProgressFunction, ingest
from sage_app.pipeline.results import Answer, Candidate, Retrieval
from sage_app.pipeline.retriever import Retriever
from sage_app.pipeline.settings import SageConfig, SageSettings, load_settings
from sage_app.store import Store, open_store
from sage_core._checks import check_part, checked_options
from sage_core.embedding import Embedder, MiniLMEmbedder
from sage_core.errors import InputError, LLMError
from sage_core.feedback import Done, FeedbackLoop, Judge, Round, Step
from sage_core.feedback.drivers import (
    Answered,
    Call,
    Compute,
    Judged,
    Steps,
    StreamedCall,
    adrive,
    adrive_pieces,
    drive,
    drive_pieces,
)
from sage_core.llm.messages import Completion
from sage_core.llm.reasoning import aanswer_pieces, answer_pieces, without_reasoning
from sage_core.llm.usage import NO_USAGE, TokenUsage
from sage_core.paths import PathArgument
from sage_core.question import Question
from sage_core.ranking import Reranker
from sage_core.segmentation import Segmenter
from sage_core.selection.cut import Selection
from sage_core.text.tokens import TokenCounter, get_counter, without_lone_surrogates
from sage_core.verify import Source


class Sage:
    """Retrieval and answers over one store. Models load on first use; safe across threads and tasks.

        sage = Sage("my-store")
        sage.ingest(["docs"])
        print(sage.ask("When does the ferry leave?").text)

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "ferry.txt").write_text("The ferry leaves at seven in the morning.")
        >>> with Sage(folder / "store") as sage:
        ...     report = sage.ingest(folder / "ferry.txt")
        ...     answer = sage.ask("When does the ferry leave?")
        >>> report.chunks, "at seven" in answer.text.replace("**", "")
        (1, True)

    Args:
        store: The folder of the store, or a `Store` such as `FolderStore` or `ChromaStore`.
        segmenter: Cuts documents; the bundled `Segmenter` where None.
        embedder: An embedding model, or the name of one (`sage_app.models.named_embedder`), such as
            ``"openai:text-embedding-3-small"``; all-MiniLM-L6-v2 where None.
        reranker: A reranker; the hybrid where None.
        answerer: `ExtractiveAnswerer`, which needs no LLM, where None.
        counter: Token counter of all token figures; that of the default segmenter where None.
        config: Settings.

    Raises:
        InputError: For a part that is something else.
    """

    def __init__(
        self,
        store: str | Path | Store,
        *,
        segmenter: DocumentSegmenter | None = None,
        embedder: Embedder | str | None = None,
        reranker: Reranker | None = None,
        answerer: Answerer | None = None,
        counter: TokenCounter | None = None,
        config: SageConfig | None = None,
    ) -> None:
        check_part("segmenter", segmenter, ("segment_many",), "Segmenter(...)")
        if not isinstance(embedder, str):
            methods = ("embed_query", "embed_documents")
            check_part("embedder", embedder, methods, "MiniLMEmbedder(), or its name")
        check_part("reranker", reranker, ("score",), "HybridReranker()")
        check_part("answerer", answerer, ("generate", "judge"), "LLMAnswerer(OpenAIChat(...))")
        check_part("counter", counter, ("count_many",), "get_counter('words')")
        if config is not None and not isinstance(config, SageConfig):
            raise InputError(f"config is a SageConfig, not {config!r}")
        self.segmenter: DocumentSegmenter = segmenter if segmenter is not None else Segmenter()
        if embedder is None:
            embedder = MiniLMEmbedder()
        elif isinstance(embedder, str):
            embedder = named_embedder(embedder)
        self.answerer: Answerer = answerer if answerer is not None else ExtractiveAnswerer()
        self._retriever = Retriever(
            open_store(store),
            embedder,
            reranker,
            counter if counter is not None else get_counter(),
            config if config is not None else SageConfig(),
        )

    @classmethod
    def from_settings(
        cls,
        settings: SageSettings | str | Path,
        store: str | Path | Store,
        *,
        config: SageConfig | None = None,
        **parts: Any,
    ) -> Sage:
        """A `Sage` with the settings of a file, such as `sage-rag calibrate` writes.

        Args:
            settings: The file, or `SageSettings`.
            store: As for the constructor. A store that was made with other settings of the segmenter has to
                be made anew with ``ingest(..., rebuild=True)``.
            config: What the settings do not say, such as rounds, order and limits of the context; their
                candidates, context and selection stand in place of its own.
            **parts: Other arguments of the constructor, such as ``answerer``; a part that the settings name
                too is taken from here.

        Raises:
            InputError: For a file that cannot be read, an unknown setting, or one out of its range.
        """
        chosen = load_settings(settings)
        parts = {"embedder": chosen.embedder, **parts}
        parts.setdefault("segmenter", chosen.make_segmenter())
        base = config if config is not None else SageConfig()
        feedback = replace(base.feedback, selection=chosen.selection)
        config = replace(base, candidates=chosen.candidates, context=chosen.context, feedback=feedback)
        return cls(store, config=config, **parts)

    # What searches is held by the retriever alone, so that replacing a part takes effect at once.

    @property
    def store(self) -> Store:
        """The store."""
        return self._retriever.store

    @property
    def embedder(self) -> Embedder:
        """The embedding model of chunks and questions."""
        return self._retriever.embedder

    @property
    def reranker(self) -> Reranker:
        """Scores what the store finds."""
        return self._retriever.reranker

    @property
    def counter(self) -> TokenCounter:
        """Counts tokens for all token figures."""
        return self._retriever.counter

    @property
    def config(self) -> SageConfig:
        """The settings."""
        return self._retriever.config

    # -- in -------------------------------------------------------------------------------------------

    def ingest(
        self,
        paths: PathArgument | Iterable[PathArgument],
        *,
        progress: bool | ProgressFunction = False,
        encoding: str | None = None,
        rebuild: bool = False,
        roots: Iterable[PathArgument] | None = None,
    ) -> IngestReport:
        """Update the store from files and folders; an interrupted run is finished by the next one.

        Documents that are as they were are skipped, changed ones replaced, and those of ``paths`` whose files
        are gone removed.

        Args:
            paths: A file or folder, or any iterable of them. What below a folder cannot be read, and links to
                folders, are left out and reported as ``skipped``.
            progress: True draws a bar on standard error; a function is called after every document.
            encoding: Of text files that are not UTF-8.
            rebuild: Make the store anew. A folder keeps its old contents until the new ones are complete.
            roots: Folders that may be read from, links followed; None for wherever links lead.

        Raises:
            InputError: For a path that does not exist and never was ingested, a named file that cannot be
                read, or no documents at all. Nothing is written then.
            StoreError: Where the store was made with other models, is being written to or is damaged.
            MissingExtraError: Where a format or the store needs a package that is not installed.
        """
        if progress is True:
            from sage_app.pipeline.progress import ingest_bar  # rich, where a bar is drawn

            with ingest_bar() as bar:
                return self.ingest(paths, progress=bar, encoding=encoding, rebuild=rebuild, roots=roots)
        report = ingest(
            self.store,
            paths,
            self.segmenter,
            self.embedder,
            encoding=encoding,
            rebuild=rebuild,
            progress=progress or None,
            context=self.config.context,
            roots=roots,
        )
        self._retriever.store_changed()  # the store may have been emptied, or made by this very run
        return report

    # -- out ------------------------------------------------------------------------------------------

    def retrieve(self, question: str) -> Retrieval:
        """Find, score and select chunks.

        Raises:
            InputError: For a blank question.
            StoreError: Where there is no store, it is empty, or was made with another embedding model.
        """
        return drive(self._retrieving(question))

    async def aretrieve(self, question: str) -> Retrieval:
        """`retrieve` without blocking the event loop."""
        return await adrive(self._retrieving(question))

    def _retrieving(self, question: str) -> Steps[Retrieval]:
        question = _checked_question(question)
        return (yield from Call(self._retriever.retrieve, self._retriever.aretrieve, question))

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
        return drive(self._asking(question, options))

    async def aask(self, question: str, options: Sequence[str] | None = None) -> Answer:
        """`ask` as a coroutine: computation in threads, the LLM awaited."""
        return await adrive(self._asking(question, options))

    def _asking(self, question: str, options: Sequence[str] | None) -> Steps[Answer]:
        options = checked_options(options)
        retrieval = yield from Call(self.retrieve, self.aretrieve, question)
        return (yield from self._answering(retrieval, options))

    def answer(self, retrieval: Retrieval, options: Sequence[str] | None = None) -> Answer:
        """The second half of `ask`, for chunks already retrieved."""
        return drive(self._answering(retrieval, checked_options(options)))

    async def aanswer(self, retrieval: Retrieval, options: Sequence[str] | None = None) -> Answer:
        """`answer` as a coroutine."""
        return await adrive(self._answering(retrieval, checked_options(options)))

    def stream(
        self, question: str | Retrieval, options: Sequence[str] | None = None
    ) -> Iterator[str | Round | Answer]:
        """`ask`, with what happens while it happens.

        Args:
            question: The question, or what `retrieve` gave for it.
            options: Options of a multiple-choice question.

        Yields:
            Pieces of an answer as the model writes them. After each round its `Round`, with the marks of its
            answer, and then the pieces of the next one. Last the `Answer`, whose text may be that of an
            earlier round.

        Raises:
            InputError: As `ask`, as are the others, with the first piece.
        """
        retrieval = question if isinstance(question, Retrieval) else self.retrieve(question)
        yield from drive_pieces(self._answering(retrieval, checked_options(options), streamed=True))

    async def astream(
        self, question: str | Retrieval, options: Sequence[str] | None = None
    ) -> AsyncIterator[str | Round | Answer]:
        """`stream` as an async iterator."""
        retrieval = question if isinstance(question, Retrieval) else await self.aretrieve(question)
        async for event in adrive_pieces(self._answering(retrieval, checked_options(options), streamed=True)):
            yield event

    def _answering(
        self, retrieval: Retrieval, options: tuple[str, ...] | None, *, streamed: bool = False
    ) -> Steps[Answer]:
        question = _SageQuestion(self, retrieval, options, streamed=streamed)
        try:
            return (yield from question.answering())
        except LLMError as error:
            raise _with_chunks(error, retrieval) from error

    # -- parts ----------------------------------------------------------------------------------------

    def _loop(self, retrieval: Retrieval) -> FeedbackLoop:
        config = self.config.feedback
        if capabilities_of(self.answerer).grades_abstentions:
            config = replace(config, no_answer=())
        return FeedbackLoop(
            [c.score for c in retrieval.candidates],
            retrieval.scale,
            config,
            sizes=[c.tokens_in_prompt for c in retrieval.candidates],
            first=retrieval.selection,
            question=retrieval.question,
        )

    def close(self) -> None:
        """Release the store's files."""
        self._retriever.close()
        self.store.close()

    def __enter__(self) -> Sage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _SageQuestion(Question[Candidate]):
    """`Sage` at work for one question: what is sent of each selection."""

    def __init__(
        self, sage: Sage, retrieval: Retrieval, options: tuple[str, ...] | None, *, streamed: bool
    ) -> None:
        super().__init__(retrieval.question, sage.config.feedback, retrieval.candidates)
        self._sage = sage
        self._retrieval = retrieval
        self._options = options
        self._streamed = streamed
        self._able = capabilities_of(sage.answerer)
        self._loop = sage._loop(retrieval)

    def answering(self) -> Steps[Answer]:
        """The rounds, each handed on where they are streamed, and the answer."""
        yield from Compute(self.load_check)
        loop, ended = self._loop, 0
        request: Step = loop.start()
        while not isinstance(request, Done):
            request = yield from self.step(loop, request)
            if self._streamed and not isinstance(request, Judge):
                over = loop.rounds if isinstance(request, Done) else loop.rounds[:-1]
                yield from StreamedCall(partial(iter, over[ended:]), None, lambda: None)
                ended = len(over)
        result = request.result if self._streamed else self.corrected(request.result)
        return Answer(result.answer, self._sage.answerer.label, self._retrieval, result)

    def passages(self, selection: Selection) -> list[str]:
        """See `Question.passages`."""
        sent = self._retrieval
        return sent.prompt_texts(selection) if self._able.headings else sent.texts(selection)

    def sources(self, selection: Selection) -> list[Source]:
        """See `Question.sources`."""
        return [Source(text) for text in self._retrieval.texts(selection)]

    def generate(self, selection: Selection) -> Steps[Answered]:
        """See `Question.generate`."""
        context = self.passages(selection)
        answerer, completion = self._sage.answerer, ("", NO_USAGE)
        if self._streamed and isinstance(answerer, StreamingAnswerer):
            completion = yield from self._writing(answerer, context)
        else:
            asked = {"options": self._options, **self._places(selection)}
            if self._able.relevance and self._retrieval.scale == "probability":
                scores = [candidate.score for candidate in self.candidates]
                asked["relevance"] = [scores[i] or 0.0 for i in selection.indices]
            # An answerer without coroutines will do where nothing is awaited.
            completion = yield from Call(
                lambda: answerer.generate(self.text, context, **asked),
                lambda: answerer.agenerate(self.text, context, **asked),
            )
            if self._streamed:
                yield from StreamedCall(partial(answer_pieces, iter(completion[:1])), None, lambda: None)
        return without_reasoning(completion[0]), completion[1]

    def _writing(
        self, answerer: StreamingAnswerer, context: Sequence[str]
    ) -> StreamedCall[tuple[str, TokenUsage]]:
        """An answer in pieces."""
        question, options = self.text, self._options
        whole: list[Completion] = []

        def shown(piece: str | Completion) -> Iterator[str]:
            if isinstance(piece, str):
                yield piece
            else:
                whole.append(piece)

        def pieces() -> Iterator[str]:
            for piece in answerer.stream(question, context, options=options):
                yield from shown(piece)

        async def apieces() -> AsyncIterator[str]:
            stream: Any = answerer.astream(question, context, options=options)
            async with aclosing(stream):  # with the reader, which ends a generation at the server
                async for piece in stream:
                    for text in shown(piece):
                        yield text

        return StreamedCall(
            lambda: answer_pieces(pieces()),
            lambda: aanswer_pieces(apieces()),
            lambda: (without_reasoning(whole[0].text).strip(), whole[0].usage),
        )

    def judge(self, selection: Selection, answer: str) -> Steps[Judged]:
        """See `Question.judge`."""
        answerer, context = self._sage.answerer, self.passages(selection)
        asked = {"options": self._options, **self._places(selection)}
        verdict, usage = yield from Call(
            lambda: answerer.judge(self.text, context, answer, **asked),
            lambda: answerer.ajudge(self.text, context, answer, **asked),
        )
        return (yield from self.reviewed(verdict, selection, answer)), usage

    def _places(self, selection: Selection) -> dict[str, Any]:
        return {"places": self._retrieval.places(selection)} if self._able.places else {}


def _checked_question(question: str) -> str:
    if not isinstance(question, str):
        raise InputError(f"a question is a text, not {type(question).__name__}")
    if not question.strip():
        raise InputError("the question is blank")
    return without_lone_surrogates(question.strip())


def _with_chunks(error: LLMError, retrieval: Retrieval) -> LLMError:
    """The error with the texts that had been selected, so that retrieval is not lost."""
    return LLMError(str(error), chunks=retrieval.texts(retrieval.selection), retryable=error.retryable)
