"""What no single sentence answers: a cell, a whole list, yes or no, two things side by side; by rule."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sage_core.errors import InputError
from sage_core.text.blocks import points_back
from sage_core.text.header import SEPARATOR
from sage_core.text.sentences import read_sentences
from sage_core.text.spans import Span
from sage_core.text.tables import cells_of, is_ruler
from sage_core.verify.words import YES_NO, stem_list

_COMPARES = re.compile(r"(?i)\b(?:compare|difference|differ|versus|vs|than|or)\b")
_SIDES = re.compile(r"(?i)\s+(?:or|and|versus|vs\.?|than)\s+")
_LISTS = re.compile(
    r"(?i)\s*(?:list\b|name (?:all|the)\b|(?:for |in |from |to )?(?:what|which)\b|"
    r"how (?:do|does|can|should|to)\b)"
)
_MARKER = re.compile(r"(?:[-*+•‣◦▪●·–—]|\(?(?:\d{1,3}|[A-Za-z])[.)])\s+")
_MARKUP = re.compile(r"^[#=*\s]+|[#=*~^`\s-]+$")
_ASKS_TIME = re.compile(r"(?i)\b(?:when|until when|what time)\b")
_ASKS_PERSON = re.compile(r"(?i)\bwho\b")
_DENIES = re.compile(r"(?i)\b(?:not|never|no)\b|n['’]t\b")
_ADVERBS = frozenset({"ever", "still", "alread", "yet", "real"})  # Stems that a question may have beside.
_COLUMNS = " | "  # Between the names of columns, see `sage_core.text.tables.column_names`.
_MONTH = "january|february|march|april|may|june|july|august|september|october|november|december"
_MONTHS = frozenset(stem_list(_MONTH.replace("|", " ")))
_DIGIT = re.compile(r"\d")
_MIN_COVERAGE = 0.8
_SURE_OF_LIST = 0.6
_SURE_OF_CELL = 0.7
_MOST_ROWS = 8  # Of a table that answer alike; a question that names more names none.
# Of 511 held-out training questions with such a sentence 38% are beyond these, and 95% of those right.
SURE_OF_YES, SURE_OF_NO = 0.9, 0.1

Affirms = Callable[[str, str], float | None]
"""How likely a sentence says yes to a question; None if that is unknown."""


@dataclass(frozen=True, slots=True)
class RuleAnswer:
    """An answer made by rule: its text, and the share of the question's words that it rests on."""

    text: str
    share: float


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    kind: str
    heading: str
    stems: frozenset[str]
    above: frozenset[str]  # Stems of its heading and of those above its passage.


@dataclass(frozen=True, slots=True)
class _Above:
    """What stands above a passage: the headings, the last one, and the columns of a table that goes on."""

    text: str = ""
    heading: str = ""
    columns: tuple[str, ...] = ()


_NOTHING_ABOVE = _Above()


def _above(place: str) -> _Above:
    *parts, last = place.partition(", ")[2].split(SEPARATOR)
    columns = tuple(last.split(_COLUMNS)) if _COLUMNS in last else ()
    parts = parts if columns else [*parts, last]
    return _Above(" ".join(parts), parts[-1] if parts else "", columns)


def answer_by_rule(
    question: str,
    passages: Sequence[str],
    affirms: Affirms | None = None,
    places: Sequence[str] | None = None,
) -> RuleAnswer | None:
    """The answer to a question for yes or no, two sides, a list or a cell; None for others, and where unsure.

    Args:
        question: The question.
        passages: Texts of the passages.
        affirms: How likely a sentence says yes to a question, see `LocalJudge.affirms`. Without it a question
            for yes or no gets the sentence alone.
        places: Where each passage is from, see `sage_app.pipeline.results.Retrieval.places`: headings, and
            the names of the columns where a table goes on.

    Raises:
        InputError: Where there are not as many places as passages.

    Examples:
        >>> answer_by_rule("Are dogs allowed on deck?", ["Cats sleep. Dogs are not allowed on deck."]).text
        'The documents say: “Dogs are not allowed on deck.”'
    """
    if places and len(places) != len(passages):
        raise InputError(f"{len(places)} places for {len(passages)} passages: give one for each, or none")
    known = [(p, _above(place)) for p, place in zip(passages, places or [""] * len(passages), strict=True)]
    lines = [line for passage, place in known for line in _lines(passage, place)]
    words = frozenset(w for w in stem_list(question))
    tables = [table for passage, place in known for table in _tables(passage, place)]
    if not words or not (lines or tables):
        return None
    weights = _rarity(words, lines)
    if _COMPARES.search(question) and (compared := _compared(question, lines, tables, weights)):
        return compared
    if asks_yes_or_no(question):
        weights = {w: v for w, v in weights.items() if w not in _ADVERBS} or weights
        return _yes_or_no(question, lines, weights, affirms)
    if YES_NO.match(question):  # One thing or the other.
        return None
    cell = _cell(question, tables, weights)
    listed = _listed(question, lines, weights) if _LISTS.match(question) else None
    formed = [answer for answer in (listed, cell) if answer is not None]
    return max(formed, key=lambda answer: answer.share, default=None)


