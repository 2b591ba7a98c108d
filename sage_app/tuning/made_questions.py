"""Questions about a user's own documents, made by rule: no LLM, no key, a second a hundred documents.

Three kinds, in turn: a heading asks for what stands below it, a definition is asked for what it defines, and
rare words of a sentence are looked for as one types them into a search box. They are poorer than questions
that people ask, and good enough to see whether one retriever is better than another.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import PurePath

from sage_app.documents.reader import Document
from sage_app.tuning.quotations import QuotedQuestion
from sage_core.errors import InputError
from sage_core.text.sentences import split_sentences
from sage_core.text.spans import Span

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_LEAST_WORDS, _MOST_WORDS = 7, 60  # Of a sentence that can be evidence.
_TYPED = 4  # Words of a search.
_DEFINITION = re.compile(
    r"(?P<what>(?:(?:The|An?) )?[A-Z0-9a-z][\w’'-]*(?: (?:of |the |and )?[\w’'-]+){0,2}) "
    r"(?P<verb>is|are|was|were|means) (?:an?|the|one of|known|any|all|that)\b"
)
# A sentence that begins so is about what was named before, or about when and where.
_NO_SUBJECT = re.compile(
    r"(?i)\b(?:it|he|she|they|we|you|i|this|that|these|those|there|here|what|who|which|when|where|its|his|her|"
    r"their|one|another|such|both|some|most|many|all|rest|in|on|at|from|for|by|with|to|after|before|as|if|but|"
    r"so|then|now|not|only|also|since|until)\b"
)


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence that can be evidence."""

    source: str
    span: Span
    text: str
    words: tuple[str, ...]


def make_questions(documents: Sequence[Document], *, limit: int = 100, seed: int = 0) -> list[QuotedQuestion]:
    """Questions whose evidence is a sentence of the documents, spread over documents and kinds.

    Args:
        documents: The documents.
        limit: At most so many.
        seed: Of the draw.

    Raises:
        InputError: Where ``limit`` is less than 1, or no question can be made.
    """
    if limit < 1:
        raise InputError(f"limit must be at least 1, not {limit}")
    rng = random.Random(seed)
    sentences = {d.source: _sentences(d) for d in documents}
    every = [s for mine in sentences.values() for s in mine]
    frequency = Counter(word for s in every for word in set(s.words))
    once = Counter(" ".join(s.words) for s in every)
    kinds: list[list[QuotedQuestion]] = [[], [], []]
    for document in documents:
        mine = [s for s in sentences[document.source] if once[" ".join(s.words)] == 1]
        kinds[0] += _by_heading(document, mine)
        kinds[1] += [q for s in mine if (q := _by_definition(s))]
        kinds[2] += [q for s in mine if (q := _by_words(s, frequency, len(every)))]
    for kind in kinds:
        rng.shuffle(kind)
    made: dict[str, QuotedQuestion] = {}
    used: set[tuple[str, ...]] = set()
    for question in (q for row in zip_longest(*map(_spread, kinds)) for q in row if q is not None):
        if question.quotes not in used and question.text not in made:
            made[question.text] = question
            used.add(question.quotes)
        if len(made) == limit:
            break
    if not made:
        raise InputError(
            "no question can be made of these documents: they hold no sentences of "
            f"{_LEAST_WORDS} to {_MOST_WORDS} words"
        )
    return list(made.values())


def _spread(questions: Sequence[QuotedQuestion]) -> Iterator[QuotedQuestion]:
    """A question of each document, then a second of each, and so on."""
    by_source: dict[str, list[QuotedQuestion]] = {}
    for question in questions:
        by_source.setdefault(question.source, []).append(question)
    for row in zip_longest(*by_source.values()):
        yield from (q for q in row if q is not None)


def _sentences(document: Document) -> list[_Sentence]:
    sentences: list[_Sentence] = []
    for span in split_sentences(document.text):
        text = span.of(document.text)
        words = tuple(w.casefold() for w in _WORD.findall(text))
        if not _LEAST_WORDS <= len(words) <= _MOST_WORDS or "|" in text or text.rstrip()[-1:] not in ".!?":
            continue
        if not any(head.start < span.end and span.start < head.end for head in document.headings):
            sentences.append(_Sentence(document.source, span, text.strip(), words))
    return sentences


def _by_heading(document: Document, sentences: Sequence[_Sentence]) -> Iterator[QuotedQuestion]:
    """A heading, with the document's title, and the first sentence below it."""
    ends = [*(h.start for h in document.headings[1:]), len(document.text)]
    title = (document.title or PurePath(document.source).stem.replace("_", " ").replace("-", " ")).strip()
    for heading, end in zip(document.headings, ends, strict=False):
        name = re.sub(r"^[\W\d.]+", "", heading.text).strip()
        below = next((s for s in sentences if heading.end <= s.span.start < end), None)
        if not name or below is None:
            continue
        text = name if name.endswith("?") or name.casefold() == title.casefold() else f"{title}: {name}"
        yield QuotedQuestion(text, (below.text,), document.source)


def _by_definition(sentence: _Sentence) -> QuotedQuestion | None:
    match = _DEFINITION.match(sentence.text)
    if match is None:
        return None
    what = match["what"]
    if _NO_SUBJECT.search(what):
        return None
    article, _, rest = what.partition(" ")
    what = f"{article.casefold()} {rest}" if article in ("The", "A", "An") else what
    verb = "does" if match["verb"] == "means" else match["verb"]
    tail = " mean?" if match["verb"] == "means" else "?"
    return QuotedQuestion(f"What {verb} {what}{tail}", (sentence.text,), sentence.source)


def _by_words(sentence: _Sentence, frequency: Counter[str], total: int) -> QuotedQuestion | None:
    """Rare words of the sentence, in their order; the rarest is left out, as people rarely know it."""
    common = max(3, total // 20)
    candidates = {w for w in sentence.words if len(w) > 3 and frequency[w] <= common and not w.isdigit()}
    rarest = sorted(candidates, key=lambda w: (frequency[w], -len(w), w))[1 : _TYPED + 1]
    if len(rarest) < _TYPED:
        return None
    typed = sorted(rarest, key=sentence.words.index)
    return QuotedQuestion(" ".join(typed), (sentence.text,), sentence.source)
