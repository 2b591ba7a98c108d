"""One question on its way through `SageQueryEngine`: everything that belongs to it and to no other."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from llama_index.core.base.response.schema import RESPONSE_TYPE, PydanticResponse
from llama_index.core.callbacks import CallbackManager
from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.llms import LLM
from llama_index.core.llms.structured_llm import StructuredLLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts.mixin import PromptDictType, PromptMixin, PromptMixinType
from llama_index.core.response_synthesizers import Accumulate, BaseSynthesizer, Generation, Refine
from llama_index.core.response_synthesizers.context_only import ContextOnly
from llama_index.core.response_synthesizers.no_text import NoText
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
from llama_index_instrumentation import get_dispatcher

from sage_core.errors import InputError
from sage_core.feedback import FeedbackConfig, FeedbackLoop, FeedbackResult, Verdict
from sage_core.feedback.critic import critic_fields
from sage_core.feedback.drivers import Answered, Call, Compute, Judged, Steps, adrive, drive
from sage_core.feedback.parsing import parse_verdict
from sage_core.llm.prompting import phrases_for, question_text
from sage_core.llm.usage import NO_USAGE, estimate_usage
from sage_core.question import Question
from sage_core.selection import Selection
from sage_core.text.outline import page_of
from sage_core.verify import Source, unsure_statements
from sage_llamaindex._passages import as_read, named_once
from sage_llamaindex._private import llm_of
from sage_llamaindex._streams import adrained, answer_only, drained, with_text
from sage_llamaindex.postprocessor import Ranking, SageNodePostprocessor, postprocessed, tokens_of
from sage_llamaindex.prompts import critic_template

logger = logging.getLogger(__name__)
dispatcher = get_dispatcher(__name__)

RESULT = "_sage_feedback"
SUMMARY = "sage"
_CHOOSE = "Exactly one option is right: reply with its letter and its text."
# Their answers do not come from an LLM that reads the nodes: other nodes would change nothing.
WITHOUT_ANSWER = (NoText, ContextOnly, Generation)


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


@dataclass
class MultipleChoice(QueryBundle):
    """A question with options, for `SageQueryEngine`: ``engine.query(MultipleChoice(...))``.

    Search and ranking read the question alone; the LLM and the critic read the options, too.

    Examples:
        >>> print(MultipleChoice("Who rings the bell?", options=["Ann", "Ben"]).asked.query_str)
        Who rings the bell?
        A. Ann
        B. Ben
        Exactly one option is right: reply with its letter and its text.
    """

    options: Sequence[str] = ()

    @property
    def asked(self) -> QueryBundle:
        """What LLM and critic read."""
        if not self.options:
            return self
        return QueryBundle(f"{question_text(self.query_str, self.options)}\n{_CHOOSE}")


class Critic(PromptMixin):
    """Grades answers; the prompt of an LLM is the engine's, ``critic:critic_template``.

    Args:
        grader: An LLM; of a structured LLM, the plain one inside. Or an object whose
            ``grade(question, passages, answer)`` gives a `sage_core.feedback.Verdict`; it runs in a thread if
            the engine is awaited.

    Raises:
        InputError: For anything else; in ``update_prompts`` for a template without ``question``, ``context``
            or ``answer``.
    """

    def __init__(self, grader: Any) -> None:
        if not isinstance(grader, LLM) and not callable(getattr(grader, "grade", None)):
            raise InputError(
                "critic is an LLM, an object with grade(question, passages, answer), or one of 'llm', "
                f"'auto', 'local', 'off', not {type(grader).__name__}"
            )
        # A structured LLM would answer in the user's own schema, not with a grade.
        self._grader = grader.llm if isinstance(grader, StructuredLLM) else grader
        self._template = critic_template()

    def grading(self, question: str, passages: Sequence[str], answer: str) -> Steps[Judged]:
        """The grade of an answer, and about what it took."""
        grader = self._grader
        if not isinstance(grader, LLM):
            return (yield from Compute(grader.grade, question, passages, answer)), NO_USAGE
        statements = unsure_statements(question, passages, answer)
        fields = dict(critic_fields(question, passages, answer, statements=statements))
        reply = yield from Call(grader.predict, grader.apredict, self._template, **fields)
        return parse_verdict(reply), estimate_usage([self._template.format(llm=None, **fields)], reply)

    def share(self, callback_manager: CallbackManager, *, force: bool) -> None:
        """Let the engine's callback handlers see the LLM's calls; with ``force`` in place of its own."""
        if isinstance(self._grader, LLM) and (force or not self._grader.callback_manager.handlers):
            self._grader.callback_manager = callback_manager

    def _get_prompts(self) -> PromptDictType:
        return {"critic_template": self._template} if isinstance(self._grader, LLM) else {}

    def _update_prompts(self, prompts_dict: PromptDictType) -> None:
        template = prompts_dict.get("critic_template", self._template)
        if not {"question", "context", "answer"} <= set(template.template_vars):
            raise InputError("critic_template needs the fields {question}, {context} and {answer}")
        self._template = template

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}


@dataclass(frozen=True, slots=True)
class Parts:
    """What a question needs of its engine. Shared by all questions, changed by none.

    Attributes:
        sage: Ranks the candidates and has the settings of the selection.
        after: Postprocessors applied to every selection.
        synthesizer: Answers.
        critic: Grades; None if no answer is graded.
    """

    sage: SageNodePostprocessor
    after: Sequence[BaseNodePostprocessor]
    synthesizer: BaseSynthesizer
    critic: Critic | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """A round's answer: the nodes it was made from, its text, and the response around it."""

    nodes: Sequence[NodeWithScore]
    text: str
    response: RESPONSE_TYPE


