"""What makes a result show itself: in a notebook, with rich, as a page. Imports the pictures when asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType


class Shown:
    """Base of results that have pictures. Adds no state and no import."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """What a notebook shows: self-contained HTML, every foreign text escaped."""
        from sage_core.rendering.html import fragment

        return fragment(self)

    def __rich__(self) -> RenderableType:
        """What ``rich.print`` shows."""
        from sage_core.rendering.terminal.forms import rich_form

        return rich_form(self)

    def to_html(self) -> str:
        """A whole HTML page in one string: readable offline, without scripts, light and dark."""
        from sage_core.rendering.html import page_of

        return page_of(self)

    def save_html(self, path: str | Path) -> Path:
        """Write `to_html` to a file, replacing it in one step, and return its path.

        Raises:
            InputError: Where the folder does not exist or cannot be written to.
        """
        from sage_core.rendering.html.files import write_page

        return write_page(path, self.to_html())
