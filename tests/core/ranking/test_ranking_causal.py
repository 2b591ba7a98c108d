"""A causal language model as a cross-encoder (Qwen3-Reranker), on a tiny model with random weights."""

from importlib import resources
from pathlib import Path

import pytest

from sage_core.ranking import CrossEncoderReranker

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("sentence_transformers")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tokenizers import Tokenizer

    source = resources.files("sage_core.text").joinpath("tokenizer.json").read_text(encoding="utf-8")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(source), unk_token="[UNK]", pad_token="[PAD]", eos_token="[SEP]"
    )
    torch.manual_seed(3)
    config = transformers.Qwen3Config(
        vocab_size=len(tokenizer),
        pad_token_id=0,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        initializer_range=0.4,
    )
    path = tmp_path_factory.mktemp("qwen")
    transformers.Qwen3ForCausalLM(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def test_it_scores_one_number_a_pair(folder: Path) -> None:
    reranker = CrossEncoderReranker(folder, device="cpu", batch_size=2)
    texts = ["The lighthouse is forty meters tall.", "Tomatoes need warm nights."]
    scores = reranker.score("How tall is the lighthouse?", texts)
    assert len(scores) == 2 and scores[0] != scores[1]
