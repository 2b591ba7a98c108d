"""The page of `sage-rag serve`, and the data for its script: segmentations, rankings, Python code.

All text goes to the page as JSON and is put there as text, never as markup.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sage_core.pipeline.results import Retrieval
from sage_core.ranking import Place, link
from sage_core.ranking.neighbors import WEIGHT
from sage_core.rendering.html.markup import Markup, tag
from sage_core.rendering.html.style import page_css
from sage_core.rendering.html.views import boundary_words
from sage_core.rendering.rows import chunk_pieces, reason_counts, retrieval_rows
from sage_core.rendering.sanitize import one_line, terminal_safe
from sage_core.rendering.wording import counted
from sage_core.segmentation.view import SegmentationView
from sage_core.selection import Selection, SelectionConfig

_HERE = Path(__file__).parent
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" '
    'fill="#1b6e50"/><path d="M3 4h10M3 7h6M3 12h8" stroke="#fff" stroke-width="1.6"/></svg>'
)


@cache
def script() -> str:
    """The page's script."""
    return (_HERE / "app.js").read_text(encoding="utf-8")


@cache
def style() -> str:
    """The page's style: that of the reports, and what controls need."""
    return page_css() + (_HERE / "app.css").read_text(encoding="utf-8")


@cache
def markup() -> str:
    """The page. Script, style and icon have addresses beside it; it asks for nothing else."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", "sage-rag playground"),
        Markup('<link rel="icon" href="icon.svg"><link rel="stylesheet" href="app.css">'),
        Markup('<script src="app.js" defer></script>'),
    )
    body = Markup((_HERE / "body.html").read_text(encoding="utf-8"))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def segmentation_data(view: SegmentationView, seconds: float) -> dict[str, Any]:
    """A segmentation: chunks of pieces of text, P(same) between the pieces, and why each cut is there."""
    reasons = [None, *view.reasons] if view.reasons else [None] * len(view.spans)
    pieces = chunk_pieces(view.text, view.boundaries, view.spans)
    chunks = [
        {
            "tokens": tokens,
            "start": span.start,
            "end": span.end,
            "cut": boundary_words(before, view.threshold, reason)
            if span.start != view.spans[0].start
            else None,
            "pieces": [
                {"text": terminal_safe(text), "same": None if same is None else round(same, 3)}
                for text, same in parts
            ],
        }
        for span, tokens, reason, (before, parts) in zip(
            view.spans, view.tokens, reasons, pieces, strict=True
        )
    ]
    why = ", ".join(f"{reason} {count}" for reason, count in reason_counts(view).items())
    mean = sum(view.tokens) / len(view.tokens) if view.tokens else 0
    return {
        "chunks": chunks,
        "threshold": view.threshold,
        "summary": f"{counted(len(chunks), 'chunk')}, {mean:.0f} tokens each on average"
        + (f", at most {max(view.tokens)}" if view.tokens else "")
        + (f". Cuts by {why}" if why else ""),
        "seconds": round(seconds, 3),
    }


def retrieval_data(retrieval: Retrieval) -> dict[str, Any]:
    """A ranking: every candidate with its score, its own score and its neighbors' votes, and the cut."""
    candidates = retrieval.candidates
    links = link(
        [Place(c.chunk.source, c.chunk.position, c.chunk.position + 1) for c in candidates], longest_gap=0
    )
    ranks = {c.chunk.id: i for i, c in enumerate(candidates, 1)}
    rows = []
    for row, candidate, near in zip(retrieval_rows(retrieval), candidates, links, strict=True):
        votes = [
            {"rank": j + 1, "where": where, "score": _finite(candidates[j].own_score)}
            for j, where in ((near.previous, "before"), (near.next, "after"))
            if j is not None and candidate.own_score is not None
        ]
        rows.append(
            {
                "rank": row.rank,
                "score": _finite(row.score),
                "own": _finite(candidate.own_score),
                "votes": votes,
                "named_by": [
                    {"name": one_line(by.name), "rank": ranks.get(by.chunk_id or "")}
                    for by in candidate.named_by
                ],
                "share": round(row.share, 4),
                "similarity": round(candidate.similarity, 4),
                "tokens": row.tokens,
                "place": row.place,
                "headings": [one_line(h) for h in candidate.chunk.headings],
                "text": terminal_safe(row.text),
            }
        )
    return {
        "question": terminal_safe(retrieval.question),
        "candidates": rows,
        "selection": selection_data(retrieval.selection),
        "scale": retrieval.scale,
        "reranker": retrieval.reranker,
        "weight": WEIGHT,
        "top_k": retrieval.top_k,
    }


def selection_data(selection: Selection) -> dict[str, Any]:
    """Where a ranking was cut."""
    return {"cut": selection.cut, "candidates": selection.candidates, "reason": selection.reason}


def segmenter_code(settings: Mapping[str, Any]) -> str:
    """Python that cuts a document as the page does."""
    given = _arguments(settings)
    return (
        "from sage_core import Segmenter\n"
        "from sage_core.documents import read_document\n\n"
        f"segmenter = Segmenter({given})\n"
        'text = read_document("guide.md").text\n'
        "print(segmenter.explain(text).chunks)\n\n"
        "# The same in LlamaIndex and LangChain:\n"
        "# from sage_llamaindex import SageNodeParser\n"
        "# parser = SageNodeParser(segmenter=segmenter)\n"
        "# from sage_langchain import SageTextSplitter\n"
        "# splitter = SageTextSplitter(segmenter=segmenter)\n"
    )


def sage_code(
    question: str,
    store: str,
    *,
    reranker: str,
    embedder: str,
    config: Mapping[str, Any],
    selection: SelectionConfig,
) -> str:
    """Python that asks the store as the page does."""
    rule = selection.rule
    names = [] if isinstance(rule, str) else sorted(set(re.findall(r"\b[A-Z]\w*(?=\()", repr(rule))))
    rules = f"from sage_core.selection import {', '.join(names)}\n" if names else ""
    given = _arguments({**selection.keywords, "rule": None if rule == "auto" else rule})
    arguments = _arguments(config)
    feedback = f"feedback=FeedbackConfig(selection=SelectionConfig({given}))"
    return (
        "from sage_core import FeedbackConfig, Sage, SageConfig, SelectionConfig\n"
        f"{rules}\n"
        "sage = Sage(\n"
        f"    {store!r},\n"
        f"    embedder={embedder!r},\n"
        f"    reranker={reranker!r},\n"
        f"    config=SageConfig({arguments}{', ' if arguments else ''}{feedback}),\n"
        ")\n"
        f"retrieval = sage.retrieve({question!r})\n"
        "for hit in retrieval.hits:\n"
        "    print(hit.score, hit.chunk.text)\n"
    )


def _arguments(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in settings.items() if value is not None)


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 5)
