"""What passages say in place of what a claim says: another number, another cell, a denial."""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache

from sage_core.text.keywords import stem_list
from sage_core.text.lexicon import CLAUSES, COMMON_ENGLISH, DENIAL, NUMBER_WORDS
from sage_core.text.spans import Span
from sage_core.verify.passages import Cell, ParsedPassages, Sentence
from sage_core.verify.quantities import Quantity, quantities

# All chosen by hand.
_SAME_MATTER = 0.6  # Weighted share of a claim's words in a sentence about the same.
_RIVAL = 0.2  # A sentence with so much less of them than the best one is about something else.
_ROUNDED = 0.05  # Relative difference below which one number is the other, rounded.
_CELL_WORDS = 4  # A cell of more words is a text, not a value of its column.
_MAX_NAMED_ROWS = 20  # Of more rows with one name none is meant.
_UNEXPLAINED = 1  # Words of a claim beside those of its row and `_OF_ROWS`.
# Words that say only that a row has what its cell says: "costs", "is included", "is 1.2 km long".
_OF_ROWS = frozenset(
    stem_list(
        "cost price charge fee pay rate amount total come include exclude allow permit offer available row"
        " support feature require need possible hold take last weigh measure long wide high deep entry table"
    )
)
_YES = frozenset({"yes", "y", "true", "included", "✓", "✔", "✅"})
_NO = frozenset(
    {"no", "n", "false", "none", "closed", "not included", "not available", "unavailable", "✗", "✘", "❌"}
)
_MISSING = frozenset({"–", "-", "—"})
_DENIES = frozenset(stem_list("exclude forbid forbidden ban prohibit lack refuse unavailable"))
_NUMBER_STEMS = frozenset(stem_list(" ".join(NUMBER_WORDS)))
_DENIED_WORDS = 2  # Content words of a claim that may be denied; of one word alone too little is known.
# What makes a clause say a thing under a condition, or not at all.
_LIMITS = re.compile(r"(?i)\b(?:if|unless|until|till|except|but|before|whether|only|when)\b")
_SURE = 2
_MAX_RIVALS = 8  # Of more numbers of a kind in a sentence none is meant.
_NEAR = 20  # Characters before a number in which it may be said to be a bound.
_BOUND = re.compile(
    r"(?i)\b((?:more|less|fewer|greater|longer|higher|lower|rather|other) than|over|under|above|below"
    r"|at least|at most|up to|nearly|almost|about|around|roughly|approximately|some|exceed\w*|minimum"
    r"|maximum|between|or)\b"
)
_MOST = frozenset({"up to", "at most", "maximum", "under", "below", "less than", "fewer than"})
_LETTER = re.compile(r"\b[A-Z]\b")
_NEXT_WORD = re.compile(r"(?:[ -]|°)+([^\W\d_]+)")
_LAST_WORD = re.compile(r"([^\W\d_]+)\W*\Z")


@dataclass(frozen=True, slots=True)
class Contradiction:
    """What a claim says, and what a sentence says in its place."""

    said: str
    instead: str
    sentence: Sentence

    def reason(self) -> str:
        """In words, with the place."""
        passage = self.sentence.passage
        where = self.sentence.heading or f"passage {passage + 1}"
        return f"the passages say “{self.instead}” ({where}) where it says “{self.said}”"


def find_contradiction(text: str, material: ParsedPassages) -> tuple[Contradiction | None, Sentence | None]:
    """What the passages say in place of a part of a claim, or the row of a table that says just the same."""
    row, holds = _in_row(text, material)
    if holds is not None:
        return None, holds
    return row or _other_number(text, material) or _denial(text, material), None


# -- numbers -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Number:
    """A number, how it is written, and what it numbers: numbers of one slot exclude each other.

    ``like``: the same with the unit of a number before it, which it may share: "28 pounds, and 36 abroad".
    """

    value: Quantity
    shown: str
    slot: tuple[str, str]
    bound: str = ""
    like: _Number | None = None

    @property
    def kinds(self) -> set[str]:
        return {n.slot[0] for n in (self, self.like) if n is not None} - {"last"}

    def read_as(self, other: _Number) -> _Number:
        return self.like if self.like is not None and self.like.slot == other.slot else self

    def excludes(self, other: _Number) -> bool:
        other = other.read_as(self)
        if self.slot != other.slot or self.value.agrees(other.value):
            return False
        a, b = self.value.value, other.value.value
        if self.value.dimension != other.value.dimension and self.slot[0] == "money":
            return a == b  # "$50" is not "€50"; another amount may be the same sum
        near = 0.0 if self.slot[0] in ("year", "date", "clock") else _ROUNDED * max(abs(a), abs(b))
        if self.bound != other.bound:  # "65 euros" is not "up to 45 euros", and 40 may be.
            return not self.bound and other.bound in _MOST and a > b + near
        return abs(a - b) > near


