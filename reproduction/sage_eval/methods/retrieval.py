"""Retrieve, perhaps rerank, select, answer, perhaps grade and try again: naive RAG, SAGE and all between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from sage_core.errors import InputError
from sage_core.feedback import FeedbackConfig, FeedbackLoop, FeedbackResult, Verdict, run_loop
from sage_core.llm.usage import TokenUsage
from sage_core.ranking import Reranker, name_of, score_candidates
from sage_core.selection import Scale, Selection
from sage_core.selection.scales import rank_order
from sage_core.text.tokens import without_lone_surrogates
from sage_eval.methods.answering import Reading, Stopwatch, choice_of, empty, text_of
from sage_eval.methods.chunking import PieceSource, readable
from sage_eval.methods.context_builders import Arrangement
from sage_eval.records import (
    EvalDocument,
    EvalQuestion,
    Hit,
    MethodResult,
    Piece,
    PieceIndex,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a retrieving method does with what it finds.

    Attributes:
        selection: Settings of the selection, and of the feedback loop where there is one.
        feedback: Whether answers are graded and tried again.
        candidates: Pieces asked of the index (the paper's N).

    Raises:
        InputError: For fewer than one candidate.
    """

    selection: FeedbackConfig
    feedback: bool = False
    candidates: int = 30

    def __post_init__(self) -> None:
        if self.candidates < 1:
            raise InputError(f"candidates must be at least 1, not {self.candidates}")

    def describe(self) -> dict[str, object]:
        """JSON-ready; the loop's own settings only where there is a loop."""
        loop, chosen = self.selection, self.selection.selection
        return {
            "candidates": self.candidates,
            "selection": {
                "rule": chosen.rule if isinstance(chosen.rule, str) else repr(chosen.rule),
                "min_k": chosen.min_k,
                "gradient": chosen.gradient,
                "max_k": chosen.max_k,
            },
            "feedback": {
                "accept_score": loop.accept_score,
                "max_rounds": loop.max_rounds,
                "policy": loop.policy,
                "max_calls": loop.max_calls,
                "max_llm_tokens": loop.max_llm_tokens,
                "no_answer": list(loop.no_answer),
            }
            if self.feedback
            else False,
        }


