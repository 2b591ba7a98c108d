"""Who grades answers: an LLM with the core's prompt, or any object with `grade`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import LLM
from llama_index.core.llms.structured_llm import StructuredLLM
from llama_index.core.prompts.mixin import PromptDictType, PromptMixin, PromptMixinType

from sage_core.errors import InputError
from sage_core.feedback.critic import critic_fields
from sage_core.feedback.drivers import Call, Compute, Judged, Steps
from sage_core.feedback.parsing import parse_verdict
from sage_core.llm.usage import NO_USAGE, estimate_usage
from sage_llamaindex.prompts import critic_template


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
        fields = dict(critic_fields(question, passages, answer))
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
