"""Words that the terminal and the pages share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from sage_app.pipeline.results import Answer
from sage_core._checks import counted
from sage_core.feedback.types import Verdict, short_grade
from sage_core.llm.abstentions import abstains
from sage_core.llm.prompting import shows_passages
from sage_core.verify import AnswerMark

GRADERS = {
    "critic": "the critic",
    "heuristic": "a heuristic",
    "local judge": "the local judge",
    "no answer": "the loop (an abstention needs no critic)",
    "local": "a look at question and context",
}
BOLD = re.compile(r"\*\*(?=[^\s*])([^*\n]+)(?<=[^\s*])\*\*")
"""``**bold**`` stretches, as `ExtractiveAnswerer` and LLMs write them."""
_FAILED = {
    "contradicted": "contradicted by them",
    "misattributed": "in another than the cited one",
    "not found": "not in the passages",
}
FLAGS = {**_FAILED, "contradicted": "contradicted", "unsure": "unsure"}
"""What stands behind a part of an answer that is not supported."""


def support_words(marks: Sequence[AnswerMark]) -> str:
    """How much of an answer the passages support, in words; empty where it claims nothing."""
    counts: Counter[str] = Counter(mark.support for mark in marks if mark.support != "nothing claimed")
    if not counts:
        return ""
    total = counts.total()
    parts = [f"{counts['supported']} of {counted(total, 'statement')} supported by the passages"]
    parts += [f"{counts[word]} {said}" for word, said in _FAILED.items() if counts[word]]
    if counts["unsure"]:
        unread = any(mark.support == "unsure" and mark.probability is None for mark in marks)
        reason = "not measured in its language, or too long to read" if unread else "the evidence is weak"
        parts.append(f"{counts['unsure']} unsure ({reason})")
    return ", ".join(parts)


def claims_nothing(answer: str | None) -> bool:
    """Whether an answer abstains, or shows passages as a search does: no grade and no support is shown."""
    return answer is not None and (shows_passages(answer) or abstains(answer))


def answer_support(answer: Answer, marks: Sequence[AnswerMark]) -> str:
    """`support_words` of an answer; empty where it claims nothing."""
    return "" if claims_nothing(answer.text) else support_words(marks)


def grade_words(verdict: Verdict | None) -> str:
    """A grade and who gave it, without the reason."""
    words = short_grade(verdict)
    if verdict is None or verdict.score is None or verdict.source == "heuristic":
        return words
    by = verdict.vetoed_by or verdict.source
    return f"{words.removeprefix('grade ')} by {GRADERS.get(by, by)}"
