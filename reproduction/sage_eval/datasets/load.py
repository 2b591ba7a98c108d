"""Load a data set by name: a published one, a development set, or a pair of files in our own format."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sage_core.errors import InputError
from sage_eval.datasets.contents import Contents, split_name
from sage_eval.datasets.hub import HUB_PREFIX, hub_rows, parquet_rows
from sage_eval.datasets.jsonl import read_jsonl, read_unanswerable
from sage_eval.datasets.published import FORMATS
from sage_eval.records import Dataset

PREFIX = "dev/"


@dataclass(frozen=True, slots=True)
class DevSet:
    """A development set.

    Attributes:
        pooled: Whether it is searched as one corpus; the questions of the others only make sense within their
            document ("What is the governing law?").
        keep: Only documents with this in their id, and their questions.
        about: What it is.
    """

    about: str
    pooled: bool = False
    keep: str = ""


DEV_SETS = {
    "squad2_dev16": DevSet(
        "16 whole articles of SQuAD 2.0; evidence: sentences with the answer", pooled=True
    ),
    "clapnq_dev": DevSet("passages and long answers of Natural Questions", pooled=True),
    "hotpot_sample": DevSet("questions that need two passages, among distractors", pooled=True),
    # Each article is there at three reading levels, the same facts thrice: one of them is kept.
    "onestopqa": DevSet("short news, multiple choice; the advanced level", pooled=True, keep=":Adv:"),
    "cuad_leval": DevSet("clauses of long contracts"),
    "nq_leval": DevSet("questions about whole encyclopedia pages; evidence for few"),
    "fairytaleqa": DevSet("FairytaleQA: tales; evidence: whole sections"),
    "hotpot_pool": DevSet("HotpotQA over one pool of paragraphs; evidence in several", pooled=True),
    "2wiki_pool": DevSet("2WikiMultihopQA over one pool of paragraphs; evidence in several", pooled=True),
    "clapnq_unanswerable": DevSet("questions with a passage of the right article that does not answer them"),
    "quality_leval": DevSet("QuALITY: long stories, multiple choice, no evidence"),
    "qasper_leval": DevSet("QASPER: questions about papers; evidence for few"),
}


def dev_folder() -> Path:
    """Where the development sets lie: ``$SAGE_DATA/dev``, by default ``../shared/data/dev``."""
    return Path(os.environ.get("SAGE_DATA", "../shared/data")) / "dev"


def read_dev(name: str, folder: Path) -> Contents:
    """Read a development set.

    Args:
        name: Its name without ``dev/``.
        folder: The folder of the pairs of files.

    Raises:
        InputError: Where it is not there; the message says what is.
    """
    if not folder.is_dir():
        raise InputError(
            f"there is no folder {folder} of development sets: set SAGE_DATA to the folder that holds dev/, "
            "or give a path"
        )
    alone = folder / f"{name}.jsonl.gz"
    if name == "clapnq_unanswerable" and alone.is_file():
        return read_unanswerable(alone)
    known = sorted(p.name.partition("_questions.jsonl")[0] for p in folder.glob("*_questions.jsonl*"))
    if name not in known:
        raise InputError(f"there is no development set {name!r} in {folder}: there are {', '.join(known)}")
    contents = read_jsonl(folder / name)
    keep = DEV_SETS[name].keep if name in DEV_SETS else ""
    if keep:
        contents.documents = {i: d for i, d in contents.documents.items() if keep in i}
        contents.questions = [q for q in contents.questions if q.document in contents.documents]
    return contents


def dataset_names() -> dict[str, str]:
    """Every name that `load_dataset` knows, with a line about it."""
    names = {name: f.about for name, f in FORMATS.items()}
    names["jsonl"] = "a pair of files in our own format, given by path"
    return {**names, **{f"{PREFIX}{name}": d.about for name, d in DEV_SETS.items()}}


def load_dataset(
    name: str, path: str | Path | None = None, *, split: str | None = None, pooled: bool | None = None
) -> Dataset:
    """Load documents and questions about them.

    Args:
        name: One of `dataset_names`; or the path of a pair of files in our own format.
        path: A Parquet file or folder with the columns of the Hugging Face hub; or ``hf://owner/name`` or
            ``hf://owner/name/config``, a data set of the hub. Where None, a ``dev/`` set is looked for under
            ``$SAGE_DATA``, and a published one comes from the hub.
        split: ``"train"``, ``"dev"`` (or ``"validation"``) or ``"test"``; where None, the one that is
            measured on: the test split where its answers are public, else the development split.
        pooled: Whether all documents are searched for each question; None for what fits the set.

    Returns:
        The data set; ``source`` is the file or hub name it came from.

    Raises:
        InputError: For an unknown name, a missing or malformed file, or where nothing is left; the message
            names the file and the line or row.
        MissingExtraError: Where the hub is needed and ``sage-rag[hub]`` is not installed.
    """
    if name in FORMATS:
        form, source = FORMATS[name], str(path or f"{HUB_PREFIX}{FORMATS[name].hub}")
        wanted = split_name(split or form.split)
        if source.startswith(HUB_PREFIX):
            rows = hub_rows(source, wanted)
        else:
            rows = parquet_rows(Path(source).expanduser(), wanted)
        contents, pools = form.read(rows, source, bool(pooled)), False
    else:
        contents, pools = _own_format(name, path, split)
    if not contents.questions:
        raise InputError(f"data set {name!r}: no questions in {contents.source}")
    return Dataset(
        name=name,
        documents=tuple(contents.documents.values()),
        questions=tuple(contents.questions),
        pooled=pools if pooled is None else pooled,
        source=contents.source,
    )


def _own_format(name: str, path: str | Path | None, split: str | None) -> tuple[Contents, bool]:
    """A development set, or a pair of files."""
    if split is not None:
        raise InputError(f"data set {name!r} has no splits: leave split out")
    if name.startswith(PREFIX):
        bare = name.removeprefix(PREFIX)
        folder = dev_folder() if path is None else Path(path)
        known = DEV_SETS.get(bare)
        return read_dev(bare, folder), known is not None and known.pooled
    if name == "jsonl":
        if path is None:
            raise InputError("give the path of <name>_docs.jsonl and <name>_questions.jsonl (or .gz)")
        return read_jsonl(Path(path).expanduser()), False
    if path is None and ("/" in name or "\\" in name or name.endswith((".jsonl", ".jsonl.gz"))):
        return read_jsonl(Path(name).expanduser()), False
    raise InputError(
        f"there is no data set {name!r}; there are {', '.join(dataset_names())}, or give the path of a pair "
        "of files <name>_docs.jsonl and <name>_questions.jsonl"
    )
