"""Segmentation under a limit of its own for every text."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sage_core.errors import InputError
from sage_core.segmentation import Segmenter
from sage_core.text.spans import Span

logger = logging.getLogger(__name__)

_SMALL = 50  # tokens left for text below which LlamaIndex's own splitters warn


def room_for_text(segmenter: Segmenter, chunk_size: int, overhead: int) -> int:
    """Most tokens of a chunk's text where metadata takes ``overhead`` of ``chunk_size``.

    Raises:
        InputError: Where metadata leaves no room.
    """
    most = int(segmenter.max_tokens)
    room = chunk_size - overhead
    if room <= 0:
        raise InputError(
            f"the metadata is {overhead} tokens long and chunk_size is {chunk_size}: raise chunk_size, or "
            "list long metadata keys in excluded_embed_metadata_keys and excluded_llm_metadata_keys"
        )
    if overhead and room < min(_SMALL, most):
        logger.warning("metadata leaves %d of %d tokens of a chunk for text", room, chunk_size)
    return min(room, most)


def segment_within(
    segmenter: Segmenter, texts: Sequence[str], limits: Sequence[int], show_progress: bool
) -> list[list[Span]]:
    """Chunks of every text, none above its limit. Texts of one limit are segmented together.

    A blank text has none, and the model is not asked.

    Args:
        segmenter: Its own hard limit holds too.
        texts: The texts.
        limits: Most tokens of a chunk, one per text.
        show_progress: Show a progress bar.
    """
    found: list[list[Span]] = [[] for _ in texts]
    asked = [i for i, text in enumerate(texts) if text.strip()]
    for limit in sorted({limits[i] for i in asked}):
        members = [i for i in asked if limits[i] == limit]
        spans = _limited(segmenter, limit).segment_many([texts[i] for i in members], progress=show_progress)
        for i, own in zip(members, spans, strict=True):
            found[i] = own
    return found


def _limited(segmenter: Segmenter, max_tokens: int) -> Segmenter:
    """The same segmenter, model included, with a lower hard limit."""
    if max_tokens >= segmenter.max_tokens:
        return segmenter
    return Segmenter(
        segmenter.model,
        coarse_tokens=segmenter.coarse_tokens,
        threshold=segmenter.threshold,
        max_tokens=max_tokens,
        min_tokens=min(segmenter.min_tokens, max_tokens),
        strategy=segmenter.strategy,
        counter=segmenter.counter,
        sentences=segmenter.sentences,
        layout=segmenter.layout,
    )
