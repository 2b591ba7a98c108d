"""Reading back what `FeedbackResult.to_dict` wrote: traces that were saved, or came through a framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from sage_core.errors import InputError
from sage_core.feedback.types import STOP_MEANINGS, FeedbackResult, Round, StopReason, Verdict
from sage_core.llm.usage import NO_USAGE, TokenUsage
from sage_core.selection.cut import Selection


def feedback_from_dict(trace: Mapping[str, Any]) -> FeedbackResult:
    """The result that a trace tells of.

    Args:
        trace: What `FeedbackResult.to_dict` gave, such as the ``"sage"`` of a LangChain chain's output. Keys
            of its own that it does not know are passed over.

    Raises:
        InputError: Where it is something else.
    """
    try:
        stop = trace["stop_reason"]
        if stop not in STOP_MEANINGS:
            raise ValueError(f"unknown stop reason {stop!r}")
        return FeedbackResult(
            answer=trace["answer"],
            score=trace["score"],
            verdict=_verdict(trace["verdict"]),
            selection=_selection(trace["selection"]),
            rounds=tuple(_round(item) for item in trace["rounds"]),
            stop_reason=cast("StopReason", stop),
            best_round=trace["best_round"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"this is no trace of a feedback loop (FeedbackResult.to_dict): {error!r}"
        ) from error


def _round(item: Mapping[str, Any]) -> Round:
    return Round(
        number=item["number"],
        min_k=item["min_k"],
        selection=_selection(item["selection"]),
        answer=item["answer"],
        verdict=_verdict(item["verdict"]),
        error=item["error"],
        generate=_usage(item["usage"].get("generate")),
        judge=_usage(item["usage"].get("judge")),
    )


def _selection(item: Mapping[str, Any]) -> Selection:
    return Selection(
        tuple(item["indices"]), tuple(item["scores"]), item["cut"], item["candidates"], item["reason"]
    )


def _verdict(item: Mapping[str, Any] | None) -> Verdict | None:
    return None if item is None else Verdict(**item)


def _usage(item: Mapping[str, Any] | None) -> TokenUsage:
    return NO_USAGE if item is None else TokenUsage(**item)
