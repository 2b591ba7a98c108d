"""The published sets, each in the format of its publishers and in that of the Hugging Face hub.

``path`` is a file or its folder; ``wanted`` says which split of a folder. All raise InputError for a file
that is missing, and for what is malformed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from sage_core.errors import InputError
from sage_core.text.sentences import split_sentences
from sage_core.text.spans import Span
from sage_eval.datasets.contents import (
    Contents,
    Record,
    TextBuilder,
    Wanted,
    evidence_of,
    find_file,
    occurrences,
    read_csv,
    read_json_lines,
    read_json_object,
    shown,
    split_name,
    unique,
)
from sage_eval.datasets.hub import untransposed
from sage_eval.records import EvalDocument, EvalQuestion

_QUALITY_FILES = "QuALITY.v1.0.1.htmlstripped.dev, or its folder"
_QUALITY_MARKUP = re.compile(r"</(?:p|div|body|html|span|h[1-6])>|<br\s*/?>", re.IGNORECASE)


def read_quality(path: Path, wanted: Wanted, *, hard: bool = False, html: bool = False) -> Contents:
    """Read a published file.

    Args:
        path: The file, or a folder with the files.
        wanted: The split, where ``path`` is a folder.
        hard: Only questions that most readers got wrong under time pressure.
        html: Keep the HTML of the articles; otherwise it is taken out where the file has it.

    Raises:
        InputError: Where the file is missing or malformed.
        MissingExtraError: Where HTML is to be taken out and ``sage-rag[files]`` is not installed.
    """
    file = find_file(path, _patterns(wanted.split, html), f"QuALITY file of the {wanted.split} split")
    contents = Contents(str(file))
    for record in read_json_lines(file, "QuALITY"):
        document = record.text("article_id")
        if document not in contents.documents:
            contents.add(EvalDocument(document, _article(record, html), record.text("title", default="")))
        for question in record.records("questions"):
            made = _quality_question(question, document)
            if made.hard or not hard:
                contents.questions.append(made)
    return _without_idle_documents(contents) if hard else contents


def quality_from_rows(rows: Iterable[Record], source: str, wanted: Wanted, *, hard: bool = False) -> Contents:
    """Read the hub's rows: an article, a question, its options, the right one counted from 0, ``hard``."""
    contents = Contents(source)
    ids: dict[str, str] = {}
    for number, row in enumerate(rows, 1):
        article = row.text("article")
        document = ids.setdefault(article, f"article {len(ids) + 1}")
        if hard and not row.data.get("hard"):
            continue
        if document not in contents.documents:
            contents.add(EvalDocument(document, article))
        gold = row.integer("answer")
        contents.questions.append(
            _choice_question(row, f"question {number}", document, gold, bool(row.data.get("hard")))
        )
    return contents


def _patterns(split: str, html: bool) -> tuple[str, ...]:
    name = "dev" if split == "validation" else split
    raw = (f"**/QuALITY.v[0-9.]*[0-9].{name}", f"**/QuALITY.v[0-9.]*[0-9].{name}.jsonl")
    stripped = (f"**/*htmlstripped.{name}", f"**/*htmlstripped.{name}.jsonl")
    return raw if html else (*stripped, *raw)


def _article(record: Record, html: bool) -> str:
    article = record.text("article")
    if html or not _QUALITY_MARKUP.search(article):
        return article
    from sage_app.documents.html import read_html

    return read_html(article, whole=True).text


def _quality_question(record: Record, document: str) -> EvalQuestion:
    difficult = record.data.get("difficult")
    if difficult not in (None, 0, 1):
        raise record.error(f"'difficult' must be 0 or 1, not {difficult!r}")
    gold = record.integer("gold_label") - 1 if "gold_label" in record.data else None
    hard = None if difficult is None else bool(difficult)
    return _choice_question(record, record.text("question_unique_id"), document, gold, hard)


def _choice_question(
    record: Record, key: str, document: str, gold: int | None, hard: bool | None
) -> EvalQuestion:
    options = record.texts("options")
    if not options:
        raise record.error("the question has no options")
    if gold is not None and not 0 <= gold < len(options):
        raise record.error(f"the right option is none of the {len(options)} options")
    answers = () if gold is None else (options[gold],)
    return EvalQuestion(
        key, document, record.text("question").strip(), answers, options=options, gold=gold, hard=hard
    )


def _without_idle_documents(contents: Contents) -> Contents:
    asked = {q.document for q in contents.questions}
    contents.documents = {i: d for i, d in contents.documents.items() if i in asked}
    return contents


_QASPER_FILES = "qasper-test-v0.3.json, or its folder"


