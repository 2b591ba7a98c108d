"""Numbers, quantities and times of day in one form: "1,200 m" is "1.2 km". English."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from sage_core.text.spans import Span

UNITS = Path(__file__).with_name("units.txt")
"""Units, their dimension and their factor."""

_UNITS_BELOW_20 = re.findall(
    r"\w+",
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen",
)
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_WORDS: dict[str, float] = {word: float(n) for n, word in enumerate(_UNITS_BELOW_20)}
_WORDS["twice"] = 2.0
_WORDS |= {word: 10.0 * n for n, word in enumerate(_TENS, 2)}
NUMBER_WORDS = frozenset(_WORDS)
"""Numbers in words."""
_SCALES = {
    "dozen": 12.0,
    "hundred": 100.0,
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
    "trillion": 1e12,
    "k": 1e3,
    "bn": 1e9,
}
_PARTS = {"half": 0.5, "quarter": 0.25, "third": 1 / 3, "quarters": 0.25, "thirds": 1 / 3}
_FRACTIONS = {"½": 0.5, "¼": 0.25, "¾": 0.75, "⅓": 1 / 3, "⅔": 2 / 3}
_TOKEN = re.compile(
    r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|[½¼¾⅓⅔]|[a-zµ]+[²³23]?(?![a-z])|[$€£%]|[-−–:/.,;]",
)
_CLOCK = re.compile(
    r"\b(?P<hour>[01]?\d|2[0-3])(?:(?P<sep>[:.h])(?P<minute>[0-5]\d))?(?:\s*(?P<half>[ap])\.?m\b\.?)?"
    r"(?![\d%]|,\d{3})"
)
# What stands around "16:10" where it is no time of day.
_BEFORE_RATIO = re.compile(
    r"\b(?:ratios?|scales?|odds|proportions?|mixtures?|aspect|verse|won|scored?)\b[^.;!?]{0,20}(?<!\bat )\Z"
)
_AFTER_RATIO = re.compile(
    r"\W{0,2}(?:(?:aspect|gear|mixing|compression|scale)\s)?(?:ratios?|scale|odds|proportions?|mixture|format|"
    r"display|screen|monitor|panel|model|widescreen|resolution)\b"
)
_RATIO_REACH = 40  # Characters before a ratio that are looked at: its own word and `_BEFORE_RATIO`'s 20.
# Right before "a minute" these make it a rate: "1,000 turns a minute", "twice a minute".
_COUNTED = re.compile(r"(?:\b(?:once|twice|times)|\d\s?(?:[^\W\d]+|[%€$£])?) \Z")
# A dash is a minus where neither a word nor a number stands before it: not in "F-16" and not in "3 - 5".
_MINUS = re.compile(r"(?:^|[^\w)%°\s]|(?:^|[^\d\s%])\s+)[-−–]\Z")
_MINUS_REACH = 5
_HOURS = "|".join([*_UNITS_BELOW_20[1:13], r"1[0-2]|[1-9]"])
_SPOKEN = re.compile(
    r"\b(?:(?P<part>half|quarter|five|ten|twenty|twenty[- ]five)(?: minutes)? "
    rf"(?P<way>past|after|to|before) (?P<hour>{_HOURS})\b"
    rf"|(?P<sharp>{_HOURS}) o['’]clock|(?P<named>noon|midday|midnight)\b)"
    r"(?: (?:in the |at )?(?P<day>morning|afternoon|evening|night))?"
)
_SHARE = re.compile(r"\b(?:(?P<count>a|one|two|three) (?P<part>half|thirds?|quarters?)|half) of\b")
_SIGNS = ("-", "−", "–")
_TOLERANCE = 0.005  # Relative, of converted quantities: "1.2 km" for 1,203 m. By hand.


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number as a text means it.

    Examples:
        >>> quantities("It is 1,200 m long.")[0] == quantities("It is 1.2 km long.")[0]
        True

    Attributes:
        value: In the own unit of the dimension: meters, kilograms, liters, seconds, minutes after midnight.
        dimension: Such as ``"length"``, ``"duration"``, ``"clock"``; empty for a number without a known
            unit. ``"clock12"`` is a time of day that may be before or after noon; ``"ratio"`` is "16:10" as
            the ratio of a screen.
        span: Where it stands in the text.
    """

    value: float
    dimension: str = ""
    span: Span = field(default=Span(0, 0), compare=False, repr=False)

    def agrees(self, other: Quantity) -> bool:
        """Whether both can mean the same: of one dimension where both have one, and equal."""
        if "ratio" in (self.dimension, other.dimension):
            # "16:10" alone may be either.
            dimensions = {self.dimension, other.dimension}
            return dimensions <= {"ratio", "clock", "clock12"} and self.value == other.value
        if "clock" in self.dimension or "clock" in other.dimension:
            if not (self.dimension.startswith("clock") and other.dimension.startswith("clock")):
                return False
            day = 720 if "clock12" in (self.dimension, other.dimension) else 1440
            return (self.value - other.value) % day == 0
        if self.dimension and other.dimension and self.dimension != other.dimension:
            return False
        # Units are converted and rounded; a bare number, such as a year, is itself.
        near = _TOLERANCE if self.dimension and other.dimension else 1e-9
        return abs(self.value - other.value) <= near * max(abs(self.value), abs(other.value))


