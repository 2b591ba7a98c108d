"""Packed cross-encoders: small folders, the same scores; and the one that is bundled."""

import json
import pickle
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from sage_train.folders import pack

from sage_core.errors import InputError, ModelError
from sage_core.ranking import CrossEncoderReranker, HybridReranker
from sage_core.ranking.named import named_reranker, offline_rerankers
from sage_core.ranking.packed import PackedCrossEncoder, is_packed, require_offline_folder
from sage_core.selection.rules import EMPTY_BELOW
from sage_core.text.wordpiece import TOKENIZER_FILE

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.core.ranking.test_ranking_cross_encoder import QUERY, TEXTS, save_model  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("cross-encoder"))


@pytest.fixture(scope="module")
def packed(source, tmp_path_factory):
    target = tmp_path_factory.mktemp("packed")
    pack(source, target, {"name": "tiny"})
    return target


def by_hand(source, text):
    """The logit of the unpacked model, one pair at a time, by transformers alone."""
    from tokenizers import Tokenizer
    from transformers import BertForSequenceClassification

    tokenizer = Tokenizer.from_file(str(TOKENIZER_FILE))
    tokenizer.enable_truncation(128, strategy="longest_first")
    pair = tokenizer.encode(QUERY, text)
    model = BertForSequenceClassification.from_pretrained(source).eval()
    with torch.no_grad():
        inputs = {"input_ids": torch.tensor([pair.ids]), "token_type_ids": torch.tensor([pair.type_ids])}
        return float(model(**inputs).logits[0, 0])


def test_a_packed_folder_scores_like_the_model_it_was_made_from(source, packed):
    whole = [by_hand(source, text) for text in TEXTS]
    small = CrossEncoderReranker(packed, device="cpu").score(QUERY, TEXTS)
    assert np.allclose(whole, small, atol=0.05 * np.ptp(whole))
    assert np.argsort(whole).tolist() == np.argsort(small).tolist()


def test_it_is_a_quarter_of_the_size(source, packed):
    assert (packed / "model.safetensors").stat().st_size < 0.3 * (source / "model.safetensors").stat().st_size


def test_scores_do_not_depend_on_what_else_is_in_the_batch(packed):
    reranker = CrossEncoderReranker(packed, device="cpu")
    together = reranker.score(QUERY, TEXTS)
    assert together == pytest.approx([reranker.score(QUERY, [t])[0] for t in TEXTS], abs=1e-5)
    assert reranker.score(QUERY, []) == []


def test_only_what_was_packed_is_taken_for_packed(source, packed, tmp_path):
    assert is_packed(packed)
    assert not is_packed(source)
    assert not is_packed(tmp_path)
    with pytest.raises(ModelError):
        PackedCrossEncoder(tmp_path)


@pytest.mark.parametrize(
    ("setting", "tensor", "rows"),
    [("type_vocab_size", "token_type", 1), ("max_position_embeddings", "position", 4), (None, "position", 0)],
)
def test_a_model_that_reads_no_pairs_is_told(packed, tmp_path, setting, tensor, rows):
    shutil.copytree(packed, tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text())
    config["bert"] |= {setting: rows} if setting else {}
    (tmp_path / "config.json").write_text(json.dumps(config))
    tensors = load_file(tmp_path / "model.safetensors")
    start = f"bert.embeddings.{tensor}_embeddings.weight"
    save_file(
        {n: t[:rows] if n.startswith(start) else t for n, t in tensors.items()},
        tmp_path / "model.safetensors",
    )
    with pytest.raises(ModelError, match="no pairs" if setting else "scales"):
        CrossEncoderReranker(tmp_path, device="cpu").score(QUERY, TEXTS)


def test_it_runs_on_the_cpu():
    with pytest.raises(InputError, match="CPU"):
        CrossEncoderReranker(device="cuda").score(QUERY, TEXTS)