@lru_cache(maxsize=2048)
def _numbers(text: str) -> tuple[_Number, ...]:
    """The numbers of a text."""
    found: list[_Number] = []
    before: _Number | None = None
    for q in quantities(text):
        number = _number(text, q)
        if before is not None and not q.dimension and number.slot[0] in ("last", "of"):
            shown = re.sub(r"[\d.,]+|^\w+", q.span.of(text), before.shown, count=1)
            if len(again := quantities(shown)) == 1:
                value = replace(again[0], span=q.span)
                like = replace(number, value=value, shown=shown, slot=before.slot)
                # "And three for the battery" has no other unit; "and 36 abroad" may have.
                sure = number.slot[0] == "last" and number.slot[1] in COMMON_ENGLISH
                number = like if sure else replace(number, like=like)
        if number.slot[0] not in ("year", "date", "clock", "last"):
            before = number
        found.append(number)
    return tuple(found)


def _number(text: str, q: Quantity) -> _Number:
    before, after = text[: q.span.start], text[q.span.end :]
    bound = _BOUND.search(before[-_NEAR:].rpartition(",")[2])
    shown, unit = q.span.of(text), _NEXT_WORD.match(after)
    last = _LAST_WORD.search(before[-_NEAR:])
    if q.dimension:
        slot = ("money" if q.dimension.startswith("money") else q.dimension.removesuffix("12"), "")
    elif 1000 <= q.value < 2100 and shown.isdecimal():
        slot = ("year", last[1].lower() if last else "")
    elif unit is not None and unit[1].lower() not in COMMON_ENGLISH and (head := stem_list(unit[1])):
        slot, shown = ("of", head[0]), f"{shown}{unit[0]}"
    else:
        slot = ("last", last[1].lower() if last else "")
    return _Number(q, shown, slot, bound[1].lower() if bound else "")


def _agrees(own: _Number, others: Sequence[_Number]) -> bool:
    def same(o: _Number) -> bool:
        if "date" in (own.slot[0], o.slot[0]):
            return own.value.agrees(o.value)
        # "Two years, the frame for ten": the unit is that of the number before, or left out.
        bare = not o.value.dimension or not own.value.dimension
        return own.value.agrees(o.value) or (bare and o.shown.split()[0] == own.shown.split()[0])

    return any(same(o) for o in others)


# -- sentences -----------------------------------------------------------------------------------------------


def _other_number(text: str, material: ParsedPassages) -> Contradiction | None:
    """Where the sentence that says the rest of a claim has another number in the place of the claim's.

    That sentence holds at least `_SAME_MATTER` of the claim's words, less its numbers. If another one that
    holds as much of the rest agrees, the claim stands.
    """
    if not _numbers(text):
        return None
    claim = set(stem_list(text))
    units = {w for q in quantities(text) if q.dimension == "duration" for w in stem_list(q.span.of(text))}
    plain = {w for w in claim - units - _NUMBER_STEMS if not w[0].isdecimal()}
    about = [
        (s, *differences(text, s))
        for s in _about_the_same(plain, material, claim)
        if not s.cells and s.kind != "table"
    ]
    for sentence, other, _ in about:
        for shown, instead in other.items():
            # One that agrees acquits: the other one is of another year, person or row.
            if not any(shown in agreed for _, _, agreed in about):
                return Contradiction(shown, instead, sentence)
    return None


def _denial(text: str, material: ParsedPassages) -> Contradiction | None:
    """Where a clause with all words of a claim denies it, or the claim denies what the clause says.

    If another clause with all of them agrees, or only supposes it, the claim stands.
    """
    own = set(stem_list(DENIAL.sub("", text)))
    found = None
    for sentence in material.sentences:
        if len(own) < _DENIED_WORDS or sentence.cells or not own <= sentence.words:
            continue
        for clause in CLAUSES.split(sentence.text):
            if not own <= set(stem_list(clause)):
                continue
            if _LIMITS.search(sentence.text) or _denied(clause) == _denied(text):
                return None
            found = found or Contradiction(text.strip(" ."), clause.strip(" ."), sentence)
    return found


def _denied(text: str) -> bool:
    return len(DENIAL.findall(text)) % 2 > 0


