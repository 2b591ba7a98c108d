"""Numbers, quantities and times of day in one form: "1,200 m" is "1.2 km". English."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from sage_core.text.lexicon import MONTHS, NUMBER_WORDS
from sage_core.text.spans import Span

UNITS = Path(__file__).with_name("units.txt")
"""Units, their dimension and their factor."""

SCALES = {
    "dozen": 12.0,
    "hundred": 100.0,
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
    "trillion": 1e12,
    "k": 1e3,
    "bn": 1e9,
}
"""Words that multiply a number."""
_PARTS = {"half": 0.5, "quarter": 0.25, "third": 1 / 3, "quarters": 0.25, "thirds": 1 / 3}
_FRACTIONS = {"½": 0.5, "¼": 0.25, "¾": 0.75, "⅓": 1 / 3, "⅔": 2 / 3}
_GROUP = "[ \u00a0\u202f'’]"  # Parts thousands in some countries, and never decimals.
_TOKEN = re.compile(
    rf"(?<![\d.,])\d{{1,3}}(?:{_GROUP}\d{{3}})+(?!\d)(?:[.,]\d+)?"
    r"|\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![,\d])|\d{1,3}(?:\.\d{3})+(?:,\d+)?(?![.\d])|\d+(?:\.\d+)+"
    r"|(?<!\d[.,])\d+,\d+(?!,?\d)|\d+"
    r"|[½¼¾⅓⅔]|[a-zµμ]+[²³23]?(?![a-z])|[$€£¥%]|[-−–:/.,;]",
)
# What shows how a text writes decimals: "5,50", "1.234,5" and, the other way round, "5.50", "1,234".
_DECIMAL_COMMA = re.compile(r"\d\.\d{3},\d|(?<![\d,.])\d+,(?:\d{1,2}|\d{4,})(?![\d,])")
_DECIMAL_POINT = re.compile(r"\d,\d{3}\.\d|(?<![\d,.])\d+\.(?:\d{1,2}|\d{4,})(?![\d.])|\d,\d{3}(?!\d)")
_MONTHS = [month[:3] for month in MONTHS]
_MONTH = "|".join([*MONTHS, *_MONTHS])
_DAY = re.compile(
    rf"\b(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<month>{_MONTH})\b"
    rf"|(?P<month2>{_MONTH})\.? (?P<day2>\d{{1,2}})(?:st|nd|rd|th)?\b(?!:))"
    r"|\b\d{4}(?P<iso>-(?P<m3>\d\d)-(?P<d3>\d\d))\b"
    r"|\b(?P<plain>(?P<d4>\d{1,2})(?P<sep>[./])(?P<m4>\d{1,2})(?P=sep))\d{4}\b"
)
# "900 euros per month", "40 litres a minute", "/h".
_PER = re.compile(
    r"\s?(?:(?:per|/|each|every)\s?(?P<any>[a-z]+)"
    r"|an? (?P<time>second|minute|hour|day|night|week|month|year)s?\b)"
)
_CLOCK = re.compile(
    r"\b(?P<hour>[01]?\d|2[0-3])(?:(?P<sep>[:.h])(?P<minute>[0-5]\d))?(?:\s*(?P<half>[ap])\.?m\b\.?)?"
    r"(?![\d%]|,\d{3})"
)
# Right before "a minute" these make it a rate: "1,000 turns a minute", "twice a minute".
_COUNTED = re.compile(r"(?:\b(?:once|twice|times)|\d\s?(?:[^\W\d]+|[%€$£])?) \Z")
# A dash is a minus where neither a word nor a number stands before it: not in "F-16" and not in "3 - 5".
_MINUS = re.compile(r"(?:^|[^\w)%°\s]|(?:^|[^\d\s%])\s+)[-−–]\Z")
_MINUS_REACH = 5
_SIGNS = ("-", "−", "–")
_COUNTRIES = ("a", "au", "c", "ca", "nz", "hk", "s")  # Of dollars that are not those of the United States.
_TOLERANCE = 0.005  # Relative, of converted quantities: "1.2 km" for 1,203 m. By hand.


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number as a text means it.

    Attributes:
        value: In the own unit of the dimension: meters, kilograms, liters, seconds, minutes after midnight.
        dimension: Such as ``"length"``, ``"duration"``, ``"clock"``; empty for a number without a known
            unit. ``"clock12"`` is a time of day that may be before or after noon.
        span: Where it stands in the text.
        other: The value if a separator or the order of a date is read the other way: "12.500", "03/05/1911".
        per: The unit behind "per".
        written: A number without a unit as it is written, less what parts thousands: "2.10" is not "2.1".
        step: What its last digit counts: "$87.0" is not "$86.8", and may be "$87.04".
    """

    value: float
    dimension: str = ""
    span: Span = field(default=Span(0, 0), compare=False, repr=False)
    other: float | None = field(default=None, compare=False, repr=False)
    per: str = field(default="", compare=False, repr=False)
    written: str = field(default="", compare=False, repr=False)
    step: float = field(default=math.inf, compare=False, repr=False)

    @property
    def readings(self) -> tuple[float, ...]:
        """The values that it may have."""
        return (self.value,) if self.other is None else (self.value, self.other)

    def agrees(self, other: Quantity) -> bool:
        """Whether both can mean the same: of one dimension where both have one, and equal."""
        if "clock" in self.dimension or "clock" in other.dimension:
            if not (self.dimension.startswith("clock") and other.dimension.startswith("clock")):
                return False
            day = 720 if "clock12" in (self.dimension, other.dimension) else 1440
            return (self.value - other.value) % day == 0
        if self.dimension != other.dimension and (
            (self.dimension and other.dimension) or "date" in (self.dimension, other.dimension)
        ):
            return False
        if self.per and other.per and self.per != other.per:
            return False
        if self.written and other.written and self.other is None and other.other is None:
            return self.written == other.written
        # Units are converted and rounded; a bare number, such as a year, is itself.
        near = _TOLERANCE if self.dimension not in ("", "date") and other.dimension else 1e-9
        step = max(self.step, other.step) * 0.501
        pairs = [(a, b) for a in self.readings for b in other.readings]
        return any(abs(a - b) <= min(step, near * max(abs(a), abs(b))) for a, b in pairs)


