"""SQuAD 1.1 and 2.0, and anything in their format: translations, or a question set of one's own.

A document is an article: its paragraphs, parted by blank lines. Evidence is the sentences that hold an
answer. A question without an answer (2.0) has the empty text as its only reference, as in the official
scorer. Positions in translated files are often wrong: an answer that does not stand where it should is
looked for nearby in its paragraph, and is no evidence where it is not there at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from sage_core.evaluation.datasets.contents import (
    Contents,
    TextBuilder,
    Wanted,
    evidence_of,
    occurrences,
    unique,
)
from sage_core.evaluation.datasets.files import Record, find_file, read_json_object
from sage_core.evaluation.datasets.hub import untransposed
from sage_core.evaluation.records import EvalDocument, EvalQuestion
from sage_core.text.sentences import split_sentences
from sage_core.text.spans import Span

FILES = "dev-v1.1.json or dev-v2.0.json, or its folder"


def read_squad(path: Path, wanted: Wanted) -> Contents:
    """Read a published file.

    Args:
        path: The file, or a folder with the files.
        wanted: The split, where ``path`` is a folder.

    Raises:
        InputError: Where the file is missing or malformed.
    """
    name = "dev" if wanted.split == "validation" else wanted.split
    file = find_file(path, (f"**/{name}-v*.json", f"**/*{name}*.json"), f"SQuAD file of {name}")
    contents = Contents(str(file))
    for number, article in enumerate(read_json_object(file, "SQuAD").records("data"), 1):
        title = article.text("title", default="")
        paragraphs = [(p.text("context"), p.records("qas")) for p in article.records("paragraphs")]
        _add_article(contents, title, title or f"article {number}", paragraphs)
    return contents


def squad_from_rows(rows: Iterable[Record], source: str, wanted: Wanted) -> Contents:
    """Read the hub's rows: a question each, with its paragraph and the title of its article.

    Raises:
        InputError: Where a row is malformed.
    """
    contents = Contents(source)
    articles: dict[str, dict[str, list[Record]]] = {}
    for row in rows:
        answers = untransposed(row.data.get("answers"))
        question = Record({**row.data, "answers": answers}, row.where)
        article = articles.setdefault(row.text("title", default=""), {})
        article.setdefault(row.text("context"), []).append(question)
    for number, (title, paragraphs) in enumerate(articles.items(), 1):
        _add_article(contents, title, title or f"article {number}", list(paragraphs.items()))
    return contents


def _add_article(
    contents: Contents, title: str, key: str, paragraphs: Sequence[tuple[str, Sequence[Record]]]
) -> None:
    document = contents.free_id(key)
    text = TextBuilder()
    questions: list[EvalQuestion] = []
    for context, records in paragraphs:
        paragraph = _Paragraph(context, text.add(context).start)
        questions += [_question(record, document, paragraph) for record in records]
    contents.add(EvalDocument(document, text.text, title.replace("_", " ")), questions)


class _Paragraph:
    """A paragraph, and where it starts in its document."""

    def __init__(self, text: str, start: int) -> None:
        self.text = text
        self.start = start

    @cached_property
    def sentences(self) -> list[Span]:
        return split_sentences(self.text)

    def around(self, answer: str, position: int) -> Iterator[Span]:
        """The sentences that hold an answer, in the document."""
        at = self._place(answer, position)
        if at is None:
            return
        held = [s for s in self.sentences if s.start < at + len(answer) and at < s.end]
        if held:
            yield Span(held[0].start, held[-1].end).shift(self.start)

    def _place(self, answer: str, position: int) -> int | None:
        if answer and self.text[position : position + len(answer)] == answer:
            return position
        found = list(occurrences(self.text, answer))
        if not found and len(self.text.lower()) == len(self.text):
            found = list(occurrences(self.text.lower(), answer.lower()))
        return min(found, key=lambda at: abs(at - position), default=None)


def _question(record: Record, document: str, paragraph: _Paragraph) -> EvalQuestion:
    answers: list[str] = []
    evidence: list[Span] = []
    for answer in record.records("answers", required=not record.data.get("is_impossible")):
        text = answer.text("text")
        position = answer.integer("answer_start")
        if position < 0:
            raise answer.error(f"'answer_start' is {position}: positions count from 0")
        answers.append(text)
        evidence += paragraph.around(text, position)
    if not answers or record.data.get("is_impossible"):
        answers, evidence = [""], []
    return EvalQuestion(
        id=record.text("id"),
        document=document,
        text=record.text("question").strip(),
        answers=unique(answers),
        evidence=evidence_of(document, evidence),
    )
