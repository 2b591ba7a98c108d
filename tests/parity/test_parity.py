"""The same text, scores and replies give the same chunks, selection and trace through all three doors."""

import json
import math
from itertools import cycle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document as LCDocument
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.retrievers import BaseRetriever as LCBaseRetriever
from llama_index.core.base.base_retriever import BaseRetriever as LIBaseRetriever
from llama_index.core.schema import Document as LIDocument
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode

from sage_core import FeedbackConfig, FeedbackLoop, LLMAnswerer, OpenAIChat, Sage, Segmenter, run_loop, select
from sage_core.ranking import named_reranker, score_candidates
from sage_core.ranking.features import scores_or_order
from sage_core.selection.rules import FixedK, Threshold
from sage_langchain import SageCompressor, SageRetriever, SageTextSplitter, create_sage_chain
from sage_llamaindex import SageNodeParser, SageNodePostprocessor, SageQueryEngine
from tests.core.text.test_sentences import MESSY
from tests.fakes.llamaindex import ScriptedLLM, trace_of
from tests.fakes.llm_server import LLMServer, Reply
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
    nodes = SageNodeParser(max_tokens=60, include_metadata=False).get_nodes_from_documents(
        [LIDocument(text=text)]
    )
    documents = SageTextSplitter(segmenter=Segmenter(max_tokens=60), add_start_index=True).create_documents(
        [text]
    )
    assert [(n.start_char_idx, n.end_char_idx) for n in nodes] == spans
    assert [n.get_content(MetadataMode.NONE) for n in nodes] == [text[a:b] for a, b in spans]
    assert [d.page_content for d in documents] == [text[a:b] for a, b in spans]
    assert [d.metadata["start_index"] for d in documents] == [a for a, _ in spans]


@given(MESSY, st.sampled_from(["bert", "words", "chars"]), st.integers(1, 40))
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
    bounds = {"min_k": min_k, "max_k": max_k, "gradient": gradient, "rule": rule}
    expected = select(values, scale=scale, **bounds)
    nodes = [NodeWithScore(node=TextNode(id_=str(i), text=str(i)), score=v) for i, v in enumerate(values)]
    post = SageNodePostprocessor(reranker=None, scale=scale, **bounds)
    kept = post.postprocess_nodes(nodes, query_str="q")
    if any(v is not None and v == v for v in values):  # without any score the postprocessor passes all on
        assert [int(n.node_id) for n in kept] == list(expected.indices)
        assert [n.score for n in kept] == list(expected.scores)
    json.dumps([n.to_dict() for n in kept], allow_nan=False)
    documents = [
        LCDocument(page_content=str(i), metadata={"relevance_score": v}) for i, v in enumerate(values)
    ]
    compressor = SageCompressor(score_key="relevance_score", scale=scale, **bounds)
    chosen = compressor.compress_documents(documents, "q")
    assert [int(d.page_content) for d in chosen] == list(expected.indices)
    assert [d.metadata["relevance_score"] for d in chosen] == list(expected.scores)


SCRIPTS = {
    "accepted at once": [("first", 9, 0)],
    "more, then accepted": [("short", 4, 1), ("long", 9, 0)],
    "nothing left between": [("a", 5, -1), ("b", 6, 1)],
    "the first was best": [("good", 7, 1), ("worse", 3, 1), ("worst", 2, 0)],
    "unreadable critic": [("kept", None, 0)],
}


ENDINGS = {
    "accepted at once": (1, "accepted"),
    "more, then accepted": (2, "accepted"),
    "nothing left between": (2, "unchanged"),
    "the first was best": (3, "max_rounds"),
    "unreadable critic": (1, "critic_failed"),
}


def reply(score: int | None, adjust: int) -> str:
    if score is None:
        return "I would rather not say."
    return json.dumps({"reason": "as scripted", "score": score, "adjust": adjust})


def outline(result: dict) -> dict:
    """What must agree; token counts differ by what each fake model reports."""
    return {
        "answer": result["answer"],
        "score": result["score"],
        "stop_reason": result["stop_reason"],
        "best_round": result["best_round"],
        "rounds": [
            (r["selection"]["indices"], r["answer"], r["verdict"]["score"], r["verdict"]["adjust"])
            for r in result["rounds"]
        ],
    }