def asks_yes_or_no(question: str) -> bool:
    """Whether a question is for yes or no, by its first word."""
    return YES_NO.match(question) is not None and re.search(r"(?i)\bor\b", question) is None


def list_below(lead: str, passage: str) -> str | None:
    r"""A line that introduces a list, with the list's items; None if none follows it.

    Examples:
        >>> list_below("Bring with you:", "Bring with you:\n\n- a torch\n- cash")
        'Bring with you: a torch; cash'
    """
    lines, lead = _lines(passage), " ".join(lead.split())
    for i, line in enumerate(lines):
        if line.text == lead and lead.endswith(":"):
            items = itertools.takewhile(lambda following: following.kind == "item", lines[i + 1 :])
            if texts := [item.text.rstrip(".;,") for item in items]:
                return f"{lead} {'; '.join(texts)}"
    return None


def _lines(passage: str, place: _Above = _NOTHING_ABOVE) -> list[_Line]:
    """The sentences and items of a passage, each with the heading above it."""
    spans, _, kinds = read_sentences(passage)
    lines, heading, above = [], place.heading, frozenset(stem_list(place.text))
    for span, kind in zip(spans, kinds, strict=True):
        text = span.of(passage).strip()
        if kind == "heading" or (kind == "text" and len(text) < 60 and not re.search(r"[.:;?!|]$", text)):
            heading = _MARKUP.sub("", text.split("\n")[0])
            above = frozenset(stem_list(f"{place.text} {heading}"))
            continue
        if kind == "table" or "|" in text:
            continue
        if _MARKER.match(text):
            kind, text = "item", _MARKER.sub("", text, count=1)
        lines.append(_Line(" ".join(text.split()), kind, heading, frozenset(stem_list(text)), above))
    return lines


def _rarity(words: frozenset[str], lines: Sequence[_Line]) -> dict[str, float]:
    """Weight of each word of the question: half for those in many lines."""
    return {w: 1.0 if sum(w in line.stems for line in lines) <= 0.3 * len(lines) + 1 else 0.5 for w in words}


def _share(weights: Mapping[str, float], held: frozenset[str] | set[str]) -> float:
    total = sum(weights.values())
    return sum(v for w, v in weights.items() if _matches_stem(w, held)) / total if total else 0.0


def _matches_stem(word: str, held: frozenset[str] | set[str]) -> bool:
    """Whether a word is held, or one with the same beginning: "clos" and "closes", "Sept." for a month."""
    if word in held or (word in _MONTHS and not held.isdisjoint((word[:3], word[:4]))):
        return True
    return len(word) >= 4 and any(
        len(h) >= 4 and (h.startswith(word[:5]) and abs(len(h) - len(word)) < 4) for h in held
    )


# -- yes or no -----------------------------------------------------------------------------------------------


def _yes_or_no(
    question: str, lines: Sequence[_Line], weights: Mapping[str, float], affirms: Affirms | None
) -> RuleAnswer | None:
    """The one sentence that holds nearly all of the question's words, and whether it says yes.

    Of a sentence that holds fewer, three in ten of what the model is sure of are wrong.
    """
    share, text = _best_line(lines, weights)
    if share < _MIN_COVERAGE:
        return None
    chance = affirms(question, text) if affirms is not None else None
    denies = _DENIES.search(text) is not None and _DENIES.search(question) is None
    if chance is None or SURE_OF_NO < chance < SURE_OF_YES or (denies and chance > 0.5):
        return RuleAnswer(f"The documents say: “{text}”", share)
    return RuleAnswer(f"The documents suggest {'yes' if chance > 0.5 else 'no'}: “{text}”", share)


def direct_sentence(question: str, passage: str) -> str | None:
    """The sentence of a passage that holds nearly all of a question's words; None if none does."""
    lines = _lines(passage)
    share, text = _best_line(lines, _rarity(frozenset(stem_list(question)), lines))
    return text if share >= _MIN_COVERAGE else None


def _best_line(lines: Sequence[_Line], weights: Mapping[str, float]) -> tuple[float, str]:
    """The sentence that holds most of the words, with the one before where it points back, and their share.

    Half of them stand in the sentence itself, others may stand in the heading above it.
    """
    best, text = 0.0, ""
    for i, line in enumerate(lines):
        if line.kind == "item" and not line.text.endswith("."):
            continue
        held, said, above = line.stems, line.text, lines[max(0, i - 1)]
        back = points_back(said, Span(0, len(said))) and above.heading == line.heading
        if back and _share(weights, held) < _MIN_COVERAGE:
            held, said = held | above.stems, f"{above.text} {said}"
        if _share(weights, held) < 0.5:
            continue
        share = _share(weights, held | line.above)
        if share > best:
            best, text = share, said
    return best, text


