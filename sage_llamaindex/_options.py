"""What `SageQueryEngine` takes beyond `RetrieverQueryEngine`, and the refusal of what it does not take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from llama_index.core.prompts import BasePromptTemplate

from sage_core._checks import near_match
from sage_core.errors import InputError
from sage_core.feedback import FeedbackConfig, Policy
from sage_core.llm.prompting import NO_ANSWER
from sage_llamaindex.postprocessor import Ranking, SageNodePostprocessor

Feedback = Literal["before_stream", "after_stream", "off"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """What `SageQueryEngine` takes beyond `RetrieverQueryEngine`; meanings are told there."""

    critic: Any = None
    critic_template: BasePromptTemplate | None = None
    feedback: Feedback = "before_stream"
    accept_score: float = 9
    max_rounds: int = 3
    policy: Policy = "adaptive"
    max_calls: int | None = None
    max_tokens: int | None = None
    no_answer: tuple[str, ...] = (NO_ANSWER,)
    trace_key: str | None = "sage"

    def __post_init__(self) -> None:
        if self.feedback not in get_args(Feedback):
            raise InputError(f"feedback is one of {', '.join(get_args(Feedback))}, not {self.feedback!r}")

    def config(self, sage: SageNodePostprocessor, ranking: Ranking | None = None) -> FeedbackConfig:
        """Settings for the core's loop; those of the selection are the postprocessor's.

        Candidates without any score are all shown at first, as the postprocessor does.
        """
        least, most = sage.min_k, sage.max_k
        if ranking is not None and ranking.nodes and not ranking.scored:
            least, most = len(ranking.nodes), None
        return FeedbackConfig(
            accept_score=self.accept_score,
            max_rounds=1 if self.feedback == "after_stream" else self.max_rounds,
            policy=self.policy,
            max_calls=self.max_calls,
            max_tokens=self.max_tokens,
            min_k=least,
            gradient=sage.gradient,
            max_k=most,
            rule=sage.rule,
            no_answer=self.no_answer,
        )


OPTIONS = frozenset(field.name for field in fields(EngineOptions))

# Names of `RetryQueryEngine`.
RENAMED = {
    "max_retries": "use `max_rounds`, which counts the first answer too: max_retries + 1",
    "evaluator": "use `critic`, which takes an evaluator as well",
    "query_evaluator": "use `critic`, which takes an evaluator as well",
}


def refuse_unknown(given: Mapping[str, Any], known: frozenset[str], where: str, advice: str = "") -> None:
    """Raise TypeError, as Python does, for a keyword argument that is not known."""
    for name in given:
        if name not in known:
            hint = near_match(name, known, RENAMED) + ("" if name in RENAMED else advice)
            raise TypeError(f"{where}() got an unexpected keyword argument {name!r}{hint}")