class RetrievalMethod:
    """A `Method` that answers from retrieved pieces.

    Args:
        name: As shown in tables.
        source: Makes the pieces.
        index: Finds them.
        reading: Who answers.
        plan: What is done with what was found.
        reranker: Puts it in another order; None keeps the index's.
        arrangement: Makes the context of what was selected.
        about: More settings for the record.
        with_options: Whether the options of a multiple-choice question are searched for too.
    """

    def __init__(
        self,
        name: str,
        *,
        source: PieceSource,
        index: PieceIndex,
        reading: Reading,
        plan: Plan,
        arrangement: Arrangement,
        reranker: Reranker | None = None,
        about: Mapping[str, object] | None = None,
        with_options: bool = False,
    ) -> None:
        self.name = name
        self._source = source
        self._index = index
        self._reading = reading
        self._plan = plan
        self._arrangement = arrangement
        self._reranker = reranker
        self._about = {**(about or {}), **({"with_options": True} if with_options else {})}
        self._with_options = with_options
        self._pieces: Sequence[Piece] = ()
        self.prepare_seconds: Mapping[str, float] = {}
        """Seconds by stage of the last `prepare`: ``segment``, ``summarize``, ``index``."""

    @property
    def scale(self) -> Scale:
        """What the scores of the ranking are."""
        if self._reranker is not None:
            return self._reranker.scale
        scale: Scale = getattr(self._index, "scale", "unbounded")
        return scale

    def settings(self) -> Mapping[str, object]:
        return {
            **self._about,
            **self._plan.describe(),
            "chunks": self._source.describe(),
            "index": self._index.name,
            "reranker": name_of(self._reranker) if self._reranker is not None else None,
            "scale": self.scale,
            "context": self._arrangement.describe(),
            **self._reading.describe(),
        }

    def prepare(self, documents: Sequence[EvalDocument]) -> Mapping[str, TokenUsage]:
        watch = Stopwatch()
        documents = readable(documents)
        pieces, usage = self._source.pieces(documents, watch)
        with watch.stage("index"):
            self._index.build(pieces)
        self._arrangement.prepare({d.id: d.text for d in documents}, pieces)
        self._pieces = pieces
        self.prepare_seconds = watch.seconds
        return usage

    def answer(self, question: EvalQuestion) -> MethodResult:
        watch = Stopwatch()
        asked = text_of(question)
        if self._with_options and question.options:
            asked = " ".join([asked, *map(without_lone_surrogates, question.options)])
        ranked = self._ranked(asked, watch)
        if not ranked:
            return empty(question, ranked, watch)
        if self._plan.feedback:
            return self._looped(question, ranked, watch)
        with watch.stage("select"):
            selection = self._plan.selection.selection.select([hit.score for hit in ranked], self.scale)
            context = self._context(ranked, selection)
        return self._reading.once(question, context, watch, ranked=ranked)

    def _ranked(self, question: str, watch: Stopwatch) -> list[Hit]:
        """What the index finds, in the reranker's order where there is one.

        A keyword index finds nothing where no word matches. A reader of a fixed number of chunks gets that
        number all the same, as with any embedding: the first pieces fill up, behind all that was found.
        """
        with watch.stage("retrieve"):
            found = self._index.search(question, self._plan.candidates)
            found += self._others(found, self._plan.candidates - len(found))
        if self._reranker is None or not found:
            return found
        with watch.stage("rerank"):
            texts, known = [hit.piece.text for hit in found], [hit.score for hit in found]
            scores = score_candidates(self._reranker, question, texts, known)
        return [Hit(found[i].piece, scores[i]) for i in rank_order(scores)]

    def _others(self, found: Sequence[Hit], count: int) -> list[Hit]:
        """So many of the first pieces that were not found, scored below all that were."""
        if count <= 0:
            return []
        there = {hit.piece for hit in found}
        lowest = min((hit.score for hit in found), default=0.0)
        others = (piece for piece in self._pieces if piece not in there)
        return [Hit(piece, min(lowest, 0.0)) for piece in islice(others, count)]

    def _context(self, ranked: Sequence[Hit], selection: Selection) -> tuple[Piece, ...]:
        return self._arrangement.arrange([ranked[i].piece for i in selection.indices])

    def _looped(self, question: EvalQuestion, ranked: Sequence[Hit], watch: Stopwatch) -> MethodResult:
        """Answer, grade, and try again with more or fewer pieces."""
        options = question.options or None
        with watch.stage("select"):
            loop = FeedbackLoop(
                [hit.score for hit in ranked],
                self.scale,
                self._plan.selection,
                sizes=self._reading.counter.count_many([hit.piece.text for hit in ranked]),
            )

        def generate(selection: Selection) -> tuple[str, TokenUsage]:
            return self._reading.generate(question, self._context(ranked, selection), watch)

        def judge(selection: Selection, answer: str) -> tuple[Verdict, TokenUsage]:
            context = [piece.text for piece in self._context(ranked, selection)]
            with watch.stage("judge"):
                return self._reading.reader.judge(text_of(question), context, answer, options=options)

        result = run_loop(loop, generate, judge)
        return self._result(question, ranked, result, watch)

    def _result(
        self, question: EvalQuestion, ranked: Sequence[Hit], result: FeedbackResult, watch: Stopwatch
    ) -> MethodResult:
        context = self._context(ranked, result.selection)
        used = result.usage_by_role
        return MethodResult(
            result.answer,
            choice_of(question, result.answer),
            context,
            tuple(ranked),
            score=result.score,
            rounds=len(result.rounds),
            stop_reason=result.stop_reason,
            usage={"answer": used["generate"], "critic": used["judge"]},
            seconds=watch.seconds,
            context_tokens=self._reading.tokens(context),
        )
