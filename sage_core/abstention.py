"""The agreed sentence for "not in the documents": prompts ask for it, and the loop knows it by sight."""

from __future__ import annotations

from collections.abc import Iterable

NO_ANSWER = "The documents do not say."
"""What an answerer replies where the passages do not hold the answer."""


def says_no_answer(text: str, sentences: Iterable[str] = (NO_ANSWER,)) -> bool:
    """Whether a reply is one of the agreed sentences and nothing else, whatever its case, quotes and stop."""
    return any(_bare(text) == _bare(sentence) for sentence in sentences)


def _bare(text: str) -> str:
    return text.strip().strip("\"'“”*. ").casefold()
