"""Embedding models of the evaluation: kept ones, two encoders, and a server's."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sage_eval.records import Piece
from sage_eval.retrievers import (
    CachedEmbedder,
    DualEncoder,
    OpenAIEmbedder,
    make_index,
)

from sage_app.models import SentenceTransformerEmbedder
from sage_core.embedding.protocol import Embedder
from sage_core.errors import InputError, LLMError, StoreError
from tests.fakes.llm_server import LLMServer, Reply
from tests.fakes.models import HashEmbedder

TEXTS = ["The ferry leaves at seven.", "Bread is baked on Fridays.", "Nineteen seals lie on the rocks."]


# -- kept embeddings ----------------------------------------------------------------------------------


def test_a_text_is_embedded_once():
    inner = HashEmbedder()
    cached = CachedEmbedder(inner)
    assert isinstance(cached, Embedder) and cached.name == "hash"
    first = cached.embed_documents([*TEXTS, TEXTS[0]])
    np.testing.assert_array_equal(first, inner.embed_documents([*TEXTS, TEXTS[0]]))
    embedded = inner.texts_embedded
    np.testing.assert_array_equal(cached.embed_documents(TEXTS[::-1]), first[2::-1])
    assert inner.texts_embedded == embedded and cached.embedded == 3
    assert cached.embed_documents([]).shape == (0, 64)


@pytest.mark.slow
def test_questions_and_passages_are_kept_apart(tiny_encoders):
    """Models embed a question in another way than the same text as a passage."""
    cached = CachedEmbedder(DualEncoder(*tiny_encoders, device="cpu"))
    assert not np.allclose(cached.embed_documents(TEXTS[:1])[0], cached.embed_query(TEXTS[0]))
    assert cached.embed_query(TEXTS[0]) is cached.embed_query(TEXTS[0])


def test_the_folder_serves_the_next_run_and_other_models_have_their_own(tmp_path):
    first = CachedEmbedder(HashEmbedder(), tmp_path / "deep" / "folder")
    rows, asked = first.embed_documents(TEXTS), first.embed_query("ferry")
    first.close()
    inner = HashEmbedder()
    second = CachedEmbedder(inner, tmp_path / "deep" / "folder")
    np.testing.assert_array_equal(second.embed_documents(TEXTS), rows)
    np.testing.assert_array_equal(second.embed_query("ferry"), asked)
    assert inner.texts_embedded == 1  # the probe
    other = HashEmbedder(name="other", salt="x")
    assert not np.array_equal(
        CachedEmbedder(other, tmp_path / "deep" / "folder").embed_documents(TEXTS), rows
    )
    assert other.texts_embedded == 1 + 3


def test_memory_is_bounded_and_the_file_still_has_all(tmp_path):
    inner = HashEmbedder()
    cached = CachedEmbedder(inner, tmp_path, in_memory=1)
    texts = [f"sentence number {i}" for i in range(1200)]
    rows = cached.embed_documents(texts)
    np.testing.assert_array_equal(cached.embed_documents(texts), rows)
    assert inner.texts_embedded == 1 + 1200
    forgetful = CachedEmbedder(HashEmbedder(), in_memory=2)
    np.testing.assert_array_equal(forgetful.embed_documents(texts[:5]), rows[:5])
    with pytest.raises(InputError):
        CachedEmbedder(inner, in_memory=0)


def test_threads_share_one_cache(tmp_path):
    cached = CachedEmbedder(HashEmbedder(), tmp_path)
    wanted = HashEmbedder().embed_documents(TEXTS)
    with ThreadPoolExecutor(8) as pool:
        for rows in pool.map(lambda _: cached.embed_documents(TEXTS), range(40)):
            np.testing.assert_array_equal(rows, wanted)


def test_a_damaged_file_is_told(tmp_path):
    CachedEmbedder(HashEmbedder(), tmp_path).embed_documents(TEXTS)
    file = next(tmp_path.glob("*.sqlite3"))
    file.write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError, match="delete the file"):
        CachedEmbedder(HashEmbedder(), tmp_path)
    (tmp_path / "a file").write_text("")
    with pytest.raises(StoreError):
        CachedEmbedder(HashEmbedder(), tmp_path / "a file")


def test_a_file_that_cannot_grow_costs_no_embedding(tmp_path, caplog):
    cached = CachedEmbedder(HashEmbedder(), tmp_path, in_memory=10)
    with sqlite3.connect(next(tmp_path.glob("*.sqlite3"))) as database:
        database.execute(
            "CREATE TRIGGER full BEFORE INSERT ON probed_vectors BEGIN SELECT RAISE(FAIL, 'full'); END"
        )
    assert cached.embed_documents(TEXTS).shape == (3, 64)
    assert "are not kept" in caplog.text


# -- two encoders -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny_encoders(tmp_path_factory):
    """Two sentence-transformers folders with different random weights: one layer of 32."""
    pytest.importorskip("sentence_transformers")
    return [str(save_encoder(tmp_path_factory.mktemp("encoder"), seed)) for seed in (0, 1)]


def save_encoder(folder, seed):
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    from sage_core.text.wordpiece import TOKENIZER_FILE

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_file(str(TOKENIZER_FILE)), unk_token="[UNK]", sep_token="[SEP]",
        pad_token="[PAD]", cls_token="[CLS]", mask_token="[MASK]", model_max_length=64,
    )  # fmt: skip
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=64, initializer_range=0.2,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder / "bert")
    tokenizer.save_pretrained(folder / "bert")
    words = Transformer(str(folder / "bert"), max_seq_length=64)
    SentenceTransformer(modules=[words, Pooling(32)], device="cpu").save(str(folder / "all"))
    return folder / "all"


def test_dpr_asks_each_model_its_own_and_keeps_lengths(tiny_encoders):
    questions, contexts = tiny_encoders
    dpr = DualEncoder(questions, contexts, device="cpu")
    raw = SentenceTransformerEmbedder(contexts, device="cpu", normalize=False).embed_documents(TEXTS)
    np.testing.assert_allclose(dpr.embed_documents(TEXTS), raw, atol=1e-5)
    assert np.abs(np.linalg.norm(raw, axis=1) - 1).min() > 0.1
    unit = SentenceTransformerEmbedder(questions, device="cpu").embed_query("ferry")
    asked = dpr.embed_query("ferry")
    np.testing.assert_allclose(asked / np.linalg.norm(asked), unit, atol=1e-5)
    assert contexts in dpr.name


def test_dpr_index_ranks_by_inner_product(tiny_encoders):
    questions, contexts = tiny_encoders
    spec = {
        "kind": "dpr",
        "question_model": questions,
        "context_model": contexts,
        "device": "cpu",
    }
    index = make_index(spec)
    index.build([Piece(text, "d") for text in TEXTS])
    dpr = DualEncoder(questions, contexts, device="cpu")
    products = dpr.embed_documents(TEXTS) @ dpr.embed_query("When does it leave?")
    hits = index.search("When does it leave?", 3)
    assert [h.piece.text for h in hits] == [TEXTS[i] for i in np.argsort(-products)]
    assert hits[0].score == pytest.approx(products.max(), rel=1e-4)


def test_vectors_of_another_model_or_server_are_not_served(tmp_path, letters):
    """One name, one folder: other vectors and another width are told apart, and each finds its own again."""

    rows = {}
    for key in (("", 64), ("other weights", 64), ("", 32)):
        salt, dimension = key
        model = HashEmbedder("one name", dimension, salt)
        rows[key] = CachedEmbedder(model, tmp_path).embed_documents(TEXTS)
        np.testing.assert_array_equal(rows[key], model.embed_documents(TEXTS))
    for (salt, dimension), kept in rows.items():
        again = CachedEmbedder(HashEmbedder("one name", dimension, salt), tmp_path)
        np.testing.assert_array_equal(again.embed_documents(TEXTS), kept)
        assert again.embedded == 0
    first = OpenAIEmbedder("m", base_url="http://127.0.0.1:1/v1", api_key="k")
    second = OpenAIEmbedder("m", base_url="http://127.0.0.1:2/v1", api_key="k")
    for embedder in (first, second):
        CachedEmbedder(embedder, tmp_path / "servers")
    assert len(list((tmp_path / "servers").iterdir())) == 2


# -- a server's embeddings ----------------------------------------------------------------------------


@pytest.fixture
def letters():
    """From a text to a vector: how often some letters occur. Deliberately no unit vectors."""
    pytest.importorskip("openai")
    return lambda text: [1.0, *(float(text.lower().count(c)) for c in "aefs")]


def test_openai_embeddings_in_batches_in_the_right_order(letters):
    with LLMServer([], embed=letters) as server:
        embedder = OpenAIEmbedder(
            "test", base_url=server.base_url, api_key="sk-test", batch_size=2, dimensions=5
        )
        rows = embedder.embed_documents([*TEXTS, ""])
        assert [len(r.body["input"]) for r in server.requests] == [2, 2]
        assert server.requests[1].body["input"][1] == " "
        assert {r.body["dimensions"] for r in server.requests} == {5}
        query = embedder.embed_query(TEXTS[1])
    expected = np.array([letters(t) for t in [*TEXTS, ""]], np.float32)
    np.testing.assert_allclose(rows, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)
    np.testing.assert_allclose(query, rows[1], atol=1e-6)
    assert embedder.name == "test(5)"
    assert embedder.embed_documents([]).shape == (0, 0)


def test_openai_index_from_a_configuration(letters, tmp_path):
    with LLMServer([], embed=letters) as server:
        spec = {"kind": "openai", "model": "test", "base_url": server.base_url, "batch_size": 8}
        index = make_index(spec, cache_dir=tmp_path)
        index.build([Piece(t, "d") for t in TEXTS])
        assert index.search(TEXTS[2], 1)[0].piece.text == TEXTS[2]
        sent = len(server.requests)
        again = make_index(spec, cache_dir=tmp_path)
        again.build([Piece(t, "d") for t in TEXTS])
        assert again.search(TEXTS[2], 1)[0].piece.text == TEXTS[2]
        assert (sent, len(server.requests)) == (3, 4)  # a probe each; the second run sends nothing else


@pytest.mark.parametrize(
    "raw",
    [
        '{"object": "list", "data": [], "model": "m"}',
        '{"object": "list", "data": [{"index": 0, "embedding": []}], "model": "m"}',
        '{"object": "list", "data": [{"index": 0, "embedding": "no"}], "model": "m"}',
        '{"object": "list", "data": [{"index": 7, "embedding": [1.0]}], "model": "m"}',
        '{"answer": 42}',
        "<html>",
    ],
)
def test_openai_unreadable_replies_are_told(letters, raw):
    with LLMServer([], embed=letters, embed_first=[Reply(raw=raw)] * 9) as server:
        embedder = OpenAIEmbedder("test", base_url=server.base_url, max_retries=0)
        with pytest.raises(LLMError, match="could not be read"):
            embedder.embed_query("ferry")


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"dimensions": 0}, {"timeout": 0}, {"model": ""}])
def test_openai_settings_are_in_range(letters, wrong):
    with pytest.raises(InputError):
        OpenAIEmbedder(**{"model": "m", **wrong})
