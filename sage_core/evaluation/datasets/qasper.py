"""QASPER: one JSON object, from the id of a paper to its text and the questions about it.

A document is the title, the abstract and the sections, parted by blank lines; title and abstract are kept
apart as well. The answer of an annotator is as the official scorer takes it: spans joined by commas, a free
text, "Yes", "No" or "Unanswerable". Evidence is the paragraphs that any annotator named; a table or figure
("FLOAT SELECTED") is no text and no evidence here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from sage_core.evaluation.datasets.contents import (
    Contents,
    TextBuilder,
    Wanted,
    evidence_of,
    unique,
)
from sage_core.evaluation.datasets.files import Record, find_file, read_json_object, shown
from sage_core.evaluation.datasets.hub import untransposed
from sage_core.evaluation.records import EvalDocument, EvalQuestion
from sage_core.text.spans import Span

FILES = "qasper-test-v0.3.json, or its folder"


def read_qasper(path: Path, wanted: Wanted) -> Contents:
    """Read a published file.

    Args:
        path: The file, or a folder with the files.
        wanted: The split, where ``path`` is a folder.

    Raises:
        InputError: Where the file is missing or malformed.
    """
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
    """Read the hub's rows: a paper each, its lists of objects turned into objects of lists.

    Raises:
        InputError: Where a row is malformed.
    """
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
    questions = [_question(q, key, paragraphs) for q in record.records("qas")]
    contents.add(EvalDocument(key, text.text, title, abstract), questions)


def _line(text: str) -> str:
    return text.replace("\n", " ").strip()


def _question(record: Record, document: str, paragraphs: Mapping[str, Span]) -> EvalQuestion:
    answers: list[str] = []
    evidence: list[Span] = []
    for annotation in record.records("answers"):
        answer = Record(annotation.data.get("answer"), f"{annotation.where}, answer")  # type: ignore[arg-type]
        if not isinstance(answer.data, Mapping):
            raise answer.error(f"must be an object, not {shown(answer.data)}")
        text = _answer(answer)
        if text:
            answers.append(text)
        evidence += _found(answer.texts("evidence"), paragraphs)
    return EvalQuestion(
        id=record.text("question_id"),
        document=document,
        text=record.text("question").strip(),
        answers=unique(answers),
        evidence=evidence_of(document, evidence),
    )


def _answer(record: Record) -> str:
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


def _found(evidence: Iterable[str], paragraphs: Mapping[str, Span]) -> Iterator[Span]:
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
