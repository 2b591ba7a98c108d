"""`GroundingChecker`: a Runnable that says which claims of an answer its documents support; no LLM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig

from sage_core.errors import InputError
from sage_core.verify import (
    AnswerMark,
    Claim,
    LocalJudge,
    checker,
    claims_or_unsure,
    mark_answer,
    shared_judge,
    support,
)
from sage_langchain._messages import text_of


class GroundingChecker(Runnable[dict[str, Any], dict[str, Any]]):
    """Adds ``grounding`` to the output of a chain that answers from documents; calls no LLM.

    The input is a mapping with ``answer`` (text or a message) and ``context`` (documents or texts), as
    `SageChain` and LangChain's retrieval chains give; with ``input``, the question, short answers are read
    together with it. The output is the input with ``grounding``: ``probability`` that all of the answer is
    supported (None where the judge is unsure), ``answerable`` (None without a question), and ``claims``, each
    with its span in the answer and its evidence; see `sage_core.verify.Claim`.

    Examples:
        >>> from sage_core.verify import LocalJudge
        >>> checker = GroundingChecker(LocalJudge(model=False))
        >>> asked = {"answer": "It opened in 1932.", "context": ["It opened in 1932. It has eight lanes."]}
        >>> checker.invoke(asked)["grounding"]["claims"][0]["evidence"]
        [0, 18]

    Args:
        judge: Shared with the rest of the process where None.
        model: Another model in the place of counts and the bundled one; see `sage_core.verify.ModelJudge`.

    Raises:
        InputError: For both.
    """

    def __init__(self, judge: LocalJudge | None = None, *, model: Any = None) -> None:
        self.judge = checker(judge, model) or shared_judge()

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

    def _checked(self, fields: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(fields, Mapping) or "answer" not in fields or "context" not in fields:
            raise InputError('the input is a mapping with "answer" and "context"')
        answer, texts = text_of(fields["answer"]), _texts(fields["context"])
        question = fields.get("input") or fields.get("question")
        probability: float | None = None
        answerable: float | None = None

        def judged() -> list[Claim]:
            nonlocal probability, answerable
            claims = self.judge.grounding(answer, texts)
            probability = self.judge.supported(question, answer, texts) if question else support(claims)
            answerable = self.judge.answerable(question, texts) if question else None
            return claims

        claims = [claim.to_dict() for claim in claims_or_unsure(judged, answer)]
        return {
            **fields,
            "grounding": {"probability": probability, "answerable": answerable, "claims": claims},
        }


def marks_of(output: Mapping[str, Any], judge: LocalJudge | None = None) -> tuple[AnswerMark, ...]:
    """The parts of a chain's answer, and which document supports each; calls no LLM.

    Args:
        output: What a `SageChain` or LangChain's retrieval chain returned.
        judge: Shared with the rest of the process where None.

    Returns:
        Parts in the order of the answer. ``passage`` is a position in ``output["context"]``, and ``evidence``
        the span in that document's text; with its ``start_index`` added, in the source.

    Raises:
        InputError: For what is no such output.

    Examples:
        >>> from langchain_core.documents import Document
        >>> context = [Document("Seals live in the harbor."), Document("The ferry leaves at seven.")]
        >>> [mark] = marks_of({"answer": "The ferry leaves at seven.", "context": context})
        >>> mark.support, mark.passage, mark.evidence
        ('supported', 1, Span(start=0, end=26))
    """
    if not isinstance(output, Mapping) or "answer" not in output or "context" not in output:
        raise InputError('the output is a mapping with "answer" and "context"')
    question = output.get("input") or output.get("question") or ""
    answer = output["answer"]
    return mark_answer(text_of(answer), _texts(output["context"]), question=str(question), judge=judge)


def _texts(context: Sequence[Document | str] | str) -> list[str]:
    if isinstance(context, str):
        return [context]
    if not isinstance(context, Iterable):
        raise InputError(f'"context" is a list of documents or texts, not {type(context).__name__}')
    return [d.page_content if isinstance(d, Document) else str(d) for d in context]
