"""A stored run read from its OpenTelemetry spans, in the attributes of OpenInference."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sage_core.errors import InputError
from sage_core.inspecting.record import Inspection, Record, Recorder
from sage_core.inspecting.steps import TOP_K, Passage


def inspection_of_spans(
    spans: Iterable[Any], *, evidence: str | Iterable[str] = (), top_k: int = TOP_K
) -> Inspection:
    """What a traced run did, without the index and the LLM it ran with.

    Args:
        spans: Of one run: spans of the OpenTelemetry SDK, or mappings as their ``to_json()`` writes them.
        evidence: Texts that a good retrieval holds.
        top_k: The fixed k to compare with.

    Raises:
        InputError: Where no span holds a passage.
    """
    rows = [s if isinstance(s, Mapping) else json.loads(s.to_json()) for s in spans]
    rows.sort(key=lambda row: str(row.get("end_time") or ""))
    recorder = Recorder()
    for row in rows:
        identity, attributes = str(row["context"]["span_id"]), row.get("attributes") or {}
        recorder.parents[identity] = parent = row.get("parent_id")
        returned = _passages(attributes, "retrieval.documents") or _passages(
            attributes, "reranker.output_documents"
        )
        if returned:
            given = _passages(attributes, "reranker.input_documents") or None
            name = str(row["name"]).removesuffix("._retrieve").removesuffix(".retrieve")
            recorder.records.append(Record(identity, parent, name, returned, given))
        elif isinstance(chosen := _json(attributes.get("output.value")), dict) and "reason" in chosen:
            recorder.notes.setdefault(str(parent), {})["reason"] = str(chosen["reason"])
        messages = _listed(attributes, "llm.input_messages")
        if messages:
            recorder.prompts.append("\n\n".join(str(m.get("message.content", "")) for m in messages))
    if not recorder.records:
        raise InputError(
            "no span holds a passage (retrieval.documents.0.document.content): give all spans of one run, as "
            "the OpenInference instrumentation of your framework writes them"
        )
    root = next((row for row in reversed(rows) if not row.get("parent_id")), rows[-1])
    outer = root.get("attributes") or {}
    answered = outer.get("openinference.span.kind") != "RETRIEVER" and "output.value" in outer
    return recorder.inspection(
        _words(outer.get("input.value"), ("input", "query", "question", "query_str", "str_or_query_bundle")),
        str(root["name"]),
        answer=_words(outer["output.value"], ("answer", "response", "output")) if answered else None,
        evidence=evidence if isinstance(evidence, str) else tuple(evidence),
        top_k=top_k,
    )


def _listed(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """``prefix.N.rest`` as one mapping for each N, in their order."""
    rows: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        number, _, rest = key[len(prefix) + 1 :].partition(".")
        if key.startswith(f"{prefix}.") and number.isdigit():
            rows.setdefault(int(number), {})[rest] = value
    return [rows[i] for i in sorted(rows)]


def _passages(attributes: Mapping[str, Any], prefix: str) -> list[Passage]:
    passages = []
    for row in _listed(attributes, prefix):
        metadata = _json(row.get("document.metadata"))
        metadata = metadata if isinstance(metadata, dict) else {}
        source = next((metadata[k] for k in ("source", "file_name", "file_path", "url") if k in metadata), "")
        title, score = metadata.get("title"), row.get("document.score")
        text, identity = str(row.get("document.content", "")), str(row.get("document.id") or "")
        passages.append(Passage(text, identity, str(title or ""), str(source), score=score))
    return passages


def _json(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _words(value: Any, keys: Iterable[str]) -> str:
    """The text of an input or output: itself, or what stands under one of the keys."""
    read = _json(value)
    if isinstance(read, Mapping):
        read = next((read[key] for key in keys if key in read), value)
    return read if isinstance(read, str) else str(value or "")
