"""The development sets of this project: pairs of files under ``$SAGE_DATA/dev``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sage_core.errors import InputError
from sage_core.evaluation.datasets.contents import Contents, Wanted
from sage_core.evaluation.datasets.jsonl import read_jsonl

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
    "nq_leval": DevSet("questions about whole encyclopaedia pages; evidence for few"),
    "quality_leval": DevSet("QuALITY: long stories, multiple choice, no evidence"),
    "qasper_leval": DevSet("QASPER: questions about papers; evidence for few"),
}


def dev_folder() -> Path:
    """Where the development sets lie: ``$SAGE_DATA/dev``, by default ``../shared/data/dev``."""
    return Path(os.environ.get("SAGE_DATA", "../shared/data")) / "dev"


def read_dev(name: str, folder: Path, wanted: Wanted) -> Contents:
    """Read a development set.

    Args:
        name: Its name without ``dev/``.
        folder: The folder of the pairs of files.
        wanted: Not used.

    Raises:
        InputError: Where it is not there; the message says what is.
    """
    if not folder.is_dir():
        raise InputError(
            f"there is no folder {folder} of development sets: set SAGE_DATA to the folder that holds dev/, "
            "or give a path"
        )
    known = sorted(p.name.partition("_questions.jsonl")[0] for p in folder.glob("*_questions.jsonl*"))
    if name not in known:
        raise InputError(f"there is no development set {name!r} in {folder}: there are {', '.join(known)}")
    contents = read_jsonl(folder / name, wanted)
    keep = DEV_SETS[name].keep if name in DEV_SETS else ""
    if keep:
        contents.documents = {i: d for i, d in contents.documents.items() if keep in i}
        contents.questions = [q for q in contents.questions if q.document in contents.documents]
    return contents
