"""Read a critic's reply, without ever inventing a grade.

A grade is read from a JSON object with a score, also a broken one; from a score with its label at the
beginning of a line or clause (``Score: 8/10``, ``Grade = 7``); or from a reply that begins with the grade
(``8``, ``8/10 - correct``, ``8, -1``). Digits of any script count. A range (``[1-10]``), a condition (``Score
>= 9``), another scale (``4/5``), a grade in the middle of a sentence or below "example" is none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import get_args

from sage_core.feedback.types import Support, Verdict
from sage_core.llm.reasoning import without_reasoning

# A verdict stands at the end of a long reply, or at its start: the middle is not looked at.
_HEAD, _TAIL = 4_000, 16_000
# Each try may scan to the end: a reply of "{" that never close would take quadratic time.
_MOST_OBJECTS = 200

# The likeliest first: a total stands before the parts that models add to it.
_SCORE_KEYS = ("final_score", "overall_score", "score", "evaluation_score", "answer_score", "rating", "grade")
_ADJUST_KEYS = ("adjust", "adjustment", "context_adjustment", "context_adjust", "context")

# Quotation marks, mark-up and brackets say nothing; dashes and full-width punctuation of all kinds are one.
_PLAIN = str.maketrans(
    {
        **dict.fromkeys("*`\"'“”«»_#[]", " "),
        **dict.fromkeys("−–—‐‑‒﹣－", "-"),
        "：": ":",
        "／": "/",
        "⭐": "★",
    }
)
_TAG = re.compile(r"<(/?)([A-Za-z_]{1,30})>")
# Not followed by more of a number, a range, another scale, a unit or a condition.
# "4/5", "8 of 10 points", "7-9" and "9 if ..." are no grades out of ten.
_GRADE = r"""(?P<grade>\d{1,2}(?:[.,٫]\d{1,2})?)(?:\s?(?:/|out\ of)\s?(?P<of>\d+))?
    (?!\d|[.,]\d|\s?[%/★]|[^\W\d]|[ ]?(?:-|to|or|~)[ ]?\d
    |\s?(?:of|stars?|points?|(?:only\s)?if|unless|when)\b)"""
_LABELED = re.compile(
    rf"""(?:^|[.,:;{{|])\s?(?:(?:the|final|overall|total|evaluation|answer|my)\s){{0,3}}
    (?:(?:score|rating|grade)(?:\s?\([^()\n]{{0,40}}\))?\s?(?:[:=|]|->|=>|→|is\b)?|(?:overall|total)\s?[:=])\s?{_GRADE}""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
_FIRST = re.compile(rf"\s*\(?{_GRADE}(?=\.?\s*(?:\Z|[\n,;:)-]))", re.IGNORECASE | re.VERBOSE)
_SIGNED = r"(?P<sign>[+-]?)\s?(?P<one>\d)(?!\d|\s?(?:[,/|]|or\b)\s?[+-]?\d)"
_WORDS = r"(?P<more>more|widen)|(?P<less>less|fewer|narrow)|(?P<none>none|no\ change|keep)"
_ADJUST = re.compile(rf"{_SIGNED}|(?:{_WORDS})\b", re.IGNORECASE | re.VERBOSE)
_ADJUST_LABELED = re.compile(
    rf"\b(?:context[\s-]?)?adjust(?:ment)?(?:\s?\([^()\n]{{0,40}}\))?\s?(?:[:=|]|->|→|is\b)?\s?(?:{_ADJUST.pattern})",
    re.IGNORECASE | re.VERBOSE,
)
_PAIR = re.compile(rf"\(?(?P<grade>\d{{1,2}}(?:\.\d{{1,2}})?)(?P<of>)(?:\s?[,;|]\s?|\s){_SIGNED}[\s).]*")


def parse_verdict(reply: object) -> Verdict:
    """Read a critic's reply: text, or the mapping of a structured call; anything else is unreadable.

    Returns:
        The verdict; its ``score`` is None if no grade can be read. A grade without a readable adjustment
        has ``adjust`` 0. Never raises.
    """
    if isinstance(reply, Mapping):
        return _from_mapping(reply, _safe_repr(reply)) or Verdict(None, raw=_safe_repr(reply))
    if not isinstance(reply, str):
        return Verdict(None, raw="")
    text = reply if len(reply) <= _HEAD + _TAIL else f"{reply[:_HEAD]}\n{reply[-_TAIL:]}"
    text = without_reasoning(text)
    # Models think aloud and correct themselves: the last object is what they stand by.
    for fields in reversed(list(_objects(text))):
        if (verdict := _from_mapping(fields, reply)) is not None:
            return verdict
    plain = _plain(text)
    grades = [score for m in _LABELED.finditer(plain) if (score := _grade(m)) is not None and not _example(m)]
    if grades:
        adjusts = [_adjust(m) for m in _ADJUST_LABELED.finditer(plain)]
        return Verdict(grades[-1], adjusts[-1] if adjusts else 0, raw=reply)
    first = _PAIR.fullmatch(plain) or _FIRST.match(plain)
    score = None if first is None else _grade(first)
    return Verdict(score, 0 if first is None or score is None else _adjust(first), raw=reply)


def _plain(text: str) -> str:
    """The text without mark-up, tags as labels, with no runs of white space to backtrack in."""
    text = _TAG.sub(lambda m: "\n" if m[1] else f"\n{m[2]}: ", text).translate(_PLAIN)
    return re.sub(r" ?\n[ \n]*", "\n", re.sub(r"[^\S\n]+", " ", text)).replace(" :", ":").strip()


def _safe_repr(reply: Mapping[object, object]) -> str:
    try:
        return json.dumps(reply, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return f"a mapping of {len(reply)} keys"


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
    """The verdict of a mapping with a score, looked for three levels deep; None if there is none."""
    fields = {re.sub(r"[\s_-]+", "_", k.strip().lower()): v for k, v in reply.items() if isinstance(k, str)}
    score = next((s for k in _SCORE_KEYS if (s := _score_value(fields.get(k))) is not None), None)
    statements = _statement_words(fields.get("statements"))
    if score is not None or statements:
        adjust = next((a for k in _ADJUST_KEYS if (a := _adjust_value(fields.get(k))) is not None), 0)
        reason = next((fields[k] for k in ("reason", "reasoning", "explanation") if k in fields), "")
        reason = reason if isinstance(reason, str) else ""
        return Verdict(score, adjust, raw=raw, reason=reason, statements=statements)
    # Wrappers such as {"result": {"evaluation": {...}}} are seen; deeper nesting is data, not a verdict.
    if depth < 3:
        for value in fields.values():
            inner = value[-1] if isinstance(value, list) and value else value
            if isinstance(inner, Mapping) and (verdict := _from_mapping(inner, raw, depth + 1)) is not None:
                return verdict
    return None


def _statement_words(value: object) -> tuple[str, ...]:
    """A JSON value as words on statements: a list, or a mapping by number; another word is empty."""
    if isinstance(value, Mapping):
        numbers = {int(k): v for k, v in value.items() if isinstance(k, str) and k.isdecimal()}
        value = [numbers.get(n + 1) for n in range(min(max(numbers, default=0), _MOST_OBJECTS))]
    if not isinstance(value, list):
        return ()
    words = (v.strip().lower().replace("_", " ") if isinstance(v, str) else "" for v in value)
    return tuple(w if w in get_args(Support) and w != "nothing claimed" else "" for w in words)


def _score_value(value: object) -> float | None:
    """A JSON value as a grade."""
    if isinstance(value, Mapping):
        value = value.get("value")
    if isinstance(value, str):
        match = _FIRST.match(plain := _plain(value))
        return None if match is None or plain[match.end() :].strip(" .") else _grade(match)
    return _valid(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _adjust_value(value: object) -> int | None:
    """A JSON value as an adjustment."""
    if isinstance(value, str):
        match = _ADJUST.match(_plain(value))
        return None if match is None else _adjust(match)
    return int(value) if value in (-1, 0, 1) and isinstance(value, (int, float)) else None


def _grade(match: re.Match[str]) -> float | None:
    # Not rescaled: 4/5 may mean "good" or "4 of 5 criteria", and an invented grade is worse than none.
    if match["of"] and int(match["of"]) != 10:
        return None
    return _valid(float(re.sub("[,٫]", ".", match["grade"])))


def _adjust(match: re.Match[str]) -> int:
    groups = match.groupdict()
    if groups.get("one") is not None:
        size = int(groups["one"])
        # An amount such as "-20" is no direction of the scale asked for; 0 changes nothing.
        return 0 if size > 1 else -size if groups["sign"] == "-" else size
    return 1 if groups.get("more") else -1 if groups.get("less") else 0


def _example(match: re.Match[str]) -> bool:
    """Whether the line before calls what follows an example."""
    return "example" in match.string[: match.start()].rstrip().rpartition("\n")[2].lower()


def _valid(number: float) -> float | None:
    """The number where it is a grade: whole ones as int, so that 8.0 prints as 8."""
    if not 1 <= number <= 10:
        return None
    return int(number) if number == int(number) else number
