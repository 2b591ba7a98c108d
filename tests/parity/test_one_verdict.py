"""One verdict: nine answers over ten documents, four of them wrong, graded by a critic that approves everything."""

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from sage_app.rendering.wording import grade_words, support_words
from sage_core.feedback import FeedbackConfig, FeedbackResult, Verdict
from sage_core.ranking import HybridReranker
from sage_core.verify import check, mark_answer, settled
from sage_langchain import SageCompressor, SageRetriever, create_sage_chain
from sage_llamaindex import SageNodePostprocessor, SageQueryEngine
from tests.fakes.doors import at_door
from tests.fakes.langchain import ScriptedChat
from tests.fakes.llamaindex import ScriptedLLM, trace_of
from tests.fakes.llm_server import LLMServer, Request
from tests.fakes.models import WordReranker
from tests.fakes.sages import small_sage

APPROVES = json.dumps({"reason": "complete and supported", "score": 9, "adjust": 0})
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
    (5, "How long is the ridge path?", "The ridge path is 1.2 km long."),
    (6, "When was the museum founded?", "The museum was founded in 1887 by Clara Voss."),
    (7, "At what temperature are samples stored?", "Samples are stored at -20 °C."),
    (
        8,
        "What changes does the release bring?",
        "The documents say: “This release brings three changes: Export to CSV; Search ignores accents.”",
    ),
    (9, "Who issues permits?", "Permits are issued by Mrs Holm at the reception."),
]


class Nodes(BaseRetriever):
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=text)) for text in DOCUMENTS]


def sage(question: str, answer: str, folder: Path, **settings: Any) -> FeedbackResult:
    def script(request: Request) -> str:
        return APPROVES if request.is_critic else answer

    for i, text in enumerate(DOCUMENTS):
        (folder / f"{i}.md").write_text(text)
    with (
        LLMServer(script) as server,
        small_sage(folder / "store", url=server.base_url, reranker=HybridReranker(), **settings) as own,
    ):
        own.ingest(folder)
        asked = own.ask(question)
        assert asked.marks() == asked.feedback.verdict.marks
        return asked.feedback


def llamaindex(question: str, answer: str, folder: Path, **settings: Any) -> FeedbackResult:
    ours, llm = SageNodePostprocessor(reranker=WordReranker()), ScriptedLLM.of([answer], [APPROVES])
    engine = SageQueryEngine.from_args(Nodes(), llm=llm, node_postprocessors=[ours], **at_door(**settings))
    return trace_of(engine.query(question))


def langchain(question: str, answer: str, folder: Path, **settings: Any) -> FeedbackResult:
    documents = [Document(text) for text in DOCUMENTS]
    retriever = SageRetriever(
        base_retriever=lambda _: documents, base_compressor=SageCompressor(reranker=WordReranker())
    )
    critic = {"critic": ScriptedChat(replies=[APPROVES]), "critic_method": "prompt"}
    loop = FeedbackConfig(**settings)
    chain = create_sage_chain(ScriptedChat(replies=[answer]), retriever, **critic, loop=loop)
    return FeedbackResult.from_dict(chain.invoke(question)["sage"])


@pytest.mark.parametrize("critic", ["llm", "auto", "local"])
@pytest.mark.parametrize("door", [sage, llamaindex, langchain])
def test_no_wrong_answer_is_accepted_and_every_right_one_is(door: Any, critic: str, tmp_path: Path) -> None:
    for i, (_, question, answer, instead) in enumerate(WRONG):
        (folder := tmp_path / f"wrong{i}").mkdir()
        result = door(question, answer, folder, critic=critic)
        verdict = result.verdict
        assert not verdict.accepted and result.stop_reason != "accepted" and verdict.score < 4, answer
        assert any(m.refuted and instead in m.instead for m in verdict.marks), verdict
        assert instead in verdict.reason, "the reader is told what the passages say"
        # Each round is the answer alone: what the passages contradict needs no critic.
        assert result.usage.calls == len(result.rounds)
    for i, (_, question, answer) in enumerate(RIGHT):
        (folder := tmp_path / f"right{i}").mkdir()
        result = door(question, answer, folder, critic=critic)
        assert result.verdict.accepted and result.stop_reason == "accepted" and len(result.rounds) == 1, (
            answer
        )
        assert not any(m.refuted or m.support == "unsupported" for m in result.verdict.marks)
        assert result.usage.calls == (1 if critic == "local" else result.usage.calls) <= 2
        assert FeedbackResult.from_dict(json.loads(json.dumps(result.to_dict()))) == result


@pytest.mark.parametrize("door", [sage, llamaindex, langchain])
def test_citations_are_corrected_where_the_settings_say_so(door: Any, tmp_path: Path) -> None:
    written = "Each backup is kept for 35 days [9]. Backups of all servers run every night [9]."
    for correct in (True, False):
        (folder := tmp_path / str(correct)).mkdir()
        result = door("How long is each backup kept?", written, folder, correct=correct)
        (number,) = {m.passage + 1 for m in result.verdict.marks if m.support == "supported"}
        assert number != 9 and result.rounds[0].answer == written
        assert result.answer == (written.replace("[9]", f"[{number}]") if correct else written)
        assert all(m.heading.startswith("Handbook") for m in result.verdict.marks if m.evidence)


@pytest.mark.parametrize(("i", "question", "answer", "instead"), WRONG)
def test_the_plain_check_says_what_the_passages_say_and_where(
    i: int, question: str, answer: str, instead: str
) -> None:
    verdict = check(question, DOCUMENTS, answer)
    assert not verdict.accepted and verdict.vetoed_by
    mark = next(m for m in verdict.marks if m.refuted)
    assert mark.passage == i and instead in mark.reason and mark.evidence.of(DOCUMENTS[i])
    assert DOCUMENTS[i].splitlines()[0].strip("# ") in mark.reason, "the place by its heading"


@pytest.mark.parametrize(("i", "question", "answer"), RIGHT)
def test_the_plain_check_accepts_what_the_passages_say(i: int, question: str, answer: str) -> None:
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


def test_grade_and_support_are_shown_as_one() -> None:
    verdict = settled(Verdict(9), "How long?", WRONG[0][2], DOCUMENTS)
    assert grade_words(verdict) == "not accepted by the local judge"
    assert "0 of 1 statement supported by the passages, 1 contradicted by them" in support_words(
        verdict.marks
    )


@pytest.mark.parametrize(
    "answer",
    ["The documents do not say.", "The documents do not say who sells tickets.", "I could not find that."],
)
def test_nothing_is_supported_beneath_an_abstention(answer: str) -> None:
    assert support_words(mark_answer(answer, DOCUMENTS)) == ""
