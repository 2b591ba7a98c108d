"""A LlamaIndex evaluator that needs no LLM: the local judge as faithfulness."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from llama_index.core.evaluation import BaseEvaluator, EvaluationResult
from llama_index.core.prompts.mixin import PromptDictType

from sage_core._checks import check_float
from sage_core.errors import InputError
from sage_core.verify import LocalJudge, shared_judge, support


class LocalFaithfulnessEvaluator(BaseEvaluator):
    """Whether the contexts support the response, by `sage_core.verify.LocalJudge`; no LLM call.

    ``score`` is the calibrated probability, ``feedback`` has one line a claim. Where the judge is unsure the
    result is invalid, with neither score nor verdict.

    Examples:
        >>> from sage_core.verify import LocalJudge
        >>> evaluator = LocalFaithfulnessEvaluator(LocalJudge(model=False))
        >>> contexts = ["The bridge was opened in 1932."]
        >>> evaluator.evaluate("When?", "The bridge was opened in 1932.", contexts).passing
        True

    Args:
        judge: Such as a `sage_core.verify.ModelJudge`; shared with the rest of the process where None.
        threshold: Least probability that passes.

    Raises:
        InputError: For a threshold out of its range.
    """

    def __init__(self, judge: LocalJudge | None = None, threshold: float = 0.5) -> None:
        self.judge = judge or shared_judge()
        self.threshold = check_float("threshold", threshold, minimum=0, maximum=1)

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """Evaluate one response with its contexts.

        Raises:
            InputError: If one of these two is missing.
        """
        # Computation of some 50 ms: evaluators are run many at a time in one event loop.
        score, feedback = await asyncio.to_thread(self._judged, query, response, contexts)
        return EvaluationResult(
            query=query,
            response=response,
            contexts=list(contexts or ()),
            passing=None if score is None else score >= self.threshold,
            score=score,
            feedback=feedback,
            invalid_result=score is None,
            invalid_reason="the local judge is unsure: not English, too long, or no claim"
            if score is None
            else None,
        )

    def _judged(
        self, query: str | None, response: str | None, contexts: Sequence[str] | None
    ) -> tuple[float | None, str]:
        if response is None or contexts is None:
            raise InputError("faithfulness needs a response and contexts")
        claims = self.judge.grounding(response, list(contexts))
        score = self.judge.supported(query, response, list(contexts)) if query else support(claims)
        lines = [
            f"{'?' if c.probability is None else f'{c.probability:.2f}'} {c.text} ({c.reason})"
            for c in claims
        ]
        return score, "\n".join(lines)

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        if prompts:
            raise InputError("the local judge has no prompts")
