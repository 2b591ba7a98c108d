"""Middleware for LangChain agents: answers checked against what the searches found."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from pydantic_core import to_jsonable_python

from sage_core.errors import InputError, MissingExtraError
from sage_core.feedback import Verdict
from sage_core.feedback.drivers import Call, Compute, Steps, adrive, drive
from sage_core.text.spans import Span
from sage_core.verify import AnswerMark, LocalJudge, check
from sage_core.verify.marks import edited, edits_of

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
except ModuleNotFoundError as missing:
    if missing.name not in ("langchain", "langgraph"):
        raise  # installed, but broken: its own error says more
    raise MissingExtraError("sage_langchain.middleware", "agents") from missing

logger = logging.getLogger(__name__)

GroundingAction = Literal["mark", "retry", "hand_over"]

# Fewer in a field are a name, a label or a value.
_STATEMENT_WORDS = 5


class SageGroundingMiddleware(AgentMiddleware[Any, Any, Any]):
    """Checks the final answer of an agent against the passages that its searches returned; no LLM is asked.

    The answer gets the verdict of `sage_core.verify.check`, whose rules say which of its statements are not
    supported: these are marked, asked for again, or put before a person. An answer without any search, or in
    a language that the judge does not read, passes unchanged. The verdict goes with the message, in
    ``additional_kwargs["sage_grounding"]["verdict"]``. Of a structured answer (``response_format``) the texts
    of five words or more are judged, at any depth, each by itself, and each mark has its ``field``;
    ``unjudged`` lists the other fields, which a log line names once. It is never marked, for its schema may
    not allow it.

        from langchain.agents import create_agent
        from sage_langchain.middleware import SageGroundingMiddleware

        agent = create_agent(model, tools=[search], middleware=[SageGroundingMiddleware(action="retry")])

    Args:
        tools: Names of the search tools, or the tools; None for all tools of the agent.
        action: ``"mark"`` writes "[not in the passages]" behind each such statement. ``"retry"`` asks the
            model once more, naming the statements, and marks what is still unsupported in the better of both
            answers; from the first search on, an answer is streamed whole, when it is decided which it is.
            ``"hand_over"`` interrupts the run (it needs a checkpointer); resume with the text to send,
            with True to send the answer as it is, or with False to mark it; for a structured answer with
            its fields, or with True.
        judge: The judge; a `LocalJudge` of its own where None.
        correct: Also correct the numbers of passages in the answer, in the order of the searches, see
            `sage_core.verify.correct_citations`.

    Raises:
        InputError: For an unknown action, or an empty list of tools.
    """

    def __init__(
        self,
        *,
        tools: Sequence[str | BaseTool] | None = None,
        action: GroundingAction = "mark",
        judge: LocalJudge | None = None,
        correct: bool = False,
    ) -> None:
        super().__init__()
        if action not in get_args(GroundingAction):
            raise InputError(f"unknown action {action!r}: one of {', '.join(get_args(GroundingAction))}")
        self._names = _names(tools)
        self._action = action
        self._correct = correct
        self._judge = judge or LocalJudge()
        self._named: set[str] = set()

    # -- hooks of the agent ---------------------------------------------------------------------------

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> Any:
        """Call the model; with ``action="retry"`` once more where statements are not supported."""
        return drive(self._calling(request, handler))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> Any:
        """`wrap_model_call` as a coroutine; the judge computes in a thread."""
        return await adrive(self._calling(request, handler))

    def _calling(self, request: ModelRequest[Any], handler: Callable[..., Any]) -> Steps[Any]:
        passages = self._passages_seen(request.messages)
        question = _question(request.messages)
        retried = self._action == "retry" and bool(passages)
        request = _unstreamed(request) if retried else request
        response = yield from Call(handler, handler, request)
        if retried and (failed := (yield from Compute(self._unsupported, response, passages, question))):
            second = yield from Call(handler, handler, self._again(request, response, failed))
            rest = yield from Compute(self._unsupported, second, passages, question)
            response = self._better(response, failed, second, rest)
        return (yield from Compute(self._with_verdict, response, passages, question))

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Note the verdicts on the final answer, and mark it or hand it over."""
        return drive(self._judging(state))

    async def aafter_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """`after_model`; the judge computes in a thread."""
        return await adrive(self._judging(state))

    def _judging(self, state: Any) -> Steps[dict[str, Any] | None]:
        messages = state["messages"]
        if (fields := _noted_fields(messages)) is not None:
            return self._handed_over(state.get("structured_response"), fields)
        return self._noted(messages, (yield from Compute(self._answer_judged, messages)))

    # -- parts ----------------------------------------------------------------------------------------

    def _noted(self, messages: Sequence[AnyMessage], verdict: Verdict | None) -> dict[str, Any] | None:
        if verdict is None:
            return None
        last = messages[-1]
        assert isinstance(last, AIMessage)
        content, failed = last.content, _failed(verdict)
        edits = edits_of(verdict.marks, correct=self._correct, tell=True)
        if failed and self._action == "hand_over":
            from langgraph.types import interrupt

            decision = interrupt({"answer": last.text, "unsupported": [m.to_dict() for m in failed]})
            content = decision if isinstance(decision, str) else content
            edits = [] if decision is True or isinstance(decision, str) else edits
        noted = {"supported": verdict.accepted, "verdict": verdict.to_dict()}
        update = {
            "content": _edited(content, edits),
            "additional_kwargs": {**last.additional_kwargs, "sage_grounding": noted},
        }
        return {"messages": [last.model_copy(update=update)]}

    def _with_verdict(
        self, response: ModelResponse[Any], passages: Sequence[str], question: str
    ) -> ModelResponse[Any]:
        """The response with a verdict on the fields of a structured answer; others are judged at the end."""
        structured, answer = getattr(response, "structured_response", None), _answer(response)
        if structured is None or answer is None or not passages:
            return response
        leaves = dict(_leaves(_plain(structured)))
        unjudged = [name for name, value in leaves.items() if not _is_statement(value)]
        if new := [name for name in unjudged if name not in self._named]:
            self._named.update(new)
            logger.warning(
                "fields of a structured answer that are no texts of %d words or more are not judged: %s",
                _STATEMENT_WORDS,
                ", ".join(new),
            )
        noted: dict[str, Any] = {"supported": None, "verdict": None, "unjudged": unjudged}
        if verdicts := self._field_verdicts(leaves, passages, question):
            marks = [{**m.to_dict(), "field": f} for f, v in verdicts.items() for m in v.marks]
            supported = not any(_failed(v) for v in verdicts.values())
            first, worst = next(iter(verdicts.values())), min(verdicts.values(), key=_worth)
            verdict = {**worst.to_dict(), "marks": marks, "accepted": first.accepted and supported}
            noted |= {"supported": verdict["accepted"], "verdict": verdict}
        copied = answer.model_copy(
            update={"additional_kwargs": {**answer.additional_kwargs, "sage_grounding": noted}}
        )
        return replace(response, result=[copied if m is answer else m for m in response.result])

    def _field_verdicts(
        self, leaves: Mapping[str, Any], passages: Sequence[str], question: str
    ) -> dict[str, Verdict]:
        """The verdict on each text of a structured answer, by its field; the first answers the question."""
        verdicts: dict[str, Verdict] = {}
        for name, value in leaves.items():
            if _is_statement(value):
                verdicts[name] = check("" if verdicts else question, passages, value, judge=self._judge)
        return verdicts

    def _handed_over(self, structured: Any, fields: Mapping[str, Any]) -> dict[str, Any] | None:
        if fields["supported"] is not False or self._action != "hand_over":
            return None
        from langgraph.types import interrupt

        failed = [m for m in fields["verdict"]["marks"] if m["support"] in ("unsupported", "unsure")]
        decision = interrupt({"answer": _plain(structured), "unsupported": failed})
        if isinstance(decision, bool):
            return None
        made = type(structured)(**decision) if isinstance(decision, Mapping) else decision
        return {"structured_response": made}

    def _passages_seen(self, messages: Sequence[AnyMessage]) -> list[str]:
        """The passages found for the present message of the user."""
        searches = _searches(messages, lambda name: self._names is None or name in self._names)
        return [passage for message in searches for passage in _passages(message) or ()]

    def _answer_judged(self, messages: Sequence[AnyMessage]) -> Verdict | None:
        """The verdict on a final answer; None if it is no answer, claims nothing, or is from no search."""
        answer = messages[-1] if messages else None
        passages = self._passages_seen(messages)
        if not isinstance(answer, AIMessage) or answer.tool_calls or not passages:
            return None
        verdict = check(_question(messages), passages, answer.text, judge=self._judge)
        return verdict if any(m.support != "nothing claimed" for m in verdict.marks) else None

    def _unsupported(
        self, response: ModelResponse[Any], passages: Sequence[str], question: str
    ) -> list[AnswerMark]:
        structured, answer = getattr(response, "structured_response", None), _answer(response)
        if structured is not None:
            verdicts = self._field_verdicts(dict(_leaves(_plain(structured))), passages, question)
            return [mark for verdict in verdicts.values() for mark in _failed(verdict)]
        if answer is None or answer.tool_calls:
            return []
        return _failed(check(question, passages, answer.text, judge=self._judge))

    def _again(
        self, request: ModelRequest[Any], response: ModelResponse[Any], failed: Sequence[AnswerMark]
    ) -> ModelRequest[Any]:
        answer = _answer(response)
        assert answer is not None
        statements = "\n".join(f"- {mark.text}" for mark in failed)
        said = (
            "The passages found do not support these statements:\n"
            f"{statements}\n"
            "Answer again with what the passages say. Leave out what they do not support, or say that they "
            "do not say it."
        )
        # The exchange stays inside this call: the conversation never shows the answer that was withdrawn.
        structured = getattr(response, "structured_response", None)
        text = answer.text if structured is None else json.dumps(_plain(structured), default=str)
        return request.override(messages=[*request.messages, AIMessage(text), HumanMessage(said)])

    @staticmethod
    def _better(
        first: ModelResponse[Any],
        failed: Sequence[AnswerMark],
        second: ModelResponse[Any],
        rest: Sequence[AnswerMark],
    ) -> ModelResponse[Any]:
        answer = _answer(second)
        if getattr(first, "structured_response", None) is not None:
            usable = getattr(second, "structured_response", None) is not None
            return second if usable and len(rest) <= len(failed) else first
        usable = answer is not None and bool(answer.tool_calls or answer.text.strip())
        return second if usable and len(rest) <= len(failed) else first


