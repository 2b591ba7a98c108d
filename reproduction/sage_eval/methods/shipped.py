"""SAGE as this library ships it: a `Sage` over a store of its own, asked through its public methods."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from sage_app.pipeline.results import Candidate
from sage_app.pipeline.sage import Sage
from sage_app.pipeline.settings import SageConfig
from sage_core.embedding.protocol import Embedder
from sage_core.llm.usage import TokenUsage
from sage_core.ranking import Reranker, name_of
from sage_core.text.spans import Span
from sage_eval.methods.answering import Reading, Stopwatch, choice_of, empty, text_of
from sage_eval.methods.chunking import readable
from sage_eval.records import (
    EvalDocument,
    EvalQuestion,
    Hit,
    MethodResult,
    Piece,
)


class ShippedSage:
    """A `Method` that drives `Sage` itself, from text files to the answer: nothing is composed here.

    The other rows of a table share chunks and indexes; this one ingests each preparation into a new store in
    a temporary folder, as a user would. Files are named after the documents' titles, which Sage may use.

    Args:
        name: As shown in tables.
        reading: Who answers, and what counts tokens.
        embedder: The embedding model.
        reranker: The reranker; None for `Sage`'s own.
        config: Settings of `Sage`.
    """

    def __init__(
        self,
        name: str,
        reading: Reading,
        embedder: Embedder,
        reranker: Reranker | None = None,
        config: SageConfig | None = None,
    ) -> None:
        self.name = name
        self._reading = reading
        self._embedder = embedder
        self._reranker = reranker
        self._config = config if config is not None else SageConfig()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._sage: Sage | None = None
        self._documents: dict[str, EvalDocument] = {}
        self.prepare_seconds: Mapping[str, float] = {}
        """Seconds by stage of the last `prepare`: ``index``."""

    def settings(self) -> Mapping[str, object]:
        return {
            "method": "sage-shipped",
            "embedder": self._embedder.name,
            "reranker": None if self._reranker is None else name_of(self._reranker),
            "config": repr(self._config),
            **self._reading.describe(),
        }

    def prepare(self, documents: Sequence[EvalDocument]) -> Mapping[str, TokenUsage]:
        self.close()
        watch = Stopwatch()
        self._folder = tempfile.TemporaryDirectory(prefix="sage-eval-")
        root = Path(self._folder.name)
        files = root / "documents"
        files.mkdir()
        self._documents = {}
        for number, document in enumerate(readable(documents)):
            if not document.text.strip():
                continue  # a file without text is an error to `Sage.ingest` where it is the only one
            title = re.sub(r"[^\w .-]", " ", document.title).strip()[:60]
            path = files / f"{number:05d} {title}".rstrip(" .")
            path = path.with_name(f"{path.name}.txt")
            path.write_text(document.text, encoding="utf-8", newline="")
            self._documents[str(path.resolve())] = document
        self._sage = Sage(
            root / "store",
            embedder=self._embedder,
            reranker=self._reranker,
            answerer=self._reading.reader,
            counter=self._reading.counter,
            config=self._config,
        )
        with watch.stage("index"):
            if self._documents:
                self._sage.ingest(files)
        self.prepare_seconds = watch.seconds
        return {}

    def answer(self, question: EvalQuestion) -> MethodResult:
        assert self._sage is not None, "prepare comes first"
        watch = Stopwatch()
        if not self._documents:
            return empty(question, (), watch)
        with watch.stage("retrieve"):
            retrieval = self._sage.retrieve(text_of(question))
        with watch.stage("generate"):
            found = self._sage.answer(retrieval, question.options or None)
        context = tuple(self._piece(candidate) for candidate in found.sources)
        used = found.feedback.usage_by_role
        return MethodResult(
            found.text,
            choice_of(question, found.text),
            context,
            tuple(Hit(self._piece(c), c.score if c.score is not None else 0.0) for c in retrieval.candidates),
            score=found.score,
            rounds=len(found.feedback.rounds),
            stop_reason=found.feedback.stop_reason,
            usage={"answer": used["generate"], "critic": used["judge"]},
            seconds=watch.seconds,
            context_tokens=self._reading.tokens(context),
        )

    def close(self) -> None:
        """Close the store and remove its files."""
        if self._sage is not None:
            self._sage.close()
            self._sage = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # the interpreter may be shutting down
            return

    def _piece(self, candidate: Candidate) -> Piece:
        chunk = candidate.chunk
        document = self._documents[chunk.source]
        span = Span(chunk.start, chunk.end)
        # A reader of files may change a text, say its byte order mark: then there is no place in ours.
        return Piece(chunk.text, document.id, span if span.of(document.text) == chunk.text else None)
