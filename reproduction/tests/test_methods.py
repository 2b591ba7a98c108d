"""Methods: naive RAG, SAGE and its ablations, with a scripted LLM and without one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from sage_eval.methods import SharedWork, make_method, method_names
from sage_eval.methods.factory import PaperGradient
from sage_eval.records import EvalDocument, Method
from sage_eval.retrievers import make_index

from reproduction.tests.island import DOCUMENT, LIGHTHOUSE, NOTHING, SEALS, question
from sage_app import Sage
from sage_app.answers import ExtractiveAnswerer, LLMAnswerer
from sage_app.models import OpenAIChat
from sage_core.errors import InputError, LLMError
from sage_core.llm.prompting import NO_ANSWER
from sage_core.selection import select
from sage_core.text.tokens import get_counter
from tests.fakes.llm_server import LLMServer, Reply
from tests.fakes.models import HashEmbedder

APART = ("sage-paper", "sage-shipped")
FAMILY = [name for name in method_names() if name.startswith(("naive", "sage")) and name not in APART]
SMALL = {"kind": "fixed", "tokens": 30}


def offline(spec, **more):
    return make_method(spec, reader=ExtractiveAnswerer(), embedder=HashEmbedder(), **more)


def prepared(method, *documents):
    method.prepare(documents or [DOCUMENT])
    return method


@pytest.fixture
def served():
    """Makes a method over a scripted LLM; the server's requests are in `.server`."""
    pytest.importorskip("openai")
    running = []

    def make(spec, script, **more):
        server = LLMServer(script).__enter__()
        running.append(server)
        chat = OpenAIChat("test", base_url=server.base_url, api_key="sk-test", max_retries=0)
        method = make_method(
            spec, reader=LLMAnswerer(chat), embedder=HashEmbedder(), summary_model=chat, **more
        )
        make.server = server
        return method

    yield make
    for server in running:
        server.__exit__()


@pytest.mark.parametrize("name", method_names())
def test_every_method_runs_offline_and_keeps_the_contract(name):
    if name == "raptor":
        pytest.importorskip("sklearn")
    method = offline(name)
    assert isinstance(method, Method) and method.name == name
    settings = json.loads(json.dumps(method.settings()))
    assert settings["method"] == name and settings["reader"] == "extractive, no LLM"
    assert json.loads(json.dumps(offline(name).settings())) == settings
    assert method.prepare([DOCUMENT]) == {}
    assert all(seconds >= 0 for seconds in method.prepare_seconds.values())
    # Questions without marked evidence have no gold context, which is an error of its own.
    for asked in (q for q in (LIGHTHOUSE, SEALS, NOTHING) if q.evidence or name != "gold-context"):
        result = method.answer(asked)
        assert result.context_tokens == sum(get_counter().count_many([p.text for p in result.context]))
        for piece in (*result.context, *(hit.piece for hit in result.ranked)):
            assert piece.document == "island"
            assert piece.span is None or piece.span.of(DOCUMENT.text) == piece.text
        assert (result.choice is None) or asked is SEALS
        assert set(result.seconds) <= {"retrieve", "rerank", "select", "generate", "judge"}
        assert [h.score for h in result.ranked] == sorted((h.score for h in result.ranked), reverse=True)
        assert sum(u.calls for u in result.usage.values()) == 0


def test_naive_sends_the_best_of_the_index_best_first(served):
    method = prepared(
        served({"method": "naive", "chunks": SMALL, "top_k": 3, "name": "row"}, ["Maren Tolk."])
    )
    result = method.answer(LIGHTHOUSE)
    assert (method.name, result.answer, result.choice, result.rounds) == ("row", "Maren Tolk.", None, 1)
    assert result.context == tuple(hit.piece for hit in result.ranked[:3]) and len(result.ranked) > 3
    assert [u.to_dict() for u in result.usage.values()] == [
        {"prompt": 100, "completion": 10, "calls": 1, "estimated": False}
    ]
    sent = served.server.requests[0].user
    assert [sent.index(p.text) for p in result.context] == sorted(sent.index(p.text) for p in result.context)
    assert result.ranked[-1].piece.text not in sent
    index = make_index("dense", embedder=HashEmbedder())
    index.build([h.piece for h in sorted(result.ranked, key=lambda h: h.piece.span)])
    assert [h.piece for h in index.search(LIGHTHOUSE.text, 3)] == list(result.context)


SWITCHES = {
    "naive": (False, False, False),
    "naive+segmentation": (True, False, False),
    "naive+selection": (False, True, False),
    "naive+feedback": (False, False, True),
    "sage-segmentation": (False, True, True),
    "sage-selection": (True, False, True),
    "sage-feedback": (True, True, False),
    "sage": (True, True, True),
}


