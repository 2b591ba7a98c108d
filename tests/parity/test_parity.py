"""The same text, scores and replies give the same chunks, selection and trace through all three doors."""

import asyncio
import json
import math
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document as LCDocument
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import Document as LIDocument
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode

from sage_core import FeedbackConfig, FeedbackResult, Segmenter
from sage_core.errors import LLMError
from sage_core.feedback import FeedbackLoop, parse_verdict, run_loop
from sage_core.llm.usage import TokenUsage
from sage_core.selection import SelectionConfig
from sage_core.selection.rules import FixedK, Threshold
from sage_langchain import SageCompressor, SageRetriever, SageTextSplitter, create_sage_chain
from sage_llamaindex import SageNodeParser, SageNodePostprocessor, SageQueryEngine
from tests.core.text.test_sentences import MESSY
from tests.fakes.doors import at_door
from tests.fakes.langchain import ScriptedChat
from tests.fakes.llamaindex import ScriptedLLM, grade, trace_of
from tests.fakes.models import HashModel

pytestmark = pytest.mark.slow

TEXTS = [
    "",
    "  \r\n ",
    "One sentence only.",
    "# Tides\r\n\r\nThe tide turns at noon. Boats wait in the harbour.\r\n\r\n# Bread\r\n\r\nYeast needs warmth. 🥖 It rises twice.",
    "同じ文。同じ文。違う文！" * 9,
    "The kiln is lit on Monday. " * 40 + "A heron nests on the weir. " * 40,
]
SCORES = [0.97, 0.91, 0.9, 0.12, 0.11, 0.1, 0.02, 0.01]
PASSAGES = [f"Passage {i}: the harbour master keeps record number {i}." for i in range(len(SCORES))]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_the_same_chunks(text):
    spans = [(s.start, s.end) for s in Segmenter(max_tokens=60).segment(text)]
    nodes = SageNodeParser(
        segmenter=Segmenter(max_tokens=60), include_metadata=False
    ).get_nodes_from_documents([LIDocument(text=text)])
    documents = SageTextSplitter(segmenter=Segmenter(max_tokens=60), add_start_index=True).create_documents(
        [text]
    )
    assert [(n.start_char_idx, n.end_char_idx) for n in nodes] == spans
    assert [n.get_content(MetadataMode.NONE) for n in nodes] == [text[a:b] for a, b in spans]
    assert [d.page_content for d in documents] == [text[a:b] for a, b in spans]
    assert [d.metadata["start_index"] for d in documents] == [a for a, _ in spans]


@given(MESSY, st.sampled_from(["bert", "words"]), st.integers(1, 40))
def test_any_text_is_cut_alike(text, counter, limit):
    segmenter = Segmenter(HashModel(), max_tokens=limit, min_tokens=0, counter=counter)
    spans = [(s.start, s.end) for s in segmenter.segment(text)]
    nodes = SageNodeParser(segmenter=segmenter).get_nodes_from_documents([LIDocument(text=text)])
    assert [(n.start_char_idx, n.end_char_idx) for n in nodes] == spans
    splitter = SageTextSplitter(segmenter=segmenter, add_start_index=True)
    found = [(d.metadata["start_index"], d.page_content) for d in splitter.create_documents([text])]
    assert found == [(start, text[start:end]) for start, end in spans]
    assert [n.text for n in nodes] == [chunk for _, chunk in found]


scores = st.lists(st.one_of(st.none(), st.just(math.nan), st.floats(0, 1)), max_size=20)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    scores,
    st.sampled_from(["probability", "logit", "cosine", "unbounded"]),
    st.sampled_from([None, 1, 2, 5]),
    st.sampled_from([None, 0.1, 0.3, 0.9]),
    st.sampled_from([None, 5, 6]),
    st.sampled_from(["auto", "gradient", FixedK(3), Threshold(0.5)]),
)
def test_the_same_selection(values, scale, min_k, gradient, max_k, rule):
    config = SelectionConfig(min_k=min_k, max_k=max_k, gradient=gradient, rule=rule)
    tokens = [1] * len(values)  # "0" is a token
    expected, bounds = config.select(values, scale, tokens), {"selection": config}
    nodes = [NodeWithScore(node=TextNode(id_=str(i), text=str(i)), score=v) for i, v in enumerate(values)]
    post = SageNodePostprocessor(reranker=None, scale=scale, **at_door(**bounds))
    kept = post.postprocess_nodes(nodes, query_str="q")
    if any(v is not None and v == v for v in values):  # without any score the postprocessor passes all on
        assert [int(n.node_id) for n in kept] == list(expected.indices)
        assert [n.score for n in kept] == list(expected.scores)
    json.dumps([n.to_dict() for n in kept], allow_nan=False)
    documents = [
        LCDocument(page_content=str(i), metadata={"relevance_score": v}) for i, v in enumerate(values)
    ]
    compressor = SageCompressor(score_key="relevance_score", scale=scale, **at_door(**bounds))
    chosen = compressor.compress_documents(documents, "q")
    assert [int(d.page_content) for d in chosen] == list(expected.indices)
    assert [d.metadata["relevance_score"] for d in chosen] == list(expected.scores)


QUESTION = "Who keeps the records?"
UNSAID = "The documents do not say."
BUSY = LLMError("busy")


class Script(NamedTuple):
    """Answers and grades in turn, settings of the loop, and how it ends."""

    answers: list[Any]
    grades: list[Any]
    stop: str
    answer: str
    rounds: int
    settings: dict[str, Any] = {}  # noqa: RUF012

    @property
    def door_settings(self) -> dict[str, Any]:
        """The same for a door, which takes the paper's settings in its configs alone."""
        rest = {name: value for name, value in self.settings.items() if name != "policy"}
        return {**rest, "loop": FeedbackConfig(policy="paper")} if rest != self.settings else rest


