"""What prompts share: quoted material kept apart from instructions, and the sentence for "no answer"."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence

from sage_core._checks import checked_options

NO_ANSWER = "The documents do not say."
"""What an answerer replies where the passages do not hold the answer."""

NOT_SURE = "I am not sure."
"""How an answerer without an LLM begins where it does not know whether a passage answers."""

SEARCH_TOOL = "Finds the passages of the documents that answer a question."
"""Description of a retriever as a tool, for an agent's model."""

# A block that never ends hides everything after it.
_REASONING = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)


def without_reasoning(text: str) -> str:
    """A reply with a line break in place of each block of reasoning (``<think>...</think>``)."""
    return _REASONING.sub("\n", text)


def is_abstention(text: str, sentences: Iterable[str] = (NO_ANSWER,)) -> bool:
    """Whether a reply is one of the agreed sentences and nothing else, whatever its case and quotes."""
    return any(_bare(text) == _bare(sentence) for sentence in sentences)


def _bare(text: str) -> str:
    return text.strip().strip("\"'“”*. ").casefold()


def delimiter(texts: Sequence[str]) -> str:
    """Eight hexadecimal digits that occur in none of the texts.

    They come from a hash of all the texts, so the same material gives the same prompt, while the author of a
    document cannot predict them: they depend on the question and on every other passage too.
    """
    joined = "\x00".join(texts)
    for salt in range(1_000_000):
        mark = hashlib.sha256(f"{salt}\x00{joined}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
        if mark not in joined:
            return mark
    raise AssertionError("no free mark among a million")  # pragma: no cover


def quote_block(name: str, text: str, mark: str) -> str:
    """The text, unchanged, between a BEGIN and an END line that carry the delimiter ``mark``."""
    return f"<<BEGIN {name} {mark}>>\n{text}\n<<END {name} {mark}>>"


def numbered(passages: Sequence[str]) -> str:
    """Passages under one another, each with its number from 1."""
    return "\n\n".join(f"[{number}] {text}" for number, text in enumerate(passages, 1))


def search_result(passages: Sequence[str], names: Sequence[Mapping[str, str]]) -> str:
    """What an agent's tool returns of a search.

    Args:
        passages: Each after its title and headings.
        names: For each passage names in it of other documents, each with the document.

    Examples:
        >>> print(search_result(["The Petrel belonged to Mara Holt."], [{"Mara Holt": "holt.md"}]))
        [1] The Petrel belonged to Mara Holt.
        Names documents of this collection: Mara Holt (holt.md)
    """
    if not passages:
        return "Nothing was found."
    texts = []
    for passage, own in zip(passages, names, strict=True):
        named = ", ".join(f"{name} ({document})" for name, document in own.items())
        texts.append(f"{passage}\nNames documents of this collection: {named}" if named else passage)
    return numbered(texts)


def letter_options(options: Sequence[str]) -> str:
    """Options of a multiple-choice question, one a line, each with its letter (numbers beyond 26)."""
    return "\n".join(f"{option_letter(i)}. {text}" for i, text in enumerate(options))


def option_letter(position: int) -> str:
    """``A`` for 0 up to ``Z`` for 25, then numbers from 27."""
    return chr(ord("A") + position) if position < 26 else str(position + 1)


def question_text(question: str, options: Sequence[str] | None) -> str:
    """The question, with its options below it where there are any.

    Raises:
        InputError: For options that are no list of texts.
    """
    options = checked_options(options)
    return f"{question}\n{letter_options(options)}" if options else question
