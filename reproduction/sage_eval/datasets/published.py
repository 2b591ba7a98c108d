"""The published sets, in the columns that they have on the Hugging Face hub.

Each reader takes the rows, what they came from, and whether documents are to be searched together; it raises
InputError for what is malformed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sage_core.text.sentences import split_sentences
from sage_core.text.spans import Span
from sage_eval.datasets.contents import (
    Contents,
    Record,
    TextBuilder,
    evidence_of,
    occurrences,
    shown,
    unique,
)
from sage_eval.datasets.hub import untransposed
from sage_eval.records import EvalDocument, EvalQuestion


def read_quality(rows: Iterable[Record], source: str, pooled: bool) -> Contents:
    """QuALITY: an article, a question, its options, the right one counted from 0, ``hard``."""
    contents = Contents(source)
    ids: dict[str, str] = {}
    for number, row in enumerate(rows, 1):
        article = row.text("article")
        document = ids.setdefault(article, f"article {len(ids) + 1}")
        if document not in contents.documents:
            contents.add(EvalDocument(document, article))
        gold = row.integer("answer")
        contents.questions.append(
            _choice_question(row, f"question {number}", document, gold, bool(row.data.get("hard")))
        )
    return contents


def _choice_question(record: Record, key: str, document: str, gold: int, hard: bool) -> EvalQuestion:
    options = record.texts("options")
    if not options:
        raise record.error("the question has no options")
    if not 0 <= gold < len(options):
        raise record.error(f"the right option is none of the {len(options)} options")
    question = record.text("question").strip()
    return EvalQuestion(key, document, question, (options[gold],), options=options, gold=gold, hard=hard)


def read_qasper(rows: Iterable[Record], source: str, pooled: bool) -> Contents:
    """QASPER: a paper each, its lists of objects turned into objects of lists."""
    contents = Contents(source)
    for row in rows:
        _add_paper(contents, row.text("id"), Record(_published_shape(row.data), row.where))
    return contents


def _published_shape(data: Mapping[str, object]) -> dict[str, object]:
    questions = untransposed(data.get("qas"))
    if isinstance(questions, list):
        for question in questions:
            question["answers"] = untransposed(question.get("answers"))
    return {**data, "full_text": untransposed(data.get("full_text")), "qas": questions}


def _add_paper(contents: Contents, key: str, record: Record) -> None:
    title, abstract = _line(record.text("title", default="")), _line(record.text("abstract", default=""))
    text = TextBuilder()
    text.add(title)
    paragraphs = {abstract: text.add(abstract)} if abstract else {}
    for section in record.records("full_text"):
        text.add(_line(section.text("section_name", default="")).replace(" ::: ", ": "))
        for paragraph in map(_line, section.texts("paragraphs")):
            span = text.add(paragraph)
            if paragraph:
                paragraphs.setdefault(paragraph, span)
    if not paragraphs:
        raise record.error("the paper has neither abstract nor text")
    questions = [_qasper_question(q, key, paragraphs) for q in record.records("qas")]
    contents.add(EvalDocument(key, text.text, title, abstract), questions)


def _line(text: str) -> str:
    return text.replace("\n", " ").strip()


def _qasper_question(record: Record, document: str, paragraphs: Mapping[str, Span]) -> EvalQuestion:
    answers: list[str] = []
    evidence: list[Span] = []
    for annotation in record.records("answers"):
        answer = Record(annotation.data.get("answer"), f"{annotation.where}, answer")  # type: ignore[arg-type]
        if not isinstance(answer.data, Mapping):
            raise answer.error(f"must be an object, not {shown(answer.data)}")
        text = _qasper_answer(answer)
        if text:
            answers.append(text)
        evidence += _qasper_evidence(answer.texts("evidence"), paragraphs)
    return EvalQuestion(
        id=record.text("question_id"),
        document=document,
        text=record.text("question").strip(),
        answers=unique(answers),
        evidence=evidence_of(document, evidence),
    )


def _qasper_answer(record: Record) -> str:
    """An annotator's answer; empty where the annotation is (there are some in the published files)."""
    if record.data.get("unanswerable"):
        return "Unanswerable"
    spans = record.texts("extractive_spans")
    if spans:
        return ", ".join(spans)
    free = record.text("free_form_answer", default="")
    if free:
        return free
    yes = record.data.get("yes_no")
    if yes is None:
        return ""
    return "Yes" if yes else "No"


def _qasper_evidence(evidence: Iterable[str], paragraphs: Mapping[str, Span]) -> Iterator[Span]:
    """Where the evidence stands: a whole paragraph, or the part of one."""
    for part in map(_line, evidence):
        if not part:
            continue
        if part in paragraphs:
            yield paragraphs[part]
            continue
        for paragraph, span in paragraphs.items():
            at = paragraph.find(part)
            if at >= 0:
                yield Span(span.start + at, span.start + at + len(part))
                break


_STORY_MARKUP = re.compile(r"<(?:html|head|body|pre|table|p|br)\b[^>]*>", re.IGNORECASE)


def read_narrativeqa(rows: Iterable[Record], source: str, pooled: bool) -> Contents:
    """NarrativeQA: a question each, with its whole document and the summary."""
    contents = Contents(source)
    for number, row in enumerate(rows, 1):
        document = _part(row, "document")
        key = document.text("id")
        if key not in contents.documents:
            told = _part(document, "summary")
            story = _cut(_plain(document.text("text")), document, "start", "end")
            contents.add(EvalDocument(key, story, told.text("title", default=""), told.text("text")))
        answers = unique(a.text("text") for a in row.records("answers"))
        contents.questions.append(
            EvalQuestion(f"{key}:{number}", key, _part(row, "question").text("text"), answers)
        )
    return contents


