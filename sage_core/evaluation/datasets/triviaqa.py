"""TriviaQA: a JSON object with questions and the names of pages about them, and a folder ``evidence``.

The answer may stand in any of a question's pages, so they are joined to one document of the question, each
page under its title. In a pooled set every page is a document instead, and is there once. Where an answer
stands is not marked. All aliases of an answer are right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sage_core.evaluation.datasets.contents import Contents, TextBuilder, Wanted, unique
from sage_core.evaluation.datasets.files import Record, find_file, read_json_object
from sage_core.evaluation.datasets.hub import untransposed
from sage_core.evaluation.records import EvalDocument, EvalQuestion

FILES = "the folder with qa/ and evidence/, or a file of qa/"


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
        _add(contents, record, key, record.text("Question"), _aliases(record), pages, wanted)
    contents.questions.sort(key=lambda q: positions[q.id])
    return contents


def triviaqa_from_rows(rows: Iterable[Record], source: str, wanted: Wanted) -> Contents:
    """Read the hub's rows (a configuration with contexts, such as ``rc.wikipedia``).

    Raises:
        InputError: Where a row is malformed.
    """
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
        _add(contents, row, row.text("question_id"), row.text("question"), answers, pages, wanted)
    return contents


def _add(
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