def read_qasper(path: Path, wanted: Wanted) -> Contents:
    """Read a published file."""
    name = "dev" if wanted.split == "validation" else wanted.split
    file = find_file(path, (f"**/qasper-{name}-v*.json", f"**/*{name}*.json"), f"QASPER file of {name}")
    whole = read_json_object(file, "QASPER")
    contents = Contents(str(file))
    for key, data in whole.data.items():
        record = Record(data, f"{file}, paper {key!r}")
        if not isinstance(data, Mapping):
            raise record.error(f"a paper must be an object, not {shown(data)}")
        _add_paper(contents, key, record)
    return contents


def qasper_from_rows(rows: Iterable[Record], source: str, wanted: Wanted) -> Contents:
    """Read the hub's rows: a paper each, its lists of objects turned into objects of lists."""
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


_NARRATIVEQA_FILES = "the folder with documents.csv, qaps.csv, third_party/ and tmp/"
_STORIES = ("document_id", "set", "wiki_title", "story_start", "story_end")
_STORY_QUESTIONS = ("document_id", "set", "question", "answer1", "answer2")
_STORY_SUMMARIES = ("document_id", "set", "summary")
_STORY_MARKUP = re.compile(r"<(?:html|head|body|pre|table|p|br)\b[^>]*>", re.IGNORECASE)


def read_narrativeqa(path: Path, wanted: Wanted, *, summaries: bool = False) -> Contents:
    """Read the published files.

    Args:
        path: The folder, or ``documents.csv`` in it.
        wanted: The split, and whether stories may be missing.
        summaries: Take the summaries for the texts.

    Raises:
        InputError: Where a file is missing or malformed.
        MissingExtraError: Where a story is HTML and ``sage-rag[files]`` is not installed.
    """
    listing = find_file(path, ("documents.csv", "*/documents.csv"), "documents.csv of NarrativeQA")
    folder = listing.parent
    contents = Contents(str(listing))
    told = _summaries(folder, wanted.split, required=summaries)
    for record in _of_split(listing, _STORIES, wanted.split):
        key, title = record.text("document_id"), record.text("wiki_title")
        summary = told.get(key, "")
        text = summary if summaries else _story(folder, record, wanted)
        if text:
            contents.add(EvalDocument(key, text, title, "" if summaries else summary))
        elif not wanted.skip_missing:
            raise record.error(f"there is no summary of document {key!r}; skip_missing=True leaves it out")
    _add_questions(contents, find_file(folder, ("qaps.csv",), "qaps.csv of NarrativeQA"), wanted)
    return contents


def narrativeqa_from_rows(
    rows: Iterable[Record], source: str, wanted: Wanted, *, summaries: bool = False
) -> Contents:
    """Read the hub's rows: a question each, with its whole document and the summary."""
    contents = Contents(source)
    for number, row in enumerate(rows, 1):
        document = _part(row, "document")
        key = document.text("id")
        if key not in contents.documents:
            told = _part(document, "summary")
            title, summary = told.text("title", default=""), told.text("text")
            if summaries:
                contents.add(EvalDocument(key, summary, title))
            else:
                story = _cut(_plain(document.text("text")), document, "start", "end")
                contents.add(EvalDocument(key, story, title, summary))
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


def _of_split(path: Path, columns: tuple[str, ...], split: str) -> Iterable[Record]:
    return (r for r in read_csv(path, columns) if split_name(r.text("set")) == split)


def _summaries(folder: Path, split: str, *, required: bool) -> dict[str, str]:
    patterns = ("third_party/wikipedia/summaries.csv", "summaries.csv")
    try:
        path = find_file(folder, patterns, "summaries.csv of NarrativeQA")
    except InputError:
        if required:
            raise
        return {}
    return {
        r.text("document_id"): r.text("summary").strip() for r in _of_split(path, _STORY_SUMMARIES, split)
    }


def _add_questions(contents: Contents, path: Path, wanted: Wanted) -> None:
    numbers: dict[str, int] = {}
    for record in _of_split(path, _STORY_QUESTIONS, wanted.split):
        document = record.text("document_id")
        number = numbers[document] = numbers.get(document, 0) + 1
        if document not in contents.documents:
            if wanted.skip_missing:
                continue
            raise record.error(f"there is no document {document!r} in {contents.source}")
        answers = unique(a for a in (record.text("answer1").strip(), record.text("answer2").strip()) if a)
        contents.questions.append(
            EvalQuestion(f"{document}:{number}", document, record.text("question").strip(), answers)
        )


def _story(folder: Path, record: Record, wanted: Wanted) -> str:
    path = folder / "tmp" / f"{record.text('document_id')}.content"
    try:
        data = path.read_bytes()
    except OSError:
        data = b""
    if data:
        return _cut(_decoded(data), record, "story_start", "story_end")
    if wanted.skip_missing:
        return ""
    raise record.error(
        f"the story is missing or empty: {path}; download_stories.sh of the set fetches the stories, "
        "skip_missing=True leaves out what is not there, and narrativeqa-summaries needs none"
    )


