"""LlamaIndex evaluators that need no LLM: the local judge as faithfulness and as context relevancy."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from llama_index.core.evaluation import BaseEvaluator, EvaluationResult
from llama_index.core.prompts.mixin import PromptDictType

from sage_core._checks import check_float
from sage_core.answering import LocalJudge, shared_judge, support
from sage_core.errors import InputError


class _LocalEvaluator(BaseEvaluator):
    """What both share: a judge, a threshold, and no prompts."""

    def __init__(self, judge: LocalJudge | None = None, threshold: float = 0.5) -> None:
        self.judge = judge if judge is not None else shared_judge()
        self.threshold = check_float("threshold", threshold, minimum=0, maximum=1)

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        if prompts:
            raise InputError("the local judge has no prompts")

    def _result(
        self, query: str | None, response: str | None, contexts: Sequence[str], score: float | None, said: str
    ) -> EvaluationResult:
        unsure = score is None
        return EvaluationResult(
            query=query,
            response=response,
            contexts=list(contexts),
            passing=None if score is None else score >= self.threshold,
            score=score,
            feedback=said,
            invalid_result=unsure,
            invalid_reason="the local judge is unsure: not English, too long, or no claim"
            if unsure
            else None,
        )


class LocalFaithfulnessEvaluator(_LocalEvaluator):
    """Whether the contexts support the response, by `sage_core.answering.LocalJudge`; no LLM call.

    ``score`` is the calibrated probability, ``feedback`` has one line a claim. Where the judge is unsure the
    result is invalid, with neither score nor verdict.

    Examples:
        >>> from sage_core.answering import LocalJudge
        >>> evaluator = LocalFaithfulnessEvaluator(LocalJudge(model=False))
        >>> contexts = ["The bridge was opened in 1932."]
        >>> evaluator.evaluate("When?", "The bridge was opened in 1932.", contexts).passing
        True

    Args:
        judge: Shared with the rest of the process where None.
        threshold: Least probability that passes.

    Raises:
        InputError: For a threshold out of its range.
    """

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """Evaluate one response.

        Raises:
            InputError: Without a response or contexts.
        """
        if response is None or contexts is None:
            raise InputError("faithfulness needs a response and contexts")
        claims = await asyncio.to_thread(self.judge.grounding, response, list(contexts))
        score = support(claims)
        if query:
            score = await asyncio.to_thread(self.judge.supported, query, response, list(contexts))
        lines = [
            f"{'?' if c.probability is None else f'{c.probability:.2f}'} {c.text} ({c.reason})"
            for c in claims
        ]
        return self._result(query, response, contexts, score, "\n".join(lines))


class LocalContextRelevancyEvaluator(_LocalEvaluator):
    """Whether the contexts hold an answer to the query, by `sage_core.answering.LocalJudge`; no LLM call.

    Examples:
        >>> from sage_core.answering import LocalJudge
        >>> evaluator = LocalContextRelevancyEvaluator(LocalJudge(model=False))
        >>> evaluator.evaluate("When was the bridge opened?", contexts=["Seals sleep on rocks."]).passing
        False

    Args:
        judge: Shared with the rest of the process where None.
        threshold: Least probability that passes.

    Raises:
        InputError: For a threshold out of its range.
    """

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """Evaluate the contexts of one query; the response is not looked at.

        Raises:
            InputError: Without a query or contexts.
        """
        if query is None or contexts is None:
            raise InputError("context relevancy needs a query and contexts")
        texts = list(contexts)
        found = await asyncio.to_thread(self.judge.locate, query, texts)
        if found is None:
            score = await asyncio.to_thread(self.judge.answerable, query, texts)
            return self._result(query, response, contexts, score, "")
        said = f"likeliest answer, in context {found.passage + 1}: {found.quote}"
        return self._result(query, response, contexts, found.probability, said)
