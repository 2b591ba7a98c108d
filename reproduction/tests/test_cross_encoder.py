"""The cross-encoder adapter on a real, tiny model with random weights: no download."""

import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sage_eval.retrievers.cross_encoder import CrossEncoderReranker

from reproduction.tests.tiny import tiny_tokenizer
from sage_core.errors import InputError, ModelError

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")

QUERY = "How tall is the lighthouse?"
TEXTS = [
    "The lighthouse is forty metres tall.",
    "",
    "Tomatoes need warm nights, rich soil and a wall that keeps off the wind. " * 12,
    "灯台の高さは四十メートルです。",
    "Forty.",
]


def save_model(folder, labels=1, dtype=None):
    """A tiny cross-encoder with random weights, as a folder."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    tokenizer = tiny_tokenizer(mask_token="[MASK]")
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
        num_labels=labels,
        initializer_range=0.4,
    )
    BertForSequenceClassification(config).to(dtype or torch.float32).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("cross-encoder"))


@pytest.fixture(scope="module")
def reranker(folder):
    return CrossEncoderReranker(folder, device="cpu")


def by_hand(folder, query, text):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).float().eval()
    inputs = tokenizer([query], [text], truncation=True, max_length=128, return_tensors="pt")
    with torch.inference_mode():
        return float(model(**inputs).logits[0, 0])


def test_scores_are_the_raw_logits_in_order(folder, reranker):
    scores = reranker.score(QUERY, TEXTS)
    assert all(type(s) is float for s in scores)
    np.testing.assert_allclose(scores, [by_hand(folder, QUERY, t) for t in TEXTS], atol=1e-5)
    assert min(scores) < 0 or max(scores) > 1, "a sigmoid was applied, or the weights show nothing"
    assert len(set(scores)) == len(scores)
    assert reranker.scale == "logit"


def test_half_precision_weights_are_read_into_float32(tmp_path):
    save_model(tmp_path, dtype=torch.bfloat16)
    reranker = CrossEncoderReranker(tmp_path, device="cpu")
    scores = reranker.score(QUERY, TEXTS)
    np.testing.assert_allclose(scores, [by_hand(tmp_path, QUERY, t) for t in TEXTS], atol=1e-5)
    assert any(float(torch.tensor(s).bfloat16()) != s for s in scores)


def test_no_texts_load_no_model(tmp_path):
    assert CrossEncoderReranker(tmp_path / "nowhere").score(QUERY, []) == []


def test_it_serves_threads(reranker):
    scores = reranker.score(QUERY, TEXTS)
    with ThreadPoolExecutor(4) as pool:
        for other in pool.map(lambda _: reranker.score(QUERY, TEXTS), range(8)):
            np.testing.assert_allclose(other, scores, atol=1e-5)


def test_a_classifier_is_refused(tmp_path):
    save_model(tmp_path, labels=3)
    with pytest.raises(ModelError, match="3 scores"):
        CrossEncoderReranker(tmp_path, device="cpu").score(QUERY, TEXTS)


def test_a_missing_or_damaged_model_is_refused(tmp_path, folder):
    with pytest.raises(ModelError, match="cannot load"):
        CrossEncoderReranker(tmp_path / "nowhere", device="cpu").score(QUERY, TEXTS)
    damaged = shutil.copytree(folder, tmp_path / "damaged")
    (damaged / "config.json").write_text("{")
    with pytest.raises(ModelError, match="cannot load"):
        CrossEncoderReranker(damaged, device="cpu").score(QUERY, TEXTS)


def test_a_blank_name_is_refused():
    with pytest.raises(InputError):
        CrossEncoderReranker("  ")