def _plain(structured: Any) -> Any:
    """A structured answer, of whatever class, as dictionaries and lists."""
    return to_jsonable_python(structured, fallback=str)


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The values inside, each with the names of the fields that lead to it: ``"points.0"``."""
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    else:
        yield name, value
    for key, part in inner:
        yield from _leaves(part, f"{name}.{key}" if name else str(key))


def _is_statement(value: Any) -> bool:
    return isinstance(value, str) and len(value.split()) >= _STATEMENT_WORDS


def _noted_fields(messages: Sequence[AnyMessage]) -> dict[str, Any] | None:
    """The verdicts on a structured answer that has just been given."""
    last = next((m for m in reversed(messages) if not isinstance(m, ToolMessage)), None)
    verdicts = last.additional_kwargs.get("sage_grounding") if isinstance(last, AIMessage) else None
    return verdicts if isinstance(verdicts, dict) and "unjudged" in verdicts else None


def _answer(response: Any) -> AIMessage | None:
    result = response.result if isinstance(response, ModelResponse) else [response]
    return next((m for m in reversed(result) if isinstance(m, AIMessage)), None)


def _question(messages: Sequence[AnyMessage]) -> str:
    return next((m.text for m in reversed(messages) if _is_from_user(m)), "")


def _failed(verdict: Verdict) -> list[AnswerMark]:
    """The statements that are not supported, of a verdict that does not accept those that are unsure too."""
    failed = [mark for mark in verdict.marks if mark.support == "unsupported"]
    return failed or [m for m in verdict.marks if m.support == "unsure" and not verdict.accepted]


def _worth(verdict: Verdict) -> tuple[bool, float]:
    return not verdict.vetoed_by, 10 if verdict.score is None else verdict.score


def _edited(content: str | list[Any], edits: Sequence[tuple[Span, str]]) -> str | list[Any]:
    """A message's content with edits of its text made; its other blocks stay."""
    if isinstance(content, str):
        return edited(content, edits)
    blocks: list[Any] = []
    start = 0
    for block in content:
        text = block if isinstance(block, str) else block.get("text") if block.get("type") == "text" else None
        if not isinstance(text, str):
            blocks.append(block)
            continue
        within = [
            (place.shift(-start), new)
            for place, new in edits
            if start <= place.start and start < place.end <= start + len(text)
        ]
        start += len(text)
        said = edited(text, within)
        blocks.append(said if isinstance(block, str) else {**block, "text": said})
    return blocks


