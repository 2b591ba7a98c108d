"""An answer at every door that answers: graded, contradicted, checked by a judge that fails, shown without reasoning.

The critic approves of everything. What the check itself finds is tested in the core.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, ToolMessage
from llama_index.core.query_engine import RetrieverQueryEngine

from sage_app.rendering.wording import grade_words, support_words
from sage_core.errors import InputError
from sage_core.feedback import FeedbackConfig, FeedbackResult, Verdict
from sage_core.feedback.types import format_trace
from sage_core.llm.reasoning import answer_pieces, blanked_reasoning, without_reasoning
from sage_core.verify import LocalJudge, check, mark_answer, settled
from sage_langchain import SageGrounding, create_sage_chain
from sage_langchain.middleware import SageGroundingMiddleware
from sage_llamaindex import SageGroundedEngine, verdict_of
from tests.fakes.langchain import ScriptedChat
from tests.fakes.llamaindex import ScriptedLLM
from tests.parity.asking import ASKING, Asked, Given

GRADE = json.dumps({"reason": "complete and supported", "score": 9, "adjust": 0, "passage": 1})
DOCUMENTS = [
    "# Handbook\n\n## Backups\n\nBackups of all servers run every night. Each backup is kept for 35 days.",
    "# Lease\n\n## Notice\n\nThe tenant may end the lease with three months' written notice.",
    "# Minutes\n\nNadia Brandt will order the new pump for the greenhouse. Jonas Weber repairs the fence.",
    "# Ferry\n\nDogs are not allowed on the upper deck. Bicycles travel free of charge.",
    "# Leave\n\nUnused leave can be carried over to the next year. Employees have 28 days of leave a year.",
    "# Paths\n\n| Path | Length | Time |\n| --- | --- | --- |\n| Ridge path | 1.2 km | 50 min |\n"
    "| Lake path | 800 m | 15 min |",
    "# Museum\n\nThe museum was founded in 1887 by Clara Voss. It holds 4,300 paintings.",
    "# Laboratory\n\nSamples are stored at -20 °C. The freezer is defrosted every six months.",
    "# Release 2.1\n\nThis release brings three changes:\n\n- Export to CSV.\n- Search ignores accents.",
    "# Reception\n\nVisitors may park in the yard until seven. Permits are issued by Mrs Holm at the reception.",
]
WRONG = [
    (0, "How long is each backup kept?", "Each backup is kept for 90 days.", "35 days"),
    (1, "With what notice may the tenant end the lease?", "The tenant may end the lease with two weeks' notice.",
     "three months"),
    (3, "Are dogs allowed on the upper deck?", "Yes, dogs are allowed on the upper deck.", "not allowed"),
    (4, "Can unused leave be carried over to the next year?",
     "No, unused leave cannot be carried over to the next year.", "carried"),
]  # fmt: skip
RIGHT = [
    ("How long is the ridge path?", "The ridge path is 1.2 km long."),
    ("When was the museum founded?", "The museum was founded in 1887 by Clara Voss."),
    ("At what temperature are samples stored?", "Samples are stored at -20 °C."),
    ("What changes does the release bring?",
     "The documents say: “This release brings three changes: Export to CSV; Search ignores accents.”"),
    ("Who issues permits?", "Permits are issued by Mrs Holm at the reception."),
]  # fmt: skip
DOORS = pytest.mark.parametrize("door", ASKING.values(), ids=ASKING)
WAYS = pytest.mark.parametrize(
    "how",
    [{}, {"awaited": True}, {"streamed": True}, {"awaited": True, "streamed": True}],
    ids=["at once", "awaited", "streamed", "astreamed"],
)


@pytest.mark.parametrize("critic", ["llm", "auto", "local"])
@DOORS
def test_no_wrong_answer_is_accepted_and_every_right_one_is(door: Any, critic: str, tmp_path: Path) -> None:
    for i, (_, question, answer, instead) in enumerate(WRONG):
        (folder := tmp_path / f"wrong{i}").mkdir()
        _, result = door(Asked(question, DOCUMENTS, answer, GRADE, folder), critic=critic)
        verdict = result.verdict
        assert not verdict.accepted and result.stop_reason != "accepted" and verdict.score < 4, answer
        assert verdict.source == verdict.vetoed_by == "local judge"
        assert any(m.refuted and instead in m.instead for m in verdict.marks), verdict
        assert instead in verdict.reason, "the reader is told what the passages say"
        assert grade_words(verdict) == "not accepted by the local judge"
        assert "not accepted by local judge" in format_trace(result)
        # Each round is the answer alone: what the passages contradict needs no critic.
        assert result.usage.calls == len(result.rounds)
        assert FeedbackResult.from_dict(json.loads(json.dumps(result.to_dict()))) == result
    for i, (question, answer) in enumerate(RIGHT):
        (folder := tmp_path / f"right{i}").mkdir()
        _, result = door(Asked(question, DOCUMENTS, answer, GRADE, folder), critic=critic)
        assert result.verdict.accepted and result.stop_reason == "accepted" and len(result.rounds) == 1, (
            answer
        )
        assert not result.verdict.vetoed_by and (critic != "llm" or result.score == 9)
        assert not any(m.refuted or m.support == "unsupported" for m in result.verdict.marks)
        assert result.usage.calls == (1 if critic == "local" else result.usage.calls) <= 2


@DOORS
def test_the_veto_can_be_turned_off(door: Any, tmp_path: Path) -> None:
    _, question, answer, _ = WRONG[0]
    _, result = door(Asked(question, DOCUMENTS, answer, GRADE, tmp_path), veto="off")
    assert result.stop_reason == "accepted"


@DOORS
def test_citations_are_corrected_if_the_settings_say_so(door: Any, tmp_path: Path) -> None:
    written = "Each backup is kept for 35 days [9]. Backups of all servers run every night [9]."
    for correct in (True, False):
        (folder := tmp_path / str(correct)).mkdir()
        asked = Asked("How long is each backup kept?", DOCUMENTS, written, GRADE, folder)
        _, result = door(asked, correct=correct)
        (number,) = {m.passage + 1 for m in result.verdict.marks if m.support == "supported"}
        assert number != 9 and result.rounds[0].answer == written
        assert result.answer == (written.replace("[9]", f"[{number}]") if correct else written)
        assert all(m.heading.startswith("Handbook") for m in result.verdict.marks if m.evidence)


def test_events_say_who_vetoed() -> None:
    events: list[Any] = []

    class Handler(BaseCallbackHandler):
        def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
            events.append((name, data["score"], data["vetoed_by"]))

    _, question, answer, _ = WRONG[0]
    chain = create_sage_chain(
        ScriptedChat(replies=[answer]),
        lambda _: [Document(DOCUMENTS[0])],
        critic=ScriptedChat(replies=[GRADE]),
        critic_method="prompt",
        loop=FeedbackConfig(max_rounds=1),
    )
    chain.invoke(question, {"callbacks": [Handler()]})
    assert events == [("sage_round", 3.0, "local judge")]


@pytest.mark.parametrize(("i", "question", "answer", "instead"), WRONG)
def test_the_plain_check_says_what_the_passages_say_and_where(
    i: int, question: str, answer: str, instead: str
) -> None:
    verdict = check(question, DOCUMENTS, answer)
    assert not verdict.accepted and verdict.vetoed_by
    mark = next(m for m in verdict.marks if m.refuted)
    assert mark.passage == i and instead in mark.reason and mark.evidence.of(DOCUMENTS[i])
    assert DOCUMENTS[i].splitlines()[0].strip("# ") in mark.reason, "the place by its heading"
    words = support_words(verdict.marks)
    assert "0 of 1 statement supported by the passages, 1 contradicted by them" in words


@pytest.mark.parametrize(("question", "answer"), RIGHT)
def test_the_plain_check_accepts_what_the_passages_say(question: str, answer: str) -> None:
    assert check(question, DOCUMENTS, answer).accepted


@pytest.mark.parametrize(("passage", "mark"), [(0, "unsupported"), (11, "unsupported"), (2, "unsure")])
def test_what_is_merely_not_found_overrules_no_critic(passage: int, mark: str) -> None:
    question, answer = "Who sells tickets?", "Tickets are sold by the bakery in Elm Street."
    verdict = settled(Verdict(9, passage=passage), question, answer, DOCUMENTS)
    assert (verdict.score, verdict.accepted, verdict.vetoed_by) == (9, True, "")
    assert [m.support for m in verdict.marks] == [mark], "unsure if the critic names a passage that there is"
    assert not check(question, DOCUMENTS, answer).accepted
    contradicted = settled(Verdict(10, passage=1), "How long?", WRONG[0][2], DOCUMENTS)
    assert not contradicted.accepted, "no critic overrules what the passages contradict"


def test_a_grade_is_lowered_and_never_raised() -> None:
    wrong = WRONG[0][2]
    assert settled(Verdict(None), "", wrong, DOCUMENTS).score is None
    assert settled(Verdict(5, 1), "", wrong, DOCUMENTS).score == 3
    low = settled(Verdict(2.5), "", wrong, DOCUMENTS, FeedbackConfig(accept_score=2))
    assert low.score == 2.5 and not low.accepted
    assert not settled(Verdict(9), "", wrong, DOCUMENTS, FeedbackConfig(veto="off")).vetoed_by
    with pytest.raises(InputError, match="veto"):
        FeedbackConfig(veto="maybe")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "answer",
    ["The documents do not say.", "The documents do not say who sells tickets.", "I could not find that."],
)
def test_nothing_is_supported_beneath_an_abstention(answer: str) -> None:
    assert support_words(mark_answer(answer, DOCUMENTS)) == ""


# Footnotes, powers and circled numbers stand where the answer has a number.
LAMPS = [
    "The lamp costs 10² francs. It is sold in the harbor.",
    "The lamp costs ³ francs. ① It costs ② francs, and H₂O costs 10₂ francs.",
]
PRICE, COST = "What does the lamp of the harbor cost?", "The lamp costs 9 francs. It is sold in the harbor."


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("a bug of the judge")

    for method in ("locate", "answerable", "grounding", "claims_at", "supported"):
        monkeypatch.setattr(LocalJudge, method, fail)


@DOORS
@WAYS
def test_raised_lowered_and_circled_digits_are_no_numbers(door: Any, how: Any, tmp_path: Path) -> None:
    settings = {} if how else {"critic": "auto"}
    text, result = door(Asked(PRICE, LAMPS, COST, GRADE, tmp_path, **how), **settings)
    assert text.startswith(COST) and result.answer.strip() == COST and result.stop_reason != "critic_failed"


@DOORS
@WAYS
@pytest.mark.parametrize("settings", [{}, {"critic": "auto"}, {"critic": "local"}])
@pytest.mark.usefixtures("broken")
def test_a_judge_that_raises_loses_no_answer(
    door: Any, how: Any, settings: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text, result = door(Asked(PRICE, LAMPS, COST, GRADE, tmp_path, **how), **settings)
    assert text.startswith(COST) and result.answer.strip() == COST
    if settings.get("critic") == "local":
        assert result.stop_reason in ("unchanged", "max_rounds") and result.score == 5, "nothing is known"
    else:
        assert result.stop_reason == "accepted" and result.score == 9, "the LLM graded"
    assert "a bug of the judge" in caplog.text


@pytest.mark.usefixtures("broken")
def test_checks_with_a_judge_that_raises_hand_the_answer_on() -> None:
    output = SageGrounding().invoke({"input": PRICE, "answer": COST, "context": LAMPS})
    assert output["answer"] == COST and output["verdict"].probability is None
    for marks in (mark_answer(COST, LAMPS), output["verdict"].marks):
        (mark,) = marks
        assert (mark.text, mark.support, mark.probability) == (COST, "unsure", None)
        assert "a bug of the judge" in mark.reason
    assert settled(Verdict(9), PRICE, COST, LAMPS).accepted
    stock = RetrieverQueryEngine.from_args(Given(LAMPS), llm=ScriptedLLM.of([COST], []))
    response = SageGroundedEngine(stock).query(PRICE)
    assert str(response) == COST and not verdict_of(response).accepted  # type: ignore[union-attr]
    agent = create_agent(ScriptedChat(replies=[COST]), [], middleware=[SageGroundingMiddleware()])
    call = {"name": "search", "args": {"query": "lamp"}, "id": "1"}
    searched = [AIMessage("", tool_calls=[call]), ToolMessage(LAMPS[0], tool_call_id="1")]
    messages: Any = [("user", PRICE), *searched]
    assert agent.invoke({"messages": messages})["messages"][-1].text == COST


FERRY = "The ferry leaves at nine on weekdays. Tickets are sold on board."
LEAVES, NINE = "When does the ferry leave?", "The ferry leaves at nine on weekdays."
THINKS = "<think>Is it ten on Sundays?\n It costs 12 pounds.</think>\n\n"


@pytest.mark.parametrize(
    ("written", "answer", "streamed"),
    [
        (f"{THINKS}{NINE}", NINE, NINE),
        (f"[THINK]Ten?[/THINK]{NINE}", NINE, NINE),
        (f"<seed:think>Ten?</seed:think>{NINE}", NINE, NINE),
        (f"Ten?\n</think>\n{NINE}", NINE, f"Ten?\n\n{NINE}"),
        ("<think>Ten, or", "", ""),
        (f"{THINKS}One.<THINK>Hm.</THINK>Two.", "One.\nTwo.", "One.Two."),
        ("A <think> tag opens it.", "A <think> tag opens it.", "A <think> tag opens it."),
        ("Is 3 < 4 [1]?", "Is 3 < 4 [1]?", "Is 3 < 4 [1]?"),
    ],
)
@pytest.mark.parametrize("size", [1, 4, 500])
def test_reasoning_is_told_from_the_answer(written: str, answer: str, streamed: str, size: int) -> None:
    pieces = (written[i : i + size] for i in range(0, len(written), size))
    assert (without_reasoning(written), "".join(answer_pieces(pieces))) == (answer, streamed)
    assert len(blanked_reasoning(written)) == len(written)


@DOORS
@WAYS
@pytest.mark.parametrize("written", [f"{THINKS}{NINE}", f"[THINK]Ten?[/THINK]{NINE}"])
def test_no_door_shows_reasoning(door: Any, how: Any, written: str, tmp_path: Path) -> None:
    assert door(Asked(LEAVES, [FERRY], written, GRADE, tmp_path, **how))[0] == NINE


def test_no_check_shows_reasoning_or_reads_it() -> None:
    written = f"{THINKS}{NINE}"
    verdict = check(LEAVES, [FERRY], written)
    assert verdict.accepted and "".join(mark.text for mark in verdict.marks) == written
    assert [m.support for m in mark_answer(written, [FERRY])] == ["nothing claimed", "supported"]
    response = SageGroundedEngine(
        RetrieverQueryEngine.from_args(Given([FERRY]), llm=ScriptedLLM.of([written]))
    ).query(LEAVES)
    assert str(response) == NINE and verdict_of(response).accepted  # type: ignore[union-attr]
    output = SageGrounding().invoke({"input": LEAVES, "answer": AIMessage(written), "context": [FERRY]})
    assert output["verdict"].accepted and str(output["answer"]) == NINE
