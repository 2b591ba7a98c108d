"""A critic's grade is overruled where the passages contradict the answer, alike in all three doors."""

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from sage_app.rendering.wording import grade_words
from sage_core.errors import InputError
from sage_core.feedback import FeedbackConfig, FeedbackResult, Verdict, Veto
from sage_core.feedback.types import format_trace
from sage_core.ranking import HybridReranker
from sage_core.verify import settled
from sage_langchain import SageCompressor, SageRetriever, create_sage_chain
from sage_llamaindex import SageNodePostprocessor, SageQueryEngine
from tests.fakes.doors import at_door
from tests.fakes.langchain import ScriptedChat
from tests.fakes.llamaindex import ScriptedLLM, trace_of
from tests.fakes.llm_server import LLMServer, Request
from tests.fakes.models import WordReranker
from tests.fakes.sages import small_sage

TEXT = "The ferry leaves at seven and takes 40 minutes to the island."
QUESTION = "How long does the ferry take to the island?"
WRONG, RIGHT = "The ferry takes 55 minutes to the island.", "The ferry takes 40 minutes to the island."
GRADE = json.dumps({"reason": "complete", "score": 9, "adjust": 0})


class Nodes(BaseRetriever):
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=TEXT))]


def sage(answer: str, folder: Path, **settings: Any) -> FeedbackResult:
    def script(request: Request) -> str:
        return GRADE if request.is_critic else answer

    (folder / "ferry.txt").write_text(TEXT)
    with (
        LLMServer(script) as server,
        small_sage(folder / "store", url=server.base_url, reranker=HybridReranker(), **settings) as own,
    ):
        own.ingest(folder / "ferry.txt")
        return own.ask(QUESTION).feedback


def llamaindex(answer: str, folder: Path, **settings: Any) -> FeedbackResult:
    ours = SageNodePostprocessor(reranker=WordReranker())
    llm = ScriptedLLM.of([answer], [GRADE])
    engine = SageQueryEngine.from_args(Nodes(), llm=llm, node_postprocessors=[ours], **at_door(**settings))
    result = trace_of(engine.query(QUESTION))
    return result


def langchain(answer: str, folder: Path, **settings: Any) -> FeedbackResult:
    retriever = SageRetriever(
        base_retriever=lambda _: [Document(TEXT)], base_compressor=SageCompressor(reranker=WordReranker())
    )
    critic = {"critic": ScriptedChat(replies=[GRADE]), "critic_method": "prompt"}
    chain = create_sage_chain(ScriptedChat(replies=[answer]), retriever, **at_door(**{**critic, **settings}))
    return FeedbackResult.from_dict(chain.invoke(QUESTION)["sage"])


@pytest.mark.parametrize("door", [sage, llamaindex, langchain])
def test_a_contradicted_answer_is_not_accepted(door: Any, tmp_path: Path) -> None:
    result = door(WRONG, tmp_path)
    verdict = result.verdict
    assert result.stop_reason != "accepted" and verdict.score < 9
    assert verdict.source == verdict.vetoed_by == "local judge", "no critic is asked"
    assert "55" in verdict.reason and "40" in verdict.reason
    assert grade_words(verdict) == "not accepted by the local judge"
    assert "not accepted by local judge" in format_trace(result)
    assert FeedbackResult.from_dict(result.to_dict()) == result


@pytest.mark.parametrize("door", [sage, llamaindex, langchain])
def test_a_right_answer_keeps_its_grade(door: Any, tmp_path: Path) -> None:
    result = door(RIGHT, tmp_path)
    assert result.stop_reason == "accepted" and result.score == 9 and not result.verdict.vetoed_by


@pytest.mark.parametrize("door", [sage, llamaindex, langchain])
def test_the_veto_can_be_turned_off(door: Any, tmp_path: Path) -> None:
    assert door(WRONG, tmp_path, veto="off").stop_reason == "accepted"


def test_events_say_who_vetoed() -> None:
    events: list[Any] = []

    class Handler(BaseCallbackHandler):
        def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
            events.append((name, data["score"], data["vetoed_by"]))

    retriever = SageRetriever(
        base_retriever=lambda _: [Document(TEXT)], base_compressor=SageCompressor(reranker=WordReranker())
    )
    critic = {
        "critic": ScriptedChat(replies=[GRADE]),
        "critic_method": "prompt",
        "loop": FeedbackConfig(max_rounds=1),
    }
    chain = create_sage_chain(ScriptedChat(replies=[WRONG]), retriever, **critic)
    chain.invoke(QUESTION, {"callbacks": [Handler()]})
    assert events == [("sage_round", 3.0, "local judge")]


@pytest.mark.parametrize(
    ("veto", "answer", "by"),
    [
        ("contradicted", "Tickets are sold by a bakery in Elm Street.", ""),
        ("contradicted", RIGHT, ""),
        ("contradicted", WRONG, "local judge"),
        ("off", WRONG, ""),
    ],
)
def test_only_a_contradiction_overrules(veto: Veto, answer: str, by: str) -> None:
    config = FeedbackConfig(veto=veto)
    assert settled(Verdict(9), "", answer, [TEXT], config).vetoed_by == by


def test_a_grade_is_lowered_and_never_raised() -> None:
    assert settled(Verdict(None), "", WRONG, [TEXT]).score is None
    assert settled(Verdict(5, 1), "", WRONG, [TEXT]).score == 3
    low = settled(Verdict(2.5), "", WRONG, [TEXT], FeedbackConfig(accept_score=2))
    assert low.score == 2.5 and not low.accepted


def test_an_unknown_veto_is_refused() -> None:
    with pytest.raises(InputError, match="veto"):
        FeedbackConfig(veto="maybe")  # type: ignore[arg-type]
