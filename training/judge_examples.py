"""Training examples of the judge, made from text as it is read.

Every example is a first text, a passage and its labels; see `Example`. Most come in fours: a claim and a
passage, the same claim after a change that makes it false, and both again with the passage changed in the
same way. Neither the claim nor the passage alone then says anything about the label.
"""

from __future__ import annotations

import gzip
import json
import pickle
import random
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_core.text.keywords import words
from sage_core.text.sentences import split_sentences

Bundle = dict[str, Any]
Near = dict[tuple[str, int], Any]

NUMBER_WORDS = tuple(
    re.findall(r"\w+", "zero one two three four five six seven eight nine ten eleven twelve")
)
MONTHS = tuple(
    re.findall(
        r"\w+",
        "January February March April May June July August September October November December",
    )
)
STOP = frozenset(
    re.findall(
        r"\w+",
        "a about after all also am an and any are as at be been before being between both but by can "
        "could did do does doing each for from had has have having he her here hers him his how i if in "
        "into is it its itself just may me might more most must my no nor not of off on once only or "
        "other our out over own said same she should so some such than that the their them then there "
        "these they this those through to too under until up very was we were what when where which while "
        "who whom why will with would you your one two ",
    )
)


def _groups(name: str, separator: str | None) -> dict[str, list[str]]:
    """Each word of a file in this folder with the others of its line."""
    table: dict[str, list[str]] = {}
    for line in (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines()[1:]:
        words = [word.strip() for word in line.split(separator)]
        for word in words:
            table.setdefault(word, []).extend(w for w in words if w != word)
    return table


ANTONYMS = _groups("antonyms.txt", None)
SYNONYMS = _groups("synonyms.txt", "|")
SYN_RE = re.compile(r"\b(" + "|".join(sorted(map(re.escape, SYNONYMS), key=len, reverse=True)) + r")\b")
WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
NUMBER = re.compile(r"(?<![\w.,-])\d[\d,]*(?:\.\d+)?(?![\w])")
YEAR = re.compile(r"^1\d{3}$|^20[0-3]\d$")
NAME = re.compile(r"\b[A-Z][\w’'-]*[a-z][\w’'-]*(?: (?:(?:of|the|de|von|van|der|la) )?[A-Z][\w’'-]*[\w])*")
AUX = re.compile(
    r"\b(is|are|was|were|can|could|will|would|should|may|might|must|has|have|had|did|does|do)\b"
    r"(?! not|n['’]t)"
)
NOT = re.compile(r"\b(?:not|never) |n['’]t\b")
VERB = re.compile(
    r"\b(is|are|was|were|has|have|had|can|could|will|would|may|must|became|began|made|took|gave|used|\w{3,}ed|\w{3,}es)\b"
)
PRONOUN = re.compile(r"^(He|She|It|They)\b")
OPENERS = (
    "According to the passage, ",
    "According to the text, ",
    "The passage states that ",
    "Based on the given passages, ",
    "The document says that ",
    "In short, ",
    "Yes, ",
    "Overall, ",
    "As mentioned, ",
    "Additionally, ",
    "The answer is that ",
)


def _listed(words: str) -> tuple[str, ...]:
    return tuple(words.split())


# Facts of our own making: what is told of a thing, how it is asked, said and denied, and its values.
_KINDS = _listed(
    "ferry train bus tram mill museum library shop bakery garden tower bridge school harbor "
    "lighthouse hotel cabin boat pump engine sensor valve camera course ticket room hall market "
    "chapel station warehouse farm"
)
_WHICH = _listed(
    "north south old new red blue green white upper lower small large stone wooden iron eastern "
    "western first second third summer winter morning evening inner outer royal village town "
    "island main narrow wide"
)
_FIRST = _listed("Anna Paul Mara Jonas Ellen Victor Ruth Omar Lena Hugo Nadia Peter Ines Tomas Clara Samuel")
_LAST = _listed("Berg Moreno Hale Ivers Okoye Lindt Parry Sato Weaver Novak Dunn Costa Reyes Marsh Keller")
_HOURS = (*NUMBER_WORDS[1:], "noon", "half past six", "9:30", "7:15", "10 a.m.", "4 p.m.", "18:00", "06:45")


def _amount(*units: str, most: int = 90) -> Callable[[random.Random], str]:
    def value(rng: random.Random) -> str:
        number = rng.randint(2, most)
        said = NUMBER_WORDS[number] if number < len(NUMBER_WORDS) and rng.random() < 0.4 else str(number)
        return f"{said} {rng.choice(units)}".strip()

    return value


@dataclass(frozen=True)
class Attribute:
    """Something that can be told of a thing: heading of a column, question, statement, denial, values."""

    heading: str
    question: str
    said: str
    denied: str
    values: Callable[[random.Random], str] | tuple[str, ...]

    def value(self, rng: random.Random) -> str:
        """Any of the values."""
        return self.values(rng) if callable(self.values) else rng.choice(self.values)


_AMOUNT = _amount("", most=4000)


def _year(rng: random.Random) -> str:
    return str(rng.randint(1650, 2024))


def _person(rng: random.Random) -> str:
    return f"{rng.choice(_FIRST)} {rng.choice(_LAST)}"


def _place(rng: random.Random) -> str:
    return f"{rng.choice(_LAST)} {rng.choice(('Street', 'Hill', 'Bay', 'Square', 'Point'))}"


ATTRIBUTES = tuple(
    Attribute(*row)
    for row in (
        ("Opens", "When does {e} open?", "{e} opens at {v}.", "{e} does not open at {v}.", _HOURS),
        ("Closes", "What time does {e} close?", "{e} closes at {v}.", "{e} never closes at {v}.", _HOURS),
        ("Starts", "When does {e} start?", "{e} starts at {v}.", "{e} does not start at {v}.", _HOURS),
        (
            "Duration",
            "How long does {e} take?",
            "{e} takes {v}.",
            "{e} does not take {v}.",
            _amount("hours", "minutes", "days"),
        ),
        (
            "Price",
            "How much does {e} cost?",
            "{e} costs {v}.",
            "{e} does not cost {v}.",
            _amount("pounds", "dollars", "euros"),
        ),
        (
            "Height",
            "How high is {e}?",
            "{e} is {v} high.",
            "{e} is not {v} high.",
            _amount("meters", "feet"),
        ),
        (
            "Weight",
            "What does {e} weigh?",
            "{e} weighs {v}.",
            "{e} does not weigh {v}.",
            _amount("kg", "tons"),
        ),
        (
            "Visitors",
            "How many visitors did {e} have?",
            "{e} had {v} visitors.",
            "{e} did not have {v} visitors.",
            _AMOUNT,
        ),
        (
            "Seats",
            "How many seats does {e} have?",
            "{e} has {v} seats.",
            "{e} does not have {v} seats.",
            _AMOUNT,
        ),
        ("Built", "When was {e} built?", "{e} was built in {v}.", "{e} was not built in {v}.", _year),
        ("Sold", "What year was {e} sold?", "{e} was sold in {v}.", "{e} was never sold in {v}.", _year),
        ("Owner", "Who owns {e}?", "{e} belongs to {v}.", "{e} does not belong to {v}.", _person),
        ("Keeper", "Who looks after {e}?", "{v} looks after {e}.", "{v} does not look after {e}.", _person),
        ("Place", "Where is {e}?", "{e} stands at {v}.", "{e} does not stand at {v}.", _place),
        (
            "Leaves from",
            "Where does {e} leave from?",
            "{e} leaves from {v}.",
            "{e} never leaves {v}.",
            _place,
        ),
        (
            "Made of",
            "What is {e} made of?",
            "{e} is made of {v}.",
            "{e} is not made of {v}.",
            _listed("oak granite brick steel slate glass copper pine concrete canvas"),
        ),
        (
            "Color",
            "What color is {e}?",
            "{e} is painted {v}.",
            "{e} is not painted {v}.",
            _listed("grey yellow brown black orange purple pink silver"),
        ),
    )
)


@dataclass
class Example:
    """One pair. Labels are None if the pair says nothing about them."""

    first: str
    passage: str
    answerable: float | None = None
    supported: float | None = None
    group: int | None = None  # Pairs of the same group compete; `relevant` marks the right one.
    relevant: bool = False
    span: tuple[int, int] | None = None  # Characters of the answer in the passage.
    weight: float = 1.0


def decap(text: str) -> str:
    """Lower the first letter of a sentence, unless it begins with a name, an acronym or I."""
    m = re.match(r"[A-Z][a-z]*\b", text)
    if m and (m[0].lower() in STOP or m[0].lower() in _LOWER_FIRST):
        return text[0].lower() + text[1:]
    return text


_LOWER_FIRST = frozenset(
    re.findall(
        r"\w+",
        "although however despite because since many several most some few another every during early "
        "later today ",
    )
)


def cap(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def end(text: str) -> str:
    """The text with a full stop."""
    text = text.rstrip(" ,;:-–—")
    return text if text[-1:] in ".!?\"”'" else text + "."


def names_in(text: str) -> list[str]:
    """Names, by their capital letters."""
    found = []
    for m in NAME.finditer(text):
        if m.start() == 0 and " " not in m[0]:
            continue
        if m[0].lower() not in STOP and m[0] not in ("The", "This", "In", "It"):
            value = m[0]
            if m.start() == 0 and value.split()[0].lower() in STOP:
                value = " ".join(value.split()[1:])
            found.append(value)
    return found


def numbers_in(text: str) -> list[str]:
    """Numbers as they are written."""
    return [m[0] for m in NUMBER.finditer(text)]


def content_words(text: str) -> list[str]:
    """Words of more than three letters that are not among the commonest."""
    return [w for w in WORD.findall(text) if len(w) > 3 and w.lower() not in STOP]


def keyset(text: str) -> set[str]:
    """Beginnings of the content words, and the numbers: two texts that share many are alike."""
    return {w.lower()[:6] for w in WORD.findall(text) if len(w) > 2 and w.lower() not in STOP} | set(
        numbers_in(text)
    )


def sub_word(text: str, old: str, new: str) -> str:
    """The text with a whole word replaced."""
    return re.sub(r"(?<![\w])" + re.escape(old) + r"(?![\w])", lambda _: new, text)


# --- changes that keep a claim true -------------------------------------------------------------------------


def _move_opening(s: str, rng: random.Random) -> str:
    """The opening adverbial goes to the end, or away."""
    m = _OPENING.match(s)
    if not m:
        return s
    rest = m[2].rstrip(".")
    return end(cap(rest)) if rng.random() < 0.4 else end(f"{cap(rest)} {m[1][0].lower()}{m[1][1:]}")


def _drop_clause(s: str, rng: random.Random) -> str:
    """A trailing clause goes."""
    m = _TRAILING.match(s)
    return end(m[1]) if m and len(m[1].split()) > 5 else s


def _one_clause(s: str, rng: random.Random) -> str:
    """One of two clauses."""
    parts = [p for p in _CLAUSES.split(s) if len(p.split()) > 4]
    return end(cap(rng.choice(parts))) if len(parts) > 1 else s


def _apposition(s: str, rng: random.Random) -> str:
    """Turn "X, a Y, did Z." into "X is a Y." or "X did Z."."""
    m = _APPOSITION.match(s)
    if not m:
        return s
    verb = "was" if "was" in m[3] or "ed " in m[3] else "is"
    return end(f"{m[1]} {verb} {m[2]}") if rng.random() < 0.5 else f"{m[1]} {m[3]}"


def _active(s: str, rng: random.Random) -> str:
    """Passive to active: "X was founded by Y in 1900."."""
    m = _PASSIVE.match(s)
    if not m:
        return s
    verb = {"written": "wrote", "taken": "took", "given": "gave"}.get(m[2], m[2])
    return end(f"{cap(m[3])} {verb} {decap(m[1])}{m[4]}")


def _drop_phrase(s: str, rng: random.Random) -> str:
    """A phrase with a preposition goes."""
    found = list(_PHRASE.finditer(s))
    if not found or len(s.split()) <= 9:
        return s
    m = rng.choice(found)
    return s[: m.start()] + s[m.end() :]


def _other_words(s: str, rng: random.Random) -> str:
    """Synonyms, contractions and other forms of numbers."""
    if rng.random() < 0.5:
        found = list(SYN_RE.finditer(s))
        for m in rng.sample(found, k=min(rng.choice((1, 1, 2, 3)), len(found))):
            s = s.replace(m[0], rng.choice(SYNONYMS[m[0]]), 1)
    if rng.random() < 0.2:
        s = re.sub(r"\b\w{3,}ly (?=[a-z])", "", s)
    if rng.random() < 0.2:
        whole = {"ca": "cannot", "wo": "will not"}
        if "n't" in s:
            s = re.sub(r"\b(\w+)n['’]t\b", lambda m: whole.get(m[1], m[1] + " not"), s)
        else:
            s = re.sub(r"\b(did|does|is|was|were|are|has|had|could|would) not\b", r"\1n't", s)
    if rng.random() < 0.2:  # Numbers and dates in another form.
        if rng.random() < 0.5:
            s = re.sub(r"\b(\d{1,2}) (" + "|".join(MONTHS) + r")\b", r"\2 \1", s)
        else:
            s = re.sub(r"\b(\d{1,2}),(\d{3})\b", r"\1\2", s)
        s = re.sub(r"(?<![\w.,-])(\d|1[0-2])(?= [a-z])", lambda m: NUMBER_WORDS[int(m[1])], s)
    if rng.random() < 0.15:  # "the X of Y" to "Y's X".
        s = re.sub(r"\bthe (\w+) of ([A-Z]\w+)(?= [a-z])", r"\2's \1", s, count=1)
    return s


_OPENING = re.compile(
    r"((?:In|On|At|During|After|Before|By|From|For|Despite|Since|Following|Throughout|Although|While|When|As|"
    r"Because) [^,]{3,70}), (?=[a-zA-Z])(.+)$"
)
_TRAILING = re.compile(
    r"(.{25,}?),? (?:which|who|whom|whose|while|although|though|whereas|where|because|since|so that|"
    r"as well as|including|such as|leading|making|with|and) .+$"
)
_CLAUSES = re.compile(
    r"; (?:however, )?|, and (?=he |she |it |they |the |there |this |its |in )"
    r"|, but (?=he |she |it |they |the |there )|: "
)
_APPOSITION = re.compile(r"([A-Z][^,]{2,50}), ((?:a|an|the) [^,]{4,70}), ((?:is|was|had|has|[a-z]+ed) .+)$")
_PASSIVE = re.compile(
    r"([A-Z][^,.;]{2,60}?) (?:was|were) (\w+ed|written|built|made|won|led|held|taken|given) by "
    r"((?:[A-Z][\w.'’-]*|the|of|and|a|an)(?: (?:[A-Z][\w.'’-]*|of|the|and))*)(.*)$"
)
_PHRASE = re.compile(
    r" (?:in|on|at|with|from|during|for|through|by|of|to|near|into|under|over) "
    r"(?:the |a |an |his |her |its |their )?[\w-]+(?: [\w-]+)?"
    r"(?=[,.;]| and | in | of | for | with | to | at )"
)
# How a sentence is built otherwise, and how often; the rest of the time it stays.
_BUILT: tuple[tuple[Callable[[str, random.Random], str], float], ...] = (
    (_move_opening, 0.25),
    (_drop_clause, 0.2),
    (_one_clause, 0.15),
    (_apposition, 0.1),
    (_active, 0.08),
    (_drop_phrase, 0.14),
)


def rephrase(s: str, rng: random.Random, title: str = "") -> str:
    """A sentence said otherwise: shorter, reordered, other words."""
    if rng.random() < 0.12:
        return s
    if rng.random() < 0.5:
        s = re.sub(r" ?\([^()]*\)", "", s)
    if title and rng.random() < 0.5 and len(title.split()) < 5:
        s = PRONOUN.sub(lambda _: title, s) if not s.startswith("They") else s
    r = rng.random()
    for build, share in _BUILT:
        if r < share:
            s = build(s, rng)
            break
        r -= share
    return cap(_other_words(s, rng))


# --- changes that make it false -----------------------------------------------------------------------------


Changed = tuple[str, str | None, str | None, bool]


def _wrong_number(s: str, passage: str, elsewhere: str, rng: random.Random) -> Changed | None:
    own = numbers_in(s)
    if not own:
        return None
    old = rng.choice(own)
    year = bool(YEAR.match(old))
    near = numbers_in(passage if rng.random() < 0.5 else elsewhere)
    pool = [n for n in near if n not in own and bool(YEAR.match(n)) == year]
    if pool and rng.random() < 0.75:
        new = rng.choice(pool)
    else:
        value = float(old.replace(",", ""))
        if year:
            new = str(int(value) + rng.choice((-50, -20, -10, -7, -3, -2, -1, 1, 2, 4, 9, 10, 30)))
        else:
            other = value * rng.choice((0.1, 0.5, 0.8, 1.2, 1.5, 2, 3, 10))
            other += rng.choice((1, 2, 3)) if value < 20 else 0
            places = len(old.split(".")[1]) if "." in old else 0
            new = f"{other:.{places}f}" if places else f"{int(other):,}" if "," in old else str(int(other))
    return None if new == old else (sub_word(s, old, new), old, new, True)


def _wrong_name(s: str, passage: str, elsewhere: str, rng: random.Random) -> Changed | None:
    own = names_in(s)
    if not own:
        return None
    old = rng.choice(own)
    pool = [n for n in names_in(passage if rng.random() < 0.5 else elsewhere) if n not in s and old not in n]
    if not pool:
        return None
    new = rng.choice(pool)
    return sub_word(s, old, new), old, new, True


def _shape(word: str) -> str:
    """The ending that another word must share to stand in its place."""
    if word.endswith(("ing", "ion")):
        return word[-3:]
    if word.endswith(("ed", "ly", "al", "ic")):
        return word[-2:]
    return word[-1:] if word.endswith("s") else ""


def _wrong_word(s: str, passage: str, elsewhere: str, rng: random.Random) -> Changed | None:
    own = [w for w in content_words(s) if w.islower()]
    if not own:
        return None
    old = rng.choice(own)
    shape = _shape(old)
    pool = [
        w
        for w in content_words(passage if rng.random() < 0.4 else elsewhere)
        if w.islower()
        and w.endswith(shape)
        and w[:5] != old[:5]
        and w not in SYNONYMS.get(old, ())
        and (shape or not w.endswith(("s", "ed", "ing", "ly")))
    ]
    if not pool:
        return None
    new = rng.choice(pool)
    return sub_word(s, old, new), old, new, True


def _antonym(s: str, passage: str, elsewhere: str, rng: random.Random) -> Changed | None:
    own = [w for w in WORD.findall(s) if w in ANTONYMS]
    if not own:
        return None
    old = rng.choice(own)
    new = rng.choice(ANTONYMS[old])
    return sub_word(s, old, new), old, new, False


def _negated(s: str, passage: str, elsewhere: str, rng: random.Random) -> Changed | None:
    if NOT.search(s):
        return NOT.sub("", s, count=1), None, None, False
    m = AUX.search(s)
    if not m:
        return None
    return s[: m.end()] + rng.choice((" not", " not", " never")) + s[m.end() :], None, None, False


def _exchanged(s: str, passage: str, elsewhere: str, rng: random.Random) -> Changed | None:
    own = list(dict.fromkeys(names_in(s)))
    if len(own) < 2:
        return None
    a, b = rng.sample(own, 2)
    if a in b or b in a:
        return None
    # In lists the order says nothing.
    for x, y in ((a, b), (b, a)):
        if re.search(re.escape(x) + r"(?:,| and| or)[^.]{0,40}" + re.escape(y), s):
            return None
    return sub_word(sub_word(sub_word(s, a, "\0"), b, a), "\0", b), None, None, False


def _grafted(s: str, passage: str, elsewhere: str, rng: random.Random) -> Changed | None:
    other = rng.choice(re.split(r"(?<=[.!?]) ", passage))
    m, n = VERB.search(s, 4), VERB.search(other, 4)
    if not m or not n or other == s or len(other.split()) < 6:
        return None
    return s[: m.start()] + other[n.start() :], None, None, False


_CHANGES = (_wrong_number, _wrong_name, _wrong_word, _antonym, _negated, _exchanged, _grafted)


def corrupt(s: str, passage: str, elsewhere: str, rng: random.Random) -> Changed | None:
    """A sentence made false.

    Returns:
        ``(changed sentence, old, new, everywhere)``, or None. ``everywhere``: the change fits every place of
        the passage.
    """
    for _ in range(6):
        change = rng.choices(_CHANGES, (4, 5, 3, 5, 4, 2, 1.5))[0]
        found = change(s, passage, elsewhere, rng)
        if found is not None:
            return found
    return None


# --- passages ----------------------------------------------------------------------------------------------


def window(sentences: Sequence[str], i: int, words: int, rng: random.Random) -> tuple[int, int]:
    """``(first, last + 1)`` of a run of sentences around ``i`` with at most so many words."""
    a, b = i, i + 1
    total = len(sentences[i].split())
    while True:
        options = [
            j for j in (a - 1, b) if 0 <= j < len(sentences) and total + len(sentences[j].split()) <= words
        ]
        if not options:
            return a, b
        j = rng.choice(options)
        total += len(sentences[j].split())
        a, b = min(a, j), max(b, j + 1)


def untidy(text: str) -> str:
    """The text as some corpora have it: punctuation set apart."""
    text = re.sub(r"\s*([,.;:!?()\"]|'s\b)\s*", r" \1 ", text).strip()
    return re.sub(r'" ([^"]*) "', r"`` \1 ''", text)


@dataclass
class _Claim:
    """A sentence with its passage, and how it is said otherwise: always in the same way."""

    sentence: str
    before: list[str]
    after: list[str]
    title: str
    seed: float
    paras: list[list[str]]
    tidy: Callable[[str], str] = str

    @property
    def passage(self) -> str:
        """The passage with the sentence."""
        return " ".join([*self.before, self.sentence, *self.after])

    def said(self, text: str) -> str:
        """A sentence said otherwise."""
        r = random.Random(self.seed)
        text = rephrase(text, r, self.title)
        if r.random() < 0.06:
            text = r.choice(OPENERS) + decap(text)
        return text.rstrip(".") if r.random() < 0.05 else text

    def example(self, claim: str, right: bool, passage: str | None = None, weight: float = 1.0) -> Example:
        """A claim against the passage, or another."""
        text = self.tidy(passage if passage is not None else self.passage)
        return Example(claim, text, supported=float(right), weight=weight)


def held_out(name: str) -> bool:
    """Whether a document, article or question is held out for the calibration: one in ten."""
    return zlib.crc32(name.encode()) % 10 == 0


class Maker:
    """Makes examples from a bundle.

    Args:
        bundle: What `make_bundle` gives.
        seed: Of the random numbers.
        near: Per question the positions of alike passages in `pool`, or None.
        held: Make examples of the documents and questions held out, see `held_out`, instead of the others.
    """

    def __init__(self, bundle: Bundle, seed: int, near: Near | None = None, *, held: bool = False) -> None:
        self.rng = random.Random(seed)
        self.docs = bundle["docs"]
        self.pairs = bundle["pairs"]
        self.passages = bundle["passages"]
        self.reader = bundle["reader"]
        self.pool = pool_of(bundle)
        self.near = near
        self.groups = 0
        self.of_group = {}
        for i, (group, _, _) in enumerate(self.passages):
            self.of_group.setdefault(group, []).append(i)
        weights = [sum(len(p[1]) for p in d[2]) ** 0.7 if held_out(d[0]) == held else 0.0 for d in self.docs]
        total = 0.0
        self.cumulative = []
        for w in weights:
            total += w
            self.cumulative.append(total)
        self.by_kind = {}
        for i, p in enumerate(self.pairs):
            if held_out(p[4] or self.docs[p[3][0]][0]) == held:
                self.by_kind.setdefault(p[0], []).append(i)
        self.reader_kinds = {}
        self.of_passage = {}
        for i, r in enumerate(self.reader):
            if (r[2] or not r[3]) and held_out(self.passages[r[1]][0]) == held:
                self.reader_kinds.setdefault(self.passages[r[1]][1], []).append(i)
            self.of_passage.setdefault(r[1], []).append(i)

    # claims ------------------------------------------------------------------------------------------------
    def _doc(self) -> tuple[str, list[list[str]]]:
        """Title and paragraphs of a document, or of passages of one article."""
        rng = self.rng
        while True:
            if rng.random() < 0.12:  # A reader's passage, or a medical one.
                group = rng.choice(list(self.of_group)) if rng.random() < 0.5 else None
                if group:
                    return "", [self.passages[i][2] for i in self.of_group[group][:40]]
            d = rng.choices(self.docs, cum_weights=self.cumulative)[0]
            paras = [p[1] for p in d[2] if len(p[1]) > 0]
            if sum(len(p) for p in paras) > 4:
                return d[1], paras

    def claims(self) -> list[Example]:
        """Examples from one sentence."""
        rng = self.rng
        title, paras = self._doc()
        for _ in range(5):
            k = rng.randrange(len(paras))
            i = rng.randrange(len(paras[k]))
            if 6 <= len(paras[k][i].split()) <= 50:
                break
        else:
            return []
        s = paras[k][i]
        before, after = self._beside(paras, k, i)
        if s in before or s in after:
            return []
        head = []
        if title and (PRONOUN.match(s) or rng.random() < 0.15):
            head = [title + ("." if rng.random() < 0.5 else ":")]
        made = _Claim(s, [*head, *before], after, title if head else "", rng.random(), paras)
        made.tidy = untidy if rng.random() < 0.04 else made.tidy
        if len(made.said(s).split()) < 4:
            return []
        r = rng.random()
        if r < 0.62:
            return self._contradicted(made)
        if r < 0.74:
            return self._unsupported(made)
        if r < 0.82:
            return self._from_elsewhere(made)
        return self._half_supported(made, len(head)) if r < 0.92 else self._pieces(made)

    def _beside(self, paras: Sequence[list[str]], k: int, i: int) -> tuple[list[str], list[str]]:
        """Sentences before and after a sentence in its passage."""
        rng = self.rng
        para = paras[k]
        budget, mode = rng.choice((1, 25, 35, 50, 65, 80)), rng.random()
        if mode < 0.35:
            a, b = window(para, i, budget, rng)
            return list(para[a:i]), list(para[i + 1 : b])
        if mode < 0.65:  # Among other parts of the document.
            a, b = window(para, i, budget // 2, rng)
            before, after = list(para[a:i]), list(para[i + 1 : b])
            other = rng.choice(paras)
            if other is not para:
                c, d = window(other, rng.randrange(len(other)), budget // 2, rng)
                if rng.random() < 0.5:
                    before = [*other[c:d], *before]
                else:
                    after = [*after, *other[c:d]]
            return before, after
        # The sentences of the document that share most with the claim, in order.
        key = keyset(para[i])
        flat = [
            (kk, jj, t)
            for kk, p in enumerate(paras[max(0, k - 12) : k + 12], max(0, k - 12))
            for jj, t in enumerate(p)
            if (kk, jj) != (k, i)
        ]
        flat = rng.sample(flat, min(len(flat), 60))
        flat.sort(key=lambda x: -len(key & keyset(x[2])))
        chosen, n = [], len(para[i].split())
        for x in flat[:8]:
            if n + len(x[2].split()) <= budget:
                chosen.append(x)
                n += len(x[2].split())
        chosen.sort()
        return [t for kk, jj, t in chosen if (kk, jj) < (k, i)], [
            t for kk, jj, t in chosen if (kk, jj) > (k, i)
        ]

    def _contradicted(self, made: _Claim) -> list[Example]:
        """The sentence, and the sentence made false; sometimes with the passage made false alike."""
        rng = self.rng
        elsewhere = " ".join(rng.choice(made.paras)) + " " + " ".join(rng.choice(made.paras))
        changed = corrupt(made.sentence, made.passage, elsewhere, rng)
        if changed is None:
            return []
        wrong_s, old, new, everywhere = changed
        claim, wrong = made.said(made.sentence), made.said(wrong_s)
        if wrong == claim or (new and old and sub_word(wrong, old, new) != wrong):
            return []
        if old is not None and new is not None and old not in claim and new not in wrong:
            return []  # The rephrasing dropped the place.
        out = [made.example(claim, True), made.example(wrong, False)]
        if rng.random() < 0.4:
            parts = [" ".join(made.before), wrong_s, " ".join(made.after)]
            if everywhere and old is not None and new is not None:
                parts = [sub_word(parts[0], old, new), wrong_s, sub_word(parts[2], old, new)]
            twisted = " ".join(x for x in parts if x)
            out += [made.example(wrong, True, twisted), made.example(claim, False, twisted)]
        return out

    def _unsupported(self, made: _Claim) -> list[Example]:
        """The supporting sentence is missing."""
        without = " ".join([*made.before, *made.after])
        if len(without.split()) <= 12:
            return []
        claim = made.said(made.sentence)
        return [made.example(claim, True), made.example(claim, False, without, 0.8)]

    def _from_elsewhere(self, made: _Claim) -> list[Example]:
        """Something that another part of the document says."""
        t = self.rng.choice(self.rng.choice(made.paras))
        if t in made.passage or len(t.split()) <= 5:
            return []
        return [made.example(made.said(t), False), made.example(made.said(made.sentence), True)]

    def _half_supported(self, made: _Claim, head: int) -> list[Example]:
        """Two statements in one; one of them, or both, are in the passage."""
        rng = self.rng
        claim = made.said(made.sentence)
        t = rng.choice(rng.choice(made.paras))
        mates = [*made.before, *made.after][head:]
        if t in made.passage or not 4 < len(t.split()) < 30 or len(claim.split()) >= 30:
            return []
        out = [made.example(self._joined(claim, t), False)]
        mate = rng.choice(mates) if mates else ""
        if mate and len(mate.split()) < 30:
            out.append(made.example(self._joined(claim, rephrase(mate, rng)), True))
        return out

    def _joined(self, first: str, second: str) -> str:
        """Two statements as one, in either order."""
        if self.rng.random() < 0.4:
            first, second = second, first
        link = self.rng.choice((", and ", "; ", " and ", ". "))
        return cap(first.rstrip(".")) + link + decap(second)

    def _pieces(self, made: _Claim) -> list[Example]:
        """A piece of the sentence, and one of another."""
        rng, out = self.rng, []
        for text, right in ((made.sentence, True), (rng.choice(rng.choice(made.paras)), False)):
            tokens = text.rstrip(".").split()
            if len(tokens) > 10 and (right or " ".join(tokens) not in made.passage):
                a = rng.randrange(0, len(tokens) - 6)
                out.append(made.example(cap(" ".join(tokens[a : a + rng.randint(5, 10)])), right, None, 0.5))
        return out

    def term_claims(self) -> list[Example]:
        """A glossary's definition against the passage that explains the term, and against others."""
        rng = self.rng
        i = rng.choice(self.by_kind["openstax_term"])
        _, definition, term, at, _ = self.pairs[i]
        if not term or not isinstance(at, (list, tuple)):
            return []
        d, k = at
        paras = self.docs[d][2]
        para = paras[k][1]
        passage = " ".join(para)[:480]
        j = rng.choice(self.by_kind["openstax_term"])
        form = rng.choice(
            (
                "{t} is {d}.",
                "{t}: {d}",
                "{t} refers to {d}.",
                "The term {t} means {d}.",
                "{t} is defined as {d}.",
            )
        )
        d1 = definition.rstrip(".")
        out = [Example(cap(form.format(t=term, d=d1)), passage, supported=1.0)]
        wrong = [
            p
            for p in (self.pairs[x] for x in rng.sample(self.by_kind["openstax_term"], 60))
            if p[3][0] == d and p[2] != term
        ]
        other = wrong[0] if wrong else self.pairs[j]
        if other[2] and other[2] != term:
            out.append(Example(cap(form.format(t=term, d=other[1].rstrip("."))), passage, supported=0.0))
            if rng.random() < 0.5:
                out.append(Example(cap(form.format(t=other[2], d=d1)), passage, supported=0.0))
        if rng.random() < 0.4 and len(paras) > 3:
            other_para = rng.choice(paras)[1]
            if other_para is not para and term.lower() not in " ".join(other_para).lower():
                out.append(Example(cap(form.format(t=term, d=d1)), " ".join(other_para)[:480], supported=0.0))
        return out

    def answer_claims(self) -> list[Example]:
        """A question and its answer as a statement; another answer from the same passage is not supported."""
        rng = self.rng
        kind = rng.choices(("squad1", "squad2", "fairytaleqa"), (3, 3, 2))[0]
        if kind not in self.reader_kinds:
            return []
        q, pi, spans, ok = self.reader[rng.choice(self.reader_kinds[kind])]
        if not ok or not spans:
            return []
        sentences = self.passages[pi][2]
        text = " ".join(sentences)
        answers = [a for _, a in spans]
        answer = min(answers, key=len)
        mates = [r for r in (self.reader[j] for j in self.of_passage[pi]) if r[2] and r[0] != q]
        told = [r[2][0][1] for r in mates]
        wrong = (told if rng.random() < 0.6 else []) + names_in(text) + numbers_in(text)
        number = bool(re.search(r"\d", answer))
        named = answer[:1].isupper()
        wrong = [
            w
            for w in wrong
            if w not in " ".join(answers)
            and all(a not in w for a in answers)
            and bool(re.search(r"\d", w)) == number
            and w not in q
        ]
        same = [w for w in wrong if w[:1].isupper() == named]
        wrong = same or wrong
        form = rng.random()
        at = next((n for n, t in enumerate(sentences) if answer in t), 0)
        a, b = window(sentences, at, rng.choice((30, 50, 75)), rng)
        passage = " ".join(sentences[a:b])
        make = (lambda x: statement(q, x)) if form < 0.75 else (lambda x: f"{q} {cap(x)}.")
        right = make(answer)
        out = [Example(right, passage, supported=1.0)]
        if wrong:
            out.append(Example(make(rng.choice(wrong)), passage, supported=0.0))
        rest = [t for t in sentences[a:b] if answer not in t]
        if rest and rng.random() < 0.5 and len(" ".join(rest).split()) > 10:
            out.append(Example(right, " ".join(rest), supported=0.0))
        return out

    def facts(self) -> list[Example]:
        """Facts of several things of one kind, as sentences or as rows of a table: who has which value.

        The neighbor's value, another fact of the same thing and a denial are what a reader must not take for
        the answer. Passages are short, down to one sentence.
        """
        rng = self.rng
        kind = rng.choice(_KINDS)
        things = [f"the {which} {kind}" for which in rng.sample(_WHICH, rng.randint(2, 4))]
        told = rng.sample(ATTRIBUTES, rng.randint(1, 3))
        values: dict[tuple[str, int], str] = {}
        for j, attribute in enumerate(told):
            while len({values.get((e, j)) for e in things} - {None}) < len(things):
                values |= {(e, j): attribute.value(rng) for e in things}
        one, other = rng.sample(things, 2)
        asked = rng.randrange(len(told))
        right, wrong = values[one, asked], values[other, asked]
        write = self._rows if rng.random() < 0.35 else self._prose
        short = rng.random() < 0.3
        shown = [(e, j) for e in things for j in range(len(told)) if not short or (e, j) == (one, asked)]
        missing = [(e, j) for e, j in shown if (e, j) != (one, asked)]
        passage, places = write(kind, told, values, shown)
        lost = write(kind, told, values, missing or [(other, asked)])[0]
        at = places[one, asked]
        question = self._ask(told[asked].question.format(e=one))
        answered = Example(question, passage, answerable=1.0, span=(at, at + len(right)))
        out = [answered, Example(question, lost, answerable=0.0)]
        say = cap(told[asked].said.format(e=one, v=right))
        deny = cap(told[asked].denied.format(e=one, v=right))
        out.append(Example(say, passage, supported=1.0))
        out.append(Example(cap(told[asked].said.format(e=one, v=wrong)), passage, supported=0.0))
        if rng.random() < 0.5:
            out.append(Example(deny, passage, supported=0.0))
        if rng.random() < 0.3:  # The passage denies it, and says nothing else of it.
            denied = " ".join([deny, *([] if short else [lost])])
            out += [Example(say, denied, supported=0.0), Example(deny, denied, supported=1.0)]
            out.append(Example(question, denied, answerable=0.0, weight=0.5))
        return out

    def _prose(
        self,
        kind: str,
        told: Sequence[Attribute],
        values: dict[tuple[str, int], str],
        shown: Sequence[tuple[str, int]],
    ) -> tuple[str, dict[tuple[str, int], int]]:
        """Sentences in some order, and where each value stands."""
        text, places = "", {}
        for e, j in self.rng.sample(shown, len(shown)):
            before, after = told[j].said.split("{v}")
            sentence = cap(before.format(e=e))
            places[e, j] = len(text) + len(sentence)
            # A value at the beginning is a name.
            text += sentence + values[e, j] + after.format(e=e) + " "
        return text.rstrip(), places

    def _rows(
        self,
        kind: str,
        told: Sequence[Attribute],
        values: dict[tuple[str, int], str],
        shown: Sequence[tuple[str, int]],
    ) -> tuple[str, dict[tuple[str, int], int]]:
        """Rows of a table as the judge reads them, and where each value stands."""
        text, places = "", {}
        things = list(dict.fromkeys(e for e, _ in shown))
        for e in self.rng.sample(things, len(things)):
            text += f"{cap(kind)}: {cap(e.removeprefix('the ').removesuffix(kind).strip())}"
            for j in (j for thing, j in shown if thing == e):
                text += f"; {told[j].heading}: "
                places[e, j] = len(text)
                text += values[e, j]
            text += ". "
        return text.rstrip(), places

    # questions ---------------------------------------------------------------------------------------------
    def _ask(self, q: str) -> str:
        """The question, half of the time as people type it."""
        rng = self.rng
        if rng.random() < 0.5:
            q = q.rstrip("?").strip().lower()
        return q

    def _cut(self, sentences: Sequence[str], spot: int, words: int) -> tuple[str, int, tuple[int, int]]:
        """A window around sentence ``spot`` and the characters before it in the whole text."""
        a, b = window(sentences, spot, words, self.rng)
        offset = sum(len(t) + 1 for t in sentences[:a])
        return " ".join(sentences[a:b]), offset, (a, b)

    def _words(self) -> int:
        """Most words of a passage; 1 for a single sentence."""
        return self.rng.choice((1, 12, 20, 30, 40, 50, 60, 75))

    def _group(
        self,
        q: str,
        right: str,
        span: tuple[int, int] | None,
        wrong: Sequence[tuple[str, bool, bool]],
        relevance: bool = True,
        answerable: bool = True,
    ) -> list[Example]:
        """One right passage and wrong ones, as a group."""
        rng = self.rng
        self.groups += 1
        g = self.groups
        messy = rng.random() < 0.06
        if messy:
            span = None
        t: Callable[[str], str] = untidy if messy else str
        q = t(q) if messy and rng.random() < 0.3 else q
        out = [
            Example(
                q,
                t(right),
                answerable=1.0 if answerable else None,
                group=g if relevance else None,
                relevant=True,
                span=span,
            )
        ]
        for passage, rel, ans in wrong:
            if len(passage.split()) < 4:
                continue
            out.append(
                Example(
                    q, t(passage), answerable=0.0 if ans else None, group=g if relevance and rel else None
                )
            )
        return out

    def _any_window(self, sentences: Sequence[str], q: str | None = None, words: int | None = None) -> str:
        """A window of a passage, mostly around what shares most with the question."""
        if not sentences:
            return ""
        if q is not None and self.rng.random() < 0.6:
            key = keyset(q)
            spot = max(
                range(len(sentences)), key=lambda j: (len(key & keyset(sentences[j])), self.rng.random())
            )
        else:
            spot = self.rng.randrange(len(sentences))
        a, b = window(sentences, spot, words or self._words(), self.rng)
        return " ".join(sentences[a:b])

    def _junk(self, q: str, sentences: Sequence[str], title: str = "") -> str:
        """Headings, a table row or a list with the question's own words: no answer."""
        rng = self.rng
        words = list(content_words(q)) + [
            w for w in content_words(" ".join(sentences))[:60] if rng.random() < 0.25
        ]
        rng.shuffle(words)
        words = words[: rng.randint(3, 14)]
        if title:
            words.insert(0, title)
        r = rng.random()
        if r < 0.3:
            return "| " + " | ".join(words) + " |"
        if r < 0.5:
            return "\n".join("- " + w for w in words)
        if r < 0.7:
            return "# " + cap(q.rstrip("?"))
        if r < 0.85:
            return " ".join(cap(w) for w in words)
        return "\n".join(f"## {cap(w)}" for w in words[:5])

    def near_wrong(self, key: tuple[str, int], right: str, n: int) -> list[list[str]]:
        """Passages alike to the question elsewhere; the very best are skipped: some hold the answer."""
        rng = self.rng
        if self.near is None or key not in self.near:
            return []
        own = keyset(right)
        found = []
        candidates = list(self.near[key])
        for x in rng.sample(candidates[2:], min(len(candidates) - 2, 3 * n)):
            sentences = self.pool[x][1]
            text = " ".join(sentences)
            k = keyset(text)
            if len(k & own) < 0.5 * max(1, min(len(k), len(own))):
                found.append(sentences)
        return found[:n]

    def _sentence_group(self, pi: int, q: str, answer: Sequence[str]) -> list[Example]:
        """Sentences that answer, among sentences alike to the question; and such sentences alone."""
        rng = self.rng
        near = self.near_wrong(("p", pi), " ".join(answer), 4)
        near += [rng.choice(self.pool)[1]] * (not near)
        spare = rng.choice((0, 25, 50)) if sum(len(t.split()) for t in answer) < 75 else 0
        fill = self._any_window(near[0], q, spare) if spare else ""
        parts = [" ".join(answer[:12]), fill]
        rng.shuffle(parts)
        right = " ".join(x for x in parts if x)
        words = min(80, max(30, len(right.split())))
        wrong = [(self._any_window(s, q, words), True, True) for s in near]
        out = self._group(q, right, None, wrong[:3])
        if rng.random() < 0.12:
            out.append(Example(q, self._junk(q, answer), answerable=0.0))
        return out

    def _reader_group(self) -> list[Example]:
        """A question of a reading test with its passage and wrong ones."""
        rng = self.rng
        kind = rng.choices(("squad1", "squad2", "fairytaleqa", "policyqa"), (4, 5, 2.5, 1))[0]
        if kind not in self.reader_kinds:
            return []
        ri = rng.choice(self.reader_kinds[kind])
        q, pi, spans, ok = self.reader[ri]
        group, _, sentences = self.passages[pi]
        text = " ".join(sentences)
        q = self._ask(q)
        if not ok:
            return [Example(q, self._any_window(sentences, q), answerable=0.0)]
        start, answer = rng.choice(spans)
        if text[start : start + len(answer)] != answer:
            start = text.index(answer)
        starts, n = [], 0
        for t in sentences:
            starts.append(n)
            n += len(t) + 1
        spot = max(j for j, x in enumerate(starts) if x <= start)
        right, offset, _ = self._cut(sentences, spot, self._words())
        local = start - offset
        span = (local, local + len(answer)) if right[local : local + len(answer)] == answer else None
        mates = [x for x in self.of_group[group] if x != pi]
        wrong = self._reader_wrong(ri, q, right, spot, mates)
        rng.shuffle(wrong)
        out = self._group(q, right, span, wrong[:2])
        if rng.random() < 0.3 and kind not in ("policyqa", "fairytaleqa"):
            changed = corrupt(q, text, " ".join(t for x in mates[:3] for t in self.passages[x][2]), rng)
            if changed and changed[3]:
                out.append(Example(changed[0], right, answerable=0.0, weight=0.8))
        if rng.random() < 0.12:
            out.append(Example(q, self._junk(q, sentences), answerable=0.0))
        return out

    def _reader_wrong(
        self, ri: int, q: str, right: str, spot: int, mates: Sequence[int]
    ) -> list[tuple[str, bool, bool]]:
        """Passages without the answer: the same less its sentence, of the same article, and others alike."""
        rng = self.rng
        _, pi, spans, _ = self.reader[ri]
        _, kind, sentences = self.passages[pi]
        answers = [x for _, x in spans]
        wrong = []
        rest = [t for j, t in enumerate(sentences) if j != spot and not any(x in t for x in answers)]
        if rest and kind != "policyqa" and rng.random() < 0.8:
            wrong.append((self._any_window(rest, q), False, True))
        for x in rng.sample(list(mates), min(len(mates), 6)):
            other = self.passages[x][2]
            if len(wrong) < 3 and not any(y in " ".join(other) for y in answers):
                wrong.append((self._any_window(other, q), True, kind != "policyqa"))
        for s in self.near_wrong(("r", ri), right, 2):
            if not any(y in " ".join(s) for y in answers):
                wrong.append((self._any_window(s, q), True, True))
        return wrong

    def _pair_group(self) -> list[Example]:
        """A question of the pairs with its passage and wrong ones."""
        rng = self.rng
        kind = rng.choices(
            (
                "clapnq_train",
                "medquad",
                "openstax_term_q",
                "openstax_term",
                "openstax_exercise",
                "wiki_heading",
            ),
            (10, 3, 2, 1, 1, 1),
        )[0]
        pi = rng.choice(self.by_kind[kind])
        _, q, _, at, doc = self.pairs[pi]
        clean = kind in ("clapnq_train", "medquad", "openstax_term_q")
        if isinstance(at[0], int):
            d, k = at
            sentences = self.docs[d][2][k][1]
            heading = self.docs[d][2][k][0]
            mates = [
                p[1]
                for p in self.docs[d][2]
                if p[1] is not sentences and (kind != "wiki_heading" or p[0] != heading)
            ]
        else:
            sentences, mates = at, []
            if kind == "medquad":
                mates = [
                    p[3]
                    for p in (self.pairs[x] for x in rng.sample(self.by_kind[kind], 200))
                    if p[4] == doc and p[3] is not at and p[1] != q
                ]
        if not sentences:
            return []
        if kind == "clapnq_train":
            return self._sentence_group(pi, self._ask(q), sentences)
        key = keyset(q)
        spot = max(range(len(sentences)), key=lambda j: (len(key & keyset(sentences[j])), -j))
        words = self._words()
        if clean and kind != "openstax_term_q":
            words = 80  # Nobody marked where the answer is.
            right = (
                " ".join(sentences[:12])
                if len(" ".join(sentences).split()) <= 85
                else self._cut(sentences, spot, words)[0]
            )
        else:
            right = self._cut(sentences, spot, words)[0]
        wrong = []
        long = rng.choice((60, 80)) if kind == "medquad" else None
        own = keyset(right)
        for other in rng.sample(mates, min(len(mates), 3)):
            o = keyset(" ".join(other))
            if len(o & own) < 0.6 * max(1, min(len(o), len(own))):
                wrong.append((self._any_window(other, q, long), True, clean))
        for s in self.near_wrong(("p", pi), right, 3):
            wrong.append((self._any_window(s, q, long), True, clean))
        q = self._ask(q)
        out = self._group(q, right, None, wrong[:2], answerable=clean)
        if clean and rng.random() < 0.12:
            out.append(Example(q, self._junk(q, sentences), answerable=0.0))
        return out

    def ranked(self) -> list[Example]:
        """A question with passages that compete."""
        try:
            made = self._reader_group() if self.rng.random() < 0.6 else self._pair_group()
        except (ValueError, IndexError, KeyError):
            return []
        return [e for e in made if e.group is not None]

    def examples(self) -> list[Example]:
        """A few examples of one kind."""
        r = self.rng.random()
        try:
            if r < 0.26:
                return self.claims()
            if r < 0.29:
                return self.term_claims()
            if r < 0.39:
                return self.answer_claims()
            if r < 0.47:
                return self.facts()
            return self._reader_group() if r < 0.81 else self._pair_group()
        except (ValueError, IndexError, re.error):
            return []


def pool_of(bundle: Bundle) -> list[tuple[str, list[str]]]:
    """Every passage: ``(document, sentences)``."""
    pool = []
    for d in bundle["docs"]:
        for _, sentences in d[2]:
            if sum(len(t.split()) for t in sentences) >= 20:
                pool.append((d[0], sentences))
    for group, _, sentences in bundle["passages"]:
        pool.append((group, sentences))
    for p in bundle["pairs"]:
        if not isinstance(p[3][0] if p[3] else 0, int):
            pool.append((p[4], p[3]))
    return pool


_BE = "is|are|was|were|has|have|had|can|could|will|would"
_PREPOSITION = r"(?i)(?:(in|on|at|to|from|by|for|with|of) )?(what|which|who|whom|where|when|why|how)"
_SUBJECT_ASKED = re.compile(
    r"(?i)(who|what|which [\w ]{1,25}?|how many \w+|how much \w+) "
    rf"((?:{_BE}|\w+s|\w+ed|wrote|led|made|won|began|became|gave|took) .+)$"
)
_DO_ASKED = re.compile(
    _PREPOSITION + r"((?: (?:year|city|country|state|century|date|day|month|place|type|kind|number|many|much|"
    r"long|old|far)[\w ]{0,20}?)?) (did|do|does) (.+)$"
)
_BE_ASKED = re.compile(rf"{_PREPOSITION}((?: [\w]+){{0,3}}?) ({_BE}) (.+)$")
_OWN_PREPOSITION = re.compile(r"(?:in|on|at|because|by|to|from|during|after|before|near) ")
_OPEN_WORDS = ("the", "a", "an", "of", "his", "her", "their", "its")


def statement(question: str, answer: str) -> str:
    """A question and its answer as one statement, by rule."""
    q, a = question.strip().rstrip("?").strip(), answer.strip().rstrip(".")
    m = _SUBJECT_ASKED.match(q)
    if m and not re.match(r"(?i)(?:did|do|does)\b", m[2]):
        verb = m[2]
        if m[1].lower() in ("who", "what") and re.match(
            r"(?:is|are|was|were) (?:the|a|an|\w+'s|[A-Z])", verb
        ):
            be, rest = verb.split(" ", 1)
            return f"{cap(rest)} {be} {a}."
        return f"{cap(a)} {verb}."
    m = _DO_ASKED.match(q)
    if m:
        asked = m[2].lower()
        usual = (
            "because of" if asked == "why" else "in" if asked in ("when", "where") or "year" in m[3] else ""
        )
        link = "" if _OWN_PREPOSITION.match(a) else (m[1] or usual).lower()
        return f"{cap(m[5])} {link + ' ' if link else ''}{a}."
    m = _BE_ASKED.match(q)
    if not m:
        return f"{q}: {a}."
    said, half = m[5].split(), 1
    while half < min(len(said) - 1, 5) and (
        said[half - 1].lower() in _OPEN_WORDS or said[half][:1].isupper()
    ):
        half += 1
    link = m[1].lower() + " " if m[1] else ""
    return f"{cap(' '.join(said[:half]))} {m[4].lower()} {' '.join(said[half:])} {link}{a}."


# Characters of each kind of document, and most pairs of each kind.
SIZES = {"wiki": 21_000_000, "stax": 9_500_000, "other": 4_500_000}
PAIRS = {
    "medquad": 5000,
    "clapnq_train": 5000,
    "openstax_term": 9000,
    "openstax_term_q": 9000,
    "openstax_exercise": 3000,
    "wiki_heading": 5000,
}


def read(data: Path, name: str) -> Iterator[dict[str, Any]]:
    """The objects of a gzipped JSON-lines file."""
    with gzip.open(data / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def split(text: str) -> list[str]:
    """Sentences, white space made one space."""
    return [s for s in (" ".join(span.of(text).split()) for span in split_sentences(text)) if s]


def make_bundle(data: Path, seed: int = 0) -> Bundle:
    """Documents, question-passage pairs, reader questions and claims, their sentences split.

    Args:
        data: The folder with ``train`` and ``dev``.
        seed: Of the sample.
    """
    rng = random.Random(seed)
    documents, sizes = [], dict.fromkeys(SIZES, 0)
    for name in ("train_expository", "train_other"):
        rows = list(read(data, f"train/{name}"))
        rng.shuffle(rows)
        for row in rows:
            kind = (
                "other" if name == "train_other" else "wiki" if row["doc_id"].startswith("wiki:") else "stax"
            )
            if sizes[kind] >= SIZES[kind]:
                continue
            paragraphs, length = [], 0
            for section in row["sections"]:
                for paragraph in section["paragraphs"]:
                    if length <= 60_000:
                        length += len(paragraph)
                        paragraphs.append((section.get("heading") or "", paragraph))
            sizes[kind] += length
            documents.append((row["doc_id"], row["title"] or "", paragraphs))
    place = {p: (i, j) for i, d in enumerate(documents) for j, (_, p) in enumerate(d[2])}
    rows = list(read(data, "train/rerank_pairs"))
    rng.shuffle(rows)
    pairs, used = [], dict.fromkeys(PAIRS, 0)
    for row in rows:
        kind, at = row["kind"], place.get(row["passage"])
        if used[kind] >= PAIRS[kind] or (at is None and kind not in ("medquad", "clapnq_train")):
            continue
        used[kind] += 1
        term = row["answer"] if isinstance(row.get("answer"), str) else None
        passage = at if at else split(row["passage"])[:14]
        pairs.append((kind, row["question"], term, passage, None if at else row["doc_id"]))
    positions, passages, questions = {}, [], []
    for row in read(data, "train/reader_qa"):
        text = row["passage"]
        if text not in positions:
            positions[text] = len(passages)
            passages.append((row["group"], row["kind"], split(text)))
        # Where the answer starts once white space is one space.
        spans = [
            (
                len(" ".join((text[: a["start"]] + "x").split())) - 1,
                " ".join(text[a["start"] : a["end"]].split()),
            )
            for a in row["answer_spans"]
        ]
        questions.append((row["question"], positions[text], spans, row["answerable"]))
    claims = [
        (r["id"], r["claim"], r["label"], r["evidence"], r["supporting_sentences"])
        for r in read(data, "dev/wice_dev")
    ]
    return {
        "docs": [(i, title, [(h, split(p)) for h, p in paragraphs]) for i, title, paragraphs in documents],
        "pairs": pairs,
        "passages": passages,
        "reader": questions,
        "wice": claims,
    }


def neighbors(bundle: Bundle, seed: int = 0, depth: int = 24) -> Near:
    """Per question ``("p" or "r", position)`` the passages of the pool that BM25 ranks first."""
    import bm25s

    pool, rng = pool_of(bundle), random.Random(seed)
    clean = ("medquad", "openstax_term_q", "openstax_term", "openstax_exercise")
    keys = [("p", i) for i, p in enumerate(bundle["pairs"]) if p[0] == "clapnq_train"]
    keys += rng.sample([("p", i) for i, p in enumerate(bundle["pairs"]) if p[0] in clean], 2500)
    keys += [("r", i) for i in rng.sample(range(len(bundle["reader"])), 9000)]
    index = bm25s.BM25()
    index.index([words(" ".join(s)) for _, s in pool], show_progress=False)
    asked = [words(bundle["reader"][i][0] if kind == "r" else bundle["pairs"][i][1]) for kind, i in keys]
    hits, _ = index.retrieve(asked, k=depth, show_progress=False)
    return dict(zip(keys, hits, strict=True))


def prepared(data: Path, cache: Path | None = None) -> tuple[Bundle, Near]:
    """The texts, taken apart, and the neighbors of the questions; kept in the file ``cache``."""
    if cache is not None and cache.exists():
        return pickle.loads(cache.read_bytes())
    bundle = make_bundle(data)
    found = (bundle, neighbors(bundle))
    if cache is not None:
        cache.write_bytes(pickle.dumps(found))
    return found