@lru_cache(maxsize=4096)
def quantities(text: str) -> tuple[Quantity, ...]:
    """The quantities of a text in order: numbers in digits and words with their units, and times of day.

    Examples:
        >>> quantities("It takes an hour and a half.")
        (Quantity(value=5400.0, dimension='duration'),)
        >>> quantities("At 16:30.")[0].agrees(quantities("At half past four.")[0])
        True
    """
    lower = text.replace("İ", "i").lower()  # The one letter that two stand for in lower case: spans stay.
    result: list[tuple[int, Quantity]] = []
    taken: list[tuple[int, int]] = []
    for start, end, quantity in _clock_times(lower):
        result.append((start, replace(quantity, span=Span(start, end))))
        taken.append((start, end))
    # Blanked out, so that the digits of a time of day are not read again as numbers; the length stays.
    for start, end in taken:
        lower = lower[:start] + ";" * (end - start) + lower[end:]
    tokens = [(m.start(), m[0]) for m in _TOKEN.finditer(lower)]
    i = 0
    while i < len(tokens):
        start, word = tokens[i]
        rate = word in ("a", "an") and _COUNTED.search(lower[max(0, start - _RATIO_REACH) : start])
        number = None if rate else _number(tokens, i)
        if number is None and (share := _SHARE.match(lower, tokens[i][0])):
            value = _PARTS[share["part"] or "half"] * _WORDS.get(share["count"] or "", 1.0)
            result.append((share.start(), Quantity(value, "share", Span(share.start(), share.end()))))
            i += len(share[0].split())
            continue
        if number is None:
            i += 1
            continue
        value, after = number
        quantity, after = _with_unit(tokens, i, value, after)
        # "A", "one" and the like are no quantity without a unit, and no float holds 400 digits.
        known = quantity.dimension or tokens[i][1][0].isdecimal() or value > 1
        if known and math.isfinite(quantity.value):
            start, (last, word) = tokens[i][0], tokens[after - 1]
            if (sign := _minus_before(lower, tokens, i)) is not None:
                start, quantity = sign, replace(quantity, value=-quantity.value)
            result.append((start, replace(quantity, span=Span(start, last + len(word)))))
        i = max(after, i + 1)
    return tuple(quantity for _, quantity in sorted(result, key=lambda item: item[0]))


def has_minus(text: str, at: int) -> bool:
    """Whether a minus stands right before the number at a position."""
    return _MINUS.search(text[max(0, at - _MINUS_REACH) : at]) is not None


def _minus_before(lower: str, tokens: Sequence[tuple[int, str]], at: int) -> int | None:
    """Where the minus of a number or of its currency stands: "-5", "-$5", "$-5", "minus 5"; None for none."""
    place = at
    while place and at - place < 2 and tokens[place - 1][1] in ("$", "€", "£"):
        place -= 1
    before = [start for start, _ in tokens[place : at + 1] if has_minus(lower, start)]
    if before:
        return before[0] - 1
    return tokens[place - 1][0] if place and tokens[place - 1][1] == "minus" else None


