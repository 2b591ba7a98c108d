"""What to search for next where nobody can say it: a name that the passages bring and the question lacks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sage_core.text.keywords import index_terms

# Two words with capitals or more: single ones are mostly the beginnings of sentences.
_NAME = re.compile(r"[A-Z][\w'’-]+(?:\s+(?:of|de|von|van)?\s*[A-Z][\w'’.-]+)+")
_PASSAGES = 3


def follow_up(question: str, passages: Sequence[str], asked: Iterable[str] = ()) -> str:
    """A search for the second hop of a question, without an LLM.

    The first name in the best passages that shares no word with the question, and with it those words of the
    question that the best passage does not have: the passage explains who is meant, not what is asked.

        >>> follow_up("Where was the owner of the Petrel born?", ["The Petrel belonged to Mara Holt."])
        'Mara Holt owner born'

    Args:
        question: The user's question.
        passages: Texts that were shown, best first.
        asked: Searches made before; names in them are passed over.

    Returns:
        What to search for; empty where there is no such name.
    """
    before = "\n".join(asked)
    known = {*index_terms(question)}
    explained = {*index_terms("\n".join(passages[:1]))}
    for passage in passages[:_PASSAGES]:
        for found in _NAME.findall(passage):
            name = found.rstrip(".'’-")
            terms = {*index_terms(name)}
            if terms and not terms & known and name not in before:
                words = [w for w in re.findall(r"[\w'-]+", question) if {*index_terms(w)} - explained]
                return " ".join([name, *words])
    return ""
