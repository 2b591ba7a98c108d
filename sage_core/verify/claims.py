"""What an answer claims: its statements, those that abstain, and support of the whole."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from sage_core.feedback.types import AnswerMark
from sage_core.llm.abstentions import claims_nothing, opened, stated
from sage_core.llm.prompting import shows_passages
from sage_core.text.keywords import stem_list
from sage_core.text.language import language_of, sample
from sage_core.text.lines import is_delimiter_row
from sage_core.text.sentences import read_sentences
from sage_core.text.spans import Span, trim

MAX_CLAIMS = 300
"""Claims of an answer that are judged, by hand: beyond it a model repeats itself. The rest is unsure."""
CONTRADICTED = 0.1
"""Most probability of a contradicted claim: ``benchmarks/judge.py --veto`` says how often that is wrong."""
_PAGE = r"(?:,? (?:pp?|pages?)\b\.? ?[\w–-]{1,12})?"
CITATION = re.compile(
    rf"(?i)\s?(?:\[\[?(\d{{1,3}}(?:\s?[,;]\s?\d{{1,3}})*){_PAGE}\]\]?(?:\([^()\s]{{1,200}}\))?"
    rf"|【(\d{{1,3}})[^】\n]{{0,40}}】"
    rf"|[\[(](?:doc(?:ument)?|passage|source|ref(?:erence)?|chunk|node)s?[.:]? ?#?(\d{{1,3}}){_PAGE}[\])]"
    rf"|[\[(](?:see )?[^\[\]()\n]{{1,80}}\.(?:pdf|md|txt|docx?|html?|pptx?|xlsx?|csv){_PAGE}[\])])"
)
"""A citation as models write it: "[1, 3]", "[Doc 4, p. 7]", "[[1]](guide.pdf)", "(guide.pdf, page 12)"."""
_MEASURE = re.compile(r"(?i)\bhow \w+")  # "How long" asks for a number, and no passage says "long".
QUOTED = re.compile(r"[“\"]([^”\"]{3,2000})[”\"]")
"""A quotation."""


def unread_claim(answer: str, span: Span, passages: str = "") -> AnswerMark:
    """A claim that the judge does not know anything of; a short one may be of the passages' language."""
    read = (language_of(sample(text)) or "this language" for text in (answer, passages) if text)
    language = next((name for name in read if name != "English"), "")
    told = f"not measured in {language}" if language else "not English, or too long to read"
    return AnswerMark(span, span.of(answer), reason=f"unsure: {told}")


def support(claims: Sequence[AnswerMark]) -> float | None:
    """One probability for a whole answer: in log-odds, midway between its claims' mean and the weakest claim.

    Returns:
        None if the judge is unsure of a claim, or nothing is claimed.
    """
    known = [c.probability for c in claims if c.probability is not None]
    if not known or len(known) < len(claims):
        return None
    odds = np.array([log_odds(p) for p in known])
    sizes = np.array([len(c.text.split()) for c in claims], dtype=float)
    # The mean alone forgives one false claim among many; the weakest alone condemns every long answer.
    middle = (float(odds @ sizes / sizes.sum()) + float(odds.min())) / 2
    return chance(middle)


def split_claims(answer: str) -> list[Span]:
    """Spans of the claims in an answer: its sentences, without what opens them."""
    result: list[Span] = []
    if shows_passages(answer):  # It claims nothing.
        return []
    answer = stated(answer)
    spans, _, kinds = read_sentences(answer)
    heads = [i for i in range(len(spans) - 1) if is_delimiter_row(spans[i + 1].of(answer))]
    for i, (span, kind) in enumerate(zip(spans, kinds, strict=True)):
        start = span.start
        marker = re.match(r"(?:[-*+•]|\(?\d{1,3}[.)])\s+", span.of(answer))
        start += marker.end() if marker else 0
        start = opened(answer, start, span.end)
        text = answer[start : span.end]
        # An answer that is nothing but a fence is one.
        if kind == "heading" or (kind == "code" and {*kinds} != {"code"}) or i in heads:
            continue
        if not stem_list(CITATION.sub("", text)):
            continue
        if claims_nothing(text):
            continue
        result.append(trim(answer, Span(start, span.end)))
    return result


def with_question(question: str, answer: str) -> str:
    """A short answer as a claim: behind what its question is about, without what opens it."""
    answer, about = answer.strip(), _MEASURE.sub("", question.strip().rstrip("?"))
    answer = answer[opened(answer, 0, len(answer)) :]
    return f"{about}: {answer[:1].lower()}{answer[1:]}"  # Its first letter shows no name.


# -- how likely it is supported ------------------------------------------------------------------------------

COEFFICIENTS = Path(__file__).with_name("judge.json")
"""Weights and threshold, made by ``sage-rag train-support``."""
MOST_LOGIT = 4.0
"""Bound of the entailment model's logit, so that it alone does not decide. By hand."""


@lru_cache(maxsize=1)
def coefficients() -> dict[str, Any]:
    """Weights and threshold by name."""
    loaded: dict[str, Any] = json.loads(COEFFICIENTS.read_text(encoding="utf-8"))
    return loaded


def chance(odds: float) -> float:
    """The probability of log-odds."""
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, odds))))  # beyond 30 `exp` may overflow


def support_odds(counts: Sequence[float], logit: float) -> float:
    """Log-odds of support, of a claim's counts and of the entailment model's logit within its bound."""
    *weights, share, intercept = coefficients()["support"]
    bounded = max(-MOST_LOGIT, min(MOST_LOGIT, logit))
    return float(np.dot(weights, counts) + share * bounded + intercept)


def log_odds(probability: float) -> float:
    """Log-odds of a probability, cut to 1% and 99%."""
    p = min(0.99, max(0.01, probability))
    return math.log(p / (1 - p))
