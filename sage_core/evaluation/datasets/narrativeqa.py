"""NarrativeQA: ``documents.csv``, ``qaps.csv``, ``third_party/wikipedia/summaries.csv``, ``tmp/*.content``.

The stories are not published with the set: its ``download_stories.sh`` fetches them. A story is cut at the
marks that ``documents.csv`` gives for its start and end, where they are found. The summary is the document's
abstract, or, in ``narrativeqa-summaries``, its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from sage_core.errors import InputError
from sage_core.evaluation.datasets.contents import Contents, Wanted, split_name, unique
from sage_core.evaluation.datasets.files import Record, find_file, read_csv
from sage_core.evaluation.records import EvalDocument, EvalQuestion

FILES = "the folder with documents.csv, qaps.csv, third_party/ and tmp/"
_DOCUMENTS = ("document_id", "set", "wiki_title", "story_start", "story_end")
_QUESTIONS = ("document_id", "set", "question", "answer1", "answer2")
_SUMMARIES = ("document_id", "set", "summary")
_MARKUP = re.compile(r"<(?:html|head|body|pre|table|p|br)\b[^>]*>", re.IGNORECASE)


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
    for record in _of_split(listing, _DOCUMENTS, wanted.split):
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
    """Read the hub's rows: a question each, with its whole document and the summary.

    Raises:
        InputError: Where a row is malformed.
    """
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
    return {r.text("document_id"): r.text("summary").strip() for r in _of_split(path, _SUMMARIES, split)}


def _add_questions(contents: Contents, path: Path, wanted: Wanted) -> None:
    numbers: dict[str, int] = {}
    for record in _of_split(path, _QUESTIONS, wanted.split):
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
    if not _MARKUP.search(text):
        return text.replace("\r\n", "\n")
    from sage_core.documents.html import read_html

    return read_html(text)[0]


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
