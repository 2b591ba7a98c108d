"""An answer at every door that answers: graded, contradicted, without reasoning, kept whatever breaks, in rounds.

What the check itself finds is tested in the core.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from llama_index.core.schema import NodeWithScore, TextNode

from sage_app.rendering.wording import grade_words, support_words
from sage_core import FeedbackConfig, FeedbackResult
from sage_core.errors import LLMError
from sage_core.feedback import FeedbackLoop, parse_verdict, run_loop
from sage_core.llm.usage import TokenUsage
from sage_core.selection import SelectionConfig
from sage_core.verify import LocalJudge
from sage_langchain import SageCompressor, SageRetriever, create_sage_chain
from sage_llamaindex import SageNodePostprocessor, SageQueryEngine
from tests.fakes.langchain import ScriptedChat
from tests.fakes.llamaindex import ScriptedLLM, grade, trace_of
from tests.parity.asking import ASKING, Asked, Given

GOOD = json.dumps({"reason": "complete and supported", "score": 9, "adjust": 0, "passage": 1})
DOCUMENTS = [
    "# Handbook\n\n## Backups\n\nBackups of all servers run every night. Each backup is kept for 35 days.",
    "# Leave\n\nUnused leave can be carried over to the next year. Employees have 28 days of leave a year.",
    "# Paths\n\n| Path | Length | Time |\n| --- | --- | --- |\n| Ridge path | 1.2 km | 50 min |\n"
    "| Lake path | 800 m | 15 min |",
    # Footnotes, powers and circled numbers stand where the answer has a number.
    "# Lamps\n\nThe lamp costs 10² francs. It is sold in the harbor.",
    "# More lamps\n\nThe lamp costs ³ francs. ① It costs ② francs, and H₂O costs 10₂ francs.",
]
KEPT, DAYS = "How long is each backup kept?", "Each backup is kept for 35 days."
LAMP, COST = "What does the lamp of the harbor cost?", "The lamp costs 9 francs. It is sold in the harbor."
CITED = "Each backup is kept for 35 days [9]. Backups of all servers run every night [9]."
DOORS = pytest.mark.parametrize("door", ASKING.values(), ids=ASKING)
WAYS = pytest.mark.parametrize(
    "how",
    [{}, {"awaited": True}, {"streamed": True}, {"awaited": True, "streamed": True}],
    ids=["at once", "awaited", "streamed", "astreamed"],
)


def accepted(text: str, result: FeedbackResult) -> None:
    verdict = result.verdict
    assert verdict is not None and verdict.accepted and not verdict.vetoed_by
    assert result.stop_reason == "accepted" and len(result.rounds) == 1 and result.usage.calls <= 2
    assert not any(m.support in ("not found", "contradicted") for m in verdict.marks)
    assert text == result.answer


def vetoed(text: str, result: FeedbackResult) -> None:
    """Without a call of the critic: what the passages contradict needs none."""
    verdict = result.verdict
    assert verdict is not None and not verdict.accepted and (verdict.score or 0) < 4
    assert result.stop_reason != "accepted" and result.usage.calls == len(result.rounds)
    assert verdict.source == verdict.vetoed_by == "local judge"
    (refuted,) = [m for m in verdict.marks if m.instead]
    assert refuted.instead and refuted.instead in verdict.reason, "the reader is told what the passages say"
    assert "0 of 1 statement supported by the passages, 1 contradicted by them" in support_words(
        verdict.marks
    )
    assert grade_words(verdict) == "not accepted by the local judge"
    assert "not accepted by local judge" in str(result)
    assert FeedbackResult.from_dict(json.loads(json.dumps(result.to_dict()))) == result


def ungraded(text: str, result: FeedbackResult) -> None:
    assert text == result.answer == DAYS and (result.stop_reason, result.score) == ("critic_failed", None)


def shown(expected: str) -> Callable[[str, FeedbackResult], None]:
    def holds(text: str, result: FeedbackResult) -> None:
        assert text == expected

    return holds


def corrected(text: str, result: FeedbackResult) -> None:
    assert result.verdict is not None and result.rounds[0].answer == CITED
    (number,) = {m.passage + 1 for m in result.verdict.marks if m.support in ("supported", "misattributed")}  # type: ignore[operator]
    assert number != 9 and result.answer == CITED.replace("[9]", f"[{number}]")
    assert all(m.heading.startswith("Handbook") for m in result.verdict.marks if m.evidence)


class Case(NamedTuple):
    """A question, what the LLM writes, settings, what must hold, and the critic's reply."""

    question: str
    written: str
    settings: dict[str, Any]
    holds: Callable[[str, FeedbackResult], None]
    reply: str = GOOD