# -- lists ---------------------------------------------------------------------------------------------------


def _listed(question: str, lines: Sequence[_Line], weights: Mapping[str, float]) -> RuleAnswer | None:
    """The whole list whose lead or heading holds most of the question's words."""
    best: RuleAnswer | None = None
    start = 0
    while start < len(lines):
        end = start
        while end < len(lines) and lines[end].kind == "item" and lines[end].heading == lines[start].heading:
            end += 1
        if end - start >= 2:
            above = lines[start - 1] if start and lines[start - 1].kind != "item" else None
            lead = above.text if above is not None and above.text.endswith(":") else lines[start].heading
            own = frozenset(stem_list(f"{lead} {lines[start].heading}"))
            value = _share(weights, own | lines[start].above) if _share(weights, own) else 0.0
            opposite = bool(_DENIES.search(lead)) != bool(_DENIES.search(question))
            if value >= _SURE_OF_LIST and not opposite and (best is None or value > best.share):
                items = "; ".join(line.text.rstrip(".;,") for line in lines[start:end])
                best = RuleAnswer(f"The documents say: “{lead.rstrip(':')}: {items}”", value)
        start = max(end, start + 1)
    return best


# -- tables --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Table:
    """A table: the heading above it, the names of its columns, and its rows."""

    heading: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def _heading(line: str, before: str) -> str:
    """What stands above the lines that follow, where ``before`` stood above this one."""
    if not line or set(line) <= set("=-~^#* ") or line.count("|") >= 2:
        return before
    return _MARKUP.sub("", line) if len(line) < 100 else ""


def _tables(passage: str, place: _Above) -> list[_Table]:
    tables: list[_Table] = []
    heading, block = "", list[str]()
    for line in [*passage.splitlines(), ""]:
        text = line.strip()
        if text.count("|") >= 2:
            block.append(text)
            continue
        rows = [tuple(cell.strip("`") for cell in cells_of(row)) for row in block if not is_ruler(row)]
        names = place.columns
        if rows and len(rows[0]) == len(names) + 1:
            names = ("", *names)  # The column of the rows' own names often has none.
        if not (rows and not tables and len(rows[0]) == len(names)) or is_ruler(
            block[min(1, len(block) - 1)]
        ):
            names, rows = (rows[0], rows[1:]) if len(block) > 2 else ((), [])
        if rows:
            about = f"{place.text} {heading}"
            tables.append(_Table(about, names, tuple(r for r in rows if len(r) == len(names))))
        block = []
        heading = _heading(text, heading)
    return tables


def _cell(question: str, tables: Sequence[_Table], weights: Mapping[str, float]) -> RuleAnswer | None:
    """The cell whose row and column hold most of the question's words, with its row quoted; of ties all."""
    total = sum(weights.values())
    best, ties = (0.0, 0.0), list[tuple[_Table, tuple[str, ...], int]]()
    for table in tables:
        about = _named(weights, frozenset(stem_list(table.heading)))
        heads = [_named(weights, frozenset(stem_list(head))) for head in table.header]
        # Each cell is stemmed once: for every pair of cells it would take the square of their number.
        named = [[_named(weights, frozenset(stem_list(cell))) for cell in row] for row in table.rows]
        rows_with = Counter(word for row in named for word in frozenset().union(*row))
        for row, words in zip(table.rows, named, strict=True):
            cells_with = Counter(word for cell in words for word in cell)
            for column, value in enumerate(row):
                if not value:
                    continue
                in_row = frozenset(w for w, n in cells_with.items() if n > (w in words[column]))
                if not in_row or _among_all(stem_list(value), weights):
                    continue  # The question has to name its row, and not the value.
                # A word of one row says more than a word of all.
                distinct = sum(1 / rows_with[w] for w in weights if w in in_row) / len(weights)
                fits = _kind_fits(question, table.header[column], value)
                score = distinct + 0.6 * bool(heads[column]) + 0.3 * fits
                held = in_row | heads[column] | about
                covered = round(sum(v for w, v in weights.items() if w in held) / total, 2)
                if (covered, score) > best:
                    best, ties = (covered, score), []
                if (covered, score) == best:
                    ties.append((table, row, column))
    rows: dict[str, str] = {}
    for (table, row), same in itertools.groupby(ties, key=lambda tie: tie[:2]):
        if best[0] >= _SURE_OF_CELL and len(rows) <= _MOST_ROWS:
            rows.setdefault(_row_text(table, row), _row_text(table, row, next(same)[2]))
    if not rows or len(rows) > _MOST_ROWS:
        return None
    return RuleAnswer(f"The documents say: {', '.join(f'“{row}”' for row in rows.values())}", best[0])