def missing(claimed: Iterable[Quantity], held: Iterable[Quantity]) -> int:
    """How many of the claimed quantities agree with none of those held."""
    others = tuple(held)
    return sum(not any(own.agrees(other) for other in others) for own in claimed)


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
    for match in _SPOKEN.finditer(lower):
        if named := match["named"]:
            times.append(
                (match.start(), match.end(), Quantity(0.0 if named == "midnight" else 720.0, "clock"))
            )
            continue
        word = match["sharp"] or match["hour"]
        hour = _WORDS[word] if word in _WORDS else float(word)
        minutes = 60 * hour
        if match["part"]:
            away = {"half": 30.0, "quarter": 15.0}.get(match["part"]) or _words_value(match["part"])
            minutes += away if match["way"] in ("past", "after") else -away
        times.append((match.start(), match.end(), _time(minutes, match["day"] or "")))
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
        if half is None and _is_ratio(lower, match.start(), match.end()):
            dimension = "ratio"
        times.append((match.start(), match.end(), Quantity(float(60 * hour + minute), dimension)))
    return times


def _is_ratio(lower: str, start: int, end: int) -> bool:
    """Whether what stands around "16:10" makes it a ratio, a scale or a score."""
    before = _BEFORE_RATIO.search(lower[max(0, start - _RATIO_REACH) : start])
    return before is not None or _AFTER_RATIO.match(lower[end : end + _RATIO_REACH]) is not None


def _time(minutes: float, day: str) -> Quantity:
    if day in ("afternoon", "evening", "night"):
        return Quantity((minutes % 720 + 720) % 1440, "clock")
    return Quantity(minutes % (1440 if day else 720), "clock" if day else "clock12")


def _words_value(text: str) -> float:
    return sum(_WORDS[word] for word in re.split(r"[- ]", text))


def _number(tokens: list[tuple[int, str]], at: int) -> tuple[float, int] | None:
    """The number that begins at a token, and the position behind it."""
    word = tokens[at][1]
    words = [token for _, token in tokens[at : at + 8]] + [""] * 8  # no number has more; no end to look for
    if word[0].isdecimal():
        value, i = float(word.replace(",", "")), 1
        if words[1] in _FRACTIONS:
            value, i = value + _FRACTIONS[words[1]], 2
        while words[i] in _SCALES:
            value, i = value * _SCALES[words[i]], i + 1
        return value, at + i
    if word in _FRACTIONS:
        return _FRACTIONS[word], at + 1
    if word in ("a", "an") and words[1] in _SCALES and len(words[1]) > 2:
        return _SCALES[words[1]], at + 2
    if word in ("a", "an", "half") or (word in _WORDS and words[1] in _PARTS):
        part = _part(words)
        return None if part is None else (part[0], at + part[1])
    if word not in _WORDS:
        return None
    value, words_read = _spelled(words)
    return value, at + words_read


def _part(words: Sequence[str]) -> tuple[float, int] | None:
    """A part of a unit, "half a liter" or "three quarters of a mile", or "an hour"; and its tokens."""
    table, short = _units()
    i = 0 if words[0] == "half" else 1
    if words[i] in _PARTS:
        value = _WORDS.get(words[0], 1.0) * _PARTS[words[i]]
        i += 1
        i += words[i] == "of"
        i += words[i] in ("a", "an", *_SIGNS)
        return (value, i) if words[i] in table else None
    alone = words[0] in ("a", "an") and words[1] in table and words[1] not in short
    return (1.0, 1) if alone else None


def _spelled(words: Sequence[str]) -> tuple[float, int]:
    """A number in words, such as "one hundred and five", and how many tokens it takes."""
    total, part, i = 0.0, _WORDS[words[0]], 1
    while True:
        step = i + (words[i] in _SIGNS or (words[i] == "and" and words[i - 1] in ("hundred", "thousand")))
        if words[step] in _WORDS and (
            part % 100 == 0 or (part >= 20 and part % 10 == 0 and _WORDS[words[step]] < 10)
        ):
            part, i = part + _WORDS[words[step]], step + 1
        elif words[i] in _SCALES and len(words[i]) > 2:
            scale = _SCALES[words[i]]
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
    if before in ("$", "€", "£"):
        return Quantity(value, f"money{before}"), after
    if words[:3] == ["and", "a", "half"] and (words[3] in table or words[3] in _SCALES):
        value, after, words = value + 0.5, after + 3, [*words[3:], "", "", ""]  # "two and a half hours"
        if words[0] in _SCALES:
            value, after, words = value * _SCALES[words[0]], after + 1, words[1:]
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
