"""The event with the whole feedback trace of a question."""

from __future__ import annotations

from typing import Any

from llama_index.core.instrumentation.events import BaseEvent


class SageFeedbackEvent(BaseEvent):
    """Sent once per question, when the feedback loop has ended.

    Examples:
        >>> SageFeedbackEvent(query="When?", trace={"stop_reason": "accepted"}).trace["stop_reason"]
        'accepted'

    Attributes:
        query: The question.
        trace: ``FeedbackResult.to_dict()``: every round with its selection, answer, grade and tokens.
    """

    query: str
    trace: dict[str, Any]

    @classmethod
    def class_name(cls) -> str:
        """Class name."""
        return "SageFeedbackEvent"
