"""One question on its way through a `SageChain`. All decisions are the core's `FeedbackLoop`'s."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from langchain_core import callbacks
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.output_parsers import BaseOutputParser, StrOutputParser
from langchain_core.prompt_values import PromptValue
from langchain_core.prompts import BasePromptTemplate
from langchain_core.retrievers import RetrieverLike
from langchain_core.runnables import (
    AddableDict,
    Runnable,
    RunnableConfig,
    RunnableGenerator,
    RunnableLambda,
    RunnableSequence,
    RunnableWithFallbacks,
    patch_config,
)
from langchain_core.runnables.config import merge_configs

from sage_core.feedback import FeedbackConfig, FeedbackLoop, FeedbackResult, Verdict
from sage_core.feedback.critic import critic_messages
from sage_core.feedback.drivers import Answered, Call, Compute, Judged, Steps, StreamedCall, adrive, drive
from sage_core.feedback.parsing import parse_verdict
from sage_core.llm.prompting import phrases_for
from sage_core.llm.prompts import answer_messages
from sage_core.llm.reasoning import AnswerStream
from sage_core.llm.usage import TokenUsage
from sage_core.passages import reading_order
from sage_core.question import Question
from sage_core.selection import Selection, SelectionConfig
from sage_core.text.header import with_header
from sage_core.text.outline import TITLE_KEY, header_of, page_of, passage_header, source_names
from sage_core.text.tokens import get_counter
from sage_core.verify import Source, unsure_statements
from sage_langchain._messages import answer_of, is_structured, text_of, to_langchain, usage_of
from sage_langchain._passages import NODE_KEY, SCORE_KEY, join
from sage_langchain._runnables import checked, inner_input
from sage_langchain.compressor import Ranked, SageCompressor
from sage_langchain.retriever import ALL_CANDIDATES

# LangGraph keeps model calls with this tag out of its message stream: drafts and grades are not the answer.
_HIDDEN_IN_GRAPHS = "nostream"

COUNTER = get_counter("bert")
"""Counts tokens where a model does not report them."""

T = TypeVar("T")
Prompt = list[BaseMessage] | PromptValue


class Parts(Protocol):
    """What a question needs of its chain. Shared by all questions, changed by none; see `SageChain`."""

    llm: Runnable[Any, Any]
    retriever: RetrieverLike
    critic: Runnable[Any, Any] | None
    prompt: BasePromptTemplate[Any] | None
    loop: FeedbackConfig


class Session(Question[Document]):
    """State of one call.

    Args:
        parts: The chain's parts.
        inputs: Its input, with the question under ``input``.
        config: The config for its children.
    """

    def __init__(self, parts: Parts, inputs: dict[str, Any], config: RunnableConfig) -> None:
        # Empty until the retriever has answered, inside the chain's own run.
        super().__init__(inputs["input"], parts.loop, ())
        self.parts = parts
        self.inputs = inputs
        self.run_config = config
        self.texts: list[str] = []
        # Replaced with the candidates: a loop over none, whose result is empty, until then.
        self.loop = FeedbackLoop(())
        self.result: FeedbackResult | None = None
        self._names: dict[str, str] = {}
        self._outputs: list[Any] = []  # what the model gave, round by round

    def steps(self) -> Steps[dict[str, Any]]:
        """Retrieve, answer and grade; the chain's output."""
        yield from self._retrieving()
        self.result = self._corrected((yield from self.rounds(self.loop)))
        return {**self.inputs, "context": self.context, "answer": self._answer, "sage": self._trace}

    def streaming(self) -> Steps[AddableDict]:
        """`steps`, its output in parts as they come, and the trace at last."""
        yield from self._retrieving()
        # Drafts are not shown: a stream that took its words back would be worse than a late one.
        final = self._streams_final_answer
        if not final:
            self.result = self._corrected((yield from self.rounds(self.loop)))
        context = AddableDict(context=self.context)
        yield from StreamedCall(lambda: iter([context]), None, lambda: None)
        yield from self._writing_final() if final else self._telling_final()
        return AddableDict(sage=self._trace)

    # Retrieval

    def _retrieving(self) -> Steps[None]:
        retriever: Runnable[Any, list[Document]] = self.parts.retriever
        # All candidates: the loop selects, in every round anew.
        config = patch_config(
            self.run_config, run_name="retrieve_documents", configurable={ALL_CANDIDATES: True}
        )
        asked = inner_input(retriever, self.text, self.inputs, config)
        documents = yield from Call(retriever.invoke, retriever.ainvoke, asked, config)
        if not isinstance(documents, Ranked):  # of a fallback, or an alternative: it is ranked here
            documents = yield from Compute(SageCompressor().rank, checked(documents, retriever), self.text)
        yield from Compute(self._begin, documents)  # it counts the tokens of all candidates

    def _begin(self, documents: Ranked) -> None:
        self.candidates = documents
        self._names = source_names(
            (document.metadata.get(TITLE_KEY), document.metadata["source"])
            for document in documents
            if isinstance(document.metadata.get("source"), str)
        )
        # As prompts show them, so that a candidate is counted as it is sent.
        self.texts = [self._text(document) for document in documents]
        sizes = COUNTER.count_many(self.texts)
        profile = getattr(self.parts.llm, "profile", None)
        window = profile.get("max_input_tokens") if isinstance(profile, Mapping) else None
        said, default = self.config.selection.keywords, SelectionConfig().keywords
        shown = replace(documents.selection, **{k: v for k, v in said.items() if v != default[k]})
        config = replace(self.config, selection=shown.within_window(window))
        self.loop = FeedbackLoop(self._scores, documents.scale, config, sizes=sizes, question=self.text)
        self.load_check()

    @property
    def _scores(self) -> list[float | None]:
        return [document.metadata[SCORE_KEY] for document in self.candidates]

    @property
    def _streams_final_answer(self) -> bool:
        """Whether the first answer is sure to be the last, so that it can be shown while it is written."""
        # Only then is the first answer the last one, whatever its grade.
        only = self.config.max_rounds == 1 or self.config.max_calls == 1
        return only and self.loop.first_selection.cut > 0 and not _parses(self.parts.llm)

    # The loop

    def generate(self, selection: Selection) -> Steps[Answered]:
        yield from self._select(selection)
        prompt = self._answer_prompt(selection)
        output, usage = yield from self._recorded(
            "sage_generate",
            self._about(selection),
            self._generating(),
            lambda config: self._writing(prompt, selection, config),
            lambda written: {"answer": answer_of(written[0]), "usage": written[1].to_dict()},
        )
        self._outputs.append(output)
        return answer_of(output), usage

    def _writing(
        self, prompt: Prompt, selection: Selection, config: RunnableConfig
    ) -> Steps[tuple[Any, TokenUsage]]:
        """What the model gives, and what it took."""
        llm = self.parts.llm
        # Not streamed, since a draft is not shown and some models stream without usage.
        output = yield from Call(llm.invoke, llm.ainvoke, prompt, config)
        return output, (yield from Compute(usage_of, output, prompt, COUNTER))

    def judge(self, selection: Selection, answer: str) -> Steps[Judged]:
        # Made outside the run, which so shows the call of the model alone.
        prompt, critic = self._critic_prompt(selection, answer), self.parts.critic or self.parts.llm

        def grading(config: RunnableConfig) -> Steps[tuple[Verdict, TokenUsage]]:
            output = yield from Call(critic.invoke, critic.ainvoke, prompt, config)
            usage = yield from Compute(usage_of, output, prompt, COUNTER)
            return (yield from self.reviewed(parse_verdict(text_of(output)), selection, answer)), usage

        graded = yield from self._recorded(
            "sage_critic",
            {**self._about(selection), "answer": answer},
            self._tagged("sage:critic", _HIDDEN_IN_GRAPHS),
            grading,
            lambda graded: {"verdict": graded[0].to_dict(), "usage": graded[1].to_dict()},
        )
        report, areport = callbacks.dispatch_custom_event, callbacks.adispatch_custom_event
        # After the veto: an event must not show a grade that the trace denies.
        event = self._round_event(selection, answer, graded[0])
        yield from Call(report, areport, "sage_round", event, config=self.run_config)
        return graded

    def _recorded(
        self,
        name: str,
        about: dict[str, object],
        config: RunnableConfig,
        steps: Callable[[RunnableConfig], Steps[T]],
        shown: Callable[[T], dict[str, object]],
    ) -> Steps[T]:
        """A step as a run of its own in traces, which show ``about`` it and its result as JSON-ready data."""
        # Traces must be JSON; the result itself, which may hold messages, goes past them.
        results: list[T] = []

        def noted(config: RunnableConfig) -> Steps[dict[str, object]]:
            results.append((yield from steps(config)))
            return shown(results[-1])

        def run(_: Any, config: RunnableConfig) -> dict[str, object]:
            return drive(noted(config))

        async def arun(_: Any, config: RunnableConfig) -> dict[str, object]:
            return await adrive(noted(config))

        runnable = RunnableLambda(run, arun, name=name)
        yield from Call(runnable.invoke, runnable.ainvoke, about, config)
        return results[-1]

    def _select(self, selection: Selection) -> Call[dict[str, object]]:
        """Show a round's selection, which the loop has made, as a step of its own in traces."""
        runnable: Runnable[Any, Any] = RunnableLambda(lambda _: selection.to_dict(), name="sage_select")
        about = {"round": self._number, "scores": self._scores}
        return Call(runnable.invoke, runnable.ainvoke, about, self._tagged())

    def _about(self, selection: Selection) -> dict[str, object]:
        return {"round": self._number, "question": self.text, "chunks": selection.cut}

    @property
    def _number(self) -> int:
        return max(len(self.loop.rounds), 1)

    def check(self, selection: Selection, answer: str) -> Verdict | None:
        """See `Question.check`; reported to callbacks as the critic's grades are."""
        verdict = super().check(selection, answer)
        if verdict is not None:
            event = self._round_event(selection, answer, verdict)
            callbacks.dispatch_custom_event("sage_round", event, config=self.run_config)
        return verdict

    def passages(self, selection: Selection) -> list[str]:
        return [self._text(document) for document in self._shown(selection)]

    def sources(self, selection: Selection) -> list[Source]:
        return [Source(d.page_content, page_of(d.metadata)) for d in self._shown(selection)]

    def _text(self, document: Document) -> str:
        """A document as prompts show it: with its title and headings, and its source where titles repeat."""
        text, metadata = document.page_content, document.metadata
        # Only where titles repeat: else the title says it, in fewer tokens.
        name = self._names.get(metadata["source"]) if isinstance(metadata.get("source"), str) else None
        return with_header(passage_header(header_of(text, metadata), name), text)

    def _shown(self, selection: Selection) -> list[Document]:
        """The documents of a selection as the LLM sees them: passages that touch are one."""
        shown = join([self.candidates[i] for i in selection.indices])
        cut = any(NODE_KEY in d.metadata for d in shown)
        sources = [d.metadata.get("source") if cut else id(d) for d in shown]
        return [shown[i] for i in reading_order(sources, [d.metadata.get("start_index") for d in shown])]

    # The answer in pieces

    def _telling_final(self) -> Steps[None]:
        """The final answer, which is known."""
        return (yield from _final(lambda: iter([self._answer]), lambda: _one(self._answer), self.run_config))

    def _writing_final(self) -> Steps[None]:
        """The final answer as the model writes it, and its grade."""
        first, llm = self.loop.first_selection, self.parts.llm
        yield from self._select(first)
        written, prompt, config = _Written(), self._answer_prompt(first), self._generating()
        yield from _final(
            lambda: written.gather(llm.stream(prompt, config)),
            lambda: written.agather(llm.astream(prompt, config)),
            self.run_config,
        )
        self._outputs.append(written.whole)
        usage = yield from Compute(usage_of, written.whole, prompt, COUNTER)
        self.result = yield from self.round_of(written.text, usage, self.loop)

    # What the chain returns

    @property
    def context(self) -> list[Document]:
        """The documents of the answer; of the only answer there will be, while it is being written."""
        # While the answer streams the context is sent first, before there is a result.
        selection = self.loop.first_selection if self.result is None else self.result.selection
        return self._shown(selection)

    @property
    def _trace(self) -> dict[str, object]:
        """The JSON-ready trace of the loop."""
        return (self.result or self.loop.result).to_dict()

    @property
    def _output(self) -> Any:
        """What the model gave in the best round; None if it was not asked."""
        result = self.loop.result
        return self._outputs[result.best_round - 1] if self._outputs and result.rounds else None

    @property
    def _answer(self) -> Any:
        """The answer: its text, or the object that a structured model gave."""
        output = self._output
        # A user who asked for an object gets the object, not its text.
        result = self.result or self.loop.result
        return output if output is not None and is_structured(output) else result.answer

    def _corrected(self, result: FeedbackResult) -> FeedbackResult:
        if not result.rounds and not result.answer:  # there was nothing to ask the model about
            return replace(result, answer=phrases_for(self.text).no_answer)
        return result if is_structured(self._output) else self.corrected(result)

    # Prompts and configs

    def _answer_prompt(self, selection: Selection) -> Prompt:
        texts = self.passages(selection)
        prompt = self.parts.prompt
        if prompt is None:
            options = self.inputs.get("options")
            return to_langchain(answer_messages(self.text, texts, options=options))
        values = {**self.inputs, "context": "\n\n".join(texts)}
        # Formatting is no step that a trace should show.
        return prompt.invoke(values, {"callbacks": []})

    def _critic_prompt(self, selection: Selection, answer: str) -> list[BaseMessage]:
        texts = self.passages(selection)
        options, statements = self.inputs.get("options"), unsure_statements(self.text, texts, answer)
        return to_langchain(critic_messages(self.text, texts, answer, options=options, statements=statements))

    def _generating(self) -> RunnableConfig:
        return self._tagged("sage:generate", *(() if self._streams_final_answer else (_HIDDEN_IN_GRAPHS,)))

    def _tagged(self, *tags: str) -> RunnableConfig:
        """The children's config with tags, which so reach a model inside a chain too."""
        return merge_configs(self.run_config, {"tags": [*tags, f"sage:round:{self._number}"]})

    def _round_event(self, selection: Selection, answer: str, verdict: Verdict) -> dict[str, object]:
        """What the custom event ``sage_round`` carries."""
        return {
            "round": len(self.loop.rounds),
            "answer": answer,
            "score": verdict.score,
            "adjust": verdict.adjust,
            "parsed": verdict.parsed,
            "chunks": selection.cut,
            "vetoed_by": verdict.vetoed_by,
        }


