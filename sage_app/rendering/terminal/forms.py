"""Which terminal form shows which result."""

from __future__ import annotations

from functools import singledispatch

from rich.console import Group, RenderableType
from rich.text import Text

from sage_app.pipeline.results import Answer, Retrieval
from sage_app.rendering.terminal.answers import answer_view, feedback_view
from sage_app.rendering.terminal.rankings import retrieval_view
from sage_app.rendering.terminal.segments import segments_view
from sage_core.feedback.types import FeedbackResult
from sage_core.inspecting import Inspection
from sage_core.segmentation.view import SegmentationView


@singledispatch
def rich_form(result: object) -> RenderableType:
    """A result for ``rich.print``; control characters of documents are shown as signs.

    Raises:
        TypeError: For what has no form.
    """
    raise TypeError(f"no terminal form of a {type(result).__name__}")


@rich_form.register
def _answer(result: Answer) -> RenderableType:
    return Group(retrieval_view(result.retrieval), Text(), answer_view(result))


rich_form.register(Retrieval)(retrieval_view)
rich_form.register(Inspection)(lambda result: Text(result.text))
rich_form.register(SegmentationView)(segments_view)
rich_form.register(FeedbackResult)(feedback_view)