def _part(record: Record, key: str) -> Record:
    part = record.data.get(key)
    if not isinstance(part, Mapping):
        raise record.error(f"{key!r} must be an object with fields")
    return Record(part, f"{record.where}, {key}")


def _plain(text: str) -> str:
    """A story without markup."""
    if not _STORY_MARKUP.search(text):
        return text.replace("\r\n", "\n")
    from sage_app.documents.html import read_html

    return read_html(text, whole=True).text


def _cut(text: str, record: Record, start: str, end: str) -> str:
    """The story between its marks: a few words at either end, written with spaces between all tokens."""
    first = next(iter(_marks(record.text(start, default=""), text)), None)
    last = list(_marks(record.text(end, default=""), text))
    left = first.start() if first else 0
    right = last[-1].end() if last and last[-1].end() > left else len(text)
    return text[left:right].strip()


def _marks(mark: str, text: str) -> Iterable[re.Match[str]]:
    tokens = mark.split()
    return re.finditer(r"\s*".join(map(re.escape, tokens)), text) if tokens else ()


def read_squad(rows: Iterable[Record], source: str, pooled: bool) -> Contents:
    """SQuAD: a question each, with its paragraph and the title of its article."""
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
        questions += [_squad_question(record, document, paragraph) for record in records]
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


def _squad_question(record: Record, document: str, paragraph: _Paragraph) -> EvalQuestion:
    answers: list[str] = []
    evidence: list[Span] = []
    for answer in record.records("answers"):
        text = answer.text("text")
        position = answer.integer("answer_start")
        if position < 0:
            raise answer.error(f"'answer_start' is {position}: positions count from 0")
        answers.append(text)
        evidence += paragraph.around(text, position)
    answers = answers or [""]  # there is no answer
    return EvalQuestion(
        id=record.text("id"),
        document=document,
        text=record.text("question").strip(),
        answers=unique(answers),
        evidence=evidence_of(document, evidence),
    )


@dataclass(frozen=True, slots=True)
class _Page:
    id: str
    title: str
    text: str


def read_triviaqa(rows: Iterable[Record], source: str, pooled: bool) -> Contents:
    """TriviaQA: a question each, with its pages (a configuration with contexts, such as ``rc.wikipedia``)."""
    contents = Contents(source)
    for row in rows:
        data = {k: untransposed(row.data.get(k)) for k in ("entity_pages", "search_results")}
        lists = Record(data, row.where)
        pages = [
            _Page(entry.text("filename"), entry.text("title", default=""), text)
            for key, column in (("entity_pages", "wiki_context"), ("search_results", "search_context"))
            for entry in lists.records(key, required=False)
            if (text := entry.text(column, default="").strip())
        ]
        known = _part(row, "answer")
        answers = unique(a for a in (known.text("value", default=""), *known.texts("aliases")) if a)
        key = row.text("question_id")
        if not pages:
            raise row.error(f"question {key!r} has no page of evidence")
        first = _add_pages(contents, key, pages, pooled)
        contents.questions.append(EvalQuestion(key, first, row.text("question").strip(), answers))
    return contents


def _add_pages(contents: Contents, key: str, pages: Sequence[_Page], pooled: bool) -> str:
    """The pages as documents to be searched together, or as one; the id of the first."""
    if pooled:
        for page in pages:
            contents.documents.setdefault(page.id, EvalDocument(page.id, page.text, page.title))
        return pages[0].id
    text = TextBuilder()
    for page in {p.id: p for p in pages}.values():
        text.add(page.title)
        text.add(page.text)
    document = contents.free_id(key)
    contents.add(EvalDocument(document, text.text, pages[0].title))
    return document


@dataclass(frozen=True, slots=True)
class Format:
    """A published data set.

    Attributes:
        about: A line about it.
        split: The split that is measured on: test where its answers are public.
        hub: Its name on the Hugging Face hub, with its configuration.
        read: Reads the rows.
    """

    about: str
    split: str
    hub: str
    read: Callable[[Iterable[Record], str, bool], Contents]


FORMATS = {
    "quality": Format(
        "QuALITY: multiple choice about long stories and articles",
        "validation",
        "emozilla/quality",
        read_quality,
    ),
    "qasper": Format(
        "QASPER: questions about papers, evidence by paragraph", "test", "allenai/qasper", read_qasper
    ),
    "narrativeqa": Format(
        "NarrativeQA: whole books and film scripts", "test", "deepmind/narrativeqa", read_narrativeqa
    ),
    "triviaqa": Format(
        "TriviaQA over its Wikipedia pages",
        "validation",
        "mandarjoshi/trivia_qa/rc.wikipedia",
        read_triviaqa,
    ),
    "squad": Format("SQuAD 1.1", "validation", "rajpurkar/squad", read_squad),
    "squad-pt": Format(
        "SQuAD 1.1 in Portuguese, a machine translation", "validation", "nunorc/squad_v1_pt", read_squad
    ),
    "squad2": Format(
        "SQuAD 2.0; some questions have no answer", "validation", "rajpurkar/squad_v2", read_squad
    ),
}
