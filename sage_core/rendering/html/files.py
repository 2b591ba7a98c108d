"""Pages as files."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from sage_core.errors import InputError


def check_page_path(path: str | Path) -> Path:
    """The path, if a page can be written there: asked before work is begun that would be lost otherwise.

    Raises:
        InputError: Where its folder does not exist or cannot be written to, or it is a folder itself.
    """
    target = Path(path).expanduser()
    folder = target.parent
    try:
        is_folder, has_folder = target.is_dir(), folder.is_dir()
    except OSError as error:  # too long a name
        raise InputError(f"the report {target} could not be written: {error.strerror or error}") from error
    if is_folder:
        raise InputError(f"{target} is a folder: name a file in it, such as {target / 'report.html'}")
    if not has_folder:
        raise InputError(f"no folder {folder} for the report {target.name}: make it first")
    if not os.access(folder, os.W_OK):
        raise InputError(f"the folder {folder} cannot be written to: choose another place for the report")
    return target


def write_page(path: str | Path, page: str) -> Path:
    """Write a page in one step: whoever reads the file sees the old one or the new one, never a part.

    Args:
        path: The file; an existing one is replaced, a link is followed.
        page: The page.

    Returns:
        The path.

    Raises:
        InputError: Where it cannot be written.
    """
    target = check_page_path(path)
    try:
        real = target.resolve()
        unfinished = real.with_name(f".report-{secrets.token_hex(6)}.tmp")
        try:
            with unfinished.open("x", encoding="utf-8") as file:
                file.write(page)
            if real.exists():
                unfinished.chmod(real.stat().st_mode & 0o777)
            unfinished.replace(real)
        finally:
            unfinished.unlink(missing_ok=True)
    except (OSError, RuntimeError) as error:  # a RuntimeError is a loop of links
        raise InputError(f"the report {target} could not be written: {error}") from error
    return target
