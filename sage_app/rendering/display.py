"""The renderer of this package: results as HTML and for a terminal, see `sage_core._display`."""

from sage_app.rendering.html import fragment, page_of, write_page
from sage_app.rendering.terminal import rich_form

__all__ = ["fragment", "page_of", "rich_form", "write_page"]
