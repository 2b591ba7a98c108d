"""What in an answer claims nothing: that the passages do not say it, what opens it, offers of help."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sage_core.llm.prompting import is_abstention
from sage_core.llm.reasoning import blanked_reasoning
from sage_core.text.sentences import split_sentences

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
_SOURCES = re.compile(
    r"(?im)^[\W_]*(?:sources|references|citations)\b[\W_]*(?:$|:)[^\n]*(?:\n[^\n]+)*(?:\n\n[\W_]*[-*\d\[][^\n]*)*"
)


def abstains(answer: str, sentences: Iterable[str] = ()) -> bool:
    """Whether an answer says that the passages do not hold one, and nothing else.

    In any common wording, or by one of the sentences that were agreed for it.
    """
    sentences, answer = tuple(sentences), stated(answer)
    said = [answer[opened(answer, s.start, s.end) : s.end] for s in split_sentences(answer)]
    whole = is_abstention(answer, sentences) or _ABSTAINS.match(said[0] if said else "")
    return bool(whole) and all(claims_nothing(text) or is_abstention(text, sentences) for text in said)


def stated(answer: str) -> str:
    """An answer with blanks in place of reasoning and of a list of sources, so that places stay true."""
    return _SOURCES.sub(lambda m: " " * len(m[0]), blanked_reasoning(answer))


def claims_nothing(sentence: str) -> bool:
    """Whether a sentence, behind what opens it, abstains, asks, or is small talk."""
    empty = _ABSTAINS.match(sentence) or _NO_CLAIM.match(sentence) or not any(c.isalnum() for c in sentence)
    return bool(empty) or sentence.endswith("?") or is_abstention(sentence)


def opened(answer: str, start: int, end: int) -> int:
    """Where a sentence begins after openings that claim nothing."""
    while opener := _OPENER.match(answer, start, end):
        start = opener.end()
    return start
