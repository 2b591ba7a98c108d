"""Settings of the pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field

from sage_core._checks import check_int
from sage_core.errors import InputError
from sage_core.feedback import FeedbackConfig


@dataclass(frozen=True, slots=True)
class SageConfig:
    """Settings of `Sage`.

    Examples:
        >>> config = SageConfig(candidates=50, feedback=FeedbackConfig(max_rounds=2))
        >>> config.feedback.max_rounds
        2

    Attributes:
        candidates: Chunks that the vector search gives to the reranker (paper: N). The keyword search
            gives up to half as many more.
        feedback: Settings of the selection and the feedback loop. Chunks count whole for
            ``selection.max_context_tokens``, and with the title and headings that the prompt shows.
        context: Chunks know where they stand: their title and headings are embedded and indexed with them, a
            keyword search proposes candidates too, and neighbors vouch for each other
            (`sage_core.ranking.vouch`). False: each chunk by its own text alone. A store is made with or
            without; the text that is stored or sent is the same.
        links: Documents that the question or the best chunks name join the candidates, and who named them
            vouches for them (`sage_core.ranking.vouch_named`). Only with ``context``, and in a store that
            knows names.

    Raises:
        InputError: Where a number is no whole number, or below 1.
    """

    candidates: int = 60
    feedback: FeedbackConfig = field(default_factory=FeedbackConfig)
    context: bool = True
    links: bool = True

    def __post_init__(self) -> None:
        check_int("candidates", self.candidates, minimum=1)
        for name in ("context", "links"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} is True or False, not {getattr(self, name)!r}")
        if not isinstance(self.feedback, FeedbackConfig):
            raise InputError(f"feedback is a FeedbackConfig, not {self.feedback!r}")
