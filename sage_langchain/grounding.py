"""`SageGrounding`: a Runnable that says what the documents of an answer support; no LLM."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.utils import AddableDict

from sage_core.errors import InputError
from sage_core.feedback import Veto
from sage_core.llm.reasoning import AnswerStream
from sage_core.verify import (
    AnswerMark,
    LocalJudge,
    Source,
    check,
    correct_citations,
    mark_answer,
    shared_judge,
)
from sage_core.verify.passages import passages_of
from sage_langchain._messages import answer_of, text_of

_QUESTION = ("input", "question", "query")
_CONTEXT = ("context", "documents", "source_documents", "docs")
_ANSWER = ("answer", "result", "output", "response")


class SageGrounding(Runnable[dict[str, Any], dict[str, Any]]):
    """Adds a `sage_core.feedback.Verdict` to the output of a chain that answers from documents; calls no LLM.

        chain = create_retrieval_chain(retriever, documents_chain) | SageGrounding()

    The input is a mapping with the answer (text or a message), the documents or texts, and where there is one
    the question, under the usual keys (``answer``, ``context``, ``input`` and their like). The output is the
    input with ``verdict``, see `sage_core.verify.check`. A stream is passed on as it comes, its verdict last.
    A check that fails leaves the answer as it is, with marks that say "unsure".

    Examples:
        >>> grounding = SageGrounding(LocalJudge(model=False))
        >>> context = ["The ferry leaves at seven and takes 40 minutes."]
        >>> verdict = grounding.invoke({"answer": "It takes 55 minutes.", "context": context})["verdict"]
        >>> verdict.accepted, verdict.marks[0].instead
        (False, '40 minutes')

    Args:
        judge: Such as a `sage_core.verify.ModelJudge`; shared with the rest of the process where None.
        veto: See `sage_core.feedback.FeedbackConfig`.
        correct: Also correct the numbers of passages in the answer, see `sage_core.verify.correct_citations`.

    """

    def __init__(
        self,
        judge: LocalJudge | None = None,
        *,
        veto: Veto = "contradicted",
        correct: bool = False,
    ) -> None:
        self.judge = judge or shared_judge()
        self.veto: Veto = veto
        self.correct = correct

    def invoke(
        self,
        input: dict[str, Any],  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Check one answer.

        Raises:
            InputError: For an input without an answer or documents.
        """
        return self._call_with_config(self._checked, input, config, **kwargs)

    def transform(
        self,
        input: Iterator[dict[str, Any]],  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Iterator[dict[str, Any]]:
        """The pieces of a chain's output as they come, then what `invoke` adds to the whole."""
        yield from self._transform_stream_with_config(input, self._passed, config, **kwargs)

    async def atransform(
        self,
        input: AsyncIterator[dict[str, Any]],  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[dict[str, Any]]:
        """`transform` for an async iterator; the judge computes in a thread."""
        async for piece in self._atransform_stream_with_config(input, self._apassed, config, **kwargs):
            yield piece

    def _passed(self, pieces: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        whole, stream = AddableDict(), AnswerStream()
        for piece in pieces:
            yield AddableDict(_shown(piece, stream))
            whole = whole + AddableDict(piece)
        yield AddableDict(verdict=self._checked(whole)["verdict"])

    async def _apassed(self, pieces: AsyncIterator[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        whole, stream = AddableDict(), AnswerStream()
        async for piece in pieces:
            yield AddableDict(_shown(piece, stream))
            whole = whole + AddableDict(piece)
        yield AddableDict(verdict=(await asyncio.to_thread(self._checked, whole))["verdict"])

    def _checked(self, fields: dict[str, Any]) -> dict[str, Any]:
        answer, (texts, sources), question = _parts(fields)
        written = answer_of(fields[answer])
        verdict = check(question, texts, written, judge=self.judge, veto=self.veto, sources=sources)
        own = {} if written == text_of(fields[answer]) else {answer: written}
        own |= {answer: correct_citations(verdict.marks)} if self.correct else {}
        return {**fields, **own, "verdict": verdict}


def _shown(piece: dict[str, Any], stream: AnswerStream) -> dict[str, Any]:
    """A piece of a chain's output without the reasoning in its answer."""
    key = next((k for k in _ANSWER if isinstance(piece.get(k), str)), None)
    return piece if key is None else {**piece, key: stream.feed(piece[key])}


def _parts(fields: Any) -> tuple[str, tuple[list[str], list[Source]], str]:
    """The key of the answer, the passages and where they are from, and the question."""
    if not isinstance(fields, Mapping):
        raise InputError('the input is a mapping with "answer" and "context"')
    answer, context, question = (
        next((key for key in keys if key in fields), None) for keys in (_ANSWER, _CONTEXT, _QUESTION)
    )
    if answer is None or context is None:
        raise InputError(
            f'the input is a mapping with "answer" and "context", and has {", ".join(map(str, fields))}'
        )
    asked = fields[question] if question is not None else ""
    return answer, _texts(fields[context]), asked if isinstance(asked, str) else text_of(asked)


def marks_of(output: Mapping[str, Any], judge: LocalJudge | None = None) -> tuple[AnswerMark, ...]:
    """The parts of a chain's answer, and which document supports each; calls no LLM.

    Args:
        output: What a `SageChain` or LangChain's retrieval chain returned.
        judge: Such as a `sage_core.verify.ModelJudge`; shared with the rest of the process where None.

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
    answer, (texts, sources), question = _parts(output)
    return mark_answer(text_of(output[answer]), texts, question=question, judge=judge, sources=sources)


def _texts(context: Sequence[Document | str] | str) -> tuple[list[str], list[Source]]:
    if isinstance(context, str):
        context = [context]
    if not isinstance(context, Iterable):
        raise InputError(f'"context" is a list of documents or texts, not {type(context).__name__}')
    return passages_of(
        (d.page_content, d.metadata) if isinstance(d, Document) else (str(d), {}) for d in context
    )
