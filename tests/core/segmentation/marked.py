"""Documents with marks at the places where a person would cut, and around what a person would not tear.

``⟪`` and ``⟫`` stand around a unit, ``‖`` before a place where a chunk should begin, ``‖‖`` where moreover
another subject does: another's letter, another scene, another group of goods. A cut anywhere else may be.
A line of ``%%%%`` parts two documents of a file. The marks are taken out before the text is used.

Files that end with -3 or -7 are held out: their marks were set before anything was run on them, and no rule
was written with them in view. So were those with -5 and -6, until what their first runs showed was mended.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

SEPARATOR = "\n%%%%\n"


@dataclass(frozen=True)
class Marked:
    """A document, its units, where chunks should begin, and where of these another subject does."""

    name: str
    kind: str
    text: str
    units: list[tuple[int, int]]
    wanted: list[int]
    apart: list[int]

    @property
    def held_out(self) -> bool:
        """Whether no rule was written with it."""
        return self.kind.endswith(("-3", "-7"))


def marked_documents(folder: Path) -> list[Marked]:
    """The documents of every file, named by file and number."""
    return [
        marked(part.strip("\n"), path.stem, number)
        for path in sorted(folder.glob("*.txt"))
        for number, part in enumerate(path.read_text(encoding="utf-8").split(SEPARATOR), start=1)
    ]


def marked(source: str, kind: str, number: int) -> Marked:
    """One document without its marks."""
    text: list[str] = []
    units: list[tuple[int, int]] = []
    wanted: list[int] = []
    apart: list[int] = []
    open_: list[int] = []
    for character in source:
        if character == "⟪":
            open_.append(len(text))
        elif character == "⟫":
            units.append((open_.pop(), len(text)))
        elif character == "‖":
            (apart if wanted[-1:] == [len(text)] else wanted).append(len(text))
        else:
            text.append(character)
    assert not open_, (kind, number)
    whole = "".join(text)
    places = ([_after_space(whole, place) for place in marks] for marks in (wanted, apart))
    return Marked(f"{kind}-{number}", kind, whole, units, *places)


def _after_space(text: str, place: int) -> int:
    return len(text) - len(text[place:].lstrip())


def forbidden_cuts(
    document: Marked, spans: Sequence[tuple[int, int]], limit: int, count: Callable[[str], int]
) -> list[str]:
    """Cuts within a unit that has at most ``limit`` tokens, each with some text around it."""
    text = document.text
    units = [(a, b) for a, b in document.units if count(text[a:b].strip()) <= limit]
    return [
        f"{text[max(0, end - 40) : end]!r} | {text[start : start + 40]!r}"
        for (_, end), (start, _) in itertools.pairwise(spans)
        if any(a < start and a < end and start < b for a, b in units)
    ]


def parted_headings(document: Marked, spans: Sequence[tuple[int, int]]) -> list[str]:
    """Headings at the start of a unit that are the end of a chunk."""
    text = document.text
    lines = [text[a:b].strip().splitlines()[0] for a, b in document.units]
    heads = {
        a + len(line): line
        for (a, b), line in zip(document.units, lines, strict=True)
        if "\n" in text[a:b].strip() and len(line) <= 80 and not line.endswith((".", ":", ";", ",", "|", '"'))
    }
    return [heads[end] for _, end in spans if end in heads]


def missed_cuts(document: Marked, spans: Sequence[tuple[int, int]]) -> list[str]:
    """Places where a chunk should begin and none does."""
    starts = {_after_space(document.text, start) for start, _ in spans}
    return [document.text[place : place + 40] for place in document.wanted if place not in starts]


def mixed_chunks(document: Marked, spans: Sequence[tuple[int, int]]) -> list[str]:
    """Chunks with two subjects, each with the text around the place where the second begins."""
    return [
        document.text[max(0, place - 40) : place + 40]
        for start, end in spans
        for place in document.apart
        if document.text[start:place].strip() and start < place < end
    ]
