"""Which option of a multiple-choice question a reply names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sage_core.llm.prompting import option_letter

# "B", "(b)", "B.", "**B** Paris"; then "the answer is B".
_FIRST = re.compile(r"[(\[\"'*]*([A-Za-z]|\d{1,2})(?:[).:\]\"'*]|$)")
_STATED = re.compile(r"\b(?i:answer|option|choice)(?: is)?:?[ (\[\"'*]+([A-Z]|\d{1,2})(?![^\W_])", re.ASCII)


def chosen_option(text: str, options: Sequence[str]) -> int | None:
    """Which option a reply to a multiple-choice question names.

    Args:
        text: The reply, such as ``"B"``, ``"(b) Paris"``, ``"The answer is B."`` or the option's own text.
        options: The options, in the order asked.

    Returns:
        The option's position; None if the reply names none.
    """
    flat = " ".join(text.split())
    letters = {option_letter(i).casefold(): i for i in range(len(options))}
    for match in (_FIRST.match(flat), *_STATED.finditer(flat)):
        if match is not None and match[1].casefold() in letters:
            return letters[match[1].casefold()]
    folded = flat.casefold()
    texts = [" ".join(option.split()).casefold() for option in options]
    named = [i for i, option in enumerate(texts) if option and option in folded]
    # "Paris, Texas" names "Paris" too: the longest option that holds all the others named is meant.
    longest = max(named, key=lambda i: len(texts[i]), default=None)
    if longest is None or any(texts[i] not in texts[longest] for i in named):
        return None
    return longest