@lru_cache(maxsize=4096)
def quantities(text: str) -> tuple[Quantity, ...]:
    """The quantities of a text in order: numbers in digits and words with their units, and times of day.

    Examples:
        >>> quantities("It takes an hour and a half.")
        (Quantity(value=5400.0, dimension='duration'),)
        >>> quantities("At 16:30.")[0].agrees(quantities("At 4:30 pm.")[0])
        True
    """
    lower = text.replace("İ", "i").lower()  # The one letter that two stand for in lower case: spans stay.
    result: list[tuple[int, Quantity]] = []
    for start, end, quantity in [*_clock_times(lower), *_dates(lower, text)]:
        if ";" * (end - start) != lower[start:end]:
            result.append((start, replace(quantity, span=Span(start, end))))
            # Blanked out, so that its digits are not read again as numbers; the length stays.
            lower = lower[:start] + ";" * (end - start) + lower[end:]
    tokens: list[tuple[int, str]] = []
    ends: dict[int, int] = {}
    numerals: dict[int, tuple[str, ...]] = {}
    for match in _TOKEN.finditer(lower):
        ends[match.start()], word = match.end(), match[0]
        if word[0].isdecimal():
            numerals[match.start()] = _readings(word, lower)
            word = numerals[match.start()][0]
        tokens.append((match.start(), word))
    i = 0
    while i < len(tokens):
        start, word = tokens[i]
        rate = word in ("a", "an") and _COUNTED.search(lower[max(0, start - 40) : start])
        number = None if rate else _number(tokens, i)
        if number is None:
            i += 1
            continue
        value, after = number
        quantity, after = _with_unit(tokens, i, value, after)
        # "A", "one" and the like are no quantity without a unit, and no float holds 400 digits.
        known = quantity.dimension or tokens[i][1][0].isdecimal() or value > 1
        if known and math.isfinite(quantity.value):
            start, end = _shown_from(tokens, i, quantity), ends[tokens[after - 1][0]]
            readings = numerals.get(tokens[i][0], (str(round(value)),))
            if len(readings) > 1:
                other = quantity.value * float(readings[1]) / float(readings[0])
                quantity = replace(quantity, other=other)
            if tokens[i][0] in numerals:
                decimals = len(readings[0].partition(".")[2])
                step = (
                    abs(quantity.value / float(readings[0])) * 10.0**-decimals if float(readings[0]) else 1.0
                )
                quantity = replace(quantity, step=step)
            if after == i + 1 and not quantity.dimension:
                quantity = replace(quantity, written=readings[0])
            if (sign := _minus_before(lower, tokens, i)) is not None:
                turned = None if quantity.other is None else -quantity.other
                start, quantity = sign, replace(quantity, value=-quantity.value, other=turned, written="")
            quantity = replace(quantity, span=Span(start, end), per=_period(lower, end))
            result.append((start, quantity))
        i = max(after, i + 1)
    return tuple(quantity for _, quantity in sorted(result, key=lambda item: item[0]))