@pytest.mark.parametrize("name", FAMILY)
def test_each_switch_turns_on_its_part(served, name):
    segmentation, selection, feedback = SWITCHES[name]
    script = lambda request: {"score": 9, "adjust": 0} if request.is_critic else "Maren Tolk."  # noqa: E731
    method = prepared(served({"method": name, "min_k": 2} if selection else name, script))
    result = method.answer(LIGHTHOUSE)
    assert ("Segmenter" in method.settings()["chunks"]) == segmentation
    assert ("rerank" in result.seconds) == selection == ("hybrid" in (method.settings()["reranker"] or ""))
    assert ("judge" in result.seconds) == feedback == bool(served.server.critic_requests)
    assert set(result.usage) == ({"answer", "critic"} if feedback else {"answer"})
    assert (result.score, result.stop_reason) == ((9, "accepted") if feedback else (None, ""))
    assert method.settings() == make_method(
        {
            "method": "naive", "segmentation": segmentation, "selection": selection, "feedback": feedback,
            **({"min_k": 2} if selection else {}),
        },
        reader=LLMAnswerer(OpenAIChat("test")), embedder=HashEmbedder(),
    ).settings() | {"method": name}  # fmt: skip


def test_family_names_cover_all_eight():
    assert sorted(FAMILY) == sorted(SWITCHES) and len(set(SWITCHES.values())) == 8


def test_feedback_widens_and_returns_the_best_graded_answer(served):
    grades = iter([{"score": 3, "adjust": 1}, {"score": 8, "adjust": 1}, {"score": 5, "adjust": 0}])
    answers = iter(["one", "two", "three"])
    method = prepared(
        served(
            {"method": "naive+feedback", "chunks": SMALL, "top_k": 2},
            lambda request: next(grades) if request.is_critic else next(answers),
        )
    )
    result = method.answer(LIGHTHOUSE)
    assert (result.answer, result.score, result.rounds, result.stop_reason) == ("two", 8, 3, "max_rounds")
    assert result.context == tuple(hit.piece for hit in result.ranked[:4])
    assert result.usage["answer"].calls == result.usage["critic"].calls == 3
    critic = served.server.critic_requests[1].user
    assert all(p.text in critic for p in result.context) and "two" in critic


def test_feedback_without_selection_moves_k_by_one_under_the_papers_policy(served):
    method = prepared(
        served(
            {"method": "naive+feedback", "chunks": SMALL, "top_k": 3, "policy": "paper", "max_rounds": 2},
            lambda request: {"score": 2, "adjust": -1} if request.is_critic else "no idea at all",
        )
    )
    method.answer(LIGHTHOUSE)
    # Passages are numbered in the prompt.
    sent = [sum(f"[{n}] " in request.user for n in range(1, 9)) for request in served.server.answer_requests]
    assert sent == [3, 2]


def test_an_llm_that_fails_is_an_error_and_a_critic_that_fails_is_not(served):
    method = prepared(served("naive", [Reply(status=500)]))
    with pytest.raises(LLMError):
        method.answer(LIGHTHOUSE)
    script = lambda request: Reply(status=500) if request.is_critic else "Maren Tolk."  # noqa: E731
    result = prepared(served("sage", script)).answer(LIGHTHOUSE)
    assert (result.answer, result.score, result.stop_reason) == ("Maren Tolk.", None, "critic_failed")


@pytest.mark.parametrize("name", ["naive", "sage", "naive+feedback"])
def test_a_question_without_a_word_of_the_text_is_asked_all_the_same(served, name):
    """A baseline that is not asked would be counted as wrong."""
    script = lambda request: {"score": 9, "adjust": 0} if request.is_critic else "Nobody."  # noqa: E731
    spec = {"method": name, "index": "bm25", "chunks": SMALL}
    result = prepared(served(spec, script)).answer(NOTHING)
    assert result.answer == "Nobody." and result.context and served.server.answer_requests
    words = prepared(offline(spec)).answer(LIGHTHOUSE)
    dense = prepared(offline({"method": name, "chunks": SMALL})).answer(LIGHTHOUSE)
    assert len(words.ranked) == len(dense.ranked) == len({hit.piece for hit in words.ranked})
    scores = [hit.score for hit in words.ranked]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("name", ["naive", "sage", "naive+feedback"])
def test_a_blank_document_is_an_answer_without_a_call(served, name):
    method = prepared(
        served({"method": name, "index": "bm25"}, ["never asked"]), EvalDocument("island", " \n ")
    )
    result = method.answer(LIGHTHOUSE)
    assert (result.answer, result.stop_reason, result.context, result.rounds) == (NO_ANSWER, "empty", (), 0)
    assert result.context_tokens == 0 and not served.server.requests


