"""Our own format: ``<name>_docs.jsonl[.gz]`` and ``<name>_questions.jsonl[.gz]``.

A document is ``{"doc_id", "title", "text"}`` and may have an ``abstract``. A question is ``{"qid", "doc_id",
"question", "answers", "evidence": [{"start", "end"}]}``; evidence may carry its ``text``, which is checked,
and a ``doc_id`` of its own where it stands in another document; then the question may leave its own out.
``options`` and ``gold`` (the position of the right one) make it multiple choice; ``hard`` marks the hard part
of a set.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sage_core.errors import InputError
from sage_core.text.spans import Span
from sage_eval.datasets.contents import Contents, Record, read_json_lines, shown
from sage_eval.records import Dataset, EvalDocument, EvalQuestion, Evidence

_DOCUMENTS, _QUESTIONS = "_docs.jsonl", "_questions.jsonl"
_ENDINGS = tuple(kind + zipped for kind in (_DOCUMENTS, _QUESTIONS) for zipped in ("", ".gz"))


def read_jsonl(path: Path) -> Contents:
    """Read a pair of files.

    Args:
        path: Either file, or what their names have in common, or a folder with one pair.

    Raises:
        InputError: Where a file is missing or malformed; the message names file and line.
    """
    documents, questions = pair_of_files(path)
    contents = Contents(str(questions))
    for record in read_json_lines(documents, "a file of documents"):
        document = EvalDocument(
            record.text("doc_id"), record.text("text"), record.text("title", default=""), _abstract(record)
        )
        if document.id in contents.documents:
            raise record.error(f"there is a document {document.id!r} already")
        contents.add(document)
    seen: set[str] = set()
    for record in read_json_lines(questions, "a file of questions"):
        question = _question(record, contents.documents)
        if question.id in seen:
            raise record.error(f"there is a question {question.id!r} already")
        seen.add(question.id)
        contents.questions.append(question)
    return contents


def pair_of_files(path: Path) -> tuple[Path, Path]:
    """The file of documents and the file of questions.

    Raises:
        InputError: Where they are not both there, or a folder has several pairs.
    """
    if path.is_dir():
        stems = sorted({_stem(p.name) for p in path.iterdir() if p.name.endswith(_ENDINGS)})
        if len(stems) != 1:
            found = f"found {', '.join(stems)}" if stems else "found none"
            raise InputError(
                f"{path} must hold one pair <name>{_DOCUMENTS} and <name>{_QUESTIONS} (or .gz): {found}"
            )
        path = path / stems[0]
    stem = path.with_name(_stem(path.name))
    return _existing(stem, _DOCUMENTS), _existing(stem, _QUESTIONS)


def save_dataset(dataset: Dataset, path: str | Path) -> tuple[Path, Path]:
    """Write a data set in this format.

    Args:
        dataset: What to write.
        path: Folder and name to which ``_docs.jsonl.gz`` and ``_questions.jsonl.gz`` are added.

    Returns:
        The file of documents and the file of questions. They are the same bytes for the same data set.

    Raises:
        InputError: Where the folder cannot be written to.
    """
    stem = Path(path)
    documents = stem.with_name(f"{stem.name}{_DOCUMENTS}.gz")
    questions = stem.with_name(f"{stem.name}{_QUESTIONS}.gz")
    texts = {d.id: d.text for d in dataset.documents}
    _write(documents, (_document_row(d) for d in dataset.documents))
    _write(questions, (_question_row(q, texts) for q in dataset.questions))
    return documents, questions


def _stem(name: str) -> str:
    return next((name.removesuffix(ending) for ending in _ENDINGS if name.endswith(ending)), name)


def _existing(stem: Path, ending: str) -> Path:
    for zipped in (".gz", ""):
        path = stem.with_name(f"{stem.name}{ending}{zipped}")
        if path.is_file():
            return path
    raise InputError(
        f"there is no {stem}{ending} (or .gz): a data set is a pair <name>{_DOCUMENTS} and <name>{_QUESTIONS}"
    )


def _abstract(record: Record) -> str:
    return record.text("abstract", default="")


def _question(record: Record, documents: Mapping[str, EvalDocument]) -> EvalQuestion:
    document = record.text("doc_id", default="") or _first_document(record)
    if document not in documents:
        raise record.error(f"there is no document {document!r} in the file of documents")
    evidence = (_evidence(e, document, documents) for e in record.records("evidence", required=False))
    options = record.texts("options")
    gold = None if record.data.get("gold") is None else record.integer("gold")
    if gold is not None and not 0 <= gold < len(options):
        raise record.error(f"gold is {gold}, but there are {len(options)} options, counted from 0")
    hard = record.data.get("hard")
    if hard not in (None, True, False):
        raise record.error(f"'hard' must be true or false, not {shown(hard)}")
    return EvalQuestion(
        id=record.text("qid"),
        document=document,
        text=record.text("question"),
        answers=record.texts("answers"),
        evidence=tuple(evidence),
        options=options,
        gold=gold,
        hard=None if hard is None else bool(hard),
    )


def _first_document(record: Record) -> str:
    """The document of the first evidence, where evidence lies in several and the question names none."""
    for entry in record.records("evidence", required=False):
        return entry.text("doc_id")
    return record.text("doc_id")


def read_unanswerable(path: Path) -> Contents:
    """Read questions that come with a passage which does not answer them: ``qid``, ``question``, ``passage``.

    Raises:
        InputError: Where the file is missing or malformed.
    """
    contents = Contents(str(path))
    for record in read_json_lines(path, "a file of unanswerable questions"):
        key = record.text("qid")
        question = EvalQuestion(key, key, record.text("question"), ("",))
        passage = EvalDocument(key, record.text("passage"), record.text("title", default=""))
        contents.add(passage, [question])
    return contents


def _evidence(record: Record, document: str, documents: Mapping[str, EvalDocument]) -> Evidence:
    document = record.text("doc_id", default=document)
    if document not in documents:
        raise record.error(f"there is no document {document!r} in the file of documents")
    text = documents[document].text
    span = Span(record.integer("start"), record.integer("end"))
    if not 0 <= span.start < span.end <= len(text):
        raise record.error(
            f"{tuple(span)} is no part of document {document!r}, which has {len(text)} characters"
        )
    if "text" in record.data and record.data["text"] != span.of(text):
        raise record.error(
            f"characters {span.start} to {span.end} of document {document!r} are {shown(span.of(text))}, "
            f"not {shown(record.data['text'])}"
        )
    return Evidence(document, span)


def _document_row(document: EvalDocument) -> dict[str, Any]:
    row = {"doc_id": document.id, "title": document.title, "text": document.text}
    return {**row, "abstract": document.abstract} if document.abstract else row


def _question_row(question: EvalQuestion, texts: Mapping[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "qid": question.id,
        "doc_id": question.document,
        "question": question.text,
        "answers": list(question.answers),
        "evidence": [
            {
                **({} if e.document == question.document else {"doc_id": e.document}),
                "start": e.span.start,
                "end": e.span.end,
                "text": e.span.of(texts[e.document]),
            }
            for e in question.evidence
        ],
    }
    if question.options:
        row |= {"options": list(question.options), "gold": question.gold}
    return row if question.hard is None else {**row, "hard": question.hard}


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(lines.encode("utf-8", "surrogatepass"), mtime=0))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
