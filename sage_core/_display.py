"""How results show themselves: as a renderer that is installed draws them.

The core draws nothing. An installed package registers a renderer under the entry-point group
``sage_rag.renderers``; `sage_app`, which comes in the same wheel, does.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sage_core.errors import SageError

if TYPE_CHECKING:
    from rich.console import RenderableType

GROUP = "sage_rag.renderers"


class Renderer(Protocol):
    """Draws results; a module with these functions will do."""

    def fragment(self, result: object) -> str:
        """Self-contained HTML for a notebook, all text from documents escaped."""

    def page_of(self, result: object) -> str:
        """A whole HTML page."""

    def write_page(self, path: str | Path, page: str) -> Path:
        """Write a page in one step, and return its path."""

    def rich_form(self, result: object) -> RenderableType:
        """What ``rich.print`` shows."""


@lru_cache(maxsize=1)
def _renderer() -> Renderer:
    for entry in entry_points(group=GROUP):
        renderer: Renderer = entry.load()
        return renderer
    raise SageError(f"no installed package draws results (entry points {GROUP!r}): install sage-rag again")


class Displayable:
    """Base class of results that a notebook, ``rich.print`` and an HTML page can show."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """What a notebook shows: self-contained HTML, all text from documents escaped."""
        return _renderer().fragment(self)

    def __rich__(self) -> RenderableType:
        """What ``rich.print`` shows."""
        return _renderer().rich_form(self)

    def to_html(self) -> str:
        """A whole HTML page in one string: readable offline, without scripts, light and dark."""
        return _renderer().page_of(self)

    def save_html(self, path: str | Path) -> Path:
        """Write `to_html` to a file, replacing it in one step, and return its path.

        Raises:
            InputError: Where the folder does not exist or cannot be written to.
        """
        return _renderer().write_page(path, self.to_html())