class SageQuestion(Question[NodeWithScore]):
    """An engine's parts at work for one question.

    Each step is a span of LlamaIndex's instrumentation, with what went in and what came out of it: `select`,
    `answer`, `critic`, and at the end `feedback`.

    Args:
        bundle: The question.
        ranking: Its candidates.
        parts: The engine's parts.
        config: The loop's settings.
    """

    def __init__(self, bundle: QueryBundle, ranking: Ranking, parts: Parts, config: FeedbackConfig) -> None:
        super().__init__(bundle.query_str, config, ranking.nodes)
        self._bundle = bundle
        self._asked = bundle.asked if isinstance(bundle, MultipleChoice) else bundle
        self._ranking = ranking
        self._parts = parts
        # What is derived from these classes packs nodes into one call.
        self._calls_for_each = type(parts.synthesizer) in (Refine, Accumulate)
        self._attempts: list[Attempt] = []
        self._round = 0

    def run(self) -> Steps[RESPONSE_TYPE]:
        """Answer, grade, and try other selections; the response with the best grade."""
        if self._parts.critic is None:
            nodes = self._parts.sage.cut(self._ranking)
            if not nodes and self.candidates:
                return with_text((yield from self._synthesis([])), phrases_for(self.text).no_answer)
            nodes = yield from self._finishing(nodes)
            return answer_only((yield from self._synthesis(nodes)))
        loop = yield from Compute(self._loop)
        result = yield from self.rounds(loop)
        return (yield from self.finish(result))

    def finish(self, result: FeedbackResult) -> Steps[RESPONSE_TYPE]:
        """The response of the best round, with the trace; without candidates, an empty one."""
        # No candidates, so no round: the synthesizer says "Empty Response" in its own words.
        if not self._attempts:
            response = yield from self._synthesis([])
            return self._noted(with_text(response, result.answer) if result.answer else response, result)
        response = self._attempts[result.best_round - 1].response
        if self.config.correct and not isinstance(response, PydanticResponse):
            result = self.corrected(result)
            response = with_text(response, result.answer)
        return self._noted(response, result)

    def _loop(self) -> FeedbackLoop:
        self.load_check()
        ranking, sizes = self._ranking, tokens_of(self.candidates)
        config = replace(self.config, selection=self.config.selection.within_window(self._window))
        return FeedbackLoop(ranking.scores, ranking.scale, config, sizes=sizes, question=self.text)

    @property
    def _window(self) -> int | None:
        """Tokens that the LLM reads, where LlamaIndex knows them."""
        metadata = getattr(llm_of(self._parts.synthesizer), "metadata", None)
        window = getattr(metadata, "context_window", None)
        return None if window == DEFAULT_CONTEXT_WINDOW else window

    # One round

    def _finishing(self, nodes: list[NodeWithScore]) -> Steps[list[NodeWithScore]]:
        """A selection as the synthesizer sees it, through the postprocessors after ours."""
        nodes = as_read(nodes, one_a_node=self._calls_for_each)
        for postprocessor in self._parts.after:
            nodes = yield from postprocessed(postprocessor, nodes, self._bundle)
        return nodes if self._calls_for_each else named_once(nodes)

    def _synthesis(self, nodes: list[NodeWithScore]) -> Call[RESPONSE_TYPE]:
        synthesizer = self._parts.synthesizer
        return Call(synthesizer.synthesize, synthesizer.asynthesize, query=self._asked, nodes=nodes)

    def generate(self, selection: Selection) -> Steps[Answered]:
        ranking = self._ranking
        # Called for its span alone: the loop has made the selection already.
        self.select(self._round + 1, ranking.scale, ranking.scores, selection)
        nodes = ranking.pick(selection)
        return (yield from Call(self.answer, self.aanswer, self._round, nodes))

    @dispatcher.span
    def select(
        self,
        round_number: int,
        scale: str,
        scores: Sequence[float | None],
        selection: Selection,
    ) -> dict[str, object]:
        """A round's selection, as the feedback loop made it: a step of its own in traces."""
        self._round = round_number
        return selection.to_dict()

    @dispatcher.span
    def answer(self, round_number: int, nodes: list[NodeWithScore]) -> Answered:
        """A round's answer from these nodes, and what it took."""
        return drive(self._answering(nodes))

    @dispatcher.span
    async def aanswer(self, round_number: int, nodes: list[NodeWithScore]) -> Answered:
        """`answer` as a coroutine."""
        return await adrive(self._answering(nodes))

    def _answering(self, nodes: list[NodeWithScore]) -> Steps[Answered]:
        nodes = yield from self._finishing(nodes)
        response = yield from self._synthesis(nodes)
        # Read to the end before it is graded: only the best round is shown.
        text, response = yield from Call(drained, adrained, response)
        self._attempts.append(Attempt(nodes, text, response))
        # A synthesizer does not say what it took. From no nodes it answers without an LLM.
        calls = len(nodes) if self._calls_for_each else 1
        return text, estimate_usage([self.text, *_texts(nodes)], text, calls) if nodes else NO_USAGE

    def check(self, selection: Selection, answer: str) -> Verdict | None:
        """See `Question.check`; and a grade of its own where later postprocessors left no node."""
        # Whatever the LLM says from no passage is not from the documents: no critic is needed for that.
        if not self._attempts[-1].nodes:
            return Verdict(1, 1, source="no context was left")
        return super().check(selection, answer)

    def passages(self, selection: Selection) -> list[str]:
        """Texts of the nodes of the latest answer, which later postprocessors may have chosen."""
        return _texts(self._attempts[-1].nodes)

    def sources(self, selection: Selection) -> list[Source]:
        return [
            Source(n.node.get_content(metadata_mode=MetadataMode.NONE), page_of(n.node.metadata))
            for n in self._attempts[-1].nodes
        ]

    def judge(self, selection: Selection, answer: str) -> Steps[Judged]:
        # Through a method of its own, whose span shows the grade in traces.
        return (yield from Call(self.critic, self.acritic, self._round, answer, selection))

    @dispatcher.span
    def critic(self, round_number: int, answer: str, selection: Selection) -> Judged:
        """The grade of a round's answer, and what it took."""
        return drive(self._grading(answer, selection))

    @dispatcher.span
    async def acritic(self, round_number: int, answer: str, selection: Selection) -> Judged:
        """`critic` as a coroutine."""
        return await adrive(self._grading(answer, selection))

    def _grading(self, answer: str, selection: Selection) -> Steps[Judged]:
        assert self._parts.critic is not None  # else nothing is graded
        passages, asked = self.passages(selection), self._asked.query_str
        verdict, usage = yield from self._parts.critic.grading(asked, passages, answer)
        return (yield from self.reviewed(verdict, selection, answer)), usage

    # The trace

    def _noted(self, response: RESPONSE_TYPE, result: FeedbackResult) -> RESPONSE_TYPE:
        """Put the trace where it can be found, and a flat summary into the metadata."""
        logger.debug("feedback for %r:\n%s", self.text, result)
        # Not in the metadata: those are copied into prompts and stores, and a trace is large.
        vars(response)[RESULT] = result
        comment = self.feedback(result.to_dict(), summary(result))
        response.metadata = {**(response.metadata or {}), SUMMARY: comment}
        return response

    @dispatcher.span
    def feedback(self, trace: dict[str, Any], outcome: dict[str, Any]) -> dict[str, Any]:
        """Send the event that carries the trace, as a step of its own in traces: few viewers show events."""
        dispatcher.event(SageFeedbackEvent(query=self.text, trace=trace))
        return outcome


def _texts(nodes: Sequence[NodeWithScore]) -> list[str]:
    """The texts of nodes as an LLM sees them."""
    return [n.node.get_content(metadata_mode=MetadataMode.LLM) for n in nodes]


def summary(result: FeedbackResult) -> dict[str, Any]:
    """A small flat form of a trace: it may end up in the metadata of nodes, hence in prompts."""
    return {
        "score": result.score,
        "stop_reason": result.stop_reason,
        "rounds": len(result.rounds),
        "kept": result.selection.cut,
        "candidates": result.selection.candidates,
        "best_probability": result.selection.best_probability,
        "low_confidence": result.selection.low_confidence,
        "llm_calls": result.usage.calls,
        "tokens": result.usage.total,
    }