def _parses(llm: Runnable[Any, Any]) -> bool:
    """Whether an object is read from what the model writes, which is complete with the last word alone."""
    # `with_structured_output` makes a sequence that ends in a parser.
    last = llm.last if isinstance(llm, RunnableSequence) else None
    parser = isinstance(last, BaseOutputParser) and not isinstance(last, StrOutputParser)
    return parser or isinstance(last, RunnableWithFallbacks)  # the latter with include_raw=True


class _Written:
    """What a model has written so far."""

    def __init__(self) -> None:
        self.whole: Any = ""
        self._answer = AnswerStream()

    @property
    def text(self) -> str:
        return answer_of(self.whole)

    def gather(self, chunks: Iterator[Any]) -> Iterator[Any]:
        """The pieces as they come, empty ones passed over unless there is no other; of an object the last."""
        for chunk in chunks:
            if piece := self._add(chunk):
                yield piece
        yield from self._end()

    async def agather(self, chunks: Any) -> AsyncIterator[Any]:
        """`gather`, awaited; the chunks are closed with the reader, which ends a generation at the server."""
        async with aclosing(chunks):
            async for chunk in chunks:
                if piece := self._add(chunk):
                    yield piece
        for piece in self._end():
            yield piece

    def _end(self) -> Iterator[Any]:
        if is_structured(self.whole):
            yield self.whole
        elif (rest := self._answer.finish()) or not self.text:
            yield rest

    def _add(self, chunk: Any) -> str:
        if is_structured(chunk):  # each is the object as far as it is known
            self.whole = chunk
            return ""
        # Chunks of messages add up with their usage and tool calls; "" has no type to add to.
        self.whole = chunk if self.whole == "" else self.whole + chunk
        return self._answer.feed(text_of(chunk))


def _final(
    pieces: Callable[[], Iterator[Any]], apieces: Callable[[], AsyncIterator[Any]], config: RunnableConfig
) -> StreamedCall[None]:
    """The answer's pieces, in event streams those of a run of its own with the tag ``sage:final``."""
    config = merge_configs(config, {"tags": ["sage:final"]})

    def answer(_: Iterator[Any]) -> Iterator[Any]:
        yield from pieces()

    async def aanswer(_: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for piece in apieces():
            yield piece

    # A run of its own: `astream_events` then tells the answer from drafts and grades by its tag.
    run = RunnableGenerator(answer, aanswer, name="sage_answer")

    def stream() -> Iterator[AddableDict]:
        return (AddableDict(answer=piece) for piece in run.stream(None, config))

    async def astream() -> AsyncIterator[AddableDict]:
        async for piece in run.astream(None, config):
            yield AddableDict(answer=piece)

    return StreamedCall(stream, astream, lambda: None)


async def _one(answer: Any) -> AsyncIterator[Any]:
    yield answer
