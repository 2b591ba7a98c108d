"""One question on its way through a `SageChain`. All decisions are the core's `FeedbackLoop`'s."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import adispatch_custom_event, dispatch_custom_event
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.prompt_values import PromptValue
from langchain_core.prompts import format_document
from langchain_core.runnables import RunnableConfig, RunnableGenerator, patch_config
from langchain_core.runnables.config import merge_configs

from sage_core.answering import answer_messages
from sage_core.feedback import (
    FeedbackLoop,
    FeedbackResult,
    Generate,
    Judge,
    Verdict,
    arun_loop,
    run_loop,
)
from sage_core.feedback.critic import critic_messages
from sage_core.selection import Selection
from sage_core.tokens import get_counter
from sage_core.usage import TokenUsage
from sage_langchain._messages import text_of, to_langchain, usage_of
from sage_langchain._ranking_source import ranking_source
from sage_langchain.compressor import SCORE_KEY
from sage_langchain.critic import Critic

if TYPE_CHECKING:
    from sage_langchain.chain import SageChain

logger = logging.getLogger(__name__)

# LangGraph keeps model calls with this tag out of its message stream: drafts and grades are not the answer.
_HIDDEN_IN_GRAPHS = "nostream"


class Session:
    """State of one call.

    Args:
        chain: The chain called.
        inputs: Its input, with the question under ``input``.
        config: The config for its children.
    """

    def __init__(self, chain: SageChain, inputs: dict[str, Any], config: RunnableConfig) -> None:
        self.chain = chain
        self.inputs = inputs
        self.config = config
        self.counter = get_counter(chain.counter)
        self.critic = Critic(chain.critic or chain.llm, chain.critic_method, self.counter)
        self.live = chain.max_rounds == 1 or chain.max_calls == 1
        self.documents: list[Document] = []
        self.texts: list[str] = []
        self.loop = FeedbackLoop(())
        self.result: FeedbackResult | None = None
        self._first: Selection | None = None

    # Retrieval

    def retrieve(self) -> None:
        """Fetch and rank the candidates."""
        config = patch_config(self.config, run_name="retrieve_documents")
        self._begin(self.chain.retriever.invoke(self.inputs["input"], config, select=False))

    async def aretrieve(self) -> None:
        """`retrieve`, awaited."""
        config = patch_config(self.config, run_name="retrieve_documents")
        self._begin(await self.chain.retriever.ainvoke(self.inputs["input"], config, select=False))

    def _begin(self, documents: list[Document]) -> None:
        source = ranking_source(self.chain.retriever, self.config)
        template = self.chain.document_prompt
        self.documents = documents
        self.texts = [d.page_content if template is None else format_document(d, template) for d in documents]
        self.loop = FeedbackLoop(
            [d.metadata[SCORE_KEY] for d in documents],
            source.scale,
            self.chain.feedback_config(source.selection),
            sizes=self.counter.count_many(self.texts),
        )

    # The loop, all at once

    def answer(self) -> None:
        """Run the loop to its end."""
        self.result = run_loop(self.loop, self._generate, self._judge, failures=(Exception,))

    async def aanswer(self) -> None:
        """`answer`, awaited."""
        self.result = await arun_loop(self.loop, self._agenerate, self._ajudge, failures=(Exception,))

    def _generate(self, selection: Selection) -> tuple[str, TokenUsage]:
        prompt = self._answer_prompt(selection)
        output = self.chain.llm.invoke(prompt, self._tagged("sage:generate", _HIDDEN_IN_GRAPHS))
        return text_of(output), usage_of(output, prompt, self.counter)

    async def _agenerate(self, selection: Selection) -> tuple[str, TokenUsage]:
        prompt = self._answer_prompt(selection)
        output = await self.chain.llm.ainvoke(prompt, self._tagged("sage:generate", _HIDDEN_IN_GRAPHS))
        return text_of(output), usage_of(output, prompt, self.counter)

    def _judge(self, selection: Selection, answer: str) -> tuple[Verdict, TokenUsage]:
        config = self._tagged("sage:critic", _HIDDEN_IN_GRAPHS)
        verdict, usage = self.critic.judge(self._critic_prompt(selection, answer), config)
        dispatch_custom_event("sage_round", self._news(selection, answer, verdict), config=self.config)
        return verdict, usage

    async def _ajudge(self, selection: Selection, answer: str) -> tuple[Verdict, TokenUsage]:
        config = self._tagged("sage:critic", _HIDDEN_IN_GRAPHS)
        verdict, usage = await self.critic.ajudge(self._critic_prompt(selection, answer), config)
        await adispatch_custom_event("sage_round", self._news(selection, answer, verdict), config=self.config)
        return verdict, usage

    # The answer in pieces

    def pieces(self) -> Iterator[str]:
        """The final answer: as the model writes it where it is sure to be final, else at once."""
        if not self.live:
            yield from _final(iter([self.output()["answer"]]), self.config)
            return
        selection = self._start()
        if selection is not None:
            written = _Written()
            prompt = self._answer_prompt(selection)
            yield from _final(
                written.gather(self.chain.llm.stream(prompt, self._tagged("sage:generate"))), self.config
            )
            step = self.loop.answered(written.text, usage_of(written.whole, prompt, self.counter))
            if isinstance(step, Judge):
                try:
                    self.loop.judged(*self._judge(step.selection, step.answer))
                except Exception as error:
                    self._critic_failed(error)
        self.result = self.loop.result

    async def apieces(self) -> AsyncIterator[str]:
        """`pieces`, awaited."""
        if not self.live:
            async for piece in _afinal(_one(self.output()["answer"]), self.config):
                yield piece
            return
        selection = self._start()
        if selection is not None:
            written = _Written()
            prompt = self._answer_prompt(selection)
            chunks = self.chain.llm.astream(prompt, self._tagged("sage:generate"))
            async for piece in _afinal(written.agather(chunks), self.config):
                yield piece
            step = self.loop.answered(written.text, usage_of(written.whole, prompt, self.counter))
            if isinstance(step, Judge):
                try:
                    self.loop.judged(*await self._ajudge(step.selection, step.answer))
                except Exception as error:
                    self._critic_failed(error)
        self.result = self.loop.result

    def _critic_failed(self, error: Exception) -> None:
        logger.warning("the critic failed, the answer is kept: %s", error)
        self.loop.critic_failed(str(error))

    # What the chain returns

    def _start(self) -> Selection | None:
        """The first selection, None where there are no candidates. Starts the loop once."""
        if self._first is None:
            step = self.loop.start()
            self._first = step.selection if isinstance(step, Generate) else step.result.selection
        return self._first if self._first.cut else None

    @property
    def context(self) -> list[Document]:
        """The documents of the answer; of the only answer there will be, while it is being written."""
        if self.result is None:
            self._start()
        selection = self.result.selection if self.result is not None else self._first
        return [self.documents[i] for i in selection.indices] if selection is not None else []

    @property
    def trace(self) -> dict[str, object]:
        """The JSON-ready trace of the loop."""
        return self.loop.result.to_dict()

    def output(self) -> dict[str, Any]:
        """The chain's whole output, once there is a result."""
        answer = self.loop.result.answer
        return {**self.inputs, "context": self.context, "answer": answer, "sage": self.trace}

    # Prompts and configs

    def _answer_prompt(self, selection: Selection) -> list[BaseMessage] | PromptValue:
        texts = [self.texts[i] for i in selection.indices]
        prompt = self.chain.prompt
        if prompt is None:
            options = self.inputs.get("options")
            return to_langchain(answer_messages(self.inputs["input"], texts, options=options))
        values = {**self.inputs, "context": self.chain.document_separator.join(texts)}
        return prompt.invoke(values, {"callbacks": []})

    def _critic_prompt(self, selection: Selection, answer: str) -> list[BaseMessage]:
        texts = [self.texts[i] for i in selection.indices]
        options = self.inputs.get("options")
        return to_langchain(critic_messages(self.inputs["input"], texts, answer, options=options))

    def _tagged(self, *tags: str) -> RunnableConfig:
        """The children's config with tags, which so reach a model inside a chain too."""
        return merge_configs(self.config, {"tags": [*tags, f"sage:round:{len(self.loop.rounds)}"]})

    def _news(self, selection: Selection, answer: str, verdict: Verdict) -> dict[str, object]:
        """What the custom event ``sage_round`` carries."""
        return {
            "round": len(self.loop.rounds),
            "answer": answer,
            "score": verdict.score,
            "adjust": verdict.adjust,
            "parsed": verdict.parsed,
            "chunks": selection.cut,
        }