SCRIPTS = {
    "accepted at once": Script(["first"], [grade(9)], "accepted", "first", 1),
    "more, then accepted": Script(["short", "long"], [grade(4, 1), grade(9)], "accepted", "long", 2),
    "nothing left between": Script(["a", "b"], [grade(5, -1), grade(6, 1)], "unchanged", "b", 2),
    "the first was best": Script(
        ["good", "worse", "worst"], [grade(7, 1), grade(3, 1), grade(2)], "max_rounds", "good", 3
    ),
    "the second was best": Script(
        ["a", "b", "c"], [grade(4, 1), grade(7, 1), grade(2)], "max_rounds", "b", 3
    ),
    "unreadable critic": Script(["kept"], ["I would rather not say."], "critic_failed", "kept", 1),
    "the critic fails": Script(["kept"], [BUSY], "critic_failed", "kept", 1),
    "the second answer fails": Script(["early", BUSY], [grade(4, 1)], "answer_failed", "early", 2),
    "no answer first": Script([UNSAID, "then"], [grade(9)], "accepted", "then", 2),
    "no answer of one's own": Script(
        ["No idea.", "then"], [grade(9)], "accepted", "then", 2, {"no_answer": ("No idea.",)}
    ),
    "one call": Script(["one"], [], "budget", "one", 1, {"max_calls": 1}),
    "four calls": Script(["a", "b"], [grade(2, 1), grade(3, 1)], "budget", "b", 2, {"max_calls": 5}),
    "few tokens": Script(["one"], [grade(5, 1)], "budget", "one", 1, {"max_llm_tokens": 10}),
    "an easy critic": Script(["a"], [grade(4, 1)], "accepted", "a", 1, {"accept_score": 4}),
    "the paper's moves": Script(
        ["a", "b", "c"], [grade(4, 1), grade(5, -1), grade(6)], "max_rounds", "c", 3, {"policy": "paper"}
    ),
}


def outline(result: FeedbackResult) -> dict[str, Any]:
    """What must agree; token counts differ by what each fake model reports."""
    trace = result.to_dict()
    rounds = [
        (
            r["selection"]["indices"],
            r["answer"],
            r["verdict"] and (r["verdict"]["score"], r["verdict"]["adjust"]),
        )
        for r in trace["rounds"]
    ]
    return {"rounds": rounds, **{key: trace[key] for key in ("answer", "score", "stop_reason", "best_round")}}


def failing(script: list[Any]) -> Any:
    """The script's next item; an exception is raised."""
    item = script.pop(0)
    if isinstance(item, Exception):
        raise item
    return item


def through_core(script: Script) -> FeedbackResult:
    answers, grades = list(script.answers), list(script.grades)
    loop = FeedbackLoop(
        SCORES,
        "probability",
        FeedbackConfig(selection=SelectionConfig(min_k=2, rule="gradient"), **script.settings),
    )
    usage = TokenUsage(100, 10, 1)
    return run_loop(
        loop, lambda _: (failing(answers), usage), lambda *_: (parse_verdict(failing(grades)), usage)
    )


def through_llamaindex(script: Script, awaited: bool) -> FeedbackResult:
    nodes = [
        NodeWithScore(node=TextNode(id_=str(i), text=p), score=s)
        for i, (p, s) in enumerate(zip(PASSAGES, SCORES, strict=True))
    ]
    post = SageNodePostprocessor(
        reranker=None, scale="probability", selection=SelectionConfig(min_k=2, rule="gradient")
    )
    llm = ScriptedLLM.of(script.answers, script.grades)
    engine = SageQueryEngine.from_args(
        Given(nodes), llm=llm, node_postprocessors=[post], **at_door(**script.door_settings)
    )
    response = asyncio.run(engine.aquery(QUESTION)) if awaited else engine.query(QUESTION)
    result = trace_of(response)
    assert str(response) == result.answer
    assert [int(n.node_id) for n in response.source_nodes] == list(result.selection.indices)
    return result


class Given(BaseRetriever):
    """Returns the same nodes for every question."""

    def __init__(self, nodes: list[NodeWithScore]) -> None:
        self.nodes = nodes
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self.nodes


def through_langchain(script: Script, awaited: bool) -> FeedbackResult:
    documents = [
        LCDocument(p, metadata={"relevance_score": s}) for p, s in zip(PASSAGES, SCORES, strict=True)
    ]
    compressor = SageCompressor(
        score_key="relevance_score", scale="probability", selection=SelectionConfig(min_k=2, rule="gradient")
    )
    retriever = SageRetriever(base_retriever=lambda _: documents, base_compressor=compressor)
    llm, critic = ScriptedChat(replies=script.answers), ScriptedChat(replies=script.grades)
    chain = create_sage_chain(
        llm, retriever, critic=critic, critic_method="prompt", **at_door(**script.door_settings)
    )
    output = asyncio.run(chain.ainvoke(QUESTION)) if awaited else chain.invoke(QUESTION)
    result = FeedbackResult.from_dict(output["sage"])
    assert output["answer"] == result.answer
    assert [d.page_content for d in output["context"]] == [PASSAGES[i] for i in result.selection.indices]
    return result


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_the_same_trace(script: Script, awaited: bool) -> None:
    expected = through_core(script)
    assert (expected.stop_reason, expected.answer, len(expected.rounds)) == (
        script.stop,
        script.answer,
        script.rounds,
    )
    assert outline(through_llamaindex(script, awaited)) == outline(expected)
    assert outline(through_langchain(script, awaited)) == outline(expected)
