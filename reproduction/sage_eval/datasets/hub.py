"""Rows of Parquet files, from a folder or from the Hugging Face hub. No code of a data set is ever run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from sage_core.errors import InputError, MissingExtraError
from sage_eval.datasets.contents import Record, split_name

HUB_PREFIX = "hf://"
# Sets that are no Parquet files themselves are converted by the hub to this branch.
_REVISIONS = ("main", "refs/convert/parquet")
_BATCH = 256


def parquet_rows(path: Path, split: str) -> Iterator[Record]:
    """The rows of a Parquet file, or of the files of a split in a folder.

    Raises:
        InputError: Where a file cannot be read, or none fits the split.
        MissingExtraError: Without pyarrow.
    """
    if path.is_file():
        return _rows([path])
    if not path.is_dir():
        raise InputError(f"there is no file or folder {path}")
    files = {p.relative_to(path).as_posix(): p for p in sorted(path.rglob("*.parquet"))}
    names = list(files) if len(files) == 1 else choose_files(list(files), "", split, str(path))
    if not names:
        raise InputError(f"none of {len(files)} Parquet files in {path} is named for the split {split!r}")
    return _rows([files[name] for name in names])


def hub_rows(address: str, split: str) -> Iterator[Record]:
    """The rows of a split of a data set on the hub.

    Args:
        address: ``hf://owner/name`` or ``hf://owner/name/config``.
        split: ``"train"``, ``"validation"``, ``"test"``, ...

    Raises:
        InputError: Where the hub cannot be reached or has no such data.
        MissingExtraError: Without huggingface_hub or pyarrow.
    """
    parts = address.removeprefix(HUB_PREFIX).removeprefix("datasets/").strip("/").split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise InputError(f"{address!r} is no hub address: write {HUB_PREFIX}owner/name")
    config = parts[2] if len(parts) == 3 else ""
    _pyarrow()  # before anything is downloaded
    return _rows(_download("/".join(parts[:2]), config, split), address)


def choose_files(names: Sequence[str], config: str, split: str, where: str) -> list[str]:
    """The files of a split, out of the names of a repository's Parquet files.

    Args:
        names: Their paths.
        config: The folder wanted; empty for the only one, or the one called default.
        split: The split.
        where: For messages.

    Returns:
        The names, sorted; empty where there are none.

    Raises:
        InputError: Where several configurations have the split and none was named.
    """
    folders: dict[str, list[str]] = {}
    for name in sorted(names):
        folder = _config_if_split(PurePosixPath(name), split)
        if folder is not None and config in ("", folder):
            folders.setdefault(folder, []).append(name)
    if len(folders) > 1 and "default" in folders:
        return folders["default"]
    if len(folders) > 1:
        raise InputError(
            f"{where} has several configurations: add one of {', '.join(sorted(folders))} to the address"
        )
    return next(iter(folders.values()), [])


def _config_if_split(path: PurePosixPath, split: str) -> str | None:
    """The configuration a file belongs to; None if it is of another split.

    ``config/split-00000-of-00001.parquet`` and ``config/split/0000.parquet`` are both in use.
    """
    folders = list(path.parts[:-1])
    for part in (path.stem, folders[-1] if folders else ""):
        word = re.sub(r"(-\d+)+(-of-\d+)?$", "", part.removeprefix("partial-"))
        if split_name(word) == split:
            return "/".join(folders if part == path.stem else folders[:-1])
    return None


def _download(repository: str, config: str, split: str) -> list[Path]:
    try:
        import huggingface_hub as hub
    except ImportError:
        raise MissingExtraError(f"Loading {repository} from the hub", "hub") from None
    advice = "connect, or download it and give its path"
    try:
        for revision in _REVISIONS:
            names = hub.list_repo_files(repository, repo_type="dataset", revision=revision)
            parquet = [n for n in names if n.endswith(".parquet")]
            chosen = choose_files(parquet, config, split, repository)
            if chosen:
                return [
                    Path(hub.hf_hub_download(repository, n, repo_type="dataset", revision=revision))
                    for n in chosen
                ]
    except InputError:
        raise
    except Exception as error:  # the client's errors are of many kinds, and change with its transport
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise InputError(f"cannot get {repository} from the hub ({reason}): {advice}") from error
    wanted = f"split {split!r}" + (f" of configuration {config!r}" if config else "")
    raise InputError(f"{repository} on the hub has no Parquet file for the {wanted}: {advice}")


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise MissingExtraError("Reading Parquet files", "hub") from None
    return parquet


def _rows(paths: Iterable[Path], source: str = "") -> Iterator[Record]:
    parquet = _pyarrow()
    number = 0
    for path in paths:
        where = source or str(path)
        try:
            for batch in parquet.ParquetFile(path).iter_batches(batch_size=_BATCH):
                for row in batch.to_pylist():
                    number += 1
                    yield Record(row, f"{where}, row {number}")
        except (OSError, ValueError) as error:  # pyarrow's own errors are kinds of these
            if isinstance(error, InputError):
                raise
            raise InputError(f"cannot read the Parquet file {path}: {error}") from error


def untransposed(value: object) -> object:
    """A list of objects where a column of the hub is an object of lists; anything else as it is."""
    if not isinstance(value, Mapping):
        return value
    lists = {k: v for k, v in value.items() if isinstance(v, list)}
    length = max(map(len, lists.values()), default=0)
    return [{k: v[i] for k, v in lists.items() if i < len(v)} for i in range(length)]
