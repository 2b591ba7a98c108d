"""Spans of OpenTelemetry for the steps of a question, where the application has set tracing up.

Nothing is imported here: an application that traces has loaded the API (extra ``tracing``) before it asks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sage_core.feedback import Verdict
from sage_core.llm.usage import TokenUsage
from sage_core.pipeline.results import Answer, Retrieval
from sage_core.selection.cut import Selection


@contextmanager
def step(name: str, kind: str = "CHAIN", **given: object) -> Iterator[dict[str, object]]:
    """A span around a step; what is put into the mapping becomes its output.

    Args:
        name: Of the span.
        kind: In the words of OpenInference, which Phoenix and others show.
        given: What went in.
    """
    found: dict[str, object] = {}
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        yield found
        return
    with api.get_tracer("sage_core").start_as_current_span(name) as span:
        span.set_attribute("openinference.span.kind", kind)
        _set(span, "input", given)
        try:
            yield found
        finally:
            _set(span, "output", found)


def _set(span: Any, side: str, values: dict[str, object]) -> None:
    if span.is_recording() and values:
        span.set_attribute(f"{side}.value", json.dumps(values, default=str))
        span.set_attribute(f"{side}.mime_type", "application/json")


def note_retrieval(retrieval: Retrieval, found: dict[str, object]) -> None:
    """The output of a retrieval, and below it what the reranker and the selection made of it.

    Simultaneous questions share one search and one scoring, so these two have no time of their own.
    """
    _set_documents(retrieval)
    scores = [c.score for c in retrieval.candidates]
    with step("sage.rerank", "RERANKER", reranker=retrieval.reranker, candidates=len(scores)) as ranked:
        ranked.update(scores=scores, scale=retrieval.scale)
    with step("sage.select", scores=scores, scale=retrieval.scale) as selected:
        selected.update(retrieval.selection.to_dict())
    found.update(candidates=len(scores), kept=retrieval.selection.cut)


def _set_documents(retrieval: Retrieval) -> None:
    """The chunks kept, as OpenInference names them, on the span of the retrieval."""
    api = sys.modules.get("opentelemetry.trace")
    span = None if api is None else api.get_current_span()
    if span is None or not span.is_recording():
        return
    for i, hit in enumerate(retrieval.hits):
        named = f"retrieval.documents.{i}.document"
        span.set_attribute(f"{named}.id", hit.chunk.id)
        span.set_attribute(f"{named}.content", hit.chunk.text)
        span.set_attribute(f"{named}.metadata", json.dumps({"source": hit.chunk.source}))
        if hit.score is not None:
            span.set_attribute(f"{named}.score", hit.score)


def note_answer(answer: Answer, found: dict[str, object]) -> None:
    """The output of a whole question."""
    result = answer.feedback
    found.update(
        answer=answer.text,
        score=result.score,
        stop_reason=result.stop_reason,
        rounds=len(result.rounds),
        usage=result.usage.to_dict(),
    )


class Rounds:
    """Spans for the rounds of one question.

    Args:
        question: The question.
    """

    def __init__(self, question: str) -> None:
        self._question = question
        self._number = 0

    @contextmanager
    def answering(self, selection: Selection, texts: Sequence[str]) -> Iterator[dict[str, object]]:
        """Around the answer of a round."""
        self._number += 1
        with step(
            "sage.answer",
            question=self._question,
            round=self._number,
            kept=selection.cut,
            reason=selection.reason,
            texts=list(texts),
        ) as found:
            yield found

    @contextmanager
    def grading(self, selection: Selection, answer: str) -> Iterator[dict[str, object]]:
        """Around the grade of a round."""
        with step("sage.critic", "EVALUATOR", round=self._number, answer=answer) as found:
            yield found


def note_text(found: dict[str, object], made: tuple[str, TokenUsage]) -> tuple[str, TokenUsage]:
    """The output of an answer."""
    found.update(answer=made[0], usage=made[1].to_dict())
    return made


def note_verdict(found: dict[str, object], made: tuple[Verdict, TokenUsage]) -> tuple[Verdict, TokenUsage]:
    """The output of a grade."""
    found.update(verdict=made[0].to_dict(), usage=made[1].to_dict())
    return made
