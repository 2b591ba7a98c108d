"""Paths as people give them, and what lies there."""

from __future__ import annotations

import errno
import functools
import os
import stat
from pathlib import Path
from typing import Literal

from sage_core._checks import shortened
from sage_core.errors import InputError

PathArgument = str | os.PathLike[str]

TEXT_HINT = "; this looks like a text: write it into a file, and ingest that"


def as_path(path: PathArgument) -> Path:
    """A path as given, with ``~`` replaced.

    Raises:
        InputError: For what is no path: nothing at all would otherwise stand for the current folder.
    """
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"a path is a string or a Path, not {path!r}")
    text = os.fspath(path)
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise InputError(f"{text!r} is no path: name a file or a folder, '.' for the current one")
    try:
        os.fsencode(text)  # a lone surrogate
        return Path(text).expanduser()
    except (RuntimeError, UnicodeError) as error:  # "~nobody/docs"
        raise InputError(f"{text!r} is no path: {error}") from error


def kind_of(path: Path) -> Literal["file", "folder", "other", "missing"]:
    """What lies at a path, links followed.

    Raises:
        InputError: Where that cannot be told: a folder above it may not be entered, or a name is too long.
    """
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError as error:
        hint = TEXT_HINT if error.errno == errno.ENAMETOOLONG else ""
        raise InputError(f"{shortened(path)} cannot be read: {error.strerror or error}{hint}") from None
    if stat.S_ISDIR(status.st_mode):
        return "folder"
    return "file" if stat.S_ISREG(status.st_mode) and status.st_dev not in _kernel_file_systems() else "other"


@functools.cache
def _kernel_file_systems() -> frozenset[int]:
    """Devices whose "regular files" are the kernel's: reading /proc/kmsg waits forever."""
    return frozenset(Path(place).stat().st_dev for place in ("/proc", "/sys") if os.path.ismount(place))