def _decoded(data: bytes) -> str:
    """A story as text; many are in Windows-1252, and film scripts are web pages."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252", "replace")
    return _plain(text)


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


_SQUAD_FILES = "dev-v1.1.json or dev-v2.0.json, or its folder"


def read_squad(path: Path, wanted: Wanted) -> Contents:
    """Read a published file."""
    name = "dev" if wanted.split == "validation" else wanted.split
    file = find_file(path, (f"**/{name}-v*.json", f"**/*{name}*.json"), f"SQuAD file of {name}")
    contents = Contents(str(file))
    for number, article in enumerate(read_json_object(file, "SQuAD").records("data"), 1):
        title = article.text("title", default="")
        paragraphs = [(p.text("context"), p.records("qas")) for p in article.records("paragraphs")]
        _add_article(contents, title, title or f"article {number}", paragraphs)
    return contents


def squad_from_rows(rows: Iterable[Record], source: str, wanted: Wanted) -> Contents:
    """Read the hub's rows: a question each, with its paragraph and the title of its article."""
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


_TRIVIAQA_FILES = "the folder with qa/ and evidence/, or a file of qa/"


@dataclass(frozen=True, slots=True)
class _Page:
    id: str
    title: str
    text: str


def read_triviaqa(path: Path, wanted: Wanted, *, domain: str = "wikipedia") -> Contents:
    """Read the published files.

    Args:
        path: The folder with ``qa`` and ``evidence``, or a file of ``qa`` (``verified-wikipedia-dev.json``).
        wanted: The split, where ``path`` is a folder; whether pages may be missing.
        domain: ``"wikipedia"`` or ``"web"``, where ``path`` is a folder.

    Raises:
        InputError: Where a file is missing or malformed.
    """
    name = "dev" if wanted.split == "validation" else wanted.split
    file = find_file(path, (f"**/{domain}-{name}.json",), f"TriviaQA file {domain}-{name}.json")
    whole = read_json_object(file, "TriviaQA")
    evidence = _evidence_folder(file)
    verified = bool(whole.data.get("VerifiedEval"))
    only_verified = verified and whole.data.get("Domain") == "Wikipedia"  # as the official scorer has it
    contents = Contents(str(file))
    records = [r for r in whole.records("Data") if not verified or r.data.get("QuestionPartOfVerifiedEval")]
    # Pages are long and many: they are read for the questions that are wanted only.
    positions: dict[str, int] = {}
    for position in wanted.order(len(records)):
        if len(contents.questions) == wanted.limit:
            break
        record = records[position]
        key = record.text("QuestionId")
        positions[key] = position
        pages = _pages(record, evidence, wanted, only_verified=only_verified)
        _add_trivia(contents, record, key, record.text("Question"), _aliases(record), pages, wanted)
    contents.questions.sort(key=lambda q: positions[q.id])
    return contents


def triviaqa_from_rows(rows: Iterable[Record], source: str, wanted: Wanted) -> Contents:
    """Read the hub's rows (a configuration with contexts, such as ``rc.wikipedia``)."""
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
        answer = row.data.get("answer")
        if not isinstance(answer, Mapping):
            raise row.error("'answer' must be an object with its aliases")
        known = Record(answer, f"{row.where}, answer")
        answers = unique([known.text("value", default=""), *known.texts("aliases")])
        _add_trivia(contents, row, row.text("question_id"), row.text("question"), answers, pages, wanted)
    return contents


def _add_trivia(
    contents: Contents,
    record: Record,
    key: str,
    question: str,
    answers: tuple[str, ...],
    pages: list[_Page],
    wanted: Wanted,
) -> None:
    if not pages:
        if wanted.skip_missing:
            return
        raise record.error(f"question {key!r} has no page of evidence; skip_missing=True leaves it out")
    if wanted.pooled:
        for page in pages:
            contents.documents.setdefault(page.id, EvalDocument(page.id, page.text, page.title))
        first = pages[0].id
    else:
        text = TextBuilder()
        for page in {p.id: p for p in pages}.values():
            text.add(page.title)
            text.add(page.text)
        first = contents.free_id(key)
        contents.add(EvalDocument(first, text.text, pages[0].title))
    contents.questions.append(EvalQuestion(key, first, question.strip(), tuple(a for a in answers if a)))


def _aliases(record: Record) -> tuple[str, ...]:
    """The answer, its aliases, and what people said; none in the test split."""
    answer = record.data.get("Answer")
    if answer is None:
        return ()
    if not isinstance(answer, Mapping):
        raise record.error("'Answer' must be an object with 'Value' and 'Aliases'")
    known = Record(answer, f"{record.where}, Answer")
    return unique([known.text("Value"), *known.texts("Aliases"), *known.texts("HumanAnswers")])


