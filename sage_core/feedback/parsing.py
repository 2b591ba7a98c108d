"""Read a critic's reply: what models really write, without ever inventing a grade.

A grade is read from, in this order: a JSON object with a score; a score with an English label (``Score:
8/10``); ``8 out of 10``; a sentence that gives the answer a number; a reply that is a number. Digits of
any script count. The ranges and conditions of instructions that a model echoes (``[1-10]``, ``Score >=
9``) are not grades, nor is a grade on another scale (``4/5``), out of range, hypothetical or denied.
Where two readings contend without one being called final, there is no grade rather than a guess.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import replace

from sage_core.feedback.types import Verdict
from sage_core.llm.prompting import without_reasoning

# A verdict stands at the end of a long reply, or at its start: the middle is not looked at.
_HEAD, _TAIL = 4_000, 16_000
_MOST_OBJECTS = 200
# A longer text is no question to search for, but an essay.
_LONGEST_QUESTION = 500
_NOTHING = ("", "none", "nothing", "null", "n/a", "na", "no", "not applicable", "nothing is missing")

_NUMBER = re.compile(r"\d{1,3}(?:[.,]\d{1,3})?(?!\d)")
_DENOMINATOR = re.compile(r"\s*(?:/|out of|of)\s*(\d+)", re.IGNORECASE)
_RANGE = re.compile(r"\s*(?:-|~|to|or)\s*(\d{1,3}(?:\.\d+)?)(?!\d)", re.IGNORECASE)
_STARS = re.compile(r"\s*(?:stars?\b|[★⭐])", re.IGNORECASE)
_BARE = re.compile(r"[\s\"'`*_#([{]*(\d{1,2}(?:[.,]\d{1,2})?)(?:\s*(?:/|out of)\s*10)?[\s\"'`*_)\]}.]*")
_TWO_NUMBERS = re.compile(r"[\s(\[]*(\d{1,2}(?:\.\d{1,2})?)(?:\s*[,;|]\s*|\s+)([+-]?[01])[\s)\].]*")
_SIGNED = re.compile(r"([+-]?)\s*([01])(?![\d/.,]*\d)")

_SCORE_KEYS = ("final_score", "overall_score", "score", "evaluation_score", "answer_score", "rating", "grade")
_ADJUST_KEYS = ("adjust", "adjustment", "context_adjustment", "context_adjust", "context")

# Instructions repeated by the model: ranges, choices, conditions.
_ECHO = re.compile(
    r"""
      [\[(<{]?\s*(?<![\d.,])[01]\s*(?:-|\.\.+|~|to|through)\s*10(?![\d.])\s*[\])>}]? # [1-10]
    | [\[(]\s*[+-]?[01]\s*(?:[,;/|]\s*[+-]?[01]\s*)+[\])]                                         # [-1, 0, 1]
    | (?<![\d.])[+-]?[01]\s*[,/|]\s*(?:[+-]?[01]\s*[,/|]\s*)*(?:or\s*)?[+-]?[01](?![\d.])     # -1/0/1
    | (?:score|rating|grade)?\s*(?:>=|<=|≥|≤|(?<![-=])>|<|at\ least|at\ most)\s*\d+(?:\.\d+)?  # Score >= 9
    | \(\s*out\ of\s*(?:10|ten)\s*\)                                         # (out of 10)
    """,
    re.IGNORECASE | re.VERBOSE,
)

_QUOTES = re.compile(r"(?<![^\W_])'|'(?![^\W_])")
_TAG = re.compile(r"<(/?)([A-Za-z_]{1,30})>")
_MARKUP = re.compile(r"[*`|\"“”«»_]")

_LABELS = "score|rating|grade|mark"
# Decoration and runs of white space are gone by then; see `_undecorated`.
_GAP = r"\s?"
_SCORE_LABEL = re.compile(
    rf"""
    (?:\b(?:final|overall|total|evaluation|answer|quality|context|my)[\s-]){{0,3}}
    (?:(?<![^\W_])(?:{_LABELS})|\b(?:final|overall|total|answer\squality)(?=\s?[:=]))
    (?![A-Za-z])
    {_GAP}(?:\([^()\n]{{0,40}}\){_GAP})?
    (?:on\s(?:a|the)\sscale(?:\s(?:of|from))?\s?)?
    (?:(?:for|of)\s(?:this|the)\s(?:\w+\s)?answer\s|(?:that\s)?I(?:\swould|'d)?\s(?:give|assign)\s(?:\w+\s){{0,3}})?
    (?:[:=]|->|=>|→|-|\b(?:is|of)\b)?{_GAP}
    (?:[:]{_GAP})?[\[(<]?{_GAP}
    (?:\b(?:an?|about|around|roughly|approximately|solid)\s+)?[~≈]?(?<![-+.])
    (?=\d|[A-Za-z])
    """,
    re.IGNORECASE | re.VERBOSE,
)
_FINAL = re.compile(r"final|overall|total", re.IGNORECASE)

_OUT_OF_TEN = re.compile(
    r"""(?<![\d.,/])(?P<number>\d{1,2}(?:[.,]\d{1,2})?)
    (?:\s*(?:/|out\ of)\s*10(?![\d/.]\d|\d)
    | \s+on\s+(?:a|the)\s+(?:10.point\s+)?scale\b)""",
    re.IGNORECASE | re.VERBOSE,
)
_GIVES = re.compile(
    r"""\b(?:(?:rate|grade|score|give|giving|assign|award|rated|graded|scored|rates)\s+
    (?:it|this|that|(?:this|the)\s+(?:answer|response|reply))|deserves|merits)\s+
    (?:(?:at|as|an?|the|score|rating|grade|of|with)\s+){0,4}(?P<number>\d{1,2}(?:[.,]\d{1,2})?)
    (?=\s*(?:[.,;:)\n]|$|/|out\ of|because|since|for|as|on|-|and))""",
    re.IGNORECASE | re.VERBOSE,
)
_TEN_OF_THINGS = re.compile(
    r"\s+(?:of\b|(?:\w+\s+)?(?:passages?|chunks?|documents?|sentences?|facts?|claims?|statements?|items?|times|cases|"
    r"questions?|people|users|years|pages)\b)",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\s*[,(]?\s*(?:only\s+)?(?:if|unless|provided|assuming|when|otherwise)\b", re.IGNORECASE
)
_DENIED = re.compile(
    r"\b(?:not|never|no|cannot|can't|won't|don't|doesn't|isn't|wouldn't|without|if|unless|had|would\s+be|could\s+be|"
    r"might\s+be|would\s+have|could\s+have|should\s+be|example|e\.g|threshold|minimum|maximum|below|above|"
    r"less\s+than|more\s+than|requires?|reach|demands?|asks?|says|texts?\s+say|passages?\s+say|documents?\s+say|"
    r"claims?|told|instructs?)\b"
    r"|n't\b",
    re.IGNORECASE,
)

_ADJUST_LABEL = re.compile(
    rf"(?:(?:context[\s-]?)?adjust(?:ment)?)(?![A-Za-z]){_GAP}(?:\([^()\n]{{0,40}}\){_GAP})?"
    rf"(?:[:=]|->|→|\bis\b)?{_GAP}[\[(<]?{_GAP}",
    re.IGNORECASE,
)
_THINGS = r"(?:context|information|passages?|chunks?|evidence|documents?|material|detail)"
_MORE = re.compile(
    rf"\b(?:more|additional|further|extra)\s+(?:\w+\s+)?{_THINGS}\b|\bwiden\b|\bmore\b(?=\W*$)", re.IGNORECASE
)
_LESS = re.compile(
    rf"\b(?:less|fewer)\s+(?:\w+\s+)?{_THINGS}\b|\bnarrow\b|\b(?:less|fewer)\b(?=\W*$)", re.IGNORECASE
)

_NUMBER_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def parse_verdict(reply: object) -> Verdict:
    """Read a critic's reply: text, or the mapping of a structured call; anything else is unreadable.

    Returns:
        The verdict; its ``score`` is None where no grade can be read. A grade without a readable adjustment
        has ``adjust`` 0. Never raises.
    """
    if isinstance(reply, Mapping):
        return _from_mapping(reply, _safe_repr(reply)) or Verdict(None, raw=_safe_repr(reply))
    if not isinstance(reply, str):
        return Verdict(None, raw="")
    text = _normalized(reply)
    for fields in reversed(list(_objects(text))):
        if (verdict := _from_mapping(fields, reply)) is not None:
            return verdict if _has_adjust(fields) else replace(verdict, adjust=_adjust_in(_undecorated(text)))
    plain = _undecorated(text)
    two = _TWO_NUMBERS.fullmatch(plain)
    if two is not None:
        score = _valid(float(two[1]))
        return Verdict(score, int(two[2]) if score is not None else 0, raw=reply)
    plain = _undecorated(_ECHO.sub(" ", plain))
    score = _score_in(plain)
    if score is None:
        return Verdict(None, raw=reply)
    return Verdict(score, _adjust_in(plain), raw=reply)


def _undecorated(text: str) -> str:
    """The text without mark-up and quotation marks, tags as labels, no runs of white space.

    With nothing left to skip between a label and its number, the patterns have no room to backtrack.
    """
    text = _TAG.sub(lambda m: "\n" if m[1] else f"\n{m[2]}: ", text)
    text = _MARKUP.sub(" ", _QUOTES.sub(" ", text))
    text = re.sub(r"[^\S\n]+", " ", text)
    return re.sub(r" ?\n[ \n]*", "\n", text).replace(" :", ":")


def _safe_repr(reply: Mapping[object, object]) -> str:
    try:
        return json.dumps(reply, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return f"a mapping of {len(reply)} keys"


def _normalized(text: str) -> str:
    """Digits of any script, full-width forms and minus signs as ASCII; no reasoning, no format marks."""
    if len(text) > _HEAD + _TAIL:
        text = f"{text[:_HEAD]}\n{text[-_TAIL:]}"
    text = without_reasoning(text)
    return "".join(map(_plain_char, text))


def _plain_char(char: str) -> str:
    if char.isascii():
        return char
    digit = unicodedata.decimal(char, None)
    if digit is not None:
        return str(digit)
    code = ord(char)
    if 0xFF01 <= code <= 0xFF5E:
        return chr(code - 0xFEE0)
    if char in "−–—‐‑‒﹣":
        return "-"
    if char == "٫":
        return "."
    # Direction marks, zero-width joiners, the enclosing keycap and its variation selector.
    return "" if unicodedata.category(char) in ("Cf", "Me") or 0xFE00 <= code <= 0xFE0F else char


def _objects(text: str) -> Iterator[Mapping[object, object]]:
    """JSON objects in the text, outermost only, in order."""
    decoder = json.JSONDecoder()
    position = text.find("{")
    for _ in range(_MOST_OBJECTS):
        if position < 0:
            return
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            yield value
        position = text.find("{", end)


def _from_mapping(reply: Mapping[object, object], raw: str, depth: int = 0) -> Verdict | None:
    """The verdict of a mapping with a score, looked for three levels deep; None where there is none."""
    fields = {_key(k): v for k, v in reply.items() if isinstance(k, str)}
    for name in _SCORE_KEYS:
        score = _score_value(fields.get(name))
        if score is not None:
            reason = next((fields[k] for k in ("reason", "reasoning", "explanation") if k in fields), "")
            adjust = next((a for k in _ADJUST_KEYS if (a := _adjust_value(fields.get(k))) is not None), 0)
            reason = reason if isinstance(reason, str) else ""
            return Verdict(score, adjust, raw=raw, reason=reason, missing=_question(fields.get("missing")))
    if depth < 3:
        for value in fields.values():
            inner = value[-1] if isinstance(value, list) and value else value
            if isinstance(inner, Mapping) and (verdict := _from_mapping(inner, raw, depth + 1)) is not None:
                return verdict
    return None


def _question(value: object) -> str:
    """What a critic says is missing, on one line; empty for words that mean nothing is."""
    if not isinstance(value, str) or len(value) > _LONGEST_QUESTION:
        return ""
    text = " ".join(value.split())
    return "" if text.strip(" .-\"'").casefold() in _NOTHING else text


def _key(name: str) -> str:
    return re.sub(r"[\s_-]+", "_", name.strip().lower())


def _has_adjust(reply: Mapping[object, object]) -> bool:
    return any(isinstance(k, str) and _key(k) in _ADJUST_KEYS for k in reply) or any(
        _has_adjust(v) for v in reply.values() if isinstance(v, Mapping)
    )


def _score_value(value: object) -> float | None:
    """A JSON value as a grade."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return _valid(value)
    if isinstance(value, str):
        text = _ECHO.sub(" ", _normalized(value)).strip()
        at = _score_at(text, 0)
        return at[0] if at is not None and not text[at[1] :].strip(" .") else None
    if isinstance(value, Mapping):
        return _score_value(value.get("value"))
    return None


def _adjust_value(value: object) -> int | None:
    """A JSON value as an adjustment."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return int(value) if value in (-1, 0, 1) else None
    if isinstance(value, str):
        text = _ECHO.sub(" ", _normalized(value)).strip()
        return _adjust_after(text, 0)
    return None


def _valid(number: float) -> float | None:
    """The number where it is a grade: whole ones as int, so that 8.0 prints as 8."""
    if not 1 <= number <= 10:
        return None
    return int(number) if number == int(number) else number


def _score_at(text: str, position: int, *, prose: bool = False) -> tuple[float, int] | None:
    """The grade that starts at ``position`` and where it ends; None where none does."""
    match = _NUMBER.match(text, position)
    if match is None:
        return _word_at(text, position)
    number, end = float(match[0].replace(",", ".")), match.end()
    denominator = _DENOMINATOR.match(text, end)
    if denominator is not None:
        if denominator[1] != "10" or text[denominator.end() : denominator.end() + 1] in ("/", "%"):
            return None
        end = denominator.end()
    span = _RANGE.match(text, end)
    if span is not None and text[end : span.start(1)].strip(" ") and number < float(span[1]):
        # "7-8" means at least 7; "1-5" is a scale, not a grade.
        if prose or float(span[1]) - number > 2:
            return None
        end = span.end()
    if denominator is None and _STARS.match(text, end):
        return None
    following = text[end : end + 1]
    if following == "%" or (following.isascii() and (following.isalnum() or following == "_")):
        return None
    score = _valid(number)
    return (score, end) if score is not None else None


def _word_at(text: str, position: int) -> tuple[float, int] | None:
    """A number from one to ten written as a word, and where it ends."""
    for value, word in enumerate(_NUMBER_WORDS, start=1):
        end = position + len(word)
        if text[position:end].lower() == word and not text[end : end + 1].isalpha():
            return None if _STARS.match(text, end) else (value, end)
    return None


def _score_in(text: str) -> float | None:
    """The grade a text gives, or None."""
    labeled = [(m, at) for m in _SCORE_LABEL.finditer(text) if (at := _score_at(text, m.end())) is not None]
    labeled = [(m, at) for m, at in labeled if not _hedged(text, m.start(), at[1])]
    finals = [at[0] for m, at in labeled if _FINAL.search(m[0])]
    if finals:
        return finals[-1]
    if labeled:
        return labeled[-1][1][0]
    for pattern in (_OUT_OF_TEN, _GIVES):
        values = set(_unlabeled(text, pattern))
        if values:
            return values.pop() if len(values) == 1 else None
    return _bare(text)


def _unlabeled(text: str, pattern: re.Pattern[str]) -> Iterator[float]:
    """Grades without a label: ``8/10``, ``I would give it an 8``."""
    for match in pattern.finditer(text):
        start = match.start("number")
        if start and text[start - 1] in "-+/.,≥>≤<":
            continue
        at = _score_at(text, start, prose=True)
        if at is None or _hedged(text, match.start(), at[1]) or _TEN_OF_THINGS.match(text, at[1]):
            continue
        yield at[0]


def _bare(text: str) -> float | None:
    """The grade where the whole reply, or its first line, is a number."""
    number = _BARE.fullmatch(text)
    if number is None:
        first, _, rest = text.strip().partition("\n")
        number = _BARE.fullmatch(first) if rest and not first.rstrip().endswith(".") else None
    return None if number is None else _valid(float(number[1].replace(",", ".")))


def _hedged(text: str, start: int, end: int) -> bool:
    """Whether the sentence around a grade makes it an example, a condition or a denial."""
    before = re.split(r"[.!?;\n]\s|\n", text[max(0, start - 80) : start])[-1]
    if _DENIED.search(f"{before} {text[start:end]}"):
        return True
    above = text[max(0, start - 80) : start].rstrip().rpartition("\n")[2]
    return "example" in above.lower() or _CONDITION.match(text, end) is not None


def _adjust_in(text: str) -> int:
    """The adjustment a text asks for; 0 where it asks for none or for both."""
    values = [_adjust_after(text, match.end()) for match in _ADJUST_LABEL.finditer(text)]
    known = [value for value in values if value is not None]
    return known[-1] if known else _words(text)


def _adjust_after(text: str, position: int) -> int | None:
    if (signed := _SIGNED.match(text, position)) is not None:
        return int(signed[2]) * (-1 if signed[1] == "-" else 1)
    line = text[position : position + 60].partition("\n")[0]
    return _words(line) or (0 if re.match(r"(?:none|no change|keep|0)\b", line, re.IGNORECASE) else None)


def _words(text: str) -> int:
    return int(_occurs(_MORE, text)) - int(_occurs(_LESS, text))


def _occurs(pattern: re.Pattern[str], text: str) -> bool:
    """Whether the words occur without a denial just before them."""
    return any(not _DENIED.search(_before(text, m.start())) for m in pattern.finditer(text))


def _before(text: str, start: int) -> str:
    return re.split(r"[,.!?;\n]", text[max(0, start - 30) : start])[-1]
