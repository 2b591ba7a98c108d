"""Passages: what was retrieved, cut where a person would cut it, when the question is asked.

An index holds nodes of any size. Each becomes passages by the segmenter that cuts documents: always the same
ones, since a question only chooses among them. A passage is an exact slice of its node's text.
"""

from __future__ import annotations

import copy
import json
import threading
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sage_core.segmentation import Segmenter
from sage_core.segmentation.limits import DEFAULT_MAX_TOKENS
from sage_core.text.cache import Kept, LRUCache
from sage_core.text.outline import PATH_KEY, TITLE_KEY, Outline, header_of, join_path
from sage_core.text.sentences import split_sentences
from sage_core.text.tokens import get_counter

_CACHED = 4_096  # Nodes whose cuts are in memory, some 2 KB each.

# Equal text is chance below so many characters: between neighbors, and between nodes of one document whose
# places are not known.
_BESIDE, _ANYWHERE = 5, 20


class Place(NamedTuple):
    """Where a text stands.

    Examples:
        >>> Place("a.txt", 0, 10).end
        10

    Attributes:
        document: Which document, or which piece of one that offsets refer to.
        start: Offset of its first character; or its number in the document.
        end: Offset after its last character; or its number plus one.
    """

    document: Hashable
    start: int
    end: int


def proven_places(
    frames: Sequence[Hashable], starts: Sequence[int | None], texts: Sequence[str]
) -> list[Place | None]:
    """Where each text stands, as far as the offsets that came with them do not contradict each other.

    A frame is what offsets count in. Its offsets are believed if each of its texts has one, and if texts that
    overlap by their offsets are equal there.

    Args:
        frames: One per text; None if nothing is known.
        starts: Offset of each text in its frame; None or a negative number if it is not known.
        texts: The texts.

    Examples:
        >>> proven_places(["a", "a", "b"], [0, 4, -1], ["The old", "old mill", "Bees"])
        [Place(document='a', start=0, end=7), Place(document='a', start=4, end=12), None]
        >>> proven_places(["a", "a"], [0, 2], ["The old", "old mill"])
        [None, None]
    """
    members: dict[Hashable, list[tuple[int, int]]] = defaultdict(list)
    places: list[Place | None] = [None] * len(texts)
    for i, (frame, start) in enumerate(zip(frames, starts, strict=True)):
        if frame is not None:
            members[frame].append((-1 if start is None else start, i))
    for frame, ordered in members.items():
        ordered.sort()
        told = ordered[0][0] >= 0
        for (before, a), (start, b) in pairwise(ordered):
            shared = min(before + len(texts[a]) - start, len(texts[b]))
            told = told and (shared <= 0 or texts[a].startswith(texts[b][:shared], start - before))
        for start, i in ordered if told else ():
            places[i] = Place(frame, start, start + len(texts[i]))
    return places


def plain_copy(value: Any) -> Any:
    """A copy of metadata that shares nothing, NumPy's numbers as Python's: a graph's state takes no others.

    Examples:
        >>> plain_copy({"page": np.int64(3), "tags": ["ferry"]})
        {'page': 3, 'tags': ['ferry']}
    """
    if isinstance(value, np.generic):
        return value.item()
    if type(value) is dict:
        return {key: plain_copy(held) for key, held in value.items()}
    return [plain_copy(held) for held in value] if type(value) is list else copy.deepcopy(value)


@dataclass(frozen=True, slots=True)
class Node:
    """What was retrieved.

    Attributes:
        text: Its text.
        metadata: Title and headings are read from it.
        place: Where it stands in its document, if that is proven.
        previous: Position in the list of the node before it, if one of the two names the other.
        source: What the nodes of one document have in common, if anything.
        whole: It is one passage, however long.
    """

    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    place: Place | None = None
    previous: int | None = None
    source: Hashable = None
    whole: bool = False


class Passage(NamedTuple):
    """A slice of the text of a node.

    Attributes:
        node: Position of the node in the list.
        start: Offset of the passage's first character in the node's text.
        end: Offset after its last character.
        path: Headings above it as a ``header_path``; "" if the node is one passage.
        header: Title and headings in a line, for a reranker.
        place: Where it stands among the others, to tell neighbors. No place in the document.
        holders: The nodes that hold it: its own, and those that overlap it there.
    """

    node: int
    start: int
    end: int
    path: str
    header: str
    place: Place
    holders: tuple[int, ...]


class _Piece(NamedTuple):
    start: int
    end: int
    path: str
    header: str


_KEPT: Kept[tuple[_Piece, ...]] = Kept(
    "cuts",
    lambda pieces: json.dumps(pieces).encode(),
    lambda data: tuple(_Piece(*p) for p in json.loads(data)),
)


