"""Embedding models in this process: the bundled one for real, packing as a property."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.embedding import MiniLMEmbedder, SentenceTransformerEmbedder, local_embedder
from sage_core.embedding.protocol import Embedder, unit_rows
from sage_core.embedding.sentence_transformer import pack_by_length
from sage_core.errors import InputError, ModelError

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


@given(st.lists(st.integers(0, 500), max_size=60), st.integers(1, 2000), st.integers(1, 20))
def test_packing_holds_every_item_once_within_the_budget(lengths, budget, largest):
    batches = pack_by_length(lengths, budget, largest=largest)
    assert sorted(i for b in batches for i in b) == list(range(len(lengths)))
    for batch in batches:
        assert 1 <= len(batch) <= largest
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget


def test_packing_fills_a_batch_before_it_starts_another():
    assert pack_by_length([5, 1, 5, 1], 10) == [[1, 3], [0, 2]]


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
    company = [*TEXTS, *(f"{text} {'word ' * n}" for n in range(0, 300, 40) for text in TEXTS)]
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


def test_no_more_questions_are_remembered_than_allowed(embedder, monkeypatch):
    monkeypatch.setattr("sage_core.embedding.local._QUERIES", 3)
    for i in range(6):
        embedder.embed_query(f"question {i}")
    assert list(embedder._recent) == ["question 3", "question 4", "question 5"]


def test_threads_share_one_embedder(embedder):
    alone = [embedder.embed_documents([t]) for t in TEXTS]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda t: embedder.embed_documents([t]), TEXTS))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_names():
    assert isinstance(MiniLMEmbedder(), Embedder)
    assert isinstance(local_embedder("sentence-transformers/all-MiniLM-L6-v2", "cpu"), MiniLMEmbedder)
    elsewhere = local_embedder("all-MiniLM-L6-v2", "cuda")
    assert isinstance(elsewhere, SentenceTransformerEmbedder)
    assert elsewhere.name == MiniLMEmbedder().name == "all-MiniLM-L6-v2"
    assert SentenceTransformerEmbedder("some/model").name == "some/model"


def test_bad_arguments():
    with pytest.raises(InputError):
        SentenceTransformerEmbedder(" ")
    with pytest.raises(InputError, match="batch_characters"):
        SentenceTransformerEmbedder("some/model", batch_characters=0)


@pytest.mark.slow
def test_a_folder_without_a_model_says_what_to_do(tmp_path):
    pytest.importorskip("sentence_transformers")
    with pytest.raises(ModelError, match="safetensors"):
        SentenceTransformerEmbedder(tmp_path).embed_query("a question")
