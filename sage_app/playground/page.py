"""The page of `sage-rag serve`, and the data for its script: segmentations, rankings, Python code.

All text goes to the page as JSON and is put there as text, never as markup.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sage_app.pipeline.results import Retrieval
from sage_app.pipeline.settings import SageSettings
from sage_app.rendering.html.style import page_css
from sage_app.rendering.html.views import boundary_words
from sage_app.rendering.rows import chunk_pieces, reason_counts, retrieval_rows
from sage_core._checks import counted
from sage_core.ranking import Place, link
from sage_core.ranking.neighbors import WEIGHT
from sage_core.segmentation.view import SegmentationView
from sage_core.text.sanitize import one_line, terminal_safe

# Settings that shape the answer to a question.
_ASKING = ("embedder", "reranker", "context", "candidates", "selection")


@cache
def file(name: str) -> str:
    """A file of the page, as text; ``app.css`` begins with the style of the reports."""
    own = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return page_css() + own if name == "app.css" else own


def segmentation_data(view: SegmentationView) -> dict[str, Any]:
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
    }


def retrieval_data(retrieval: Retrieval) -> dict[str, Any]:
    """A ranking: every candidate with its score, its own score and its neighbors' votes, and the cut."""
    candidates = retrieval.candidates
    links = link(
        [Place(c.chunk.source, c.chunk.position, c.chunk.position + 1) for c in candidates], longest_gap=0
    )
    ranks = {c.chunk.id: i for i, c in enumerate(candidates, 1)}
    rows = [
        {
            **candidate.to_dict(),
            "rank": row.rank,
            "score": _finite(row.score),
            "own": _finite(candidate.own_score),
            "votes": [
                {"rank": j + 1, "where": where, "score": _finite(candidates[j].own_score)}
                for j, where in ((near.previous, "before"), (near.next, "after"))
                if j is not None and candidate.own_score is not None
            ],
            "named_by": [
                {"name": one_line(by.name), "rank": ranks.get(by.chunk_id or "")} for by in candidate.named_by
            ],
            "share": round(row.share, 4),
            "place": row.place,
            "headings": [one_line(h) for h in candidate.chunk.headings],
            "text": terminal_safe(row.text),
        }
        for row, candidate, near in zip(retrieval_rows(retrieval), candidates, links, strict=True)
    ]
    return {
        "candidates": rows,
        "selection": retrieval.selection.to_dict(),
        "weight": WEIGHT,
        "top_k": retrieval.top_k,
    }


def segmenter_code(settings: Mapping[str, Any]) -> str:
    """Python that cuts a document as the page does."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    return (
        "from sage_app.documents import read_document\n"
        "from sage_core import Segmenter\n\n"
        f"segmenter = Segmenter({arguments})\n"
        'text = read_document("guide.md").text\n'
        "print(segmenter.explain(text).chunks)\n\n"
        "# The same in LlamaIndex and LangChain:\n"
        "# from sage_llamaindex import SageNodeParser\n"
        "# parser = SageNodeParser(segmenter=segmenter)\n"
        "# from sage_langchain import SageTextSplitter\n"
        "# splitter = SageTextSplitter(segmenter=segmenter)\n"
    )


def sage_code(question: str, store: str, settings: SageSettings) -> str:
    """Python that asks the store as the page does."""
    default = SageSettings().to_dict()
    chosen = {n: v for n, v in settings.to_dict().items() if n in _ASKING and v != default[n]}
    return (
        "from sage_app import Sage, SageSettings\n\n"
        f"settings = SageSettings.from_dict({chosen!r})\n"
        f"sage = Sage.from_settings(settings, {store!r})\n"
        f"retrieval = sage.retrieve({question!r})\n"
        "for hit in retrieval.hits:\n"
        "    print(hit.score, hit.chunk.text)\n\n"
        "# For `sage-rag ask --settings`: settings.save('sage-settings.json')\n"
        "# The same selection in LlamaIndex and LangChain:\n"
        "# from sage_llamaindex import SageRetriever\n"
        "# retriever = SageRetriever.from_index(index, selection=settings.selection)\n"
        "# from sage_langchain import SageRetriever\n"
        "# retriever = SageRetriever.from_vectorstore(store, selection=settings.selection)\n"
    )


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 5)