@pytest.mark.parametrize("name", ["naive", "sage", "full-context"])
def test_options_are_asked_and_the_one_named_is_told(served, name):
    script = lambda request: {"score": 9, "adjust": 0} if request.is_critic else "B. Nineteen"  # noqa: E731
    result = prepared(served(name, script)).answer(SEALS)
    assert result.choice == 1
    assert "B. Nineteen" in served.server.requests[0].user
    off = lambda request: {"score": 9, "adjust": 0} if request.is_critic else "Seals are fine."  # noqa: E731
    assert prepared(served(name, off)).answer(SEALS).choice is None


def test_another_document_takes_the_place_of_the_first():
    method = prepared(offline({"method": "naive", "chunks": SMALL, "order": "document"}))
    other = EvalDocument("other", "Maren Tolk built nothing here. Nobody did.")
    result = prepared(method, other).answer(LIGHTHOUSE)
    assert {hit.piece.document for hit in result.ranked} == {"other"}
    result = prepared(method, other, DOCUMENT).answer(LIGHTHOUSE)
    assert {hit.piece.document for hit in result.ranked} == {"other", "island"}


def test_text_that_no_tokenizer_takes():
    odd = EvalDocument("island", "The lighthouse was built by \ud800 Maren Tolk. It stands.", "T\udfff")
    for name in ("naive", "sage", "dos-rag", "sentence-window", "full-context"):
        result = prepared(offline(name), odd).answer(LIGHTHOUSE)
        piece = result.context[0]
        assert len(piece.text) == piece.span.end - piece.span.start and "\ufffd" in piece.text


def test_eight_ablations_embed_a_document_once_for_each_way_of_cutting_it():
    embedder, shared = HashEmbedder(), SharedWork()
    embedded = []
    for name in FAMILY:
        method = make_method(name, reader=ExtractiveAnswerer(), embedder=embedder, shared=shared)
        prepared(method).answer(LIGHTHOUSE)
        embedded.append(embedder.texts_embedded)
    again = embedder.texts_embedded
    for name in FAMILY:
        method = make_method(name, reader=ExtractiveAnswerer(), embedder=embedder, shared=shared)
        prepared(method).answer(LIGHTHOUSE)
    assert embedder.texts_embedded == again
    fixed, segmented = embedded[FAMILY.index("naive")], embedded[FAMILY.index("naive+segmentation")]
    assert fixed < segmented  # other chunks are other texts
    # With selection the reranker embeds sentences, once for both ways of cutting.
    assert len(set(embedded)) <= 4


def test_what_was_embedded_serves_the_next_run(tmp_path):
    first, second = HashEmbedder(), HashEmbedder()
    for embedder in (first, second):
        method = make_method("sage", reader=ExtractiveAnswerer(), embedder=embedder, cache_dir=tmp_path)
        prepared(method).answer(LIGHTHOUSE)
    assert first.texts_embedded > 1 == second.texts_embedded  # the probe that tells models apart


def test_answers_of_many_threads_are_those_of_one():
    for name in ("sage", "sentence-window", "dos-rag"):
        method = prepared(offline(name))
        questions = [LIGHTHOUSE, SEALS, NOTHING] * 6
        alone = [method.answer(q) for q in questions[:3]] * 6
        with ThreadPoolExecutor(6) as pool:
            together = list(pool.map(method.answer, questions))
        assert [(r.answer, r.context) for r in together] == [(r.answer, r.context) for r in alone]


@pytest.mark.parametrize("min_k", [1, 3, 7, 9])
def test_algorithm_2_keeps_nine_of_figure_8_and_as_printed_min_k(min_k):
    figure_8 = [
        13.79,
        13.58,
        11.91,
        11.55,
        10.94,
        7.815,
        7.665,
        5.49,
        4.416,
        1.304,
        0.8,
        0.255,
        0.198,
        0.093,
        0.089,
    ]
    for printed, kept in ((False, 9), (True, min_k)):
        rule = PaperGradient(printed=printed)
        assert len(select(figure_8, rule=rule, scale="unbounded", min_k=min_k).indices) == kept
    # The cliff stands above it.
    assert len(select(figure_8, rule=PaperGradient(), scale="unbounded", min_k=10).indices) == 15


def test_the_papers_settings():
    settings = offline("sage-paper").settings()
    rule = "PaperGradient(gradient=0.3, printed=False)"
    assert settings["selection"] == {"rule": rule, "min_k": 7, "gradient": None, "max_k": None}
    assert settings["feedback"]["policy"] == "paper" and settings["feedback"]["accept_score"] == 9
    assert "strategy='threshold'" in settings["chunks"] and "threshold=0.55" in settings["chunks"]
    own = offline({"method": "sage-paper", "min_k": 3, "policy": "adaptive", "max_rounds": 2}).settings()
    assert own["feedback"]["max_rounds"] == 2
    assert own["selection"]["min_k"] == 3 and own["feedback"]["policy"] == "adaptive"