def _named(weights: Mapping[str, float], held: frozenset[str]) -> frozenset[str]:
    """The question's words that a text holds, see `_matches_stem`."""
    return frozenset(w for w in weights if _matches_stem(w, held))


def _among_all(value: Sequence[str], words: Mapping[str, float]) -> bool:
    return bool(value) and all(w in words for w in value)


def _kind_fits(question: str, head: str, value: str) -> bool:
    """Whether a cell is of the kind that the question asks for: a number, a time, a person."""
    if re.fullmatch(r"(?i)who|when|where", head) and re.search(rf"(?i)\b{head}\b", question):
        return True
    if re.search(r"(?i)\bhow (?:much|many|long|far|high|large|often|clear)\b|\bcost\b", question):
        return bool(_DIGIT.search(value)) or "often" in question.lower()
    if _ASKS_TIME.search(question):
        return bool(re.search(rf"(?i)\d|{_MONTH}", value))
    return bool(_ASKS_PERSON.search(question)) and not _DIGIT.search(value)


def _row_text(table: _Table, row: Sequence[str], answer: int = -1) -> str:
    """A row as its cells with their headers, one of them marked."""
    cells = [f"**{cell}**" if i == answer else cell for i, cell in enumerate(row)]
    return "; ".join(f"{h}: {c}" if h else c for h, c in zip(table.header, cells, strict=True) if c)


# -- comparisons ---------------------------------------------------------------------------------------------


def _compared(
    question: str, lines: Sequence[_Line], tables: Sequence[_Table], weights: Mapping[str, float]
) -> RuleAnswer | None:
    """What is said of either side: two rows of a table, or the sentences that hold each side."""
    parts = _SIDES.split(question.strip().rstrip("?."), maxsplit=1)
    if len(parts) != 2:
        return None
    left, right = (re.split(r",| of | between | for |: ", part) for part in parts)
    one, two = frozenset(stem_list(left[-1])), frozenset(stem_list(right[-1]))
    one, two = one - two, two - one
    if not one or not two:
        return None
    shared = {w: v for w, v in weights.items() if w not in one and w not in two}
    for table in _whole(tables):
        rows = [_side_row(table, side) for side in (one, two)]
        if not rows[0] or not rows[1] or rows[0] == rows[1]:
            continue
        named = frozenset(stem_list(" ".join((*rows[0], *rows[1]))))
        head = frozenset(w for h in (*table.header, table.heading) for w in stem_list(h))
        rest_of_question = {w: v for w, v in weights.items() if not _matches_stem(w, named)}
        if not rest_of_question or _share(rest_of_question, head) >= 0.5:
            said = " and ".join(f"“{_row_text(table, row)}”" for row in rows if row)
            return RuleAnswer(f"The documents say: {said}", 1.0)
    quotes = []
    for side in (one, two):
        scored = [
            (sum(_matches_stem(w, line.stems) for w in side) / len(side), _share(shared, line.stems), -i)
            for i, line in enumerate(lines)
        ]
        value, rest, at = max(scored, default=(0.0, 0.0, 0))
        if value < 0.5 or (shared and rest < 0.3):
            return None
        quotes.append(lines[-at].text)
    said = " and ".join(f"“{text}”" for text in dict.fromkeys(quotes))
    return RuleAnswer(f"The documents say: {said}", 1.0)


def _whole(tables: Sequence[_Table]) -> list[_Table]:
    """Tables with the rows of all that have the same columns: one that goes on in another passage is one."""
    rows: dict[tuple[str, ...], dict[tuple[str, ...], None]] = {}
    for table in tables:
        rows.setdefault(table.header, {}).update(dict.fromkeys(table.rows))
    headings = {table.header: table.heading for table in reversed(tables)}
    return [_Table(headings[header], header, tuple(own)) for header, own in rows.items()]


def _side_row(table: _Table, side: frozenset[str]) -> tuple[str, ...] | None:
    """The one row that has most words of a side, of several the one with the shortest cell that has them."""
    ranks = []
    for row in table.rows:
        cells = [frozenset(stem_list(cell)) for cell in row]
        words = [w for w in side if any(_matches_stem(w, cell) for cell in cells)]
        sizes = [len(cell) for cell in cells if any(_matches_stem(w, cell) for w in words)]
        ranks.append((len(words), -min(sizes, default=0)))
    top = max(ranks, default=(0, 0))
    return table.rows[ranks.index(top)] if top[0] and ranks.count(top) == 1 else None
