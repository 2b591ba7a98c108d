"""Load a data set by name."""

from __future__ import annotations

from pathlib import Path

from sage_core.errors import InputError
from sage_core.evaluation.datasets import dev
from sage_core.evaluation.datasets.contents import Contents, Wanted, split_name
from sage_core.evaluation.datasets.hub import HUB_PREFIX, hub_rows, is_parquet, parquet_rows
from sage_core.evaluation.datasets.jsonl import read_jsonl
from sage_core.evaluation.datasets.registry import FORMATS, Format
from sage_core.evaluation.records import Dataset


def dataset_names() -> dict[str, str]:
    """Every name that `load_dataset` knows, with a line about it."""
    names = {name: f.about for name, f in FORMATS.items()}
    names["jsonl"] = "a pair of files in our own format, given by path"
    return {**names, **{f"{dev.PREFIX}{name}": d.about for name, d in dev.DEV_SETS.items()}}


def load_dataset(
    name: str,
    path: str | Path | None = None,
    *,
    split: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    pooled: bool | None = None,
    skip_missing: bool = False,
) -> Dataset:
    """Load documents and questions about them.

    Args:
        name: One of `dataset_names`; or the path of a pair of files in our own format.
        path: The file or folder as it is published (gzipped or not); or ``hf://owner/name`` or
            ``hf://owner/name/config``, a data set of the Hugging Face hub; or a Parquet file or folder with
            its columns. Where None, a ``dev/`` set is looked for under ``$SAGE_DATA``, and any other comes
            from the hub where it is there.
        split: ``"train"``, ``"dev"`` (or ``"validation"``) or ``"test"``; where None, the one that is
            measured on: the test split where its answers are public, else the development split.
        limit: So many questions, drawn with ``seed``; None for all.
        seed: Of that sample.
        pooled: Whether all documents are searched for each question; None for what fits the set.
        skip_missing: Leave out documents whose text is not there (NarrativeQA's and TriviaQA's lie in files
            of their own), and their questions, instead of failing.

    Returns:
        The data set; ``source`` is the file or hub name it came from.

    Raises:
        InputError: For an unknown name, a missing or malformed file, or where nothing is left; the message
            names the file and the line or record.
        MissingExtraError: Where the hub is needed and ``sage-rag[hub]`` is not installed.
    """
    if limit is not None and limit < 1:
        raise InputError(f"limit must be at least 1 question, not {limit}")
    if name not in FORMATS:
        contents, pools = _own_format(name, path, split)
    else:
        form = FORMATS[name]
        wanted = Wanted(split_name(split or form.split), bool(pooled), skip_missing, limit, seed)
        contents, pools = _published(form, path, wanted), bool(pooled)
    if not contents.questions:
        raise InputError(f"data set {name!r}: no questions in {contents.source}")
    dataset = Dataset(
        name=name,
        documents=tuple(contents.documents.values()),
        questions=tuple(contents.questions),
        pooled=pools if pooled is None else pooled,
        source=contents.source,
    )
    return dataset if limit is None else dataset.sample(limit, seed=seed)


def _own_format(name: str, path: str | Path | None, split: str | None) -> tuple[Contents, bool]:
    """A development set, or a pair of files."""
    if split is not None:
        raise InputError(f"data set {name!r} has no splits: leave split out")
    wanted = Wanted("")
    if name.startswith(dev.PREFIX):
        bare = name.removeprefix(dev.PREFIX)
        folder = dev.dev_folder() if path is None else Path(path)
        known = dev.DEV_SETS.get(bare)
        return dev.read_dev(bare, folder, wanted), known is not None and known.pooled
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


def _published(form: Format, path: str | Path | None, wanted: Wanted) -> Contents:
    """A data set in the format of its publishers, from files or from the hub."""
    if path is None:
        if form.hub is None:
            raise InputError(f"data set {form.name!r} is not on the hub: give the path of {form.files}")
        path = f"{HUB_PREFIX}{form.hub}"
    if str(path).startswith(HUB_PREFIX):
        return form.from_rows(hub_rows(str(path), wanted.split), str(path), wanted)
    path = Path(path).expanduser()
    if is_parquet(path):
        return form.from_rows(parquet_rows(path, wanted.split), str(path), wanted)
    return form.read(path, wanted)
