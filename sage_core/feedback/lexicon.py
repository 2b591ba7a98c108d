"""Words and patterns by which a critic's reply is read; `sage_core.feedback.parsing` uses them."""

from __future__ import annotations

import re

SCORE_KEYS = (
    "final_score",
    "overall_score",
    "score",
    "evaluation_score",
    "answer_score",
    "rating",
    "grade",
)
ADJUST_KEYS = ("adjust", "adjustment", "context_adjustment", "context_adjust", "context")

# Reasoning blocks; one that never ends hides everything after it.
THINKING = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)

# Instructions repeated by the model: ranges, choices, conditions.
ECHO = re.compile(
    r"""
      [\[(<{]?\s*(?<![\d.,])[01]\s*(?:-|\.\.+|~|to|through|bis|à|al?|до)\s*10(?![\d.])\s*[\])>}]? # [1-10]
    | [\[(]\s*[+-]?[01]\s*(?:[,;/|]\s*[+-]?[01]\s*)+[\])]                                         # [-1, 0, 1]
    | (?<![\d.])[+-]?[01]\s*[,/|]\s*(?:[+-]?[01]\s*[,/|]\s*)*(?:or\s*)?[+-]?[01](?![\d.])     # -1/0/1
    | (?:score|rating|grade)?\s*(?:>=|<=|≥|≤|(?<![-=])>|<|at\ least|at\ most)\s*\d+(?:\.\d+)?  # Score >= 9
    | \(\s*(?:out\ of|von|sur|de|из)\s*(?:10|ten)\s*\)                                         # (out of 10)
    """,
    re.IGNORECASE | re.VERBOSE,
)

_QUOTES = re.compile(r"(?<![^\W_])'|'(?![^\W_])")
_TAG = re.compile(r"<(/?)([A-Za-z_]{1,30})>")
_MARKUP = re.compile(r"[*`|\"“”«»_]")


def undecorated(text: str) -> str:
    """The text without mark-up and quotation marks, tags as labels, no runs of white space.

    With nothing left to skip between a label and its number, the patterns have no room to backtrack.
    """
    text = _TAG.sub(lambda m: "\n" if m[1] else f"\n{m[2]}: ", text)
    text = _MARKUP.sub(" ", _QUOTES.sub(" ", text))
    text = re.sub(r"[^\S\n]+", " ", text)
    return re.sub(r" ?\n[ \n]*", "\n", text).replace(" :", ":")


_LABELS = (
    "score|rating|grade|mark|"
    "note|punktzahl|bewertung|wertung|puntuación|puntuacion|puntaje|calificación|calificacion|nota|pontuação|"
    "pontuacao|punteggio|voto|оценка|балл|рейтинг|评分|得分|分数|評分|分數|評価|スコア|点数|점수|평점|"
    "النتيجة|الدرجة|التقييم|अंक|स्कोर|puan|beoordeling|cijfer|betyg|ocena|điểm"
)
# Decoration and runs of white space are gone by then; see `undecorated`.
_GAP = r"\s?"
SCORE_LABEL = re.compile(
    rf"""
    (?:\b(?:final|overall|total|evaluation|answer|quality|context|my)[\s-]){{0,3}}
    (?:(?<![^\W_])(?:{_LABELS})|\b(?:final|overall|total|answer\squality)(?=\s?[:=]))
    (?![A-Za-z])
    {_GAP}(?:\([^()\n]{{0,40}}\){_GAP})?
    (?:(?:ответа|der\sAntwort|de\sla\srespuesta|de\sla\sréponse|da\sresposta|della\srisposta)\s?)?
    (?:on\s(?:a|the)\sscale(?:\s(?:of|from))?\s?)?
    (?:(?:for|of)\s(?:this|the)\s(?:\w+\s)?answer\s|(?:that\s)?I(?:\swould|'d)?\s(?:give|assign)\s(?:\w+\s){{0,3}})?
    (?:[:=]|->|=>|→|-|\b(?:is|of|es|est|ist|é|è)\b|은|는|は|为|為|是)?{_GAP}
    (?:[:]{_GAP})?[\[(<]?{_GAP}
    (?:\b(?:an?|about|around|roughly|approximately|solid)\s+)?[~≈]?(?<![-+.])
    (?=\d|[A-Za-z一二三四五六七八九十])
    """,
    re.IGNORECASE | re.VERBOSE,
)
FINAL = re.compile(r"final|overall|total", re.IGNORECASE)

