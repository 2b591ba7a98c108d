"""`SageChain`: retrieve, answer, grade, change the context, keep the best answer; one Runnable."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Annotated, Any

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.documents import Document
from langchain_core.language_models import LanguageModelLike
from langchain_core.prompts import BasePromptTemplate
from langchain_core.retrievers import BaseRetriever, RetrieverLike
from langchain_core.runnables import AddableDict, Runnable, RunnableConfig, RunnableSerializable
from langchain_core.runnables.base import coerce_to_runnable
from langchain_core.runnables.fallbacks import RunnableWithFallbacks
from langchain_core.runnables.utils import ConfigurableFieldSpec, get_unique_config_specs
from langchain_core.vectorstores import VectorStore
from pydantic import BaseModel, ConfigDict, Field, SkipValidation, field_validator, model_validator
from typing_extensions import Self

from sage_core.errors import InputError
from sage_core.feedback import DEFAULT_FEEDBACK, FeedbackConfig
from sage_core.feedback.drivers import adrive, adrive_pieces, drive, drive_pieces
from sage_core.selection import SelectionConfig
from sage_core.selection.config import limited
from sage_langchain._runnables import CheckedModel, Instance, layers, query_of
from sage_langchain._session import Session
from sage_langchain.retriever import SageRetriever

# Of a parametrised template pydantic would make a class of its own, of which nothing is an instance.
Prompt = Annotated[BasePromptTemplate[Any], SkipValidation]

_OUTPUT_KEYS = ("context", "answer", "sage")


class SageChainInput(BaseModel):
    """What a `SageChain` takes; more keys are allowed and passed on to the prompt."""

    model_config = ConfigDict(extra="allow")

    input: str = Field(description="the question")
    options: list[str] | None = Field(default=None, description="options of a multiple-choice question")


class SageChainOutput(SageChainInput):
    """What a `SageChain` gives."""

    context: list[Document] = Field(description="the documents of the answer, with scores")
    answer: Any = Field(description="the answer: text, or the object of a structured model")
    sage: dict[str, Any] = Field(description="the trace, which `FeedbackResult.from_dict` reads")


class SageChain(CheckedModel, RunnableSerializable[Any, dict[str, Any]]):
    """Answers from retrieved documents, has the answer graded, and tries again with more or less context.

    Input and output are those of LangChain's `create_retrieval_chain`: a mapping with the question under
    ``input`` (``query`` and ``question`` will do, and so will a plain string) becomes the same mapping with
    ``context`` (the documents the answer was made from, best first, with scores) and ``answer``. One key is
    added: ``sage``, the JSON-ready trace with grades, rounds, stop reason and token usage
    (`FeedbackResult.to_dict`).

    Streams yield ``input``, ``context``, ``answer``, ``sage`` in this order. A draft is never streamed as
    the answer: with ``max_rounds=1`` (or ``max_calls=1``) tokens arrive as the model writes them, else the
    winner arrives once it is known. Model calls carry the tags ``sage:generate`` or ``sage:critic`` and
    ``sage:round:N``. To show nothing but the final answer from `astream_events`, keep ``on_chain_stream``
    events with the tag ``sage:final``. After each graded round a custom event ``sage_round`` is sent.

    An error of the first answer or of the retriever is raised. A critic that fails or cannot be read costs
    nothing but the grade: the best answer so far is returned with ``stop_reason`` ``"critic_failed"``. There
    are never more than ``max_rounds`` rounds.

    Examples:
        >>> from langchain_core.embeddings import DeterministicFakeEmbedding
        >>> from langchain_core.language_models import FakeListChatModel
        >>> from langchain_core.vectorstores import InMemoryVectorStore
        >>> embedding = DeterministicFakeEmbedding(size=8)
        >>> store = InMemoryVectorStore.from_texts(["The ferry leaves at seven."], embedding)
        >>> llm = FakeListChatModel(responses=["At seven."])
        >>> create_sage_chain(llm, store).invoke("When?")["answer"]
        'At seven.'
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    llm: Runnable[Any, Any] = Field(
        repr=False,
        description="Writes the answers. A function from the prompt's messages to the answer will do. Of a"
        " model with_structured_output the answer is the object; it is graded as JSON.",
    )
    retriever: RetrieverLike = Field(
        repr=False,
        description="A `SageRetriever`, as it is or wrapped (`with_config`, `with_retry`, ...). Any other "
        "retriever is put into one. The whole input reaches it, so that a Runnable which reads"
        " the chat history can be its base_retriever.",
    )
    critic: Runnable[Any, Any] | None = Field(
        default=None,
        repr=False,
        description="Grades the answers; None takes `llm`. 'auto': a local judge where it is sure, `llm` "
        "where it is not. 'local': the local judge alone, see `sage_core.verify.LocalJudge`. "
        "With a model of your own for the rest, critic=model, "
        "loop=FeedbackConfig(critic='auto').",
    )
    prompt: Prompt | None = Field(
        default=None,
        repr=False,
        description="With {context} and {input}; None takes the library's, which marks documents as "
        "material.",
    )
    loop: Instance[FeedbackConfig] = Field(
        default=DEFAULT_FEEDBACK,
        repr=False,
        description="Limits of the loop. What its selection says goes before the retriever's own. With a "
        "prompt of your own, no_answer has the sentence that it agrees on.",
    )

    @model_validator(mode="before")
    @classmethod
    def _named_critic(cls, values: Any) -> Any:
        if isinstance(values, dict) and isinstance(values.get("critic"), str):
            loop = values.get("loop", DEFAULT_FEEDBACK)
            return {**values, "loop": replace(loop, critic=values["critic"]), "critic": None}
        return values

    @field_validator("llm", "critic", mode="before")
    @classmethod
    def _coerce(cls, value: Any) -> Any:
        if isinstance(value, BaseRetriever | VectorStore):
            raise InputError(f"a model is no {type(value).__name__}: create_sage_chain(llm, retriever)")
        return coerce_to_runnable(value) if callable(value) and not isinstance(value, Runnable) else value

    @field_validator("retriever", mode="before")
    @classmethod
    def _wrap(cls, value: Any) -> Any:
        return _as_sage_retriever(value)

    @model_validator(mode="after")
    def _check(self) -> Self:
        # Before any question is asked.
        if self.prompt is not None:
            if not isinstance(self.prompt, BasePromptTemplate):
                raise InputError(f"a prompt is a LangChain prompt template, not {type(self.prompt).__name__}")
            missing = {"context", "input"} - {*self.prompt.input_variables, *self.prompt.optional_variables}
            if missing:
                raise InputError(f"the prompt lacks {{{', '.join(sorted(missing))}}}")
        return self

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """What can be configured at run time in the retriever and the models."""
        # All that are called: LangChain refuses a configurable key that no part declares.
        parts = [self.retriever, self.llm, *([self.critic] if self.critic is not None else [])]
        return get_unique_config_specs(spec for part in parts for spec in part.config_specs)

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """The question and, for multiple choice, its options."""
        return SageChainInput

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """The input, and what the chain adds to it."""
        return SageChainOutput

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:  # noqa: A002
        """Answer one question.

        Args:
            input: A mapping with the question under ``input``, and ``options`` for multiple choice; or the
                question.
            config: As everywhere; it reaches the retriever and the models.
            **kwargs: Not used.

        Returns:
            The input with ``context``, ``answer`` and ``sage``.
        """
        return self._call_with_config(self._run, _inputs(input), config)

    async def ainvoke(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """`invoke`, awaited all the way down."""
        return await self._acall_with_config(self._arun, _inputs(input), config)

    def stream(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Iterator[dict[str, Any]]:
        """``input``, ``context``, ``answer`` (in one or more pieces) and ``sage``, one mapping each."""
        yield from self._transform_stream_with_config(iter([_inputs(input)]), self._stream, config)

    async def astream(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[dict[str, Any]]:
        """`stream`, awaited all the way down."""

        async def once() -> AsyncIterator[dict[str, Any]]:
            yield _inputs(input)

        async for chunk in self._atransform_stream_with_config(once(), self._astream, config):
            yield chunk

    def _run(
        self, inputs: Any, run_manager: CallbackManagerForChainRun, config: RunnableConfig
    ) -> dict[str, Any]:
        return drive(Session(self, inputs, config).steps())

    async def _arun(
        self, inputs: Any, run_manager: AsyncCallbackManagerForChainRun, config: RunnableConfig
    ) -> dict[str, Any]:
        return await adrive(Session(self, inputs, config).steps())

    def _stream(
        self, chunks: Iterator[Any], run_manager: CallbackManagerForChainRun, config: RunnableConfig
    ) -> Iterator[dict[str, Any]]:
        for inputs in chunks:
            yield _first_chunk(inputs)
            yield from drive_pieces(Session(self, inputs, config).streaming())

    async def _astream(
        self, chunks: AsyncIterator[Any], run_manager: AsyncCallbackManagerForChainRun, config: RunnableConfig
    ) -> AsyncIterator[dict[str, Any]]:
        async for inputs in chunks:
            yield _first_chunk(inputs)
            # A consumer that stops reading must not leave the model's stream open.
            async with aclosing(adrive_pieces(Session(self, inputs, config).streaming())) as pieces:
                async for piece in pieces:
                    yield piece


def create_sage_chain(
    llm: LanguageModelLike,
    retriever: Any,
    prompt: BasePromptTemplate[Any] | None = None,
    *,
    critic: Any = None,
    loop: FeedbackConfig = DEFAULT_FEEDBACK,
    selection: SelectionConfig | None = None,
    max_context_tokens: int | None = None,
) -> SageChain:
    """A `SageChain`: the counterpart of LangChain's `create_retrieval_chain`.

    Args:
        llm: Writes the answers, and grades them unless ``critic`` is given.
        retriever: Any retriever, or a vector store.
        prompt: With ``{context}`` and ``{input}``; None takes the library's.
        critic: See `SageChain`.
        loop: Limits of the loop.
        selection: How much of the candidates is shown at first, as ``loop.selection``.
        max_context_tokens: Most tokens shown, in whole documents and at least one.
    """
    shown = limited(selection or loop.selection, max_context_tokens)
    return SageChain(
        llm=llm, retriever=retriever, prompt=prompt, critic=critic, loop=replace(loop, selection=shown)
    )


def _as_sage_retriever(value: Any) -> Any:
    """``value`` if a `SageRetriever` is in it, else a `SageRetriever` around it."""
    if isinstance(value, VectorStore):
        return SageRetriever.from_vectorstore(value)
    if not any(isinstance(layer, SageRetriever) for layer, _ in layers(value, None)):
        return SageRetriever(base_retriever=value)
    if isinstance(value, RunnableWithFallbacks):  # each is given what the first is given
        return value.model_copy(update={"fallbacks": [_as_sage_retriever(r) for r in value.fallbacks]})
    return value


def _inputs(value: Any) -> dict[str, Any]:
    """The chain's input as a mapping that has the question under ``input``."""
    question = query_of(value)
    return {**value, "input": question} if isinstance(value, Mapping) else {"input": question}


def _first_chunk(inputs: Mapping[str, Any]) -> AddableDict:
    """The input as it is streamed: without what this stream is going to add up under the same keys."""
    return AddableDict({key: value for key, value in inputs.items() if key not in _OUTPUT_KEYS})
