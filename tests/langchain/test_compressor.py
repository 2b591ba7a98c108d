"""The compressor: scores kept in copies, selection by score, clear errors where scores are missing."""

import asyncio
import copy
import json

import numpy as np
import pytest
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import Field

from sage_core.errors import InputError
from sage_core.selection import Gradient, SelectionConfig
from sage_langchain import SageCompressor
from tests.fakes.doors import at_door
from tests.fakes.langchain import ListReranker
from tests.fakes.models import WordReranker

CLIFF = [0.9, 0.85, 0.8, 0.79, 0.75, 0.7, 0.65, 0.6, 0.05, 0.04]


def documents(n: int = 10) -> list[Document]:
    return [
        Document(page_content=f"text {i}", id=f"id{i}", metadata={"i": i, "deep": {"x": [i]}})
        for i in range(n)
    ]


def paper(scores: list, scale: str = "probability", **settings) -> SageCompressor:
    return SageCompressor(reranker=ListReranker(scores, scale), **at_door(rule="gradient", **settings))


def kept(compressor: SageCompressor, docs: list[Document] | None = None) -> list[int]:
    return [d.metadata["i"] for d in compressor.compress_documents(docs or documents(), "question")]


def test_scores_are_written_as_python_floats_into_copies():
    given_ = documents()
    given_[0].metadata["relevance_score"] = 9  # of an earlier question
    given_[0].metadata["deep"]["size"] = np.float32(0.5)  # which no graph's checkpoint holds
    before = copy.deepcopy(given_)
    scores = list(np.array(CLIFF, dtype=np.float32))
    out = paper(scores).compress_documents(given_, "question")
    assert given_ == before
    assert [type(d.metadata["relevance_score"]) for d in out] == [float] * 8
    assert out[0].metadata["relevance_score"] == pytest.approx(0.9)
    assert [d.id for d in out] == [f"id{i}" for i in range(8)]
    out[0].metadata["deep"]["x"].append("changed")
    assert given_ == before
    json.dumps([d.metadata for d in out])


def test_no_documents():
    compressor = SageCompressor(reranker=ListReranker([]))
    assert compressor.compress_documents([], "q") == []
    assert asyncio.run(compressor.acompress_documents([], "q")) == []
    assert SageCompressor().compress_documents([], "q") == []


def test_rerank_only_then_select_only_equals_both_at_once():
    both = SageCompressor(reranker=ListReranker(CLIFF)).compress_documents(documents(), "q")
    ranked = SageCompressor(reranker=ListReranker(CLIFF)).rank(documents(), "q")
    assert len(ranked) == 10
    assert SageCompressor(reranker=None, scale="probability").compress_documents(ranked, "q") == both


@pytest.mark.parametrize(
    ("score", "named"), [(None, "relevance_score"), ("high", "'high'"), (-4.2, r"-4\.2")]
)
def test_missing_scores_are_an_error_that_says_what_to_do(score, named):
    docs = documents(3)
    for d in docs:
        d.metadata |= {} if score is None else {"relevance_score": score}
    with pytest.raises(InputError, match=named):
        SageCompressor(reranker=None, scale="probability").compress_documents(docs, "q")
    if score == -4.2:
        said = SageCompressor(reranker=None, scale="logit")
        assert len(said.compress_documents(docs, "q")) == 3


def test_a_reranker_that_gives_too_few_scores_is_an_error():
    with pytest.raises(InputError, match=r"2.*3"):
        SageCompressor(reranker=ListReranker([0.1, 0.2])).compress_documents(documents(3), "q")


class BaseCrossEncoder:
    """Stands for LangChain's class of this name, which has lived in three packages."""


class TwoColumns(BaseCrossEncoder):
    def score(self, text_pairs):
        return np.array([[0.0, float(text[-1])] for _, text in text_pairs], dtype=np.float32)


class Plain(BaseCrossEncoder):
    def score(self, text_pairs):
        return [float(text[-1]) for _, text in text_pairs]


class Wrong(BaseCrossEncoder):
    def score(self, text_pairs):
        return [[1.0, 2.0, 3.0] for _ in text_pairs]


def test_langchain_cross_encoders_are_rerankers_too():
    for model in (TwoColumns(), Plain()):
        compressor = SageCompressor(reranker=model, scale="logit", selection=SelectionConfig(min_k=1))
        assert kept(compressor)[:2] == [9, 8]
    assert kept(SageCompressor(reranker=Plain()))[:2] == [9, 8], "told by their range"
    with pytest.raises(InputError, match="shape"):
        SageCompressor(reranker=Wrong(), scale="logit").compress_documents(documents(), "q")


