"""What an answer claims: its statements, those that abstain, and support of the whole."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from sage_core.feedback.types import AnswerMark
from sage_core.llm.prompting import is_abstention, shows_passages
from sage_core.llm.reasoning import blanked_reasoning
from sage_core.text.blocks import line_breaks, sentence_kinds
from sage_core.text.keywords import stem_list
from sage_core.text.language import language_of, sample
from sage_core.text.lines import is_delimiter_row
from sage_core.text.sentences import split_sentences
from sage_core.text.spans import Span, trim
from sage_core.verify.coefficients import chance, log_odds

MAX_CLAIMS = 300
"""Claims of an answer that are judged, by hand: beyond it a model repeats itself. The rest is unsure."""
CONTRADICTED = 0.1
"""Most probability of a contradicted claim: ``benchmarks/judge.py --veto`` says how often that is wrong."""
# What opens an answer without claiming anything.
_SOURCE = r"(?:passages?|context|documents?|text|information|sources?|excerpts?|article)"
_OPENER = re.compile(
    r"(?i)(?:(?:based on|according to|as (?:stated|mentioned|described|noted) in) (?:the )?[\w ]{0,30}?"
    rf"{_SOURCE}[\w ]{{0,12}}?,\s*"
    rf"|(?:the )?{_SOURCE} (?:say|state|mention|note|explain|indicate|suggest)s?(?: that| yes| no)?:?\s+"
    r"|[*_]{0,2}(?:(?:short|final|direct) )?(?:answer|summary|conclusion)[*_]{0,2}:[*_]{0,2}\s+"
    r"|(?:yes|no|sure|certainly|additionally|furthermore|moreover|overall|in summary|in conclusion|however)"
    r",\s*)"
)
_NO_CLAIM = re.compile(
    r"(?i)(?:i am not sure\.|i hope|let me know|here (?:is|are)\b.{0,60}:$|sure\b|certainly\b|feel free|"
    r"(?:great|good|excellent|interesting) question|(?:i am |i['’]m )?happy to help|thank(?:s| you)\b|"
    r"(?:these|the following)\b.{0,80}:$)"
)
# Openings are bounded: "but but but" would take twice as long with each word.
# That the passages do not say it: nothing that they could support.
_ABSTAINS = re.compile(
    r"(?i)(?:(?:unfortunately|however|but|sorry|i['’]m sorry|i am sorry)\b[,.;]?\s+(?:but\s+)?){0,3}(?:"
    rf"(?:\w+ ){{0,4}}{_SOURCE}\b(?: \w+){{0,4}}? (?:do|does|did)(?:n['’]t| not) (?:\w+ly )?(?:say|mention|"
    r"state|name|provide|contain|specify|include|give|answer|address|discuss|tell|indicate|have|hold|offer|describe|explain)\b"
    r"|(?:i am |i['’]m |we are |it is )?(?:unable|not able|impossible|not possible) to "
    r"(?:answer|determine|find|say|tell|provide)\b"
    r"|(?:i|we) (?:do not|don['’]t|cannot|can['’]t|could not|couldn['’]t|did not|didn['’]t) "
    r"(?:know|find|answer|determine|say|tell|have (?:any |enough |the )?information)\b"
    r"|there (?:is|are|was) (?:no|not any|not enough) (?:\w+ ){0,3}"
    r"(?:information|mention|answers?|details?)\b"
    r"|no (?:\w+ ){0,2}(?:information|mention|details?|answer) (?:\w+ ){0,3}"
    r"(?:given|provided|found|available|made)\b"
    rf"|.{{1,80}}? (?:is|are|was|were)(?: not|n['’]t) (?:\w+ )?(?:mentioned|specified|stated|provided"
    rf"|given|included|described|discussed|covered|found|named) (?:\w+ )?(?:in|by) (?:\w+ ){{0,3}}{_SOURCE}\b"
    r"|(?:it|this|that) (?:cannot|can['’]t|could not) be (?:determined|answered|found)\b"
    r"|(?:idk|n/?a|no idea|unknown|not (?:specified|stated|mentioned|given|available|provided|found))\W*\Z)"
)
_PAGE = r"(?:,? (?:pp?|pages?)\b\.? ?[\w–-]{1,12})?"
CITATION = re.compile(
    rf"(?i)\s?(?:\[\[?(\d{{1,3}}(?:\s?[,;]\s?\d{{1,3}})*){_PAGE}\]\]?(?:\([^()\s]{{1,200}}\))?"
    rf"|【(\d{{1,3}})[^】\n]{{0,40}}】"
    rf"|[\[(](?:doc(?:ument)?|passage|source|ref(?:erence)?|chunk|node)s?[.:]? ?#?(\d{{1,3}}){_PAGE}[\])]"
    rf"|[\[(](?:see )?[^\[\]()\n]{{1,80}}\.(?:pdf|md|txt|docx?|html?|pptx?|xlsx?|csv){_PAGE}[\])])"
)
"""A citation as models write it: "[1, 3]", "[Doc 4, p. 7]", "[[1]](guide.pdf)", "(guide.pdf, page 12)"."""
_SOURCES = re.compile(
    r"(?im)^[\W_]*(?:sources|references|citations)\b[\W_]*(?:$|:)[^\n]*(?:\n[^\n]+)*(?:\n\n[\W_]*[-*\d\[][^\n]*)*"
)
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
    # What cites, and lists of sources, are blanked: spans stay true.
    answer = _SOURCES.sub(lambda m: " " * len(m[0]), blanked_reasoning(answer))
    spans = split_sentences(answer)
    kinds = sentence_kinds(answer, spans, line_breaks(answer, spans))
    heads = [i for i in range(len(spans) - 1) if is_delimiter_row(spans[i + 1].of(answer))]
    for i, (span, kind) in enumerate(zip(spans, kinds, strict=True)):
        start = span.start
        marker = re.match(r"(?:[-*+•]|\(?\d{1,3}[.)])\s+", span.of(answer))
        start += marker.end() if marker else 0
        start = _opened(answer, start, span.end)
        text = answer[start : span.end]
        # An answer that is nothing but a fence is one.
        if kind == "heading" or (kind == "code" and {*kinds} != {"code"}) or i in heads or text.endswith("?"):
            continue
        if not stem_list(CITATION.sub("", text)):
            continue
        if is_abstention(text) or _ABSTAINS.match(text) or _NO_CLAIM.match(text):
            continue
        result.append(trim(answer, Span(start, span.end)))
    return result


def with_question(question: str, answer: str) -> str:
    """A short answer as a claim: behind its question, without what opens it."""
    answer = answer.strip()
    return f"{question.strip().rstrip('?')}: {answer[_opened(answer, 0, len(answer)) :]}"


def abstains(answer: str) -> bool:
    """Whether an answer says that the passages do not hold one, in any common wording, and nothing else."""
    answer = blanked_reasoning(answer)
    start = _opened(answer, len(answer) - len(answer.lstrip()), len(answer))
    return bool(is_abstention(answer) or _ABSTAINS.match(answer, start)) and not split_claims(answer)


def _opened(answer: str, start: int, end: int) -> int:
    """Where a sentence begins after openings that claim nothing."""
    while opener := _OPENER.match(answer, start, end):
        start = opener.end()
    return start