def _shown_from(tokens: Sequence[tuple[int, str]], at: int, quantity: Quantity) -> int:
    """Where a quantity begins as it is shown: at its currency, if that stands before it."""
    if quantity.dimension.startswith("money") and at and tokens[at - 1][1] in quantity.dimension:
        country = at > 1 and quantity.dimension.startswith(f"money{tokens[at - 2][1]}{tokens[at - 1][1]}")
        return tokens[at - 2 if country else at - 1][0]
    return tokens[at][0]


def _readings(numeral: str, text: str) -> tuple[str, ...]:
    """What a numeral means, with a point for decimals; two readings where its separator is open."""
    plain = re.sub(_GROUP, "", numeral)
    marks = re.sub(r"\d", "", plain)
    if len(set(marks)) == 2:  # The last of both is for decimals.
        return (plain.replace(marks[0], "").replace(marks[-1], "."),)
    if len(marks) != 1:  # "1.234.567", or a version.
        return (plain.replace(marks[:1], "") if re.fullmatch(r"\d+(?:.\d{3})+", plain) else plain,)
    head, tail = plain.split(marks)
    decimal, grouped = f"{head}.{tail}", f"{head}{tail}"
    if len(tail) != 3 or len(head) > 3 or head[0] == "0" or head == "":
        return (decimal,)
    comma = _DECIMAL_COMMA.search(text) is not None
    if marks == ",":
        return (decimal,) if comma and not _DECIMAL_POINT.search(text.replace(numeral, "")) else (grouped,)
    if comma:
        return (grouped,)
    return (decimal,) if _DECIMAL_POINT.search(text) else (decimal, grouped)


def _period(lower: str, end: int) -> str:
    if match := _PER.match(lower, end):
        word = match["any"] or match["time"]
        return word if len(word) < 3 else word.removesuffix("s")
    return ""


def _dates(lower: str, text: str) -> Iterator[tuple[int, int, Quantity]]:
    """Days of a month; the year beside is a number of its own."""
    for m in _DAY.finditer(lower):
        if name := m["month"] or m["month2"]:
            at = m.start("month") if m["month"] else m.start("month2")
            if name == "may" and not text[at : at + 1].isupper():
                continue  # "You may 5 times".
            month, day, other = _MONTHS.index(name[:3]) + 1, int(m["day"] or m["day2"]), None
            start, end = m.span()
        else:
            start, end = m.span("iso") if m["iso"] else m.span("plain")
            month, day = int(m["m3"] or m["m4"]), int(m["d3"] or m["d4"])
            swapped = bool(m["plain"]) and m["sep"] == "/" and day <= 12
            if month > 12 and m["plain"]:
                month, day = day, month
            other = 100.0 * day + month if swapped and month <= 12 else None
        if 1 <= month <= 12 and 1 <= day <= 31:
            yield start, end, Quantity(100.0 * month + day, "date", other=other)


def _minus_before(lower: str, tokens: Sequence[tuple[int, str]], at: int) -> int | None:
    """Where the minus of a number or of its currency stands: "-5", "-$5", "$-5", "minus 5"; None for none."""
    place = at
    while place and at - place < 2 and tokens[place - 1][1] in ("$", "€", "£"):
        place -= 1
    starts = (start for start, _ in tokens[place : at + 1])
    before = [start for start in starts if _MINUS.search(lower[max(0, start - _MINUS_REACH) : start])]
    if before:
        return before[0] - 1
    return tokens[place - 1][0] if place and tokens[place - 1][1] == "minus" else None


@lru_cache(maxsize=1)
def _units() -> tuple[dict[str, tuple[str, float]], frozenset[str]]:
    """Dimension and factor by name, and the names that count only behind a number."""
    table: dict[str, tuple[str, float]] = {}
    short = set()
    for line in UNITS.read_text(encoding="utf-8").splitlines():
        if line.startswith("#") or not line.strip():
            continue
        dimension, factor, *names = line.split()
        for name in names:
            table[name.lstrip("~")] = dimension, float(factor)
            if name.startswith("~"):
                short.add(name[1:])
    return table, frozenset(short)


def _clock_times(lower: str) -> list[tuple[int, int, Quantity]]:
    times = []
    for match in _CLOCK.finditer(lower):
        half = match["half"]
        if half is None and match["sep"] != ":":
            continue  # A number, not a time.
        hour, minute = int(match["hour"]), int(match["minute"] or 0)
        # "9:30" may be morning or evening, "09:30" is not.
        sure = half is not None or hour > 12 or hour == 0 or len(match["hour"]) == 2
        if half is not None:
            hour = hour % 12 + (12 if half == "p" else 0)
        dimension = "clock" if sure else "clock12"
        times.append((match.start(), match.end(), Quantity(float(60 * hour + minute), dimension)))
    return times


