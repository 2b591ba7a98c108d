"""`SageGrounding`: a Runnable that says what the documents of an answer support."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig, RunnableSerializable
from langchain_core.runnables.utils import AddableDict
from pydantic import BaseModel, ConfigDict, Field

from sage_core.errors import InputError
from sage_core.llm import Message
from sage_core.llm.reasoning import AnswerStream
from sage_core.verify import LocalJudge, Source, check, correct_citations, shared_judge
from sage_core.verify.passages import passages_of
from sage_langchain._messages import answer_of, text_of, to_langchain
from sage_langchain._runnables import CheckedModel

_QUESTION = ("input", "question", "query")
_CONTEXT = ("context", "documents", "source_documents", "docs")
_ANSWER = ("answer", "result", "output", "response")


class GroundingInput(BaseModel):
    """What `SageGrounding` takes, under these keys or their like; more keys are passed on."""

    model_config = ConfigDict(extra="allow")

    answer: Any = Field(description="the answer: text, a message, or an object; or under 'result', 'output'")
    context: Any = Field(description="the documents or texts; or under 'documents', 'source_documents'")
    input: str = Field(default="", description="the question; or under 'question', 'query'")


class GroundingOutput(GroundingInput):
    """The input, and what the documents support of the answer."""

    verdict: dict[str, Any] = Field(description="`Verdict.to_dict()`, which `Verdict.from_dict` reads")


class SageGrounding(CheckedModel, RunnableSerializable[dict[str, Any], dict[str, Any]]):
    """Says what the documents support of the answer in the output of a chain.

        chain = create_retrieval_chain(retriever, documents_chain) | SageGrounding()

    The input is a mapping with the answer (text or a message), the documents or texts, and where there is one
    the question, under the usual keys (``answer``, ``context``, ``input`` and their like). The output is the
    input with ``verdict``, JSON-ready for a graph's state (`sage_core.feedback.Verdict.from_dict` reads it),
    whose ``marks`` say which passage supports which statement. A stream is passed on as it comes, its verdict
    last. A check that fails leaves the answer as it is, with marks that say "unsure".

    Examples:
        >>> grounding = SageGrounding(judge=LocalJudge(model=False))
        >>> context = ["The ferry leaves at seven and takes 40 minutes."]
        >>> verdict = grounding.invoke({"answer": "It takes 55 minutes.", "context": context})["verdict"]
        >>> verdict["accepted"], verdict["marks"][0]["instead"]
        (False, '40 minutes')
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    judge: LocalJudge = Field(
        default_factory=shared_judge,
        repr=False,
        description="Such as a `sage_core.verify.ModelJudge`; by default shared with the process.",
    )
    llm: Any = Field(
        default=None,
        description="A chat model, asked once for all statements that are unsure; None asks none.",
    )
    correct: bool = Field(
        default=False,
        description="Also correct the numbers of passages in the answer, see "
        "`sage_core.verify.correct_citations`.",
    )

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """The answer, the documents and the question."""
        return GroundingInput

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """The input and the verdict."""
        return GroundingOutput

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
        llm = None if self.llm is None else self._reply
        verdict = check(question, texts, written, judge=self.judge, sources=sources, llm=llm)
        own = {} if written == text_of(fields[answer]) else {answer: written}
        own |= {answer: correct_citations(verdict.marks)} if self.correct else {}
        return {**fields, **own, "verdict": verdict.to_dict()}

    def _reply(self, messages: list[Message]) -> str:
        return text_of(self.llm.invoke(to_langchain(messages)))


def _shown(piece: dict[str, Any], stream: AnswerStream) -> dict[str, Any]:
    """A piece of a chain's output without the reasoning in its answer."""
    key = next((k for k in _ANSWER if isinstance(piece.get(k), str)), None)
    return piece if key is None else {**piece, key: stream.feed(piece[key])}


def _parts(fields: Any) -> tuple[str, tuple[list[str], list[Source]], str]:
    """The key of the answer, the passages and where they are from, and the question."""
    if not isinstance(fields, Mapping):
        raise InputError(
            'the input is a mapping with "answer" and "context". A chain that ends in a parser gives its '
            "text alone: RunnablePassthrough.assign(answer=chain) keeps the documents beside it"
        )
    answer, context, question = (
        next((key for key in keys if key in fields), None) for keys in (_ANSWER, _CONTEXT, _QUESTION)
    )
    if answer is None or context is None:
        raise InputError(
            f'the input is a mapping with "answer" and "context", and has {", ".join(map(str, fields))}'
        )
    asked = fields[question] if question is not None else ""
    return answer, _texts(fields[context]), asked if isinstance(asked, str) else text_of(asked)


def _texts(context: Sequence[Document | str] | str) -> tuple[list[str], list[Source]]:
    if isinstance(context, str):
        context = [context]
    if not isinstance(context, Iterable):
        raise InputError(f'"context" is a list of documents or texts, not {type(context).__name__}')
    return passages_of(
        (d.page_content, d.metadata) if isinstance(d, Document) else (str(d), {}) for d in context
    )
