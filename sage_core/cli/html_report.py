"""`--html FILE`: what a command shows, as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sage_core.cli.options import path_argument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sage_core.llm.pricing import PriceList
    from sage_core.pipeline.results import Answer, Retrieval
    from sage_core.pipeline.sage import Sage
    from sage_core.segmentation import SegmentationView

HtmlOption = Annotated[
    Path | None,
    typer.Option(
        "--html",
        help="Also write it all to one HTML page, which is readable offline.",
        metavar="FILE",
        show_default="no page",
        parser=path_argument,
    ),
]


def checked(path: Path | None) -> Path | None:
    """The path, if a page can be written there: asked before any work is done.

    Raises:
        InputError: Where it cannot.
    """
    if path is None:
        return None
    from sage_core.rendering.html.page import check_page_path

    return check_page_path(path)


def answer_with_page(
    sage: Sage,
    retrieval: Retrieval,
    options: Sequence[str] | None,
    prices: PriceList | None,
    html: Path | None,
) -> Answer:
    """Answer, and write the page; where the LLM fails, a page of the retrieval and the error."""
    from sage_core.errors import LLMError

    try:
        answer = sage.answer(retrieval, options)
    except LLMError as error:
        if html is not None:
            from sage_core.rendering.html import retrieval_report, write_page

            write_page(html, retrieval_report(retrieval, error=str(error), settings=settings_of(sage)))
        raise
    if html is not None:
        from sage_core.rendering.html import answer_report, write_page

        cost = None if prices is None else answer.cost(prices.of(answer.answerer))
        write_page(html, answer_report(answer, cost=cost, settings=settings_of(sage)))
    return answer


def write_segmentation(html: Path, view: SegmentationView, name: str) -> None:
    """Write the page of a segmented document."""
    from sage_core.rendering.html import segmentation_report, write_page

    write_page(html, segmentation_report(view, name=name))


def settings_of(sage: Sage) -> dict[str, object]:
    """The settings behind an answer, by name, for the page."""
    config = sage.config
    feedback, selection = config.feedback, config.feedback.selection
    rule = selection.rule if isinstance(selection.rule, str) else repr(selection.rule)
    return {
        "candidates": config.candidates,
        "rule": rule,
        **(
            {"min_tokens": selection.effective_min_tokens}
            if selection.effective_min_tokens
            else {"min_k": selection.effective_min_k}
        ),
        "max_k": selection.max_k,
        "gradient": selection.gradient if selection.gradient is not None else "0.3",
        "max_rounds": feedback.max_rounds,
        "accept_score": feedback.accept_score,
        "embedding model": sage.embedder.name,
    }
