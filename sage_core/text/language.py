"""Whether a text is English, by its letters and its small words."""

from __future__ import annotations

import re

from sage_core.text.lexicon import COMMON_ENGLISH, word_set

# No single letters: those of "E17" are such.
_FOREIGN_WORDS = """
    der die das und ist von mit den dem ein eine nicht zu auf im el la los las que es en un una por con del le
    les des et est dans pour une du qui sur il lo gli che di non sono della os da em um uma não het een van
    niet dat op te och att som det på av är ikke til ve bir bu için na się jest nie este și sunt din care
    ao pelo pela przez jego oraz yang dan di dengan untuk ini itu pada dari az és hogy egy nem ja että
    ovat ang mga sa kwa że są lub jako
"""
# Words that questions begin with: in a short text one of them is enough.
_FOREIGN_ASKING = """
    wann wer wie warum welche welcher welches wieviel quand où quel quelle quels quelles combien pourquoi qué
    quién quiénes cuál cuáles cuánto cuánta cuántos cuántas cómo cuándo dónde qual quais quanto quantos
    quantas quem onde quale quali quanti perché hoeveel welke waarom siapa berapa kapan bagaimana nasıl
    quando nerede kaç hangi kto gdzie kiedy jaki jaka
"""
_ASKING = word_set(_FOREIGN_ASKING)
_FOREIGN = word_set(_FOREIGN_WORDS) | _ASKING
LETTERS = re.compile(r"[^\W\d_]+")
MIN_WORDS = 8
"""Words from which on the shares of small words decide whether a text is English."""


# First what only one language of a script has: kana, and letters of Urdu and of Persian.
_SCRIPTS = tuple(
    (language, re.compile(f"[{letters}]"))
    for language, letters in (
        ("Japanese", "\u3040-\u30ff"),
        ("Urdu", "ٹڈڑںےہھ"),
        ("Persian", "پچژگ"),
        ("Ukrainian", "іїєґ"),
        ("Chinese", "\u3400-\u9fff"),
        ("Korean", "\uac00-\ud7a3"),
        ("Hindi", "\u0900-\u097f"),
        ("Bengali", "\u0980-\u09ff"),
        ("Arabic", "\u0600-\u06ff"),
        ("Russian", "\u0400-\u04ff"),
        ("Thai", "\u0e00-\u0e7f"),
    )
)
_RARE = ("Japanese", "Urdu", "Persian", "Ukrainian")
# Small words and letters of what is written in Latin letters; a word of several languages counts for each.
_LATIN = {
    "German": "der die das und ist von mit wie wer wann was wo welche welches viele wurde hat im ß ä ö ü",
    "Spanish": "el los las es qué quién quiénes cuándo cuál cuáles cuántos dónde cómo del por una y en ¿ ñ",
    "French": "le les des est quel quelle quels quelles qui quand où combien comment du une et dans ê è ç œ",
    "Portuguese": "os as é qual quais quem quando onde quantos como do da em uma não ã õ ç",
    "Italian": "il gli che di è quale quando dove chi come quanti della nel sono una perché",
}
_SIGNS = {language: word_set(listed) for language, listed in _LATIN.items()}


def language_of(text: str) -> str | None:
    """English name of the language of a text, by its script and small words; None if it is another.

    Examples:
        >>> language_of("Wann fährt die Fähre?"), language_of("渡轮几点开？")
        ('German', 'Chinese')
    """
    if is_english(text, MIN_WORDS):
        return "English"
    letters = sum(map(str.isalpha, text))
    for language, pattern in _SCRIPTS:
        own = len(pattern.findall(text))
        # Few letters tell Urdu from Arabic; the others are a script, of which a name may be in any text.
        if own and own >= (0.02 if language in _RARE else 0.3) * letters:
            return language
    words = LETTERS.findall(text.lower())
    # Letters are one sign together: Turkish has the ü of German and the ç of French.
    counts = {
        language: sum(map(signs.__contains__, words)) + (not signs.isdisjoint(text.lower()))
        for language, signs in _SIGNS.items()
    }
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] > 1 else None


_SHORT = 40  # words
_SAMPLE_CHARS = 1500
_SAMPLE_PARTS = 3


def sample(text: str) -> str:
    """What is read of a text to know its language: beginning, middle and end of a long one."""
    if len(text) <= _SAMPLE_CHARS * _SAMPLE_PARTS:
        return text
    step = (len(text) - _SAMPLE_CHARS) // (_SAMPLE_PARTS - 1)
    return " ".join(text[i * step : i * step + _SAMPLE_CHARS] for i in range(_SAMPLE_PARTS))


def is_english(text: str, least: int) -> bool:
    """Whether a text looks like English, or does not show that it is not.

    Args:
        text: The text; without a letter it counts as English.
        least: Words from which on the shares of small words such as "the" and "der" decide. In fewer words,
            more of another language do, at least two, or one that begins a question.
    """
    words = LETTERS.findall(text.lower())
    if not words:
        return True
    if not text.isascii():
        letters = "".join(words)
        if len(letters.encode("ascii", "ignore")) < 0.85 * len(letters):
            return False
    english = sum(map(COMMON_ENGLISH.__contains__, words))
    # In a short text a name said twice ("Wear OS") is one sign of another language, not two.
    foreign = sum(map(_FOREIGN.__contains__, set(words) if len(words) < _SHORT else words))
    if len(words) < least:
        foreign += sum(map(_ASKING.__contains__, words))
        return foreign < 2 or english >= foreign
    if english >= max(0.06 * len(words), foreign):
        return True
    # Neither English nor another language that is known by its small words: names, a list, a table.
    return foreign < 0.04 * len(words)