def _pages(record: Record, evidence: Path, wanted: Wanted, *, only_verified: bool) -> list[_Page]:
    return [
        page
        for key, folder in (("EntityPages", "wikipedia"), ("SearchResults", "web"))
        for entry in record.records(key, required=False)
        if not (only_verified and entry.data.get("DocPartOfVerifiedEval") is False)
        and (page := _page_file(entry, evidence, folder, wanted)) is not None
    ]


def _evidence_folder(file: Path) -> Path:
    """``evidence`` beside the file's folder or above it."""
    for folder in file.resolve().parents[:4]:
        if (folder / "evidence").is_dir():
            return folder / "evidence"
    return file.resolve().parent.parent / "evidence"


def _page_file(record: Record, evidence: Path, folder: str, wanted: Wanted) -> _Page | None:
    name = record.text("Filename")
    path = evidence / folder / name
    try:
        # Names come from the file: they must not lead out of the folder.
        path.resolve().relative_to((evidence / folder).resolve())
        text = path.read_text(encoding="utf-8", errors="replace").strip()
    except ValueError:
        raise record.error(f"'Filename' leads out of the folder: {name!r}") from None
    except OSError:
        text = ""
    if text:
        return _Page(f"{folder}/{name}", record.text("Title", default=""), text)
    if wanted.skip_missing:
        return None
    raise record.error(
        f"the page is missing or empty: {path}; unpack the evidence of TriviaQA beside qa/, or leave out "
        "what is not there with skip_missing=True"
    )


@dataclass(frozen=True, slots=True)
class Format:
    """A published data set, or a variant of one.

    Attributes:
        name: As given to `load_dataset`.
        about: A line about it.
        files: What to give the path of.
        split: The split that is measured on: test where its answers are public.
        hub: Its name on the Hugging Face hub, with its configuration; None if it is not there.
        read: Reads the published files.
        from_rows: Reads the rows of the hub.
    """

    name: str
    about: str
    files: str
    split: str
    hub: str | None
    read: Callable[[Path, Wanted], Contents]
    from_rows: Callable[[Iterable[Record], str, Wanted], Contents]


def _quality(name: str, about: str, *, hard: bool, html: bool) -> Format:
    return Format(
        name,
        about,
        _QUALITY_FILES,
        "dev",
        None if html else "emozilla/quality",
        partial(read_quality, hard=hard, html=html),
        partial(quality_from_rows, hard=hard),
    )


def _narrativeqa(name: str, about: str, *, summaries: bool) -> Format:
    return Format(
        name,
        about,
        _NARRATIVEQA_FILES,
        "test",
        "deepmind/narrativeqa",
        partial(read_narrativeqa, summaries=summaries),
        partial(narrativeqa_from_rows, summaries=summaries),
    )


def _triviaqa(name: str, about: str, *, domain: str) -> Format:
    return Format(
        name,
        about,
        _TRIVIAQA_FILES,
        "dev",
        f"mandarjoshi/trivia_qa/rc.{domain}",
        partial(read_triviaqa, domain=domain),
        triviaqa_from_rows,
    )


def _squad(name: str, about: str, hub: str | None) -> Format:
    return Format(name, about, _SQUAD_FILES, "dev", hub, read_squad, squad_from_rows)


_ALL = (
    _quality("quality", "QuALITY: multiple choice about long stories and articles", hard=False, html=False),
    _quality("quality-hard", "the hard part of QuALITY", hard=True, html=False),
    _quality("quality-html", "QuALITY with the HTML of its articles", hard=False, html=True),
    _quality("quality-hard-html", "the hard part of QuALITY, with HTML", hard=True, html=True),
    Format(
        "qasper",
        "QASPER: questions about papers, evidence by paragraph",
        _QASPER_FILES,
        "test",
        "allenai/qasper",
        read_qasper,
        qasper_from_rows,
    ),
    _narrativeqa("narrativeqa", "NarrativeQA: whole books and film scripts", summaries=False),
    _narrativeqa("narrativeqa-summaries", "NarrativeQA over its summaries", summaries=True),
    _triviaqa("triviaqa", "TriviaQA over its Wikipedia pages", domain="wikipedia"),
    _triviaqa("triviaqa-web", "TriviaQA over its web pages", domain="web"),
    _squad("squad", "SQuAD 1.1, and translations of it", "rajpurkar/squad"),
    _squad("squad-pt", "SQuAD 1.1 in Portuguese, a machine translation", "nunorc/squad_v1_pt"),
    _squad(
        "squad2", "SQuAD 2.0, and translations of it; some questions have no answer", "rajpurkar/squad_v2"
    ),
)
FORMATS = {f.name: f for f in _ALL}