OUT_OF_TEN = re.compile(
    r"""(?<![\d.,/])(?P<number>\d{1,2}(?:[.,]\d{1,2})?)
    (?:\s*(?:/|out\ of|sur|von|de|из|av)\s*10(?![\d/.]\d|\d)
    | \s+on\s+(?:a|the)\s+(?:10.point\s+)?scale\b)""",
    re.IGNORECASE | re.VERBOSE,
)
GIVES = re.compile(
    r"""\b(?:(?:rate|grade|score|give|giving|assign|award|rated|graded|scored|rates)\s+
    (?:it|this|that|(?:this|the)\s+(?:answer|response|reply))|deserves|merits)\s+
    (?:(?:at|as|an?|the|score|rating|grade|of|with)\s+){0,4}(?P<number>\d{1,2}(?:[.,]\d{1,2})?)
    (?=\s*(?:[.,;:)\n]|$|/|out\ of|because|since|for|as|on|-|and))""",
    re.IGNORECASE | re.VERBOSE,
)
TEN_OF_THINGS = re.compile(
    r"\s+(?:of\b|(?:\w+\s+)?(?:passages?|chunks?|documents?|sentences?|facts?|claims?|statements?|items?|times|cases|"
    r"questions?|people|users|years|pages)\b)",
    re.IGNORECASE,
)
CONDITION = re.compile(
    r"\s*[,(]?\s*(?:only\s+)?(?:if|unless|provided|assuming|when|otherwise)\b", re.IGNORECASE
)
DENIED = re.compile(
    r"\b(?:not|never|no|cannot|can't|won't|don't|doesn't|isn't|wouldn't|without|if|unless|had|would\s+be|could\s+be|"
    r"might\s+be|would\s+have|could\s+have|should\s+be|example|e\.g|threshold|minimum|maximum|below|above|"
    r"less\s+than|more\s+than|requires?|reach|demands?|asks?|says|texts?\s+say|passages?\s+say|documents?\s+say|"
    r"claims?|told|instructs?)\b"
    r"|n't\b",
    re.IGNORECASE,
)

_ADJUST_LABELS = (
    r"context[\s-]?adjust(?:ment)?|adjust(?:ment)?|"
    r"上下文调整|调整|調整|ajuste|ajustement|anpassung|корректировка|조정"
)
ADJUST_LABEL = re.compile(
    rf"(?:{_ADJUST_LABELS})(?![A-Za-z]){_GAP}(?:\([^()\n]{{0,40}}\){_GAP})?"
    rf"(?:[:=]|->|→|\bis\b)?{_GAP}[\[(<]?{_GAP}",
    re.IGNORECASE,
)
_THINGS = r"(?:context|information|passages?|chunks?|evidence|documents?|material|detail)"
MORE = re.compile(
    rf"\b(?:more|additional|further|extra)\s+(?:\w+\s+)?{_THINGS}\b|\bwiden\b|\bmore\b(?=\W*$)", re.IGNORECASE
)
LESS = re.compile(
    rf"\b(?:less|fewer)\s+(?:\w+\s+)?{_THINGS}\b|\bnarrow\b|\b(?:less|fewer)\b(?=\W*$)", re.IGNORECASE
)

NUMBER_WORDS: tuple[tuple[str, int], ...] = (
    ("one", 1), ("two", 2), ("three", 3), ("four", 4), ("five", 5),
    ("six", 6), ("seven", 7), ("eight", 8), ("nine", 9), ("ten", 10),
    ("一", 1), ("二", 2), ("三", 3), ("四", 4), ("五", 5),
    ("六", 6), ("七", 7), ("八", 8), ("九", 9), ("十", 10),
)  # fmt: skip