CASES = {
    "right": Case(KEPT, DAYS, {}, accepted),
    "right, without a critic's call": Case("How long is the ridge path?", "The ridge path is 1.2 km long.", {"critic": "local"}, accepted),
    "another number": Case(KEPT, "Each backup is kept for 90 days.", {}, vetoed),
    "a denial": Case("Can unused leave be carried over to the next year?",
                     "No, unused leave cannot be carried over to the next year.", {"critic": "auto"}, vetoed),
    "unreadable critic": Case(KEPT, DAYS, {}, ungraded, "I would rather not say."),
    "raised and circled digits": Case(LAMP, COST, {"critic": "auto"}, shown(COST)),
    "reasoning": Case(KEPT, f"<think>Is it 90?\n It is 12.</think>\n\n{DAYS}", {}, shown(DAYS)),
    "reasoning in brackets": Case(KEPT, f"[THINK]90?[/THINK]{DAYS}", {}, shown(DAYS)),
    "citations as they are": Case(KEPT, CITED, {}, shown(CITED)),
}  # fmt: skip


@DOORS
@WAYS
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_answered(door: Any, how: Any, case: Case, tmp_path: Any) -> None:
    asked = Asked(case.question, DOCUMENTS, case.written, case.reply, tmp_path, **how)
    case.holds(*door(asked, **case.settings))


@DOORS
def test_citations_are_corrected_if_the_settings_say_so(door: Any, tmp_path: Any) -> None:
    corrected(*door(Asked(KEPT, DOCUMENTS, CITED, GOOD, tmp_path), correct=True))


