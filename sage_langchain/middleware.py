"""Middleware for LangChain agents: answers checked against what the searches found."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from sage_core.errors import InputError, MissingExtraError
from sage_core.feedback import Verdict
from sage_core.feedback.drivers import Call, Compute, Steps, adrive, drive
from sage_core.verify import AnswerMark, LocalJudge, check, shared_judge
from sage_core.verify.verdict import FAILED, UNSUPPORTED

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
except ModuleNotFoundError as missing:
    if missing.name not in ("langchain", "langgraph"):
        raise  # installed, but broken: its own error says more
    raise MissingExtraError("sage_langchain.middleware", "agents") from missing


class SageGroundingMiddleware(AgentMiddleware[Any, Any, Any]):
    """Checks the final answer of an agent against the passages that its searches returned; no LLM is asked.

    The verdict of `sage_core.verify.check` stands in ``additional_kwargs["sage_grounding"]["verdict"]``. An
    answer without any search, and a structured one (``response_format``), pass unchanged.

        agent = create_agent(model, tools=[search], middleware=[SageGroundingMiddleware(action="retry")])

    Args:
        tools: Names of the search tools; None for all tools of the agent.
        action: ``"mark"`` writes "[not in the passages]" behind what is contradicted or not found.
            ``"retry"`` first asks the model once more if the verdict does not accept the answer, and marks
            the better one. From the first search on, no answer is then streamed: it may be withdrawn.
        judge: Such as a `sage_core.verify.ModelJudge`; shared with the rest of the process where None.

    Raises:
        InputError: For an unknown action, and for tools that are no list of names.
    """

    def __init__(
        self,
        *,
        tools: Sequence[str] | None = None,
        action: Literal["mark", "retry"] = "mark",
        judge: LocalJudge | None = None,
    ) -> None:
        super().__init__()
        if action not in ("mark", "retry"):
            raise InputError(f'unknown action {action!r}: "mark" or "retry"')
        if tools is not None and (isinstance(tools, str) or {*map(type, tools)} != {str}):
            raise InputError('tools is a list of names, such as ["search"], or None for all tools')
        self._tools, self._action, self._judge = tools, action, judge or shared_judge()

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[..., Any]) -> Any:
        """Call the model, and check its answer if it has one."""
        return drive(self._checked(request, handler))

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Callable[..., Any]) -> Any:
        """`wrap_model_call` as a coroutine; the judge computes in a thread."""
        return await adrive(self._checked(request, handler))

    def _checked(self, request: ModelRequest[Any], handler: Callable[..., Any]) -> Steps[Any]:
        question, passages = self._seen(request.messages)
        retries = self._action == "retry" and bool(passages)
        if retries:
            tags = [*(getattr(request.model, "tags", None) or []), "nostream"]
            request = request.override(model=request.model.model_copy(update={"tags": tags}))
        response = yield from Call(handler, handler, request)
        verdict = yield from Compute(self._verdict, response, question, passages)
        if retries and (failed := _failed(verdict)):
            # The exchange stays inside this call: the conversation never shows the answer that was withdrawn.
            told = "\n- ".join(["The passages found do not support:", *(mark.text for mark in failed)])
            told += "\nAnswer again with what they say. Leave out what they do not support, or say so."
            again = [*request.messages, AIMessage(_answer(response).text), HumanMessage(told)]
            second = yield from Call(handler, handler, request.override(messages=again))
            other, answer = (yield from Compute(self._verdict, second, question, passages)), _answer(second)
            if (answer.tool_calls or answer.text.strip()) and len(_failed(other)) <= len(failed):
                response, verdict = second, other
        return response if verdict is None else _noted(response, verdict)

    def _seen(self, messages: Sequence[AnyMessage]) -> tuple[str, list[str]]:
        """The present question, and the passages found for it."""
        passages: list[str] = []
        for message in reversed(messages):
            # A summary of the conversation comes as a message of the user.
            summary = message.additional_kwargs.get("lc_source") == "summarization"
            if isinstance(message, HumanMessage) and not summary:
                return message.text, passages
            if isinstance(message, ToolMessage) and (self._tools is None or message.name in self._tools):
                passages = [*_passages(message), *passages]
        return "", passages

    def _verdict(self, response: Any, question: str, passages: Sequence[str]) -> Verdict | None:
        """The verdict on a final answer; None if it is none, claims nothing, or is from no search."""
        answer = _answer(response)
        if answer.tool_calls or not passages or response.structured_response is not None:
            return None
        verdict = check(question, passages, answer.text, judge=self._judge)
        return verdict if any(m.support != "nothing claimed" for m in verdict.marks) else None


def _answer(response: ModelResponse[Any]) -> AIMessage:
    return next((m for m in reversed(response.result) if isinstance(m, AIMessage)), AIMessage(""))


def _failed(verdict: Verdict | None) -> list[AnswerMark]:
    """The statements of an answer that is not accepted which are not supported."""
    marks = () if verdict is None or verdict.accepted else verdict.marks
    return [mark for mark in marks if mark.support in (*FAILED, "misattributed", "unsure")]


def _noted(response: ModelResponse[Any], verdict: Verdict) -> ModelResponse[Any]:
    """The response with the verdict and its marks in the answer, whose blocks other than text stay."""
    answer, start, blocks = _answer(response), 0, list[Any]()
    whole: list[Any] | None = [answer.content] if isinstance(answer.content, str) else None
    ends = [mark.span.end for mark in verdict.marks if mark.support in FAILED]
    for block in whole or answer.content:
        text = block if isinstance(block, str) else block["text"] if block.get("type") == "text" else ""
        places = [0, *(end - start for end in ends if start < end <= start + len(text)), len(text)]
        start += len(text)
        text = f" {UNSUPPORTED}".join(text[a:b] for a, b in itertools.pairwise(places))
        blocks.append(text if isinstance(block, str) else {**block, "text": text} if text else block)
    noted = {"supported": verdict.accepted, "verdict": verdict.to_dict()}
    kwargs = {**answer.additional_kwargs, "sage_grounding": noted}
    told = answer.model_copy(update={"content": blocks[0] if whole else blocks, "additional_kwargs": kwargs})
    return replace(response, result=[told if m is answer else m for m in response.result])


def _passages(message: ToolMessage) -> list[str]:
    """The passages in a search result: what it carries and shows, its blocks, or between blank lines."""
    carried = list(_texts(message.artifact))
    found = [text for text in carried if text in message.text] or carried or list(_texts(message.content))
    return found or [block for block in message.text.split("\n\n") if block.strip()]


def _texts(value: Any) -> Iterator[str]:
    """The documents in a value, and all that stands under ``text``."""
    if isinstance(value, Document):
        yield value.page_content
    elif isinstance(value, dict) and isinstance(value.get("text"), str):
        yield value["text"]
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
