"""Where documents stand in what they were cut from."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.documents import Document

from sage_core.passages import Place, proven_places
from sage_core.text.outline import HEADER_KEY


def places_of(documents: Sequence[Document]) -> list[Place | None]:
    """Where each document stands in the text that it was cut from, if that is proven; see `proven_places`.

    A splitter copies the metadata of what it cuts, a page or a section, to each piece: what offsets count in
    is told by all of them. Scores and what a store adds differ from piece to piece.
    """
    frames, starts = [], []
    for document in documents:
        start = document.metadata.get("start_index")
        # True is an int for Python, and no place in a text.
        starts.append(start if isinstance(start, int) and not isinstance(start, bool) else None)
        own = sorted(
            (key, repr(value))
            for key, value in document.metadata.items()
            if key not in ("start_index", "end_index", HEADER_KEY)
            if not isinstance(value, float) and not str(key).startswith("_")
        )
        frames.append(tuple(own) if document.metadata.get("source") is not None else None)
    return proven_places(frames, starts, [document.page_content for document in documents])
