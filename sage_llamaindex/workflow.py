"""`SageWorkflow`: the feedback loop as a LlamaIndex workflow, with an event per round, and resumable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from llama_index.core.base.response.schema import PydanticResponse, Response
from llama_index.core.llms.structured_llm import StructuredLLM
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.storage.docstore.utils import doc_to_json, json_to_doc
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step
from pydantic import BaseModel, BeforeValidator, Field, PlainSerializer

from sage_core.errors import InputError
from sage_core.feedback import Done, FeedbackLoop, Judge, Round, Step
from sage_core.feedback.drivers import adrive
from sage_core.selection import Scale
from sage_llamaindex._private import llm_of, output_class_of, parts_of
from sage_llamaindex._question import Attempt, SageQuestion
from sage_llamaindex.postprocessor import Ranking
from sage_llamaindex.query_engine import SageQueryEngine
from sage_llamaindex.retriever import checked_question


class SageQueryEvent(StartEvent):
    """Starts a run; ``workflow.run(query="...")`` makes one.

    Examples:
        >>> SageQueryEvent(query="When does the ferry leave?").query
        'When does the ferry leave?'

    Attributes:
        query: The question.
    """

    query: str


class SageRoundEvent(Event):
    """Streamed when a round has ended.

    Examples:
        >>> SageRoundEvent(round=1, kept=7, candidates=30, answer="At nine.", score=9).score
        9.0

    Attributes:
        round: Its number, from 1.
        kept: Number of nodes that the answer was made from.
        candidates: Number of nodes that were found.
        answer: The answer; None if answering failed.
        score: Its grade, 1 to 10; None if it was not graded.
        source: Who graded, as in `Verdict.source`; empty where nobody did.
        reason: The reason given for the grade, or why there is none.
        vetoed_by: Who overruled the grade, as in `Verdict.vetoed_by`; empty where nobody did.
    """

    round: int
    kept: int
    candidates: int
    answer: str | None
    score: float | None
    source: str = ""
    reason: str = ""
    vetoed_by: str = ""


def _dumped(node: NodeWithScore) -> dict[str, Any]:
    return {"node": doc_to_json(node.node), "score": node.score}


def _loaded(data: Any) -> Any:
    if isinstance(data, NodeWithScore):
        return data
    return NodeWithScore(node=json_to_doc(data["node"]), score=data["score"])


# A `NodeWithScore` alone forgets the class of its node when it is saved.
_Node = Annotated[NodeWithScore, PlainSerializer(_dumped), BeforeValidator(_loaded)]


class _Answered(BaseModel):
    """An `Attempt` in a form that can be saved."""

    text: str
    nodes: list[_Node]
    sources: list[_Node]
    metadata: dict[str, Any] | None
    structured: bool


class _Progress(BaseModel):
    """All that is known of a question; it travels in the events, so a saved context holds it."""

    query: str
    nodes: list[_Node]
    scale: Scale
    rounds: list[dict[str, Any]] = Field(default_factory=list)
    attempts: list[_Answered] = Field(default_factory=list)


class _AnswerWanted(Event):
    progress: _Progress


class _GradeWanted(Event):
    progress: _Progress


class _RoundEnded(Event):
    progress: _Progress


class SageWorkflow(Workflow):
    """`SageQueryEngine` as a workflow: the same answers, every round streamed, and a run that can be resumed.

        workflow = SageWorkflow(engine)
        handler = workflow.run(query="When does the ferry leave?")
        async for event in handler.stream_events():
            if isinstance(event, SageRoundEvent):
                print(event.round, event.kept, event.score)
        response = await handler

    ``handler.ctx.to_dict()`` gives the state of a run as JSON. ``workflow.run(ctx=Context.from_dict(workflow,
    state))`` goes on from there, in another process too: a step that was complete, the search, an answer or a
    grade, is not repeated. Save on every `SageRoundEvent`. The engine must be made with the same settings.
    Holds no state of a question: any number of runs at the same time may share one.

    Examples:
        >>> import asyncio
        >>> from llama_index.core import MockEmbedding, VectorStoreIndex
        >>> from llama_index.core.llms import MockLLM
        >>> from llama_index.core.schema import TextNode
        >>> nodes = [TextNode(text="The ferry leaves at seven.")]
        >>> index = VectorStoreIndex(nodes, embed_model=MockEmbedding(8))
        >>> engine = SageQueryEngine.from_args(index.as_retriever(), llm=MockLLM(), feedback="off")
        >>> async def ask():
        ...     return await SageWorkflow(engine).run(query="When does the ferry leave?")
        >>> len(asyncio.run(ask()).source_nodes)
        1

    Args:
        engine: Its retriever, postprocessors, synthesizer, critic and settings are used. A streamed answer
            comes back whole, for it is graded first.
        kwargs: For `Workflow`, such as ``timeout`` in seconds, which here is None by default, and
            ``num_concurrent_runs``.

    Raises:
        InputError: For what is no `SageQueryEngine`, or one with ``feedback="after_stream"``.
    """

    def __init__(self, engine: SageQueryEngine, **kwargs: Any) -> None:
        if not isinstance(engine, SageQueryEngine):
            raise InputError(f"SageWorkflow takes a SageQueryEngine, not {type(engine).__name__}")
        if engine._options.feedback == "after_stream":
            raise InputError('a workflow returns an answer after its grade: give it feedback="before_stream"')
        # LlamaIndex's default of 45 s would end a run in the middle of its second round.
        super().__init__(**{"timeout": None, **kwargs})
        self._engine = engine

    @step
    async def retrieve(self, event: SageQueryEvent) -> _AnswerWanted | StopEvent:
        """Find and rank the candidates."""
        checked_question(event.query)
        bundle = QueryBundle(event.query)
        ranking = await adrive(self._engine._ranking(bundle))
        if not self._engine._with_feedback:
            return StopEvent(result=await adrive(self._engine._question(bundle, ranking).run_once()))
        progress = _Progress(query=event.query, nodes=list(ranking.nodes), scale=ranking.scale)
        question, _, request = await self._resumed(progress)
        if isinstance(request, Done):
            return StopEvent(result=await adrive(question.finish(request.result)))
        return _AnswerWanted(progress=progress)

    @step
    async def answer(self, event: _AnswerWanted) -> _GradeWanted | _RoundEnded:
        """Answer from this round's selection."""
        progress, request = await self._advanced(event.progress)
        return (
            _GradeWanted(progress=progress) if isinstance(request, Judge) else _RoundEnded(progress=progress)
        )

    @step
    async def grade(self, event: _GradeWanted) -> _RoundEnded:
        """Grade this round's answer."""
        progress, _ = await self._advanced(event.progress)
        return _RoundEnded(progress=progress)

    @step
    async def decide(self, ctx: Context, event: _RoundEnded) -> _AnswerWanted | StopEvent:
        """Report the round, and go on or end. A step of its own: whoever saves now saves the grade too."""
        question, loop, request = await self._resumed(event.progress)
        if isinstance(request, Judge):
            # A budget that had no room for the grade left no mark in the rounds: it ends the loop again.
            request = loop.before_critic() or request
        # The last round of a loop that goes on is the next one, not answered yet.
        ended = loop.rounds if isinstance(request, Done) else loop.rounds[:-1]
        ctx.write_event_to_stream(_round_event(ended[-1]))
        if isinstance(request, Done):
            return StopEvent(result=await adrive(question.finish(request.result)))
        return _AnswerWanted(progress=event.progress)

    def as_tool(
        self,
        name: str,
        description: str,
        *,
        stream_rounds: bool = False,
    ) -> FunctionTool:
        """The workflow as a tool of an agent, such as `AgentWorkflow` or `FunctionAgent`.

        Args:
            name: What the model calls it.
            description: Tells the model when to call it.
            stream_rounds: Put the rounds' events into the agent's own stream. The tool then runs only inside
                a workflow.
        """

        async def ask(query: str) -> Any:
            return await self.run(query=query)

        async def ask_in_agent(ctx: Context, query: str) -> Any:
            handler = self.run(query=query)
            async for event in handler.stream_events():
                if isinstance(event, SageRoundEvent):
                    ctx.write_event_to_stream(event)
            return await handler

        # FunctionTool compares annotations with the class itself, not with its name.
        ask.__annotations__ = {"query": str, "return": Any}
        ask_in_agent.__annotations__ = {"ctx": Context, "query": str, "return": Any}
        # Only a function that takes a `Context` is given one, and only inside a workflow.
        function = ask_in_agent if stream_rounds else ask
        return FunctionTool.from_defaults(async_fn=function, name=name, description=description)

    async def _advanced(self, progress: _Progress) -> tuple[_Progress, Step]:
        """Carry out the loop's next request; what is known then, and the request after it."""
        question, loop, request = await self._resumed(progress)
        if not isinstance(request, Done):
            # One request per event, so that whoever saves the context loses one call at most.
            request = await adrive(question.step(loop, request))
        news = {
            "rounds": [done.to_dict() for done in loop.rounds],
            "attempts": [_saved(attempt) for attempt in question.attempts],
        }
        return progress.model_copy(update=news), request

    async def _resumed(self, progress: _Progress) -> tuple[SageQuestion, FeedbackLoop, Step]:
        """The question and the loop as they were when the event was sent."""
        engine = self._engine
        ranking = Ranking(tuple(progress.nodes), progress.scale)
        question = engine._question(QueryBundle(progress.query), ranking)
        attempts = [_restored(answered, parts_of(engine)[1]) for answered in progress.attempts]
        rounds = [Round.from_dict(item) for item in progress.rounds]
        loop, request = await adrive(question.resume(rounds, attempts))
        return question, loop, request


