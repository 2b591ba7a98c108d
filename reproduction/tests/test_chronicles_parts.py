"""What the best rows of The Chronicles need: a matrix over an embedding, and a reranker that writes a word."""

import numpy as np
import pytest
from sage_eval.retrievers.custom import CustomEmbedder, train_matrix
from sage_eval.retrievers.factory import ModelPool
from sage_eval.retrievers.seq2seq import Seq2SeqReranker

from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.errors import InputError, ModelError
from tests.fakes.models import HashEmbedder

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

THINGS = [
    "ferry",
    "lighthouse",
    "bakery",
    "museum",
    "orchard",
    "chapel",
    "mill",
    "quarry",
    "school",
    "harbor",
    "well",
    "inn",
]
PAIRS = [
    (f"Who looks after the {t}?", f"In spring the {t} is kept by a family that lives near the {t} all year.")
    for t in THINGS
]


def test_a_matrix_brings_questions_nearer_to_their_chunks(tmp_path):
    file = tmp_path / "matrix.safetensors"
    embedder = MiniLMEmbedder()
    report = train_matrix(PAIRS, embedder, file, size=64, epochs=60)
    assert report.after >= 0.75 and report.pairs >= 7  # three of four pairs do not belong together
    custom = ModelPool(embedder=embedder).embedder({"kind": "custom", "matrix": str(file)})

    def margin(model):
        questions = np.stack([model.embed_query(question) for question, _ in PAIRS])
        cosines = questions @ model.embed_documents([chunk for _, chunk in PAIRS]).T
        right = np.eye(len(PAIRS), dtype=bool)
        return cosines[right].mean() - cosines[~right].mean()

    assert margin(custom) > margin(embedder) + 0.2
    assert np.allclose(np.linalg.norm(custom.embed_documents([PAIRS[0][1]])), 1, atol=1e-5)


def test_a_matrix_of_another_embedder_or_of_few_questions_is_refused(tmp_path):
    file = tmp_path / "matrix.safetensors"
    with pytest.raises(InputError, match="ten questions"):
        train_matrix(PAIRS[:5], HashEmbedder(), file)
    train_matrix(PAIRS, HashEmbedder(), file, size=8, epochs=1)
    with pytest.raises(ModelError, match="trained over"):
        CustomEmbedder(MiniLMEmbedder(), file)
    with pytest.raises(ModelError, match="no matrix"):
        CustomEmbedder(HashEmbedder(), tmp_path / "nothing")


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    """A T5 of two small random layers over the bundled vocabulary, which has "true" and "false" whole."""
    from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

    from sage_core.text.wordpiece import TOKENIZER_FILE

    folder = tmp_path_factory.mktemp("t5")
    marks = {"pad_token": "[PAD]", "unk_token": "[UNK]", "eos_token": "[SEP]"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(TOKENIZER_FILE), **marks)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(3)
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 2, "vocab_size": 30522}
    config = T5Config(
        **sizes, pad_token_id=0, eos_token_id=102, decoder_start_token_id=0, initializer_factor=5.0
    )
    T5ForConditionalGeneration(config).save_pretrained(folder)
    return folder


def test_a_sequence_to_sequence_model_ranks_by_the_word_that_it_would_write(t5):
    from transformers import AutoTokenizer, T5ForConditionalGeneration

    query, texts = "Where are tickets sold?", ["Tickets are sold on board.", "", "Seals sleep. " * 400]
    scores = Seq2SeqReranker(t5, device="cpu").score(query, texts)
    tokenizer, model = (
        AutoTokenizer.from_pretrained(t5),
        T5ForConditionalGeneration.from_pretrained(t5).eval(),
    )
    written = tokenizer(f"Query: {query} Document: {texts[0]} Relevant:", add_special_tokens=False).input_ids
    with torch.inference_mode():
        logits = model(
            input_ids=torch.tensor([[*written, 102]]), decoder_input_ids=torch.tensor([[0]])
        ).logits[0, 0]
    yes, no = (tokenizer.convert_tokens_to_ids(word) for word in ("true", "false"))
    assert scores[0] == pytest.approx(float(logits[yes] - logits[no]), abs=1e-4)
    assert len(set(scores)) == 3 and all(np.isfinite(scores))
    spec = {"kind": "seq2seq", "model": str(t5), "words": ["yes", "no"], "device": "cpu"}
    assert ModelPool().reranker(spec).score(query, texts) != scores


def test_a_sequence_to_sequence_model_that_is_not_whole_is_refused(t5, tmp_path):
    with pytest.raises(ModelError, match="single tokens"):
        Seq2SeqReranker(t5, words=("irrelevantly", "no")).score("a", ["b"])
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((t5 / name).read_bytes())
    from safetensors.torch import load_file, save_file

    weights = load_file(t5 / "model.safetensors")
    lacking = {name: value for name, value in weights.items() if "encoder.block.0" not in name}
    save_file(lacking, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="lacks the weights"):
        Seq2SeqReranker(tmp_path, device="cpu").score("a", ["b"])


def test_an_output_layer_other_than_the_stored_one_is_refused(t5, tmp_path):
    from safetensors.torch import load_file, save_file
    from transformers import T5ForConditionalGeneration

    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((t5 / name).read_bytes())
    weights = load_file(t5 / "model.safetensors")
    weights["lm_head.weight"] = weights["shared.weight"] + 1
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    reranker = Seq2SeqReranker(tmp_path, device="cpu")
    tied = T5ForConditionalGeneration.from_pretrained(t5)  # what transformers 4 makes of such a folder
    with pytest.raises(ModelError, match="another output layer"):
        reranker._check_head(tied)
