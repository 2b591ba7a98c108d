"""How results display themselves: the one place below `sage_core.rendering` that imports it, when called."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sage_core.feedback.types import FeedbackResult
    from sage_core.pipeline.ingest import ProgressFunction


class Displayable:
    """Base class of results that a notebook, ``rich.print`` and an HTML page can show."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """What a notebook shows: self-contained HTML, all text from documents escaped."""
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
        from sage_core.rendering.html.page import write_page

        return write_page(path, self.to_html())


def plain_text(result: FeedbackResult) -> str:
    """A feedback result as plain text: every round, the stop reason, and tokens used."""
    from sage_core.rendering.feedback_text import format_trace

    return format_trace(result)


def ingest_bar() -> AbstractContextManager[ProgressFunction]:
    """A progress bar on standard error for an ingest."""
    from sage_core.rendering.terminal.progress import ingest_bar as bar

    return bar()