def _unstreamed(request: ModelRequest[Any]) -> ModelRequest[Any]:
    """The request with a model whose words are not streamed: it may be withdrawn."""
    tags = [*(getattr(request.model, "tags", None) or []), "nostream"]
    return request.override(model=request.model.model_copy(update={"tags": tags}))


def _is_from_user(message: AnyMessage) -> bool:
    """A summary of the conversation comes as a message of the user."""
    summary = message.additional_kwargs.get("lc_source") == "summarization"
    return isinstance(message, HumanMessage) and not summary


def _names(tools: Sequence[str | BaseTool] | None) -> frozenset[str] | None:
    if isinstance(tools, str) or (tools is not None and not tools):
        raise InputError('tools is a list of the search tools, such as ["search"], or None for all tools')
    return None if tools is None else frozenset(_name(tool) for tool in tools)


def _searches(messages: Sequence[AnyMessage], is_search: Callable[[str | None], bool]) -> list[ToolMessage]:
    """The results of the searches since the last message of the user."""
    searches: list[ToolMessage] = []
    for message in reversed(messages):
        if _is_from_user(message):
            break
        if isinstance(message, ToolMessage) and is_search(message.name):
            searches.append(message)
    return searches[::-1]


def _name(tool: Any) -> str:
    if isinstance(tool, str):
        return tool
    if isinstance(tool, dict):  # a tool that the model's server runs
        return str(tool.get("name") or tool.get("function", {}).get("name") or tool.get("type") or "")
    name = getattr(tool, "name", None)
    if not isinstance(name, str):
        raise InputError(f"tools holds names of tools, or tools, not {tool!r}")
    return name