class PassageCutter:
    r"""Cuts nodes into passages, and keeps the cuts of a node. Safe across threads.

    Examples:
        >>> ferry = "## Ferry\n\n" + "It leaves at seven from the old pier, except on days of fog. " * 15
        >>> bees = "\n\n## Bees\n\n" + "They need flowers all summer and a place without wind. " * 15
        >>> passages = PassageCutter().cut([Node(ferry + bees, {"title": "Island"})])
        >>> [passage.header for passage in passages]
        ['Island', 'Island > Ferry', 'Island > Ferry', 'Island', 'Island > Bees']

    Args:
        longest_whole: Most tokens of a node that is left as it is: a passage may be as long.
    """

    def __init__(self, longest_whole: int = DEFAULT_MAX_TOKENS) -> None:
        self._segmenter = Segmenter()
        self._longest = longest_whole
        self._pieces: LRUCache[tuple[_Piece, ...]] = LRUCache(_CACHED, _KEPT)
        # Held while cutting: no two threads cut the same node.
        self._cutting = threading.Lock()

    def cuts(self, nodes: Sequence[Node]) -> bool:
        """Whether some of these nodes are no passages yet."""
        # Half as long again: whoever cut ours may count fewer tokens. And a table of ours is one piece.
        long = sorted(self._longer(nodes, 3 * self._longest // 2))
        return any(len(pieces) > 1 for i in long for pieces in self._pieces_of([nodes[i]]))

    def _longer(self, nodes: Sequence[Node], most: int) -> set[int]:
        # No token is shorter than a character: most short nodes need no counting.
        long = [i for i, n in enumerate(nodes) if not n.whole and len(n.text) > most]
        sizes = get_counter("bert").count_many([nodes[i].text for i in long])
        return {i for i, size in zip(long, sizes, strict=True) if size > most}

    def cut(self, nodes: Sequence[Node]) -> list[Passage]:
        """The passages of all nodes, in their order; text that two nodes share is in the first only."""
        long = sorted(self._longer(nodes, self._longest))
        pieces = dict(zip(long, self._pieces_of([nodes[i] for i in long]), strict=True))
        overlaps = list(_overlaps(nodes))
        repeated: dict[int, int] = {}
        held: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for overlap in overlaps:
            repeated[overlap.later] = overlap.length
            held[overlap.first].append((overlap.start, overlap.start + overlap.length, overlap.later))
        frames = _frames(nodes, overlaps)
        passages: list[Passage] = []
        for i, node in enumerate(nodes):
            whole = _Piece(0, len(node.text), "", header_of(node.text, node.metadata))
            own = pieces.get(i, ())
            for piece in own if len(own) > 1 else (whole,):
                start, known = piece.start, repeated.get(i, 0)
                if start < known:  # from the first sentence that the other node has not whole
                    sentences = split_sentences(node.text[start : piece.end])
                    start = next((start + s.start for s in sentences if start + s.end > known), piece.end)
                if start >= piece.end and node.text.strip():
                    continue
                middle = (start + piece.end) // 2
                holders = (i, *(other for low, high, other in held[i] if low <= middle < high))
                place = Place(frames[i][0], frames[i][1] + start, frames[i][1] + piece.end)
                passages.append(Passage(i, start, *piece[1:], place, holders))
        return passages

    def _pieces_of(self, nodes: Sequence[Node]) -> Iterator[tuple[_Piece, ...]]:
        # Headings depend on what the metadata say, cuts on the text alone.
        keys = [header_of("", node.metadata) + "\0" + node.text for node in nodes]
        by_key = dict(zip(keys, nodes, strict=True))
        with self._cutting:
            cached = self._pieces.get_many(by_key, lambda new: [self._pieces_of_one(by_key[k]) for k in new])
        return (cached[key] for key in keys)

    def _pieces_of_one(self, node: Node) -> tuple[_Piece, ...]:
        (spans,) = self._segmenter.segment_quietly([node.text])
        outline = Outline(node.text, node.metadata, whole=False)
        pieces = []
        for span, context in zip(spans, outline.contexts(spans), strict=True):
            path = join_path(context.path, outline.separator) if context.path else ""
            described = {TITLE_KEY: outline.title, PATH_KEY: path}
            pieces.append(_Piece(*span, path, header_of(span.of(node.text), described)))
        return tuple(pieces)


class _Overlap(NamedTuple):
    """``length`` characters at the beginning of the later node are those from ``start`` on of the first."""

    first: int
    later: int
    start: int
    length: int


def _overlaps(nodes: Sequence[Node]) -> Iterator[_Overlap]:
    """For each node at most one: by places, else by neighbors' texts, else by text that is nowhere else."""
    placed: dict[Hashable, list[int]] = defaultdict(list)
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for i, node in enumerate(nodes):
        if node.place is not None:
            placed[node.place.document].append(i)
        if node.source is not None:
            alike[node.source].append(i)
    for members in placed.values():
        yield from _in_one_document(nodes, members)
    for i, node in enumerate(nodes):
        if node.place is not None:
            continue
        beside = node.previous is not None
        others = [node.previous] if node.previous is not None else alike[node.source]
        for other in others:
            text = nodes[other].text
            length = 0 if other == i else _end_that_begins(text, node.text, _BESIDE if beside else _ANYWHERE)
            if length == len(node.text) and other > i:
                continue  # a copy of it, which is the one that is left out
            shared = node.text[:length]
            # A notice that stands in many places overlaps nothing.
            if length and (beside or sum(nodes[n].text.count(shared) for n in others) == 2):
                yield _Overlap(other, i, len(text) - length, length)
                break


def _in_one_document(nodes: Sequence[Node], members: Sequence[int]) -> Iterator[_Overlap]:
    ordered = sorted(members, key=lambda i: (_place(nodes[i]).start, -_place(nodes[i]).end))
    last = ordered[0]
    for i in ordered[1:]:
        (_, begin, most), (_, start, end) = _place(nodes[last]), _place(nodes[i])
        if most > start:
            yield _Overlap(last, i, start - begin, min(most, end) - start)
        if end > most:
            last = i


def _place(node: Node) -> Place:
    assert node.place is not None
    return node.place


def _end_that_begins(before: str, text: str, least: int) -> int:
    """Length of the longest end of one text that is the beginning of another; 0 below ``least``."""
    at = max(0, len(before) - len(text))
    while len(text) >= least and (at := before.find(text[:least], at)) >= 0:
        if text.startswith(before[at:]):
            return len(before) - at
        at += 1
    return 0


def _frames(nodes: Sequence[Node], overlaps: Sequence[_Overlap]) -> list[tuple[Hashable, int]]:
    """For each node a text that it is part of with its neighbors, and its offset in it."""
    shared = {overlap.later: overlap for overlap in overlaps}
    frames: dict[int, tuple[Hashable, int]] = {}

    def frame(i: int) -> tuple[Hashable, int]:
        if i not in frames:
            frames[i] = (i, 0)  # for nodes that name each other in a ring
            node, overlap = nodes[i], shared.get(i)
            before = node.previous if overlap is None else overlap.first
            if node.place is not None:
                frames[i] = ((node.place.document,), node.place.start)
            elif before is not None:
                of, offset = frame(before)
                frames[i] = (of, offset + (overlap.start if overlap else len(nodes[before].text) + 1))
        return frames[i]

    return [frame(i) for i in range(len(nodes))]


def joined(passages: Sequence[tuple[Hashable, int, int]], texts: Sequence[str]) -> list[list[int]]:
    """Which passages are sent as one: those of one node with nothing but white space between them.

    Args:
        passages: Node, start and end of each, best first.
        texts: Of each passage's node.

    Returns:
        Positions of the passages of each group in reading order; groups in the order of their best.

    Examples:
        >>> joined([("a", 5, 8), ("b", 0, 3), ("a", 0, 4)], ["One. Two", "Six", "One. Two"])
        [[2, 0], [1]]
    """
    groups: list[list[int]] = []
    for i in sorted(range(len(passages)), key=lambda i: (passages[i][1], passages[i][2])):
        node, start, _ = passages[i]
        for group in groups:
            other, _, end = passages[group[-1]]
            if other == node and end <= start and not texts[i][end:start].strip():
                group.append(i)
                break
        else:
            groups.append([i])
    return sorted(groups, key=min)


def reading_order(documents: Sequence[Hashable], starts: Sequence[int | None]) -> list[int]:
    """Positions of passages, best first, as a prompt has them: by document, the one with the best first.

    Within a document they stand in its order, if their starts are known. A prompt with some more passages so
    begins as the one before, and a document is named once.

    Examples:
        >>> reading_order(["a", "b", "a"], [90, 0, 10])
        [2, 0, 1]
    """
    groups: dict[Hashable, list[int]] = {}
    for i, document in enumerate(documents):
        groups.setdefault(document, []).append(i)
    for own in groups.values():
        known = {i: start for i in own if (start := starts[i]) is not None}
        if len(known) == len(own):
            own.sort(key=known.__getitem__)
    return [i for own in groups.values() for i in own]