def differences(text: str, sentence: Sentence) -> tuple[dict[str, str], frozenset[str]]:
    """Which numbers of a claim a sentence has otherwise, and which it has too, as the claim writes them."""
    other: dict[str, str] = {}
    agreed = set()
    own, theirs = _numbers(text), _numbers(sentence.text)
    for number in own:
        held = _agrees(number, theirs)
        others = (n.read_as(number) for n in theirs if not _agrees(n, own) and number.excludes(n))
        free = list(itertools.islice(others, _MAX_RIVALS + 1))
        free = free[:1] if len(free) > _MAX_RIVALS else free
        # Those with which in its place the claim stands.
        before, after = text[: number.value.span.start], text[number.value.span.end :]
        stands = [_stands(n, f"{before}{n.shown}{after}", sentence.text) for n in free]
        best = [n for n, how in zip(free, stands, strict=True) if how == max(stands)]
        if held and (
            _beside(number, own) or max(stands, default=0) < _SURE or _stands(number, text, sentence.text)
        ):
            agreed.add(number.shown)
        elif best and (held or not _derived(number, theirs)):
            other[number.shown] = " or ".join(dict.fromkeys(n.shown for n in best))
    return other, frozenset(agreed)


def _derived(number: _Number, theirs: Sequence[_Number]) -> bool:
    """Whether a number is the sum or the difference of two of a kind, or double one."""
    units = (number.value.dimension, "")
    values = sorted({v for n in theirs if n.value.dimension in units for v in n.value.readings})
    wanted = number.value.value

    def near(value: float) -> list[float]:
        i = bisect_left(values, value)
        return values[max(0, i - 1) : i + 1]

    sums = (a + b for a in values for b in near(wanted - a))
    gaps = (b - a for a in values for b in near(wanted + a))
    return any(v and math.isclose(wanted, v, rel_tol=0.005) for v in itertools.chain(sums, gaps))


def _about_the_same(plain: set[str], material: ParsedPassages, claim: Set[str]) -> list[Sentence]:
    """The sentences that hold most of a claim's words; "it" is what the sentence before names."""
    near: list[tuple[float, Sentence]] = []
    for previous, sentence in zip([None, *material.sentences], material.sentences, strict=False):
        held = sentence.words & plain
        if sentence.refers and previous is not None and previous.passage == sentence.passage:
            held |= previous.words & plain if held or sentence.words & claim else frozenset()
        near.append((len(held) / max(1, len(plain)), sentence))
    least = max(_SAME_MATTER, max((share for share, _ in near), default=0.0) - _RIVAL)
    return [sentence for share, sentence in near if share >= least]


def unanchored(text: str, evidence: Sequence[Sentence]) -> str:
    """Why a claim's numbers may be those of something else, in words; empty if they are not.

    Each stands in a sentence of the evidence. If that sentence has one of its kind which the claim lacks, the
    claim's words stand with its own.
    """
    numbers = _numbers(text)
    for number in numbers:
        places = [s for s in evidence if _agrees(number, _numbers(s.text))]
        if not places:
            return f"its number {number.shown} is not in the sentence about it"
        part = _clause(text, number.value.span) if _beside(number, numbers) else text
        if not any(s.cells or _stands(number, part, s.text) for s in places):
            return f"its sentence has another number beside {number.shown}"
    return ""


def _beside(number: _Number, numbers: Sequence[_Number]) -> bool:
    return any(n.kinds & number.kinds for n in numbers if n is not number)


def _clause(text: str, span: Span) -> str:
    borders = [0, *(m.start() for m in CLAUSES.finditer(text)), len(text)]
    return text[max(b for b in borders if b <= span.start) : min(b for b in borders if b >= span.end)]


def _stands(number: _Number, text: str, sentence: str) -> int:
    """Whether what a claim says of a number stands with it, not with another of its kind: 0, 1 or `_SURE`."""
    own, there, said = set(stem_list(text)), _numbers(sentence), _numbers(text)
    held = [n.value.span for n in there if _agrees(number, [n])]
    rivals = [n.value.span for n in there if n.kinds & number.kinds and not _agrees(n, [number, *said])]
    if len(rivals) > _MAX_RIVALS:
        return 0
    ends = [*(m.start() for m in CLAUSES.finditer(sentence)), len(sentence)]
    clauses: dict[int, tuple[list[Span], list[Span]]] = {}
    for side, spans in enumerate((held, rivals)):
        for span in spans:
            clauses.setdefault(bisect_right(ends, span.start), ([], []))[side].append(span)
    here, others, first = set[str](), set[str](), set[str]()
    for i, (mine, beside) in sorted(clauses.items()):
        at, end = ends[i - 1] if i else 0, ends[i]
        plain = sentence[at:end]
        for start, stop in sorted(mine + beside, reverse=True):
            plain = plain[: start - at] + plain[stop - at :]
        words = set(stem_list(plain))
        if not here | others and not mine:
            first = words
        (here if mine else others).update(words)
        for rival in beside if mine else ():
            far = sentence[rival.end : end] if rival.start > mine[0].start else sentence[at : rival.start]
            # What stands beyond the other number is of that one; so is what stands behind its "to".
            swapped = _word_before(text, number.value.span) == _word_before(sentence, rival)
            if not own.isdisjoint(stem_list(far)) or swapped:
                return 0
    # "Adults pay 12 dollars, children 7": a clause leaves out what the first one says, but for what differs.
    if any(map(str.isalpha, here)) and here <= own and own & others <= here | first and not first <= own:
        return _SURE
    return int(own & others <= here)