@DOORS
@WAYS
@pytest.mark.parametrize("critic", ["llm", "local"])
def test_a_judge_that_raises_loses_no_answer(
    door: Any,
    how: Any,
    critic: str,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("a bug of the judge")

    for method in ("claims_at", "claims"):
        monkeypatch.setattr(LocalJudge, method, fail)
    text, result = door(Asked(LAMP, DOCUMENTS, COST, GOOD, tmp_path, **how), critic=critic)
    assert text == result.answer == COST and "a bug of the judge" in caplog.text
    assert result.score == (9 if critic == "llm" else 5), "the LLM graded, or nothing is known"


def test_events_say_who_vetoed() -> None:
    events: list[Any] = []

    class Handler(BaseCallbackHandler):
        def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
            events.append((name, data["score"], data["vetoed_by"]))

    llm, critic = ScriptedChat(replies=[CASES["another number"].written]), ScriptedChat(replies=[GOOD])
    loop = FeedbackConfig(max_rounds=1)
    found = [Document(DOCUMENTS[0])]
    chain = create_sage_chain(llm, lambda _: found, critic=critic, loop=loop)
    chain.invoke(KEPT, {"callbacks": [Handler()]})
    ((name, score, vetoed_by),) = events
    assert (name, vetoed_by) == ("sage_round", "local judge") and score <= 3


# The rounds: the same scores and replies give the same trace in the core and at both doors.

SCORES = [0.97, 0.91, 0.9, 0.12, 0.11, 0.1, 0.02, 0.01]
PASSAGES = [f"Passage {i}: the harbour master keeps record number {i}." for i in range(len(SCORES))]
QUESTION, BUSY = "Who keeps the records?", LLMError("busy")
SELECTION = SelectionConfig(min_k=2, rule="gradient")


class Script(NamedTuple):
    """Answers and grades in turn, how it ends, and settings of the loop."""

    answers: list[Any]
    grades: list[Any]
    stop: str
    answer: str
    rounds: int
    settings: dict[str, Any] = {}  # noqa: RUF012


SCRIPTS = {
    "more, then accepted": Script(["short", "long"], [grade(4, 1), grade(9)], "accepted", "long", 2),
    "the first was best": Script(["good", "b", "c"], [grade(7, 1), grade(3, 1), grade(2)], "max_rounds", "good", 3),
    "the critic fails": Script(["kept"], [BUSY], "critic_failed", "kept", 1),
    "the second answer fails": Script(["early", BUSY], [grade(4, 1)], "answer_failed", "early", 2),
    "no answer of one's own": Script(
        ["No idea.", "then"], [grade(9)], "accepted", "then", 2, {"no_answer": ("No idea.",)}
    ),
    "five calls": Script(["a", "b"], [grade(2, 1), grade(3, 1)], "budget", "b", 2, {"max_calls": 5}),
    "the paper's moves": Script(
        ["a", "b", "c"], [grade(4, 1), grade(5, -1), grade(6)], "max_rounds", "c", 3, {"policy": "paper"}
    ),
}  # fmt: skip


def outline(result: FeedbackResult) -> dict[str, Any]:
    """What must agree; token counts differ by what each fake model reports."""
    trace = result.to_dict()
    rounds = [
        (r["selection"]["indices"], r["answer"], r["verdict"] and (r["verdict"]["score"], r["verdict"]["adjust"]))
        for r in trace["rounds"]
    ]  # fmt: skip
    return {"rounds": rounds, **{key: trace[key] for key in ("answer", "score", "stop_reason", "best_round")}}


def through_core(script: Script) -> FeedbackResult:
    answers, grades, usage = list(script.answers), list(script.grades), TokenUsage(100, 10, 1)

    def following(replies: list[Any]) -> Any:
        if isinstance(reply := replies.pop(0), Exception):
            raise reply
        return reply

    loop = FeedbackLoop(SCORES, "probability", FeedbackConfig(selection=SELECTION, **script.settings))
    return run_loop(
        loop,
        lambda _: (following(answers), usage),
        lambda *_: (parse_verdict(following(grades)), usage),
    )


def through_llamaindex(script: Script, awaited: bool) -> FeedbackResult:
    ids = map(str, range(len(SCORES)))
    nodes = [
        NodeWithScore(node=TextNode(id_=i, text=p), score=s)
        for i, p, s in zip(ids, PASSAGES, SCORES, strict=True)
    ]
    ours = SageNodePostprocessor(reranker=None, scale="probability", selection=SELECTION)
    llm, loop = ScriptedLLM.of(script.answers, script.grades), FeedbackConfig(**script.settings)
    engine = SageQueryEngine.from_args(Given(nodes), llm=llm, node_postprocessors=[ours], loop=loop)
    response = asyncio.run(engine.aquery(QUESTION)) if awaited else engine.query(QUESTION)
    result = trace_of(response)
    assert str(response) == result.answer
    assert [int(n.node_id) for n in response.source_nodes] == list(result.selection.indices)
    return result


def through_langchain(script: Script, awaited: bool) -> FeedbackResult:
    documents = [Document(p, metadata={"score": s}) for p, s in zip(PASSAGES, SCORES, strict=True)]
    ours = SageCompressor(reranker=None, scale="probability", selection=SELECTION)
    retriever = SageRetriever(base_retriever=lambda _: documents, base_compressor=ours)
    llm, critic = ScriptedChat(replies=script.answers), ScriptedChat(replies=script.grades)
    loop = FeedbackConfig(**script.settings)
    chain = create_sage_chain(llm, retriever, critic=critic, loop=loop)
    output = asyncio.run(chain.ainvoke(QUESTION)) if awaited else chain.invoke(QUESTION)
    result = FeedbackResult.from_dict(output["sage"])
    assert output["answer"] == result.answer
    assert [d.page_content for d in output["context"]] == [PASSAGES[i] for i in result.selection.indices]
    return result


@pytest.mark.parametrize("through", [through_llamaindex, through_langchain])
@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_the_same_trace(script: Script, awaited: bool, through: Any) -> None:
    expected = through_core(script)
    ended = (expected.stop_reason, expected.answer, len(expected.rounds))
    assert ended == (script.stop, script.answer, script.rounds)
    if script.stop == "answer_failed":
        assert (expected.rounds[-1].answer, expected.rounds[-1].error) == (None, "busy")
    assert outline(through(script, awaited)) == outline(expected)
