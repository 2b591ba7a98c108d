"""QuALITY: a JSON object a line, with an article and the questions that one writer asked about it.

Two writers asked about each article, so that an article stands in two lines; it is one document here.
Positions of options count from 1 there and from 0 here. The test split has no answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from sage_core.evaluation.datasets.contents import Contents, Wanted
from sage_core.evaluation.datasets.files import Record, find_file, read_json_lines
from sage_core.evaluation.records import EvalDocument, EvalQuestion

FILES = "QuALITY.v1.0.1.htmlstripped.dev, or its folder"
_MARKUP = re.compile(r"</(?:p|div|body|html|span|h[1-6])>|<br\s*/?>", re.IGNORECASE)


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
            made = _question(question, document)
            if made.hard or not hard:
                contents.questions.append(made)
    return _without_idle_documents(contents) if hard else contents


def quality_from_rows(rows: Iterable[Record], source: str, wanted: Wanted, *, hard: bool = False) -> Contents:
    """Read the hub's rows: an article, a question, its options, the right one counted from 0, ``hard``.

    Raises:
        InputError: Where a row is malformed.
    """
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
            _checked(row, f"question {number}", document, gold, bool(row.data.get("hard")))
        )
    return contents


def _patterns(split: str, html: bool) -> tuple[str, ...]:
    name = "dev" if split == "validation" else split
    raw = (f"**/QuALITY.v[0-9.]*[0-9].{name}", f"**/QuALITY.v[0-9.]*[0-9].{name}.jsonl")
    stripped = (f"**/*htmlstripped.{name}", f"**/*htmlstripped.{name}.jsonl")
    return raw if html else (*stripped, *raw)


def _article(record: Record, html: bool) -> str:
    article = record.text("article")
    if html or not _MARKUP.search(article):
        return article
    from sage_core.documents.html import read_html

    return read_html(article)[0]


def _question(record: Record, document: str) -> EvalQuestion:
    difficult = record.data.get("difficult")
    if difficult not in (None, 0, 1):
        raise record.error(f"'difficult' must be 0 or 1, not {difficult!r}")
    gold = record.integer("gold_label") - 1 if "gold_label" in record.data else None
    hard = None if difficult is None else bool(difficult)
    return _checked(record, record.text("question_unique_id"), document, gold, hard)


def _checked(record: Record, key: str, document: str, gold: int | None, hard: bool | None) -> EvalQuestion:
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
