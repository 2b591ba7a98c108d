"""Words that the terminal and the pages share."""

from __future__ import annotations

from sage_core.feedback.types import Verdict

GRADERS = {
    "critic": "the critic",
    "heuristic": "a heuristic, no LLM",
    "local judge": "the local judge, no LLM",
    "no answer": "the loop: no answer needs no grading",
    "local": "a look at question and context, no LLM",
}
ASKED = {1: "asked for more", -1: "asked for less", 0: "context left as it is"}
ROLES = {"generate": "answering", "judge": "grading"}


def grade_words(verdict: Verdict | None) -> str:
    """A grade and who gave it, without the reason."""
    if verdict is None:
        return "not graded"
    if verdict.score is None:
        return "the grade could not be read"
    return f"{verdict.score:g} of 10 by {GRADERS.get(verdict.source, verdict.source)}"


def saving_words(tokens: int, compared: int) -> str:
    """How much less or more ``tokens`` is, in per cent; empty where there is nothing to compare with."""
    return f"{tokens / compared - 1:+.0%}" if compared else ""


def counted(number: int, noun: str) -> str:
    """A number and its noun, such as "1 chunk" and "1,200 chunks"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