class WritesScores(BaseDocumentCompressor):
    """As hosted rerankers do: best first, at most top_n, the score in the metadata of what it returns."""

    top_n: int = 2
    calls: list = Field(default_factory=list)
    factor: float = 1.0

    def compress_documents(self, documents, query, callbacks=None):
        self.calls.append(len(documents))
        shares = WordReranker().score(query, [d.page_content for d in documents])
        ranked = sorted(zip(shares, documents, strict=True), key=lambda pair: -pair[0])
        return [
            Document(d.page_content, metadata={**d.metadata, "relevance_score": np.float32(s * self.factor)})
            for s, d in ranked[: self.top_n]
            if s > 0
        ]


async def test_langchain_compressors_that_write_scores_are_rerankers_too():
    docs = [Document(t, metadata={"n": i}) for i, t in enumerate(("bees", "tea and bees", "tea", "ferry"))]
    stock = WritesScores()
    compressor = SageCompressor(reranker=stock, scale="probability", selection=SelectionConfig(min_k=1))
    out = compressor.rank(docs, "tea bees")
    assert [(d.metadata["n"], d.metadata["relevance_score"]) for d in out] == [
        (1, 1.0),
        (0, 0.5),
        (2, 0.5),
        (3, None),
    ]
    assert stock.top_n == 2 and stock.calls == [4], "its own top_n neither cuts nor changes"
    assert await compressor.arank(docs, "tea bees") == out and out.scale == "probability"
    assert [
        d.metadata["n"]
        for d in SageCompressor(
            reranker=stock, scale="probability", selection=SelectionConfig(min_k=1, rule=Gradient(0.6))
        ).compress_documents(docs, "tea bees")
    ] == [1]


def test_compressors_whose_scores_cannot_be_read_are_named():
    docs = [Document("tea"), Document("bees")]
    with pytest.raises(InputError, match=r"WritesScores.*7"):
        SageCompressor(reranker=WritesScores(factor=7), scale="probability").compress_documents(docs, "tea")
    assert SageCompressor(reranker=WritesScores(factor=7), scale="unbounded").compress_documents(docs, "tea")

    class Drops(BaseDocumentCompressor):
        def compress_documents(self, documents, query, callbacks=None):
            return list(documents)

    with pytest.raises(InputError, match="Drops"):
        SageCompressor(reranker=Drops()).compress_documents(docs, "tea")


def test_is_a_langchain_compressor_in_a_pipeline():
    pytest.importorskip("langchain_classic")
    from langchain_classic.retrievers import ContextualCompressionRetriever
    from langchain_classic.retrievers.document_compressors import (
        CrossEncoderReranker,
        DocumentCompressorPipeline,
    )
    from langchain_core.runnables import RunnableLambda

    compressor = SageCompressor(reranker=ListReranker(CLIFF))
    assert isinstance(compressor, BaseDocumentCompressor)
    pipeline = DocumentCompressorPipeline(transformers=[compressor])
    expected = compressor.compress_documents(documents(), "q")
    assert pipeline.compress_documents(documents(), "q") == expected
    assert asyncio.run(pipeline.acompress_documents(documents(), "q")) == expected
    stock = ContextualCompressionRetriever(
        base_compressor=compressor, base_retriever=RunnableLambda(lambda _: documents())
    )
    assert stock.invoke("q") == expected

    class Theirs(CrossEncoderReranker.model_fields["model"].annotation):
        score = Plain.score

    assert kept(SageCompressor(reranker=Theirs(), scale="logit", selection=SelectionConfig(min_k=1)))[:2] == [
        9,
        8,
    ]
    dropped = DocumentCompressorPipeline(
        transformers=[CrossEncoderReranker(model=Theirs()), SageCompressor(reranker=None)]
    )
    with pytest.raises(InputError, match="CrossEncoderReranker"):
        dropped.compress_documents(documents(), "q")


def test_probabilities_that_are_none_are_an_error():
    with pytest.raises(InputError, match="scale"):
        SageCompressor(reranker=Plain(), scale="probability").compress_documents(documents(), "q")


@pytest.mark.parametrize("settings", [{}, {"reranker": None, "scale": "cosine"}])
def test_a_score_beyond_floats_is_an_input_error(settings: dict) -> None:
    documents = [Document("The ferry leaves at seven.", metadata={"score": 10**400}) for _ in range(3)]
    with pytest.raises(InputError):
        SageCompressor(**at_door(**settings)).compress_documents(documents, "When?")