def through_core(script):
    replies = [part for text, score, adjust in script for part in (Reply(text), Reply(reply(score, adjust)))]
    with LLMServer(replies) as server:
        answerer = LLMAnswerer(OpenAIChat("scripted", base_url=server.base_url, api_key="sk-test"))
        loop = FeedbackLoop(SCORES, "probability", FeedbackConfig(min_k=2, rule="gradient"))
        result = run_loop(
            loop,
            lambda s: answerer.generate("Who keeps the records?", [PASSAGES[i] for i in s.indices]),
            lambda s, a: answerer.judge("Who keeps the records?", [PASSAGES[i] for i in s.indices], a),
        )
    return outline(result.to_dict())


class LIFixed(LIBaseRetriever):
    def _retrieve(self, query_bundle):
        pairs = enumerate(zip(PASSAGES, SCORES, strict=True))
        return [NodeWithScore(node=TextNode(id_=str(i), text=p), score=s) for i, (p, s) in pairs]


def through_llamaindex(script):
    llm = ScriptedLLM()
    llm._answers = [text for text, _, _ in script]
    llm._grades = [reply(score, adjust) for _, score, adjust in script]
    post = SageNodePostprocessor(reranker=None, scale="probability", min_k=2, rule="gradient")
    engine = SageQueryEngine.from_args(LIFixed(), llm=llm, node_postprocessors=[post])
    response = engine.query("Who keeps the records?")
    result = trace_of(response)
    assert str(response) == result.answer
    return outline(result.to_dict())


class LCFixed(LCBaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager=None, **kwargs):
        pairs = zip(PASSAGES, SCORES, strict=True)
        return [LCDocument(page_content=p, metadata={"relevance_score": s}) for p, s in pairs]


def through_langchain(script):
    messages = [AIMessage(part) for text, score, adjust in script for part in (text, reply(score, adjust))]
    compressor = SageCompressor(score_key="relevance_score", scale="probability", min_k=2, rule="gradient")
    retriever = SageRetriever(base_retriever=LCFixed(), base_compressor=compressor)
    chain = create_sage_chain(GenericFakeChatModel(messages=cycle(messages)), retriever)
    output = chain.invoke({"input": "Who keeps the records?"})
    assert output["answer"] == output["sage"]["answer"]
    return outline(output["sage"])


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_same_trace(name):
    script = SCRIPTS[name]
    expected = through_core(script)
    assert (len(expected["rounds"]), expected["stop_reason"]) == ENDINGS[name]
    assert through_llamaindex(script) == expected
    assert through_langchain(script) == expected


@pytest.mark.parametrize("name", ["hybrid", "sage-minilm"])
def test_a_reranker_by_name_is_the_same_one_through_every_door(name, tmp_path):
    query = "Who keeps record number 5?"
    with Sage(tmp_path / "store", reranker=name) as sage:
        # Nodes and documents without scores are in the order of a search.
        order = scores_or_order([None] * len(PASSAGES))
        expected = score_candidates(sage.reranker, query, PASSAGES, order)
        assert sage.reranker.name == named_reranker(name).name
    nodes = [NodeWithScore(node=TextNode(id_=str(i), text=p)) for i, p in enumerate(PASSAGES)]
    ranking = SageNodePostprocessor(reranker=name).rank(nodes, QueryBundle(query))
    compressor = SageCompressor(reranker=name, select=False)
    documents = [LCDocument(page_content=p, metadata={"i": i}) for i, p in enumerate(PASSAGES)]
    ranked = {d.metadata["i"]: d.metadata["relevance_score"] for d in compressor.rank(documents, query)}
    assert ranking.scores == pytest.approx(expected, abs=1e-5)
    assert [ranked[i] for i in range(len(PASSAGES))] == pytest.approx(expected, abs=1e-5)
    assert ranking.scale == compressor.score_scale == named_reranker(name).scale


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_name_of_a_reranker_is_an_error_at_every_door(blank, tmp_path):
    for use in (
        lambda: Sage(tmp_path / "store", reranker=blank),
        lambda: SageNodePostprocessor(reranker=blank),
        lambda: SageCompressor(reranker=blank),
    ):
        with pytest.raises(ValueError, match="reranker"):
            use()
