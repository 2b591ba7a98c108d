"""Spans of OpenTelemetry for the steps of a question, where the application has set tracing up.

Nothing is imported here: an application that traces has loaded the API (extra ``tracing``) before it asks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sage_app.pipeline.results import Retrieval


@contextmanager
def step(name: str, kind: str = "CHAIN", **inputs: object) -> Iterator[dict[str, object]]:
    """A span around a step with its inputs; what is put into the mapping becomes its output.

    ``kind`` is in the words of OpenInference, which Phoenix and others show.
    """
    outputs: dict[str, object] = {}
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        yield outputs
        return
    with api.get_tracer("sage_core").start_as_current_span(name) as span:
        span.set_attribute("openinference.span.kind", kind)
        _set(span, "input", inputs)
        try:
            yield outputs
        finally:
            _set(span, "output", outputs)


def _set(span: Any, side: str, values: dict[str, object]) -> None:
    if span.is_recording() and values:
        span.set_attribute(f"{side}.value", json.dumps(values, default=str))
        span.set_attribute(f"{side}.mime_type", "application/json")


def note_retrieval(retrieval: Retrieval, outputs: dict[str, object]) -> None:
    """The output of a retrieval, and below it what the reranker and the selection made of it.

    Simultaneous questions share one search and one scoring, so these two have no time of their own.
    """
    _set_documents(retrieval)
    scores = [c.score for c in retrieval.candidates]
    with step("sage.rerank", "RERANKER", reranker=retrieval.reranker, candidates=len(scores)) as ranked:
        ranked.update(scores=scores, scale=retrieval.scale)
    with step("sage.select", scores=scores, scale=retrieval.scale) as selected:
        selected.update(retrieval.selection.to_dict())
    outputs.update(candidates=len(scores), kept=retrieval.selection.cut)


def _set_documents(retrieval: Retrieval) -> None:
    """The chunks selected, as OpenInference names them, on the span of the retrieval."""
    api = sys.modules.get("opentelemetry.trace")
    span = None if api is None else api.get_current_span()
    if span is None or not span.is_recording():
        return
    for i, hit in enumerate(retrieval.hits):
        document = f"retrieval.documents.{i}.document"
        span.set_attribute(f"{document}.id", hit.chunk.id)
        span.set_attribute(f"{document}.content", hit.chunk.text)
        span.set_attribute(f"{document}.metadata", json.dumps({"source": hit.chunk.source}))
        if hit.score is not None:
            span.set_attribute(f"{document}.score", hit.score)
