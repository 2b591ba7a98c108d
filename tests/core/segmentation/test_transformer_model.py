"""The paper's pair model with a transformer as its encoder: trained, saved, loaded, on a real, tiny model."""

from __future__ import annotations

import numpy as np
import pytest

from sage_core.errors import InputError, ModelError
from sage_core.segmentation.models.load import load_model
from sage_core.segmentation.models.protocol import BoundaryModel
from sage_core.text.wordpiece import TOKENIZER_FILE
from tests.fakes.corpus import write_corpus

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")


@pytest.fixture(scope="module")
def tiny_encoder(tmp_path_factory):
    """A sentence-transformers folder with random weights: one layer of 32."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("encoder")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_file(str(TOKENIZER_FILE)), unk_token="[UNK]", sep_token="[SEP]",
        pad_token="[PAD]", cls_token="[CLS]", mask_token="[MASK]", model_max_length=64,
    )  # fmt: skip
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=64, initializer_range=0.2,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder / "bert")
    tokenizer.save_pretrained(folder / "bert")
    words = Transformer(str(folder / "bert"), max_seq_length=64)
    SentenceTransformer(modules=[words, Pooling(32)], device="cpu").save(str(folder / "all"))
    return folder / "all"


@pytest.fixture(scope="module")
def trained(tiny_encoder, tmp_path_factory):
    from sage_core.segmentation.training.options import TrainOptions
    from sage_core.segmentation.training.train import train

    folder = tmp_path_factory.mktemp("transformer")
    data = write_corpus(folder / "corpus.jsonl", documents=40)
    options = TrainOptions(
        kind="transformer", start=str(tiny_encoder), hidden=24, epochs=6.0, batch_size=64, learning_rate=5e-3,
        table_rate=3e-3, held_out=0.2, average=0.9, threads=1, device="cpu",
    )  # fmt: skip
    return train(data, folder / "model", options)


def test_it_learns_encoder_included(trained, tiny_encoder):
    from safetensors.numpy import load_file

    assert trained.figures["auc"] > 0.9
    before = load_file(next(tiny_encoder.rglob("model.safetensors")))
    after = load_file(next((trained.folder / "encoder").rglob("model.safetensors")))
    moved = [name for name in before if not np.allclose(before[name], after[name], atol=1e-4)]
    assert any("attention" in name for name in moved)


def test_what_was_trained_is_what_is_loaded(trained):
    model = load_model(trained.folder)
    assert isinstance(model, BoundaryModel)
    text = [
        "In 1950 people wrote about chess.",
        "The pawn is near the queen.",
        "In 1961 people wrote about bread.",
    ]
    same, none, empty = model.probabilities([text, ["One only."], []])
    assert same.shape == (2,) and same[1] < same[0]
    assert none.shape == empty.shape == (0,)
    assert model.fingerprint == load_model(trained.folder).fingerprint


def test_a_sentence_is_encoded_once_however_often_it_occurs(trained):
    model = load_model(trained.folder)
    seen = []
    encode = model.encoder.model.encode
    model.encoder.model.encode = lambda texts, **options: seen.extend(texts) or encode(texts, **options)
    document = ["One thing.", "Another thing.", "One thing.", "A third thing."]
    alone = model.probabilities([document])[0]
    together = model.probabilities([document, document[::-1]])[0]
    assert len(seen) == 3 + 3
    np.testing.assert_allclose(alone, together, atol=1e-5)


def test_a_missing_encoder_is_a_model_error(trained, tmp_path):
    for name in ("model.safetensors", "config.json"):
        (tmp_path / name).write_bytes((trained.folder / name).read_bytes())
    with pytest.raises(ModelError, match="encoder"):
        load_model(tmp_path)


def test_a_batch_has_at_least_one_sentence(tiny_encoder):
    from sage_core.segmentation.models.transformer import TransformerEncoder

    with pytest.raises(InputError):
        TransformerEncoder(str(tiny_encoder), batch_size=0)
    assert TransformerEncoder(str(tiny_encoder), device="cpu").encode([]).shape == (0, 32)
