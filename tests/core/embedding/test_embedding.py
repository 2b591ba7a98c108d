"""Embedding models in this process: the bundled one for real, packing as a property."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from sage_core.embedding import MiniLMEmbedder
from sage_core.embedding.protocol import unit_rows

TEXTS = [
    "The lighthouse was built from local granite.",
    "A keeper lit its lamp every evening at dusk, and put it out again when the sun had risen.",
    "",
    "Tomatoes need warm nights.",
    "Ein Leuchtturm aus Granit. 灯台は花崗岩で建てられた。",
]
# Of the original weights in float32, computed by sentence-transformers.
ORIGINAL = Path(__file__).with_name("minilm_vectors.json")


@pytest.fixture(scope="module")
def embedder():
    return MiniLMEmbedder()


def test_unit_rows_turns_what_has_no_direction_into_zeros():
    rows = unit_rows(np.array([[3.0, 4.0], [0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]]))
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0, 0], [0, 0], [0, 0]], rtol=1e-6)


def test_vectors_are_those_of_the_original_weights(embedder):
    original = json.loads(ORIGINAL.read_text(encoding="utf-8"))
    vectors = embedder.embed_documents(list(original))
    assert vectors.shape == (len(original), 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    cosines = (vectors * unit_rows(np.array(list(original.values())))).sum(axis=1)
    assert cosines.min() > 0.9995  # A store takes a model whose probe agrees to 0.999.


def test_a_question_is_nearest_to_its_answer(embedder):
    query = embedder.embed_query("Which vegetable dislikes the cold?")
    assert query.shape == (384,)
    assert int(np.argmax(embedder.embed_documents(TEXTS) @ query)) == 3


@pytest.mark.slow
def test_what_else_is_in_the_batch_does_not_change_a_vector(embedder):
    alone = np.concatenate([embedder.embed_documents([text]) for text in TEXTS])
    company = [*TEXTS, *(f"{text} {'word ' * n}" for n in range(0, 300, 100) for text in TEXTS)]
    np.testing.assert_allclose(embedder.embed_documents(company)[: len(TEXTS)], alone, atol=1e-5)


def test_no_texts_give_an_empty_array_of_the_right_width(embedder):
    assert embedder.embed_documents([]).shape == (0, 384)


def test_odd_texts_have_a_vector(embedder):
    odd = ["", " ", "\x00\r\n", "a" * 100_000, "word " * 3_000, "🙂", "half \ud83d", "﷽" * 300]
    vectors = embedder.embed_documents(odd)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(vectors[4], embedder.embed_query("word " * 254), atol=1e-5)


def test_it_pickles_without_its_weights_and_works_again(embedder):
    embedder.embed_query("warm it up")
    data = pickle.dumps(embedder)
    assert len(data) < 2_000
    again = pickle.loads(data)
    np.testing.assert_allclose(again.embed_query("a test"), embedder.embed_query("a test"), atol=1e-6)


def test_recent_questions_are_remembered_read_only(embedder, monkeypatch):
    first = embedder.embed_query("Who lit the lamp?")
    monkeypatch.setattr(embedder, "_encode", None)
    np.testing.assert_array_equal(embedder.embed_query("Who lit the lamp?"), first)
    with pytest.raises(ValueError):
        first[0] = 1
    with pytest.raises(TypeError):
        embedder.embed_query("Who trimmed it?")


def test_threads_share_one_embedder(embedder):
    alone = [embedder.embed_documents([t]) for t in TEXTS]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda t: embedder.embed_documents([t]), TEXTS))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
