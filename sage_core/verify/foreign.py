"""What can be said of a claim in a language in which nothing was measured: where to look, and its numbers."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace

import numpy as np

from sage_core.text.keywords import bm25_share, gram_share, words
from sage_core.text.spans import Span
from sage_core.text.tokens import get_counter
from sage_core.verify.claims import Claim, unread_claim
from sage_core.verify.passages import ParsedPassages
from sage_core.verify.support import VERBATIM, VERBATIM_REASON, VERBATIM_WORDS

# Thousands are parted by any of these signs, and decimals by others of them: digits alone are compared. A
# number of one digit may be a word in the passages.
_NUMBER = re.compile(r"\d(?:[.,'’\u00a0\u202f٫٬]?\d)+")


def foreign_claim(answer: str, span: Span, material: ParsedPassages) -> Claim:
    """A claim that is not judged, with the sentence that shares most with it, and its numbers looked up.

    A whole sentence of the passages is supported in any language. Nothing else gets a probability.
    """
    claim = unread_claim(answer, span, material.lower)
    own, texts = words(claim.text), [words(s.text) for s in material.sentences]
    shared = bm25_share(own, texts) + gram_share(own, texts)
    if not shared.any():
        return claim
    sentence = material.sentences[int(np.argmax(shared))]
    claim = replace(claim, passage=sentence.passage, evidence=sentence.span)
    if claim.text.split() == sentence.text.split() and get_counter().count(claim.text) >= VERBATIM_WORDS:
        return replace(claim, probability=VERBATIM, reason=VERBATIM_REASON)
    held = numbers(material.lower).values()
    if missing := [number for number, digits in numbers(claim.text).items() if digits not in held]:
        return replace(claim, reason=f"{claim.reason}; not in the passages: {', '.join(missing)}")
    return claim


def numbers(text: str) -> dict[str, str]:
    """Numbers of two digits and more as they are written, each with its digits in European figures alone."""
    found = _NUMBER.findall(text)
    return {n: "".join(str(unicodedata.digit(c)) for c in n if c.isdigit()) for n in found}
