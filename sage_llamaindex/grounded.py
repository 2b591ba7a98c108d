"""`SageGroundedEngine`: any query or chat engine, with a verdict on each of its answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.chat_engine.types import AgentChatResponse, StreamingAgentChatResponse
from llama_index.core.llms import LLM
from llama_index.core.prompts import BasePromptTemplate
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle

from sage_core.errors import InputError
from sage_core.feedback import Verdict
from sage_core.llm import Message
from sage_core.llm.prompting import NO_ANSWER
from sage_core.llm.reasoning import without_reasoning
from sage_core.verify import LocalJudge, check, correct_citations, shared_judge
from sage_core.verify.passages import passages_of
from sage_llamaindex._streams import answer_only

_VERDICT, _ASKED = "_sage_verdict", "_sage_asked"
"""Attributes of a response: its verdict, and what finds it once a stream has been read."""


class SageGroundedEngine(BaseQueryEngine):
    """Any query engine or chat engine, whose answers carry a `sage_core.feedback.Verdict`.

        engine = SageGroundedEngine(index.as_query_engine())
        verdict_of(engine.query("How long does the ferry take?")).accepted

    The response is the engine's own. `verdict_of` gives its verdict, for which the source nodes are the
    passages, and ``response.metadata["sage_verdict"]`` the same as plain data; of a stream, once it has been
    read. A check that fails leaves the answer as it is, with marks that say "unsure".

    Examples:
        >>> from llama_index.core.query_engine import CustomQueryEngine
        >>> from llama_index.core.response import Response
        >>> from llama_index.core.schema import NodeWithScore, TextNode
        >>> class Ferry(CustomQueryEngine):
        ...     def custom_query(self, query_str: str):
        ...         node = TextNode(text="The ferry leaves at seven and takes 40 minutes.")
        ...         return Response("It takes 55 minutes.", source_nodes=[NodeWithScore(node=node)])
        >>> response = SageGroundedEngine(Ferry()).query("How long does the ferry take?")
        >>> verdict_of(response).accepted, verdict_of(response).marks[0].instead
        (False, '40 minutes')

    Args:
        engine: A query engine, a chat engine, or what is both.
        judge: Such as a `sage_core.verify.ModelJudge`; shared with the rest of the process where None.
        llm: An LLM, asked once for all statements that are unsure; None asks none.
        correct: Also correct the numbers of passages in answers that are not streamed, see
            `sage_core.verify.correct_citations`.

    Raises:
        InputError: For what is no engine.
    """

    def __init__(
        self,
        engine: Any,
        *,
        judge: LocalJudge | None = None,
        llm: LLM | None = None,
        correct: bool = False,
    ) -> None:
        if not callable(getattr(engine, "query", None)) and not callable(getattr(engine, "chat", None)):
            raise InputError(
                f"SageGroundedEngine takes a query engine or a chat engine, such as index.as_query_engine(), "
                f"not {type(engine).__name__}"
            )
        self.engine = engine
        self.judge = judge or shared_judge()
        self.llm = llm
        self.correct = correct
        super().__init__(getattr(engine, "callback_manager", None))

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}

    def get_prompts(self) -> dict[str, BasePromptTemplate]:
        """The engine's prompts, by its own names: LlamaIndex addresses none below one level."""
        return getattr(self.engine, "get_prompts", dict)()

    def update_prompts(self, prompts_dict: dict[str, BasePromptTemplate]) -> None:
        """Change prompts of the engine."""
        self.engine.update_prompts(prompts_dict)

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """The nodes that the engine would answer from."""
        nodes: list[NodeWithScore] = self.engine.retrieve(query_bundle)
        return nodes

    async def aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """`retrieve` as a coroutine."""
        nodes: list[NodeWithScore] = await self.engine.aretrieve(query_bundle)
        return nodes

    def synthesize(self, query_bundle: QueryBundle, *nodes: Any, **more: Any) -> RESPONSE_TYPE:
        """As the engine's, with a verdict."""
        answered = self.engine.synthesize(query_bundle, *nodes, **more)
        response: RESPONSE_TYPE = self._noted(answered, query_bundle.query_str)
        return response

    async def asynthesize(self, query_bundle: QueryBundle, *nodes: Any, **more: Any) -> RESPONSE_TYPE:
        """`synthesize` as a coroutine."""
        answered = await self.engine.asynthesize(query_bundle, *nodes, **more)
        response: RESPONSE_TYPE = await asyncio.to_thread(self._noted, answered, query_bundle.query_str)
        return response

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        response: RESPONSE_TYPE = self._noted(self.engine.query(query_bundle), query_bundle.query_str)
        return response

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        answered = await self.engine.aquery(query_bundle)
        response: RESPONSE_TYPE = await asyncio.to_thread(self._noted, answered, query_bundle.query_str)
        return response

    def chat(self, message: str, chat_history: list[ChatMessage] | None = None) -> Any:
        """As the chat engine's, with a verdict."""
        return self._noted(self.engine.chat(message, chat_history), message)

    async def achat(self, message: str, chat_history: list[ChatMessage] | None = None) -> Any:
        """`chat` as a coroutine."""
        return await asyncio.to_thread(self._noted, await self.engine.achat(message, chat_history), message)

    def stream_chat(self, message: str, chat_history: list[ChatMessage] | None = None) -> Any:
        """As the chat engine's; `verdict_of` gives the verdict once the stream has been read."""
        return self._noted(self.engine.stream_chat(message, chat_history), message)

    async def astream_chat(self, message: str, chat_history: list[ChatMessage] | None = None) -> Any:
        """`stream_chat` as a coroutine."""
        return self._noted(await self.engine.astream_chat(message, chat_history), message)

    def reset(self) -> None:
        """Forget the chat engine's conversation."""
        self.engine.reset()

    @property
    def chat_history(self) -> list[ChatMessage]:
        """The chat engine's conversation."""
        history: list[ChatMessage] = self.engine.chat_history
        return history

    def _reply(self, messages: list[Message]) -> str:
        chat = [ChatMessage(m.content, role=m.role) for m in messages]
        return self.llm.chat(chat).message.content or ""  # type: ignore[union-attr]

    def _noted(self, response: Any, question: str) -> Any:
        def ended(text: str) -> Verdict:
            nodes = [n.node for n in response.source_nodes]
            texts = ((n.get_content(metadata_mode=MetadataMode.NONE), n.metadata) for n in nodes)
            passages, sources = passages_of(texts)
            if not passages and text == "Empty Response":
                # So a synthesizer says that it was given no nodes; no mark is about these words.
                verdict = replace(check(question, passages, NO_ANSWER, judge=self.judge), marks=())
            else:
                llm = None if self.llm is None else self._reply
                verdict = check(question, passages, text, judge=self.judge, sources=sources, llm=llm)
            vars(response)[_VERDICT] = verdict
            if not isinstance(response, StreamingAgentChatResponse):
                response.metadata = {**(response.metadata or {}), "sage_verdict": verdict.to_dict()}
            return verdict

        if isinstance(response, StreamingResponse | AsyncStreamingResponse):
            return answer_only(response, ended)
        if isinstance(response, StreamingAgentChatResponse):
            vars(response)[_ASKED] = ended
            return response
        if isinstance(response, Response | AgentChatResponse) and response.response:
            response.response = without_reasoning(response.response)
        verdict = ended(str(response))
        if self.correct and isinstance(response, Response | AgentChatResponse):
            response.response = correct_citations(verdict.marks)
        return response


def verdict_of(response: Any) -> Verdict | None:
    """The verdict on a response of `SageGroundedEngine`; None for one of another engine.

    A synchronous stream that has not been read is read to its end.

    Raises:
        InputError: For an asynchronous stream that has not been read.
    """
    if isinstance(response, StreamingResponse):
        response.get_response()
    held = vars(response) if hasattr(response, "__dict__") else {}
    if _VERDICT not in held and _ASKED in held:
        if not response.is_done and response.achat_stream is not None:
            raise InputError("read the stream to its end before you ask for its verdict")
        if response.write_response_to_history_thread is not None:
            response.write_response_to_history_thread.join()
        held[_ASKED](without_reasoning(str(response)))
    if isinstance(response, AsyncStreamingResponse) and _VERDICT not in held:
        raise InputError("read the stream to its end before you ask for its verdict")
    verdict = held.get(_VERDICT)
    return verdict if isinstance(verdict, Verdict) else None