def test_bm25_and_reranker():
    settings = offline("bm25+reranker").settings()
    assert settings["index"].startswith("bm25(") and settings["reranker"] == "hybrid"
    assert settings["candidates"] == 50 and settings["selection"]["min_k"] == 10
    method = prepared(offline({"method": "bm25+reranker", "chunks": SMALL, "top_k": 2}))
    result = method.answer(question("Which lighthouse, ferry or bell came from the mainland?"))
    assert "rerank" in result.seconds and len(result.context) == 2 < len(result.ranked)
    plain = offline({"method": "bm25+reranker", "rerank": False})
    assert plain.settings()["reranker"] is None


def test_the_gradient_selects_fewer_where_it_is_steep():
    spec = {"method": "naive+selection", "chunks": SMALL, "rule": "gradient"}
    steep, everything = (
        prepared(offline({**spec, "gradient": least})).answer(LIGHTHOUSE) for least in (0.95, 0.0)
    )
    assert 1 <= len(steep.context) < len(everything.context)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("magic", "unknown method 'magic': one of naive"),
        ({"index": "bm25"}, "mapping with 'method'"),
        ({"method": "naive", "topk": 3}, "'naive' has no setting 'topk'"),
        ({"method": "naive", "min_k": 3}, "'naive' has no setting 'min_k'"),
        ({"method": "sage", "top_k": 3}, "'sage' has no setting 'top_k'"),
        ({"method": "naive", "max_rounds": 2}, "'naive' has no setting 'max_rounds'"),
        ({"method": "dos-rag", "policy": "paper"}, "no setting 'policy'"),
        ({"method": "naive", "top_k": 0}, "top_k must be at least 1"),
        ({"method": "naive", "top_k": "3"}, "top_k is a int"),
        ({"method": "naive", "index": "nothing"}, "unknown index"),
        ({"method": "naive", "chunks": "pages"}, "unknown chunker"),
        ({"method": "naive", "chunks": {"kind": "fixed", "tokens": 10, "overlap": 10}}, "overlap below"),
        ({"method": "naive", "order": "random"}, "order is 'rank' or 'document'"),
        ({"method": "naive", "budget": 0}, "at least 1 token"),
        ({"method": "sage", "rule": "best"}, "unknown rule"),
        ({"method": "sage", "rule": {"kind": "best"}}, "rule is a str"),
        ({"method": "sage", "max_rounds": 0}, "max_rounds"),
        ({"method": "sage", "candidates": 0}, None),
        ({"method": "sentence-window", "window": -1}, "at least 0 neighbors"),
        ({"method": "full-context", "max_tokens": 0}, "at least 1"),
        ({"method": "full-context", "index": "bm25"}, "no setting 'index'"),
        ({"method": "recursive-summary", "summary_tokens": 5000}, "shorter"),
        ({"method": "raptor", "levels": 0}, "at least 1"),
    ],
)  # fmt: skip
def test_wrong_configurations_say_what_is_wrong(spec, message):
    if message is None:  # fewer candidates than the least are as many as the least
        assert offline(spec).settings()["candidates"] == 1
        return
    with pytest.raises(InputError, match=message):
        offline(spec)


@pytest.mark.slow
def test_importing_methods_and_retrievers_stays_light():
    code = (
        "import sys, sage_eval.methods, sage_eval.retrievers;"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {
        "torch",
        "transformers",
        "sentence_transformers",
        "chromadb",
        "openai",
        "sklearn",
        "bm25s",
    }
    assert not heavy & set(done.stdout.split())


def test_the_shipped_sage_is_sage_itself(tmp_path):
    """The row's answer, context and ranking are those of `Sage` asked by hand."""
    embedder, reader = HashEmbedder(), ExtractiveAnswerer()
    method = prepared(make_method("sage-shipped", reader=reader, embedder=embedder))
    (tmp_path / "island.txt").write_text(DOCUMENT.text, newline="")
    with Sage(tmp_path / "store", embedder=embedder, answerer=reader) as sage:
        sage.ingest([tmp_path / "island.txt"])
        for question in (LIGHTHOUSE, SEALS, NOTHING):
            mine, theirs = method.answer(question), sage.ask(question.text, question.options or None)
            assert re.sub(r"\(.*?\) ", "", mine.answer) == re.sub(
                r"\(.*?\) ", "", theirs.text
            )  # the file's name
            assert mine.stop_reason == theirs.feedback.stop_reason
            assert [p.text for p in mine.context] == [c.chunk.text for c in theirs.sources]
            assert [hit.score for hit in mine.ranked] == [c.score for c in theirs.retrieval.candidates]
            assert all(p.span is not None and p.span.of(DOCUMENT.text) == p.text for p in mine.context)
    blank = make_method("sage-shipped", reader=reader, embedder=embedder)
    assert prepared(blank, EvalDocument("island", " ")).answer(LIGHTHOUSE).stop_reason == "empty"
