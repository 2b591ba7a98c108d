"""Packages whose names are loaded when first used, so that importing one loads nothing but itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str], libraries: tuple[str, ...] = (), extra: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: Its name.
        homes: By module, relative to the package, the names that are loaded from it, parted by spaces.
        libraries: What these modules need besides.
        extra: Which extra brings that.
    """
    home = {name: f"{package}.{module}" for module, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(home[name]), name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in libraries:
                raise
            from sage_core.errors import MissingExtraError

            raise MissingExtraError(package, extra) from error
        setattr(sys.modules[package], name, value)  # found at once from now on
        return value

    return load, lambda: sorted({*vars(sys.modules[package]), *home})
