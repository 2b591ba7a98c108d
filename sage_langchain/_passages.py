"""Passages as documents of LangChain's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from langchain_core.documents import Document
from pydantic import PrivateAttr

from sage_core.passages import Node, Place, joined, plain_copy, proven_places
from sage_core.ranking import Titled, link
from sage_core.ranking.retrieved import Retrieved
from sage_core.text.header import with_header
from sage_core.text.outline import PATH_KEY, header_of, title_of

SCORE_KEY = "relevance_score"
NODE_KEY = "node_id"
"""Metadata of a passage: the id of the document that it is cut from."""
_OFFSETS = frozenset({"start_index", "end_index"})


class Part(NamedTuple):
    """What a passage is of: ``page_content[start:end]`` of a document at ``offset`` in its source."""

    document: Document
    start: int
    end: int
    path: str
    offset: int | None

    def made(self) -> Document:
        """The passage as a document, or the document itself if it is all of it."""
        whole = self.document
        if (self.start, self.end) == (0, len(whole.page_content)):
            return whole
        metadata = {k: v for k, v in whole.metadata.items() if k not in _OFFSETS}
        metadata |= {PATH_KEY: self.path} if self.path else {}
        metadata |= {} if self.offset is None else {"start_index": self.offset + self.start}
        own_id = None if whole.id is None else f"{whole.id}-{self.start}-{self.end}"
        metadata |= {} if whole.id is None else {NODE_KEY: whole.id}
        return Document(whole.page_content[self.start : self.end], id=own_id, metadata=metadata)


class Candidate(Document):
    """A passage among candidates, which knows its document: selected ones that touch are sent as one."""

    _part: Part = PrivateAttr()

    @classmethod
    def of(cls, part: Part, score: float | None) -> Candidate:
        """The passage, with its score."""
        candidate = cls(**_fields(part, score))
        candidate._part = part
        return candidate

    @classmethod
    def lc_id(cls) -> list[str]:
        """Where it is read, it is a document as any other."""
        return Document.lc_id()


def places_of(documents: Sequence[Document]) -> list[Place | None]:
    """Where each document stands in the text that it was cut from, if that is proven; see `proven_places`.

    Splitters copy the metadata of what they cut, a page or a section, to each piece. So pieces with equal
    metadata count in the same text; scores and keys that a store adds do not count, for they differ.
    """
    frames, starts = [], []
    for document in documents:
        start = document.metadata.get("start_index")
        # True is an int for Python, and no place in a text.
        starts.append(start if isinstance(start, int) and not isinstance(start, bool) else None)
        own = sorted(
            (key, repr(value))
            for key, value in document.metadata.items()
            if key not in _OFFSETS and not isinstance(value, float) and not str(key).startswith("_")
        )
        frames.append(tuple(own) if document.metadata.get("source") is not None else None)
    return proven_places(frames, starts, [document.page_content for document in documents])


def retrieved(documents: Sequence[Document], scores: Sequence[Any]) -> list[Retrieved]:
    """The documents of a search as the core ranks them, with the scores that it gave."""
    places = places_of(documents)
    return [
        Retrieved(
            Node(document.page_content, document.metadata, place, None, document.metadata.get("source")),
            headed(document),
            titled(document),
            links,
            document.id,
            score,
        )
        for document, place, links, score in zip(documents, places, link(places), scores, strict=True)
    ]


def headed(document: Document) -> str:
    """A document's text with its title and headings, as far as they are known."""
    return with_header(header_of(document.page_content, document.metadata), document.page_content)


def titled(document: Document) -> Titled:
    """A document with what names its source."""
    title, source = title_of(document.metadata), document.metadata.get("source")
    source = source if isinstance(source, str) else ""
    first = not document.metadata.get("start_index")
    return Titled(document.page_content, source or title, title, source, first)


def join(candidates: Sequence[Document]) -> list[Document]:
    """The documents, those that touch in what they are cut from as one, with the best score; best first."""
    passages = [c for c in candidates if isinstance(c, Candidate)]
    if len(passages) < len(candidates):
        return list(candidates)
    parts = [passage._part for passage in passages]
    groups = joined(
        [(id(part.document), part.start, part.end) for part in parts],
        [part.document.page_content for part in parts],
    )
    joins = [(Part(*parts[g[0]][:2], parts[g[-1]].end, *parts[g[0]][3:]), passages[min(g)]) for g in groups]
    return [Document(**_fields(part, best.metadata[SCORE_KEY])) for part, best in joins]


def _fields(part: Part, score: float | None) -> dict[str, Any]:
    made = part.made()
    metadata = {**plain_copy(made.metadata), SCORE_KEY: score}
    return {"page_content": made.page_content, "id": made.id, "metadata": metadata}