def _word_before(text: str, span: Span) -> str:
    last = _LAST_WORD.search(text[max(0, span.start - _NEAR) : span.start])
    return last[1].lower() if last else text


# -- rows of tables ------------------------------------------------------------------------------------------


def _in_row(text: str, material: ParsedPassages) -> tuple[Contradiction | None, Sentence | None]:
    """What the row that a claim names says otherwise; or the row, where it says just what is claimed."""
    own = stem_list(text)
    # "Class A" is no article.
    words = {*own, *(w for w in text.lower().split() if len(w) > 1), *_LETTER.findall(text[1:])}
    rows = [row for row in material.sentences if row.cells]
    heads = {id(row): [cell.header for cell in row.cells] for row in rows}
    keys = [_row_name(row, words) for row in rows]
    most = max((len(key) for key in keys if key <= words), default=0)
    named = [row for row, key in zip(rows, keys, strict=True) if most and len(key) == most and key <= words]
    if not 0 < len(named) <= _MAX_NAMED_ROWS:
        return None, None
    # Of rows with one name, those below the heading that the claim names.
    shared = [len(words.intersection(stem_list(_above(row)))) for row in named]
    named = [row for row, n in zip(named, shared, strict=True) if n == max(shared)]
    told = [
        (row, *_against_row(text, own, row, [r for r in rows if heads[id(r)] == heads[id(row)]]))
        for row in named
    ]
    # Else another table has a row of that name, or the claim names two.
    other = told[-1][1] if all(found for _, found, _ in told) else None
    return other, told[0][0] if all(holds for *_, holds in told) else None


def _key(row: Sentence) -> Cell:
    """The cell that names a row: the first one with letters, behind the heading."""
    own = [cell for cell in row.cells if cell.span.start >= row.span.start]
    return next((cell for cell in own if any(c.isalpha() for c in cell.text)), own[0])


def _row_name(row: Sentence, own: Set[str]) -> set[str]:
    """The words that name a row; those before a comma where a claim has them alone: "Clay, 10 kg"."""
    text = _key(row).text
    whole = set(stem_list(text) or (text.lower().split() if len(text) > 1 else [text]))
    short = set(stem_list(re.split(r"[,;(]", text)[0]))
    return short if short and not whole <= own else whole


def _named_columns(columns: Sequence[Cell], own: Sequence[str]) -> list[Cell]:
    """Of columns that share words with a claim those that it names best: "Non-member" before "Member"."""
    heads = [set(stem_list(c.header)) for c in columns]
    shared = [head & set(own) for head in heads]

    def outdone(i: int) -> bool:
        return any(
            (shared[i] < shared[j] and any(own.count(w) == 1 for w in shared[i]))
            or (shared[i] == shared[j] and heads[j] <= set(own) and not heads[i] <= set(own))
            for j in range(len(columns))
        )

    return [c for i, c in enumerate(columns) if not outdone(i)]


