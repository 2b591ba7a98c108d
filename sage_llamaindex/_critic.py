"""Who grades answers: an LLM with the core's prompt, any LlamaIndex evaluator, or a judge of the core."""

from __future__ import annotations

import asyncio
import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

from llama_index.core.base.response.schema import Response
from llama_index.core.callbacks import CallbackManager
from llama_index.core.evaluation import BaseEvaluator, CorrectnessEvaluator, EvaluationResult
from llama_index.core.llms import LLM
from llama_index.core.llms.structured_llm import StructuredLLM
from llama_index.core.prompts import BasePromptTemplate
from llama_index.core.prompts.mixin import PromptDictType, PromptMixin, PromptMixinType

from sage_core.errors import InputError
from sage_core.feedback import Verdict
from sage_core.feedback.critic import critic_fields
from sage_core.feedback.parsing import parse_verdict
from sage_core.llm.usage import NO_USAGE, TokenUsage, estimate_usage
from sage_llamaindex._private import llm_of
from sage_llamaindex.prompts import critic_template

Graded = tuple[Verdict, TokenUsage | None]


@runtime_checkable
class CoreJudge(Protocol):
    """What grades answers in `sage_core`, such as an `Answerer`."""

    def judge(self, question: str, context: Sequence[str], answer: str) -> Graded:
        """The grade of an answer, and what it took."""
        ...

    async def ajudge(self, question: str, context: Sequence[str], answer: str) -> Graded:
        """`judge` as a coroutine."""
        ...


@dataclass(frozen=True, slots=True)
class Case:
    """An answer to grade.

    Attributes:
        question: The user's own question, the same in every round.
        context: Texts of the nodes shown, as the LLM saw them.
        answer: The answer.
        response: The answer with its sources, for evaluators.
    """

    question: str
    context: Sequence[str]
    answer: str
    response: Response


class Critic(PromptMixin, ABC):
    """Grades answers. Its prompts are part of the engine's, below ``critic:``."""

    @abstractmethod
    def judge(self, case: Case) -> Graded:
        """The grade; usage only where it is known here."""

    @abstractmethod
    async def ajudge(self, case: Case) -> Graded:
        """`judge` as a coroutine."""

    def estimated(self, case: Case, reply: str) -> TokenUsage:
        """About what a grade took that does not say it: a call with all of the case."""
        return estimate_usage([case.question, *case.context, case.answer], reply)

    def share(self, callback_manager: CallbackManager, *, force: bool) -> None:
        """Let the engine's callback handlers see the critic's calls.

        Args:
            callback_manager: The engine's.
            force: Whether it also replaces handlers that the critic has.
        """

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts_dict: PromptDictType) -> None:
        return None

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}


class LLMCritic(Critic):
    """An LLM that is asked for a grade; its reply is read by the core's tolerant parser.

    Args:
        llm: Any LlamaIndex LLM. Of a structured LLM, the plain one inside.

    Raises:
        InputError: In ``update_prompts``, for a template without ``question``, ``context`` or ``answer``.
    """

    def __init__(self, llm: LLM) -> None:
        # A structured LLM would answer in the user's own schema, not with a grade.
        self._llm = llm.llm if isinstance(llm, StructuredLLM) else llm
        self._template = critic_template()

    def judge(self, case: Case) -> Graded:
        return parse_verdict(self._llm.predict(self._template, **_fields(case))), None

    async def ajudge(self, case: Case) -> Graded:
        return parse_verdict(await self._llm.apredict(self._template, **_fields(case))), None

    def estimated(self, case: Case, reply: str) -> TokenUsage:
        return estimate_usage([self._template.format(llm=None, **_fields(case))], reply)

    def share(self, callback_manager: CallbackManager, *, force: bool) -> None:
        if force or not self._llm.callback_manager.handlers:
            self._llm.callback_manager = callback_manager

    def _get_prompts(self) -> PromptDictType:
        return {"critic_template": self._template}

    def _update_prompts(self, prompts_dict: PromptDictType) -> None:
        if "critic_template" in prompts_dict:
            self._template = _checked(prompts_dict["critic_template"])