@pytest.fixture(scope="module")
def bundled():
    return CrossEncoderReranker(device="cpu")


def test_the_bundled_one_needs_no_download_and_knows_what_answers(bundled):
    texts = [
        "The ferry to the island takes bicycles free of charge.",
        "On Sundays the first ferry leaves at nine in the morning, the last at six.",
        "Sundays are quiet on the island; the bakery is closed.",
    ]
    scores = bundled.score("When does the ferry leave on Sundays?", texts)
    assert int(np.argmax(scores)) == 1
    assert all(isinstance(s, float) and np.isfinite(s) for s in scores)


def test_the_offline_one_is_small_and_has_a_card():
    folder = require_offline_folder()
    assert sum(f.stat().st_size for f in folder.iterdir()) < 25_000_000
    card = (folder / "MODEL_CARD.md").read_text(encoding="utf-8")
    for word in ("License", "Seed", "python training/train_cross_encoder.py", "all-MiniLM-L6-v2"):
        assert word in card


@pytest.mark.parametrize("name", ["sage-minilm", "hybrid+sage-minilm"])
def test_where_the_weights_are_not_installed_the_error_says_what_to_install(name, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda module: None)
    assert offline_rerankers() == ("hybrid", "none")
    with pytest.raises(ModelError, match=r"pip install \./packages/sage-rag-models"):
        named_reranker(name)
    with pytest.raises(ModelError, match=r"pip install \./packages/sage-rag-models"):
        CrossEncoderReranker().score(QUERY, TEXTS)


def test_odd_texts_have_a_score(bundled):
    scores = bundled.score("What? 🙂", ["", " ", "a" * 100_000, "﷽" * 300, "\x00\r\n", "word " * 3_000])
    assert np.isfinite(scores).all()


def test_the_hybrid_takes_its_logit(bundled):
    hybrid = HybridReranker(cross_encoder=bundled)
    scores = hybrid.score(QUERY, TEXTS)
    plain = HybridReranker().score(QUERY, TEXTS)
    assert scores != plain
    assert scores[1] == 0.0  # a blank text
    assert all(0.0 <= s <= 1.0 for s in scores)
    assert hybrid.name == "hybrid(sage-minilm)"
    assert pickle.loads(pickle.dumps(hybrid)).score(QUERY, TEXTS) == pytest.approx(scores, abs=1e-6)
    assert hybrid.score(" ", TEXTS) == [EMPTY_BELOW if text.strip() else 0.0 for text in TEXTS]
    assert hybrid.score(QUERY, []) == []
    near = [float(i) for i in range(len(TEXTS))]
    assert hybrid.score(QUERY, TEXTS, near) != scores


def test_a_logit_without_its_calibration_is_told(bundled, packed, caplog):
    HybridReranker(cross_encoder=CrossEncoderReranker(packed))
    assert "calibrated for sage-minilm" in caplog.text
    with pytest.raises(InputError, match="cross_encoder"):
        HybridReranker(cross_encoder="sage-minilm")


class Favourite:
    """A cross-encoder that likes one text."""

    name = "sage-minilm"
    scale = "logit"

    def __init__(self, text):
        self.text = text

    def score(self, query, texts):
        return [9.0 if text == self.text else -9.0 for text in texts]

    def score_many(self, requests):
        return [self.score(*request) for request in requests]


def test_the_logit_moves_the_probability():
    for i in (0, 2, 4):
        scores = HybridReranker(cross_encoder=Favourite(TEXTS[i])).score(QUERY, TEXTS)
        others = HybridReranker(cross_encoder=Favourite("none of them")).score(QUERY, TEXTS)
        assert scores[i] > others[i]
        assert scores[:i] + scores[i + 1 :] == others[:i] + others[i + 1 :]


def test_half_a_character_is_no_error(bundled):
    scores = bundled.score("What is \ud83d?", ["It is \ude00.", "It is nothing."])
    assert np.isfinite(scores).all()