def _round_event(done: Round) -> SageRoundEvent:
    verdict = done.verdict
    return SageRoundEvent(
        round=done.number,
        kept=done.selection.cut,
        candidates=done.selection.candidates,
        answer=done.answer,
        score=done.score,
        source=verdict.source if verdict is not None else "",
        reason=verdict.reason if verdict is not None else done.error or "",
        vetoed_by=verdict.vetoed_by if verdict is not None else "",
    )


def _saved(attempt: Attempt) -> _Answered:
    return _Answered(
        text=attempt.text,
        nodes=list(attempt.nodes),
        sources=list(attempt.response.source_nodes),
        metadata=attempt.response.metadata,
        structured=isinstance(attempt.response, PydanticResponse),
    )


def _restored(answered: _Answered, synthesizer: BaseSynthesizer) -> Attempt:
    # Copies: a saved event may be resumed twice.
    parts: Mapping[str, Any] = {"source_nodes": list(answered.sources), "metadata": answered.metadata}
    if not answered.structured:
        return Attempt(answered.nodes, answered.text, Response(answered.text, **parts))
    llm = llm_of(synthesizer)
    model = llm.output_cls if isinstance(llm, StructuredLLM) else output_class_of(synthesizer)
    assert model is not None, "a structured answer comes of a synthesizer that has a class for it"
    structured = model.model_validate_json(answered.text)
    return Attempt(answered.nodes, answered.text, PydanticResponse(structured, **parts))
