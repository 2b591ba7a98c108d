"""Traces of a question, as OpenTelemetry viewers get them: one span for each step, in both frameworks."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("openinference.instrumentation.llama_index")
pytest.importorskip("openinference.instrumentation.langchain")

import opentelemetry.trace
from langchain_core.vectorstores import InMemoryVectorStore
from openinference.instrumentation.langchain import LangChainInstrumentor
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sage_core.selection import Gradient, SelectionConfig
from sage_langchain import create_sage_chain
from sage_llamaindex import SageNodePostprocessor, SageQueryEngine
from tests.fakes.langchain import ScriptedChat, WordEmbeddings
from tests.fakes.llamaindex import FixedRetriever, ScriptedLLM, grade
from tests.fakes.models import WordReranker

TEXTS = ["bees on the roof", "the press by the canal", "bees in winter", "tea on the mountain"]


class Trace:
    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return sorted((s for s in self.spans if s.name == name), key=lambda s: s.start_time or 0)

    def parent(self, span: ReadableSpan) -> str:
        by_id = {s.context.span_id: s.name for s in self.spans if s.context}
        return by_id[span.parent.span_id] if span.parent else ""


def read(span: ReadableSpan, key: str) -> Any:
    return json.loads(str((span.attributes or {})[key]))


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> Iterator[Trace]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentors = [LlamaIndexInstrumentor(), LangChainInstrumentor()]
    for instrumentor in instrumentors:
        instrumentor.instrument(tracer_provider=provider)
    monkeypatch.setattr(opentelemetry.trace, "get_tracer", provider.get_tracer)  # the global one is set once
    yield Trace(exporter)
    for instrumentor in instrumentors:
        instrumentor.uninstrument()


@pytest.mark.parametrize("awaited", [False, True])
def test_llamaindex_has_a_span_for_every_step(trace: Trace, awaited: bool) -> None:
    llm = ScriptedLLM.of(["a draft", "the answer"], [grade(3, 1), grade(9)])
    sage = SageNodePostprocessor(
        reranker=WordReranker(), selection=SelectionConfig(min_k=1, max_k=4, rule=Gradient(0.9))
    )
    retriever = FixedRetriever(0.9, 0.8, 0.7, 0.6)
    engine = SageQueryEngine.from_args(retriever, llm=llm, node_postprocessors=[sage])
    response = asyncio.run(engine.aquery("text 0 1")) if awaited else engine.query("text 0 1")
    assert str(response) == "the answer"
    a = "a" if awaited else ""
    (reranked,) = trace.named(f"SageNodePostprocessor.{a}rerank")
    assert trace.parent(reranked) == f"SageQueryEngine._{a}query"
    for side in ("input", "output"):
        places = (k for k in reranked.attributes or {} if k.startswith(f"reranker.{side}_documents"))
        assert sum(place.endswith("score") for place in places) == 4
    kinds = {s.name: (s.attributes or {}).get("openinference.span.kind") for s in trace.spans}
    assert [name for name, kind in kinds.items() if kind == "RERANKER"] == [reranked.name]
    selected = trace.named("SageQuestion.select")
    assert [read(s, "input.value")["round_number"] for s in selected] == [1, 2]
    for span in selected:
        found = read(span, "output.value")
        assert len(read(span, "input.value")["scores"]) == 4
        assert found["reason"] and len(found["scores"]) == found["cut"] < 5
    answered, graded = trace.named(f"SageQuestion.{a}answer"), trace.named(f"SageQuestion.{a}critic")
    assert [read(s, "output.value")[0] for s in answered] == ["a draft", "the answer"]
    assert [read(s, "output.value")[0]["score"] for s in graded] == [3, 9]
    assert [read(s, "input.value")["round_number"] for s in graded] == [1, 2]
    by_id = {s.context.span_id: s for s in trace.spans if s.context}
    steps = {s.context.span_id for s in (*answered, *graded) if s.context}
    for call in (s for s in trace.spans if s.name.startswith("ScriptedLLM.") and kinds[s.name] == "LLM"):
        while call.context.span_id not in steps:
            assert call.parent is not None, "every LLM call is below an answer or a critic"
            call = by_id[call.parent.span_id]
    (feedback,) = trace.named("SageQuestion.feedback")
    assert read(feedback, "output.value")["stop_reason"] == "accepted"
    assert len(read(feedback, "input.value")["trace"]["rounds"]) == 2
    assert sum(s.name in ("FixedRetriever._retrieve", "FixedRetriever._aretrieve") for s in trace.spans) == 1


def test_llamaindex_selection_alone_says_why(trace: Trace) -> None:
    sage = SageNodePostprocessor(
        reranker=None, selection=SelectionConfig(min_k=1, rule="gradient"), scale="probability"
    )
    kept = sage.postprocess_nodes(FixedRetriever(0.9, 0.8, 0.1).retrieve("q"), query_str="q")
    (selected,) = trace.named("SageNodePostprocessor.select")
    assert read(selected, "input.value")["scores"] == [0.9, 0.8, 0.1]
    assert len(kept) == read(selected, "output.value")["candidates"] - 1
    assert "falls to 0.12 of rank 2" in read(selected, "output.value")["reason"]


@pytest.mark.parametrize("awaited", [False, True])
def test_langchain_has_a_run_for_every_step(trace: Trace, awaited: bool) -> None:
    store = InMemoryVectorStore(WordEmbeddings())
    store.add_texts(TEXTS)
    replies = ["a draft", grade(3, 1), "the answer", grade(9)]
    chain = create_sage_chain(
        ScriptedChat(replies=replies),
        store,
        selection=SelectionConfig(min_k=1, max_k=4, rule=Gradient(0.99)),
    )
    chain.retriever.base_compressor.reranker = WordReranker()
    out = asyncio.run(chain.ainvoke("bees in winter")) if awaited else chain.invoke("bees in winter")
    assert out["answer"] == "the answer"
    (reranked,) = trace.named("sage_rerank")
    assert trace.parent(reranked) == "retrieve_documents"
    assert all("relevance_score" in str(document) for document in read(reranked, "output.value"))
    selected = trace.named("sage_select")
    assert [read(s, "input.value")["round"] for s in selected] == [1, 2]
    assert [len(read(s, "input.value")["scores"]) for s in selected] == [4, 4]
    assert all(read(s, "output.value")["reason"] for s in selected)
    assert [read(s, "output.value")["answer"] for s in trace.named("sage_generate")] == [
        "a draft",
        "the answer",
    ]
    graded = trace.named("sage_critic")
    assert [read(s, "output.value")["verdict"]["score"] for s in graded] == [3, 9]
    assert [trace.parent(s) for s in trace.named("ScriptedChat")] == ["sage_generate", "sage_critic"] * 2
