"""Texts as words, and as the SQuAD scorer compares them."""

from __future__ import annotations

import re
import string
import unicodedata

from sage_core.errors import InputError

ARTICLES = {
    "en": frozenset(("a", "an", "the")),
    "pt": frozenset(("o", "a", "os", "as", "um", "uma", "uns", "umas")),
}
"""Articles that are not compared, by language."""

_PUNCTUATION = str.maketrans("", "", string.punctuation)
# Written without spaces: a character is a word.
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


def check_language(language: str) -> str:
    """The language, where its articles are known.

    Raises:
        InputError: Where they are not.
    """
    if language not in ARTICLES:
        raise InputError(f"no articles are known for language {language!r}: use one of {', '.join(ARTICLES)}")
    return language


def normalise(text: str, *, language: str = "en") -> str:
    """A text as SQuAD's official scorer compares it: lower case, no punctuation, no articles, single spaces.

    In English only ASCII punctuation is taken out, as there; in other languages all of Unicode's.
    """
    articles = ARTICLES[check_language(language)]
    text = text.lower()
    if language == "en":
        text = text.translate(_PUNCTUATION)
        # The official scorer takes articles out at word boundaries, before it splits at spaces.
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())
    text = "".join(c for c in text if not unicodedata.category(c).startswith("P"))
    return " ".join(word for word in text.split() if word not in articles)


def words(text: str) -> list[str]:
    """Words in lower case without punctuation.

    For ASCII text the same as the tokens of rouge-score. Letters of other alphabets keep their accents and
    marks; Chinese characters and kana are a word each.
    """
    text = unicodedata.normalize("NFC", text.lower())
    text = "".join(c if c.isalnum() or unicodedata.category(c)[0] == "M" else " " for c in text)
    return _UNSPACED.sub(r" \g<0> ", text).split()
