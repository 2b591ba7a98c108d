"""What an answer claims: its statements, without citations, openings and abstentions."""

from __future__ import annotations

import re

from sage_core.llm.abstentions import claims_nothing, opened, stated
from sage_core.llm.prompting import shows_passages
from sage_core.text.keywords import stem_list
from sage_core.text.lines import is_delimiter_row
from sage_core.text.sentences import read_sentences
from sage_core.text.spans import Span, trim

MAX_CLAIMS = 300
"""Claims of an answer that are judged, by hand: beyond it a model repeats itself. The rest is unsure."""
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
