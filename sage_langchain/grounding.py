"""`GroundingChecker`: a Runnable that says which claims of an answer its documents support; no LLM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig

from sage_core.answering import LocalJudge, shared_judge, support
from sage_core.errors import InputError


class GroundingChecker(Runnable[dict[str, Any], dict[str, Any]]):
    """Adds ``grounding`` to the output of a chain that answers from documents; calls no LLM.

    The input is a mapping with ``answer`` (text) and ``context`` (documents or texts), as `SageChain` and
    LangChain's retrieval chains give; with ``input``, the question, short answers are read together with it.
    The output is the input with ``grounding``: ``probability`` that all of the answer is supported (None
    where the judge is unsure), ``answerable`` (None without a question), and ``claims``, each with its span
    in the answer and its evidence; see `sage_core.answering.Claim`.

    Examples:
        >>> from sage_core.answering import LocalJudge
        >>> checker = GroundingChecker(LocalJudge(model=False))
        >>> asked = {"answer": "It opened in 1932.", "context": ["It opened in 1932. It has eight lanes."]}
        >>> checker.invoke(asked)["grounding"]["claims"][0]["evidence"]
        [0, 18]

    Args:
        judge: Shared with the rest of the process where None.
    """

    def __init__(self, judge: LocalJudge | None = None) -> None:
        self.judge = judge if judge is not None else shared_judge()

    def invoke(
        self,
        input: dict[str, Any],  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Check one answer.

        Raises:
            InputError: For an input without ``answer`` or ``context``.
        """
        return self._call_with_config(self._checked, input, config, **kwargs)

    def _checked(self, given: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(given, Mapping) or "answer" not in given or "context" not in given:
            raise InputError('the input is a mapping with "answer" and "context"')
        answer, texts = given["answer"], _texts(given["context"])
        question = given.get("input") or given.get("question")
        claims = self.judge.grounding(answer, texts)
        probability = self.judge.supported(question, answer, texts) if question else support(claims)
        return {
            **given,
            "grounding": {
                "probability": probability,
                "answerable": self.judge.answerable(question, texts) if question else None,
                "claims": [claim.to_dict() for claim in claims],
            },
        }


def _texts(context: Sequence[Document | str] | str) -> list[str]:
    if isinstance(context, str):
        return [context]
    return [d.page_content if isinstance(d, Document) else str(d) for d in context]