class EvaluatorCritic(Critic):
    """Any LlamaIndex evaluator.

    ``passing`` decides acceptance where the evaluator gives it; the score, mapped to 1..10, orders answers.
    An evaluator does not say what is wrong with the context, so an answer that is not good enough asks for
    more.

    Args:
        evaluator: The evaluator.
        accept_score: The engine's.
    """

    def __init__(self, evaluator: BaseEvaluator, accept_score: float) -> None:
        self._evaluator = evaluator
        self._accept = accept_score
        # `CorrectnessEvaluator` grades from 1 to 5, the others from 0 to 1.
        self._range = (1.0, 5.0) if isinstance(evaluator, CorrectnessEvaluator) else (0.0, 1.0)

    def judge(self, case: Case) -> Graded:
        ask = partial(self._evaluator.evaluate_response, query=case.question, response=case.response)
        return self._verdict(_outside_loop(ask)), None

    async def ajudge(self, case: Case) -> Graded:
        evaluation = await self._evaluator.aevaluate_response(query=case.question, response=case.response)
        return self._verdict(evaluation), None

    def estimated(self, case: Case, reply: str) -> TokenUsage:
        # Some evaluators ask no LLM.
        return super().estimated(case, reply) if isinstance(llm_of(self._evaluator), LLM) else NO_USAGE

    def share(self, callback_manager: CallbackManager, *, force: bool) -> None:
        llm = llm_of(self._evaluator)
        if isinstance(llm, LLM) and (force or not llm.callback_manager.handlers):
            llm.callback_manager = callback_manager

    def __copy__(self) -> EvaluatorCritic:
        """With an evaluator of its own, so that prompts can be updated apart."""
        # Shallow: the LLM inside is shared, the prompts are the copy's own.
        return EvaluatorCritic(copy.copy(self._evaluator), self._accept)

    def _verdict(self, evaluation: EvaluationResult | None) -> Verdict:
        label = type(self._evaluator).__name__
        if evaluation is None:
            return Verdict(None, reason="the evaluator returned None", source=label)
        raw, reason = evaluation.feedback or "", ""
        if evaluation.invalid_result or (evaluation.score is None and evaluation.passing is None):
            reason = evaluation.invalid_reason or "the evaluator gave neither a score nor a decision"
        elif evaluation.score is not None and not math.isfinite(evaluation.score):
            reason = f"the evaluator's score is {evaluation.score}"
        if reason:
            return Verdict(None, raw=raw, reason=reason, source=label)
        if evaluation.score is None:
            # A yes or no has no degrees: the ends of the scale order it before any score.
            grade = 10.0 if evaluation.passing else 1.0
        else:
            low, high = self._range
            grade = 1 + 9 * min(max((evaluation.score - low) / (high - low), 0.0), 1.0)
        if evaluation.passing:
            # The evaluator's own decision wins over its score, whose threshold we do not know.
            grade = max(grade, self._accept)
        elif evaluation.passing is False:
            # Just below acceptance, so that the order among the failed ones stays.
            grade = min(grade, max(self._accept - 0.5, 1.0))
        return Verdict(grade, 0 if grade >= self._accept else 1, raw=raw, source=label)

    # Prompts of an evaluator may be nested, which LlamaIndex's `update_prompts` cannot address: flat names.

    def _get_prompts(self) -> PromptDictType:
        return {name.replace(":", "."): prompt for name, prompt in self._evaluator.get_prompts().items()}

    def _update_prompts(self, prompts_dict: PromptDictType) -> None:
        names = {name.replace(":", "."): name for name in self._evaluator.get_prompts()}
        self._evaluator.update_prompts({names[k]: p for k, p in prompts_dict.items() if k in names})


class CoreCritic(Critic):
    """A judge of `sage_core`, such as its offline `ExtractiveAnswerer`."""

    def __init__(self, judge: CoreJudge) -> None:
        self._judge = judge

    def judge(self, case: Case) -> Graded:
        return self._judge.judge(case.question, case.context, case.answer)

    async def ajudge(self, case: Case) -> Graded:
        return await self._judge.ajudge(case.question, case.context, case.answer)


def make_critic(critic: Any, llm: LLM, accept_score: float) -> Critic:
    """The critic for what the user gave.

    Args:
        critic: An LLM, an evaluator, a judge of the core, a `Critic`, or None for ``llm``.
        llm: The LLM that answers.
        accept_score: Grade at which an answer is accepted.

    Raises:
        InputError: For anything else.
    """
    if critic is None or isinstance(critic, LLM):
        return LLMCritic(critic or llm)
    if isinstance(critic, Critic):
        return critic
    if isinstance(critic, BaseEvaluator):
        return EvaluatorCritic(critic, accept_score)
    if isinstance(critic, CoreJudge):
        return CoreCritic(critic)
    raise InputError(
        'critic is an LLM, an evaluator, a judge of sage_core, "llm", "auto" or "local", not '
        f"{type(critic).__name__}"
    )


def _checked(template: BasePromptTemplate) -> BasePromptTemplate:
    if not {"question", "context", "answer"} <= set(template.template_vars):
        raise InputError("critic_template needs the fields {question}, {context} and {answer}")
    return template


def _outside_loop(call: Callable[[], EvaluationResult]) -> EvaluationResult:
    """Run a sync evaluator, which starts an event loop, where one may be running already (a notebook).

    Newer versions of LlamaIndex see to it themselves; older ones lose the context that holds the spans.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return call()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, call).result()


def _fields(case: Case) -> dict[str, str]:
    return dict(critic_fields(case.question, case.context, case.answer))