def _number(tokens: list[tuple[int, str]], at: int) -> tuple[float, int] | None:
    """The number that begins at a token, and the position behind it."""
    word = tokens[at][1]
    words = [token for _, token in tokens[at : at + 8]] + [""] * 8  # no number has more; no end to look for
    if word[0].isdecimal():
        if word.count(".") > 1:
            return None  # A version or an address.
        value, i = float(word), 1
        if words[1] == "/" and words[2].isdecimal() and 0 < value < float(words[2]) <= 12:
            value, i = value / float(words[2]), 3  # "3/4 of an hour"
            i += words[i] == "of" and 1 + (words[i + 1] in ("a", "an"))
        if words[1] in _FRACTIONS:
            value, i = value + _FRACTIONS[words[1]], 2
        while words[i] in SCALES:
            value, i = value * SCALES[words[i]], i + 1
        return value, at + i
    if word in _FRACTIONS:
        return _FRACTIONS[word], at + 1
    if word in ("a", "an") and words[1] in SCALES and len(words[1]) > 2:
        return SCALES[words[1]], at + 2
    if word in ("a", "an", "half") or (word in NUMBER_WORDS and words[1] in _PARTS):
        part = _part(words)
        return None if part is None else (part[0], at + part[1])
    if word not in NUMBER_WORDS:
        return None
    value, words_read = _spelled(words)
    return value, at + words_read


def _part(words: Sequence[str]) -> tuple[float, int] | None:
    """A part of a unit, "half a liter" or "three quarters of a mile", or "an hour"; and its tokens."""
    table, short = _units()
    i = 0 if words[0] == "half" else 1
    if words[i] in _PARTS:
        value = NUMBER_WORDS.get(words[0], 1.0) * _PARTS[words[i]]
        i += 1
        i += words[i] == "of"
        i += words[i] in ("a", "an", *_SIGNS)
        return (value, i) if words[i] in table else None
    alone = words[0] in ("a", "an") and words[1] in table and words[1] not in short
    return (1.0, 1) if alone else None


def _spelled(words: Sequence[str]) -> tuple[float, int]:
    """A number in words, such as "one hundred and five", and how many tokens it takes."""
    total, part, i = 0.0, NUMBER_WORDS[words[0]], 1
    while True:
        step = i + (words[i] in _SIGNS or (words[i] == "and" and words[i - 1] in ("hundred", "thousand")))
        if words[step] in NUMBER_WORDS and (
            part % 100 == 0 or (part >= 20 and part % 10 == 0 and NUMBER_WORDS[words[step]] < 10)
        ):
            part, i = part + NUMBER_WORDS[words[step]], step + 1
        elif words[i] in SCALES and len(words[i]) > 2:
            scale = SCALES[words[i]]
            if scale == 100.0:
                part *= scale
            else:
                total, part = total + part * scale, 0.0
            i += 1
        else:
            break
        if i >= 8:
            break
    return total + part, i


def _with_unit(tokens: list[tuple[int, str]], start: int, value: float, after: int) -> tuple[Quantity, int]:
    """A number with the currency before it or the unit behind it, and "and a half"."""
    table, _ = _units()
    words = [token for _, token in tokens[after : after + 5]] + [""] * 5
    before = next(
        (token for _, token in reversed(tokens[max(0, start - 2) : start]) if token not in _SIGNS), ""
    )
    if before in ("$", "€", "£", "¥"):
        # "A$50" is not "US$50", which is "$50".
        country = tokens[start - 2][1] if start > 1 and tokens[start - 2][1] in _COUNTRIES else ""
        return Quantity(value, f"money{country}{before}"), after
    if words[:3] == ["and", "a", "half"] and (words[3] in table or words[3] in SCALES):
        value, after, words = value + 0.5, after + 3, [*words[3:], "", "", ""]  # "two and a half hours"
        if words[0] in SCALES:
            value, after, words = value * SCALES[words[0]], after + 1, words[1:]
    skip = int(words[0] in _SIGNS)
    if words[skip] not in table:
        return Quantity(value), after
    dimension, factor = table[words[skip]]
    after += 1 + skip
    words = [token for _, token in tokens[after : after + 5]] + [""] * 5
    if words[:3] == ["and", "a", "half"]:  # "an hour and a half"
        value, after = value + 0.5, after + 3
    elif words[:3] == ["and", "a", "quarter"]:
        value, after = value + 0.25, after + 3
    elif dimension == "duration":  # "1 hour 20 minutes"
        step = int(words[0] == "and")
        more = _number(tokens, after + step) if after + step < len(tokens) else None
        if more is not None and more[1] < len(tokens) and tokens[more[1]][1] in table:
            other, smaller = table[tokens[more[1]][1]]
            if other == dimension and smaller < factor:
                return Quantity(value * factor + more[0] * smaller, dimension), more[1] + 1
    return Quantity(round(value * factor, 9), dimension), after