def _passages(message: ToolMessage) -> list[str] | None:
    """The passages in a search result; None if it holds something that is no text.

    They are its ``search_result`` blocks; the passages of an MCP search (structured, or one JSON text); the
    documents it carries; or else its blocks between blank lines.
    """
    text = message.text
    if blocks := _search_results(message):
        return ["\n".join(part["text"] for part in b["content"] if part.get("text")) for b in blocks]
    if (structured := _structured(message)) is not None:
        return [str(passage.get("text", "")) for passage in structured["passages"]]
    if isinstance(message.artifact, list) and message.artifact:
        documents = [d.page_content for d in message.artifact if isinstance(d, Document)]
        if len(documents) == len(message.artifact):
            return [content for content in documents if content in text] or documents
    if not text.strip():
        return [] if isinstance(message.content, str) or not message.content else None
    return [block for block in text.split("\n\n") if block.strip()]


def _search_results(message: ToolMessage) -> list[dict[str, Any]]:
    blocks = message.content if isinstance(message.content, list) else []
    return [b for b in blocks if isinstance(b, dict) and b.get("type") == "search_result"]


def _structured(message: ToolMessage) -> dict[str, Any] | None:
    """The result of a search over MCP: an object with ``passages``, each with its ``text``."""
    try:
        value = json.loads(message.text) if message.text.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        value = None
    if value is None and isinstance(message.artifact, dict):
        value = message.artifact.get("structured_content")
    passages = value.get("passages") if isinstance(value, dict) else None
    return value if isinstance(passages, list) and all(isinstance(p, dict) for p in passages) else None