def _against_row(
    text: str, own: Sequence[str], row: Sentence, table: Sequence[Sentence]
) -> tuple[Contradiction | None, bool]:
    """As `_in_row`, for one of the rows that the claim names."""
    key = _key(row)
    values = [cell for cell in row.cells if cell.header and cell is not key]
    about = set(stem_list(" ".join([key.text, *(c.text for c in row.cells if not c.header)])))
    columns = [
        c for c in values if not about.issuperset(head := set(stem_list(c.header))) and head & set(own)
    ]
    columns = _named_columns(columns, own)
    names = _numbers("; ".join([key.text, _above(row), *(c.header for c in row.cells)]))
    numbers = [n for n in _numbers(text) if not _agrees(n, names)]
    said, explained = 0, about | _OF_ROWS | {w for c in row.cells for w in stem_list(c.header)}
    for number in numbers:
        cells = [c for c in values if _agrees(number, _cell_numbers(c))]
        if cells and (not columns or any(c in columns for c in cells)):
            said += 1
            explained |= {w for c in cells for w in stem_list(c.text)} | set(stem_list(number.shown))
            continue
        elsewhere = [
            own
            for other in table
            for c, own in zip(other.cells, row.cells, strict=True)
            if stem_list(c.header) and _agrees(number, _cell_numbers(c))  # not of "#", which counts the rows
        ]
        there = [_bare(n) for c in values for n in _cell_numbers(c)]
        if not cells and not elsewhere and _derived(_bare(number), there):
            return None, False
        instead = _fit(number, columns or [c for c in values if c in elsewhere] or values)
        # A bare number may number what no column holds.
        if instead is not None and (number.value.dimension or elsewhere or cells):
            return Contradiction(number.shown, instead.text, row), False
        if cells:  # It stands in another column than the claim names.
            return None, False
    for word, other in _words_of_row(text, own, row, table, columns, about):
        if isinstance(other, Contradiction):
            return other, False
        said += 1
        explained |= set(word)
    left = [w for w in own if w not in explained and not w[0].isdecimal()]
    return None, said > 0 and len(left) <= _UNEXPLAINED


def _words_of_row(
    text: str,
    own: Sequence[str],
    row: Sentence,
    table: Sequence[Sentence],
    columns: Sequence[Cell],
    about: set[str],
) -> Iterator[tuple[Sequence[str], Contradiction | None]]:
    """The words of cells that a claim says too, and where it says those of another row."""
    denied = (len(DENIAL.findall(text)) + sum(w in _DENIES for w in own)) % 2 > 0
    values = [cell for cell in row.cells if cell.header and cell is not _key(row)]
    for i, cell in enumerate(row.cells):
        words = stem_list(cell.text)
        if cell in columns and (no := _is_no(cell, [r.cells[i].text for r in table])) is not None:
            named = [w for w in stem_list(cell.header) if w not in about | _OF_ROWS]
            if named and named[-1] in own:  # "Extra rinse" is a rinse.
                if no != denied:
                    claimed = f"{cell.header}: {'no' if denied else 'yes'}"
                    yield (), Contradiction(claimed, f"{cell.header}: {cell.text}", row)
                yield (), None
            continue
        if cell not in values or not words or _numbers(cell.text):
            continue
        if _runs(words, own):
            yield words, None
            continue
        for other in (r.cells[i].text for r in table):
            swapped = stem_list(other)
            values_too = any(_runs(swapped, stem_list(c.text)) for c in values)
            short = 0 < len(swapped) <= _CELL_WORDS and not _numbers(other)
            if short and _runs(swapped, own) and not values_too and not about.issuperset(swapped):
                yield (), Contradiction(other, cell.text, row)


def _cell_numbers(cell: Cell) -> tuple[_Number, ...]:
    """The numbers of a cell; of a table in thousands each may be so many thousands."""
    if cell.scale == 1:
        return _numbers(cell.text)
    scaled = ((n, replace(n.value, other=n.value.value * cell.scale)) for n in _numbers(cell.text))
    return tuple(replace(n, value=value) for n, value in scaled)


def _is_no(cell: Cell, column: Sequence[str]) -> bool | None:
    """Whether a cell says no; None where it says neither. Only in a column of both is a dash a no."""
    text = cell.text.lower()
    both = {other.lower() for other in column} <= _YES | _NO | _MISSING
    if text in _NO or (both and text in _MISSING):
        return True
    return False if both and text in _YES else None


def _above(row: Sentence) -> str:
    return "; ".join(c.text for c in row.cells if not c.header)


def _fit(number: _Number, cells: Sequence[Cell]) -> Cell | None:
    """The first cell with another number of the same dimension; of one cell alone, without a unit too."""
    dimensions = {number.value.dimension}
    if len(cells) == 1:
        dimensions |= {""} if number.value.dimension else {n.value.dimension for n in _numbers(cells[0].text)}
    for cell in cells:
        there = _cell_numbers(cell)
        same = _agrees(number, there) or (cell.scale == 1 and _agrees(_bare(number), [*map(_bare, there)]))
        if not same and any(n.value.dimension in dimensions for n in there):
            return cell
    return None


def _bare(number: _Number) -> _Number:
    """The numeral alone: what a table counts in, such as millions or per cent, may stand elsewhere."""
    plain = quantities(re.sub(r"[^\d.,]", "", number.shown))
    return replace(number, value=plain[0], slot=("", "")) if plain else number


def _runs(words: Sequence[str], own: Sequence[str]) -> bool:
    """Whether words stand side by side in others."""
    return any(list(words) == list(own[i : i + len(words)]) for i in range(len(own) - len(words) + 1))
