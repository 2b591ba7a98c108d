"""What is measured without a table of questions: load, segmentation features, and the scripted server."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.typing import NDArray
from sage_eval.measurements import MEASUREMENTS, Load, answer_all, corpus, latencies, measurement
from sage_eval.options import chosen_option
from sage_eval.scripted_server import Latency, ScriptedServer
from sage_train.corpus import Document

from reproduction.tests.evaluation_runs import ToyMethod, llm_down, toy_dataset
from sage_app.answers import LLMAnswerer
from sage_app.models import OpenAIChat
from sage_core.errors import InputError


def test_every_kind_has_its_function() -> None:
    assert all(callable(measurement(kind).run) for kind in MEASUREMENTS)
    with pytest.raises(InputError, match="unknown kind"):
        measurement("weight")


def test_a_corpus_is_the_first_documents_up_to_a_size() -> None:
    dataset = toy_dataset(documents=3, questions=4)  # 71 characters each
    documents, questions = corpus(dataset, 150)
    assert [d.id for d in documents] == ["d0", "d1"] and {q.document for q in questions} == {"d0", "d1"}
    assert [d.id for d in corpus(dataset, 1)[0]] == ["d0"]


def test_workers_answer_side_by_side_and_failures_are_counted() -> None:
    import threading

    dataset = toy_dataset(documents=1, questions=6)
    meeting = threading.Barrier(3, timeout=10)
    method = ToyMethod(before=lambda q: meeting.wait() and None)
    method.prepare(dataset.documents)
    load = answer_all(method, dataset.questions, 3)
    assert len(load.results) == 6 and load.failed == 0 and load.seconds > 0
    broken = answer_all(ToyMethod(fails=llm_down), dataset.questions, 2)
    assert (len(broken.results), broken.failed) == (0, 6)


def test_latencies_are_of_one_call() -> None:
    dataset = toy_dataset(documents=1, questions=2)
    method = ToyMethod()
    method.prepare(dataset.documents)
    results = [(q, method.answer(q), wall) for q, wall in zip(dataset.questions, (1.0, 3.0), strict=True)]
    found = latencies(Load(results, seconds=4.0))
    assert found["retrieval, s"] == 0.25 and found["answering, s"] == 0.5 and found["feedback, s"] == 0.0
    assert found["question, s"] == 2.0 and found["question, s (95 %)"] == 3.0
    assert found["questions/s"] == 0.5 and found["LLM calls a question"] == 2


def test_the_scripted_server_answers_late_and_counts() -> None:
    with ScriptedServer(Latency(0.2, 0.0)) as server:
        reader = LLMAnswerer(OpenAIChat("any", base_url=server.base_url, api_key="none"))
        reader.judge("Why?", ["Because."], "So.")
        start = time.perf_counter()
        with ThreadPoolExecutor(5) as pool:
            list(pool.map(lambda i: reader.generate(f"Why {i}?", ["Because."]), range(5)))
        assert time.perf_counter() - start >= 0.2
        assert server.calls == 6
        verdict, usage = reader.judge("Why?", ["Because."], "So.")
        assert verdict.parsed and verdict.score in (6, 9) and usage.prompt > 0 and not usage.estimated


def test_made_up_choices_are_options_the_same_every_time() -> None:
    options = ["red", "green", "blue", "grey"]
    with ScriptedServer(Latency(0, 0)) as server:
        reader = LLMAnswerer(OpenAIChat("any", base_url=server.base_url, api_key="none"))

        def ask(i: int) -> int | None:
            # Passages with lettered lines of their own must not be taken for options.
            text = reader.generate(f"Which is {i}?", ["Z. Some passage\nY. Another"], options=options)[0]
            return chosen_option(text, options)

        picked = [ask(i) for i in range(40)]
        assert set(picked) == {0, 1, 2, 3}
        assert [ask(i) for i in range(5)] == picked[:5]


def test_what_the_scripted_server_does_not_serve() -> None:
    def post(url: str, body: bytes) -> str:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(url, body, method="POST"), timeout=5)
        assert refused.value.code == 400
        return str(json.loads(refused.value.read())["error"]["message"])

    with ScriptedServer(Latency(0, 0)) as server:
        assert "only chat completions" in post(f"{server.base_url}/embeddings", b"{}")
        assert "streams" in post(f"{server.base_url}/chat/completions", b'{"stream": true}')
        assert post(f"{server.base_url}/chat/completions", b"{")
    with pytest.raises(InputError, match="latency"):
        Latency(-1)


def test_features_of_pairs_tell_topics_apart() -> None:
    torch = pytest.importorskip("torch")
    from sage_eval.pair_features import FEATURES, compact, frozen_cells, mine, read_text

    def document(number: int) -> Document:
        topics = [(number + step) % 6 for step in range(5)]
        return Document(f"d{number}", tuple(tuple(f"topic{t} note {i}" for i in range(4)) for t in topics))

    def embed(sentences: Sequence[str]) -> NDArray[np.float32]:
        rows = np.full((len(sentences), 8), 0.05, np.float32)
        for row, sentence in zip(rows, sentences, strict=True):
            row[int(sentence[5])] = 1.0
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    train = read_text([document(i) for i in range(60)])
    test = read_text([document(i) for i in range(60, 80)])
    mined = mine(train, "neighbors", 400, 0), mine(test, "neighbors", 100, 1)
    assert abs(float(mined[0][1].mean()) - 0.5) < 0.05
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # two threads on two busy cores wait for each other
    try:
        accuracies = frozen_cells(train, test, mined, embed)
    finally:
        torch.set_num_threads(threads)
    assert len(accuracies) == len(FEATURES) and accuracies[-1] > 0.95
    texts, renumbered = compact(train, mined[0])
    first = mined[0][0][0]
    assert [texts[i] for i in renumbered[0][0]] == [train.sentences[i] for i in first]