class _Written:
    """What a model has written so far."""

    def __init__(self) -> None:
        self.whole: Any = ""

    @property
    def text(self) -> str:
        return text_of(self.whole)

    def gather(self, chunks: Iterator[Any]) -> Iterator[str]:
        for chunk in chunks:
            yield self._add(chunk)

    async def agather(self, chunks: AsyncIterator[Any]) -> AsyncIterator[str]:
        async for chunk in chunks:
            yield self._add(chunk)

    def _add(self, chunk: Any) -> str:
        self.whole = chunk if self.whole == "" else self.whole + chunk
        return text_of(chunk)


def _final(pieces: Iterator[str], config: RunnableConfig) -> Iterator[str]:
    """The pieces, seen in event streams as those of a run of their own with the tag ``sage:final``."""

    def answer(_: Iterator[Any]) -> Iterator[str]:
        yield from pieces

    yield from RunnableGenerator(answer, name="sage_answer").stream(None, _as_final(config))


async def _afinal(pieces: AsyncIterator[str], config: RunnableConfig) -> AsyncIterator[str]:
    async def answer(_: AsyncIterator[Any]) -> AsyncIterator[str]:
        async for piece in pieces:
            yield piece

    async for piece in RunnableGenerator(answer, name="sage_answer").astream(None, _as_final(config)):
        yield piece


def _as_final(config: RunnableConfig) -> RunnableConfig:
    return merge_configs(config, {"tags": ["sage:final"]})


async def _one(text: str) -> AsyncIterator[str]:
    yield text
