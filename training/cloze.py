"""Questions made of plain text: a sentence with a gap whose filler stands in another paragraph.

Two sentences of an article that share a name, a number or a term, and other words besides, are taken for a
question and its answer: the first one loses the shared phrase, a question word takes its place, and its parts
change places; the paragraph of the second one is the passage. Nobody labeled anything. Such questions are
noisy: about half of them a person could answer.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sage_core.text.sentences import split_sentences

SHARED_WORDS = 3  # That two sentences have in common beside the phrase.
A_DOCUMENT = 12  # Questions.
_PARAGRAPH = (250, 1100)  # Characters.
_SENTENCE = (40, 260)
_SENTENCES = 160  # Of a document that are compared.

_WORD = re.compile(r"\w[\w’'-]*")
_COMMON = frozenset(Path(__file__).with_name("common_words.txt").read_text(encoding="utf-8").split())
_NAME_OR_NUMBER = re.compile(
    r"\b(?:\d[\d,.]*\d|\d)(?:\s(?:million|billion|percent|km|years|feet|metres|meters))?"
    r"|\b(?:[A-Z][\w’'-]+)(?:\s(?:of\s|the\s|de\s)?(?:[A-Z][\w’'-]+|\d+))*"
)
_YEAR = re.compile(r"1\d\d\d|20\d\d")


class Cloze(NamedTuple):
    """A question, its passage, and where the answer stands in it."""

    question: str
    passage: str
    start: int
    end: int
    document: str


class _Sentence(NamedTuple):
    paragraph: int
    text: str
    phrases: dict[str, tuple[int, int]]
    words: frozenset[str]


def cloze_questions(data: Path, limit: int, seed: int) -> Iterator[Cloze]:
    """About ``limit`` questions of the encyclopedia's articles among the training data."""
    chance = random.Random(seed)
    with gzip.open(data / "train" / "train_expository.jsonl.gz", "rt", encoding="utf-8") as lines:
        documents = [d for d in map(json.loads, lines) if d["doc_id"].startswith("wiki")]
    chance.shuffle(documents)
    made = 0
    for document in documents:
        for question in _of_document(document, chance):
            yield question
            made += 1
        if made >= limit:
            return


def _of_document(document: dict[str, object], chance: random.Random) -> Iterator[Cloze]:
    sections: list[dict[str, list[str]]] = document["sections"]  # type: ignore[assignment]
    low, high = _PARAGRAPH
    paragraphs = [p for section in sections for p in section["paragraphs"] if low < len(p) < high]
    if len(paragraphs) < 4:
        return
    texts = [
        (i, span.of(paragraph))
        for i, paragraph in enumerate(paragraphs)
        for span in split_sentences(paragraph)
        if _SENTENCE[0] < span.end - span.start < _SENTENCE[1]
    ]
    if len(texts) >= _SENTENCES:
        texts = chance.sample(texts, _SENTENCES)
    sentences = [_Sentence(i, text, _phrases(text), _content(text)) for i, text in texts]
    used: Counter[tuple[str, object]] = Counter()
    made = 0
    for phrase, asked, answering in _pairs(sentences, str(document["title"]).lower(), chance):
        if used["asked", asked] or used["answering", answering] >= 2 or used["phrase", phrase]:
            continue
        one, other = sentences[asked], sentences[answering]
        passage = paragraphs[other.paragraph]
        if one.paragraph == other.paragraph:
            passage = passage.replace(one.text, "").strip()
        at = passage.find(other.text)
        if at < 0 or passage.find(phrase) != passage.rfind(phrase):
            continue
        start, end = (at + place for place in other.phrases[phrase])
        if passage[start:end] != phrase:
            continue
        question = _question(one.text, *one.phrases[phrase], chance)
        yield Cloze(question, passage, start, end, str(document["doc_id"]))
        used.update([("asked", asked), ("answering", answering), ("phrase", phrase)])
        made += 1
        if made >= A_DOCUMENT:
            return


def _pairs(sentences: list[_Sentence], title: str, chance: random.Random) -> list[tuple[str, int, int]]:
    """Phrases with two sentences that share them, names and numbers mostly first."""
    places: dict[str, list[int]] = defaultdict(list)
    for i, sentence in enumerate(sentences):
        for phrase in sentence.phrases:
            places[phrase].append(i)
    pairs = [
        (phrase, one, other)
        for phrase, those in places.items()
        if 2 <= len(those) <= 4 and phrase.lower() not in title and title not in phrase.lower()
        for one in those
        for other in those
        if one != other
        and len((sentences[one].words & sentences[other].words) - _content(phrase)) >= SHARED_WORDS
    ]
    chance.shuffle(pairs)
    pairs.sort(key=lambda pair: pair[0][0].islower() if chance.random() < 0.6 else 0)
    return pairs


def _phrases(text: str) -> dict[str, tuple[int, int]]:
    """Names, numbers and runs of up to three words that are not common, each with its first place."""
    found: dict[str, tuple[int, int]] = {}
    for match in _NAME_OR_NUMBER.finditer(text):
        phrase = match.group()
        first = match.start() == 0 and " " not in phrase and not phrase[0].isdigit()
        if phrase.lower() not in _COMMON and len(phrase) > 1 and not first:
            found.setdefault(phrase, match.span())
    words = list(_WORD.finditer(text))
    for i, word in enumerate(words):
        if word.group().lower() in _COMMON or (len(word.group()) < 4 and not word.group().isdigit()):
            continue
        for j in range(i, min(i + 3, len(words))):
            if j > i and text[words[j - 1].end() : words[j].start()] != " ":
                break
            phrase = text[word.start() : words[j].end()]
            short = j == i and len(phrase) < 6
            if words[j].group().lower() not in _COMMON and not short and phrase.islower():
                found.setdefault(phrase, (word.start(), words[j].end()))
    return found


def _content(text: str) -> frozenset[str]:
    """Beginnings of the words that say something."""
    words = (match.group() for match in _WORD.finditer(text))
    return frozenset(w.lower()[:6] for w in words if w.lower() not in _COMMON and len(w) > 2)


def _question(sentence: str, start: int, end: int, chance: random.Random) -> str:
    """The words around a phrase with a question word in its place, or before them."""
    phrase = sentence[start:end]
    before = sentence[:start].split()[-chance.randint(5, 14) :]
    after = sentence[end:].rstrip(". ").split()[: chance.randint(4, 12)]
    if _YEAR.fullmatch(phrase):
        word = chance.choice(["what year", "when", "which year"])
    elif phrase[0].isdigit():
        word = chance.choice(["how many", "how much", "what number"])
    elif phrase[0].isupper():
        word = chance.choice(["who", "what", "which", "where", "what"])
    else:
        word = chance.choice(["what", "which", "what"])
    order = chance.random()
    if order < 0.45:
        parts = [*before, word, *after]
    elif order < 0.8:
        parts = [word, *after, *before]
    else:
        parts = [word, *before, *after]
    question = " ".join(parts)
    return f"{question[:1].upper()}{question[1:]}?"
