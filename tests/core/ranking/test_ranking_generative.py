"""Rerankers that generate, on real, tiny models with random weights: no download."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from importlib import resources

import numpy as np
import pytest

from sage_core.errors import InputError, ModelError
from sage_core.ranking import CrossEncoderReranker, GenerativeReranker, Request, named_reranker, rank
from sage_core.ranking.generative import CAUSAL, INSTRUCTION

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

QUERY = "How tall is the lighthouse?"
TEXTS = ["The lighthouse is forty metres tall.", "", "Tomatoes need warm nights. " * 200, "Forty {query}."]


def save_model(folder, kind):
    from tokenizers import Tokenizer

    source = resources.files("sage_core.text").joinpath("tokenizer.json").read_text(encoding="utf-8")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(source),
        unk_token="[UNK]",
        pad_token="[PAD]",
        eos_token="[SEP]",
        model_max_length=1024,
    )
    torch.manual_seed(3)
    size = {"vocab_size": len(tokenizer), "pad_token_id": 0, "decoder_start_token_id": 0}
    if kind == "t5":
        config = transformers.T5Config(
            **size, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, initializer_factor=3.0
        )
        net = transformers.T5ForConditionalGeneration(config)
    elif kind == "qwen":
        config = transformers.Qwen3Config(
            **size,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            initializer_range=0.4,
        )
        net = transformers.Qwen3ForCausalLM(config)
    else:
        config = transformers.BertConfig(
            vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=1, num_attention_heads=2
        )
        net = transformers.BertModel(config)
    net.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=["t5", "qwen"])
def model(request, tmp_path_factory):
    return request.param, save_model(tmp_path_factory.mktemp(request.param), request.param)


def by_hand(kind, folder, query, text):
    """The log-odds of one pair alone, from the model itself."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    words = ["true", "false"] if kind == "t5" else ["yes", "no"]
    yes, no = (tokenizer.encode(word, add_special_tokens=False)[0] for word in words)
    if kind == "t5":
        net = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
        ids = tokenizer(f"Query: {query} Document: {text} Relevant:", return_tensors="pt").input_ids
        with torch.inference_mode():
            logits = net(input_ids=ids, decoder_input_ids=torch.zeros((1, 1), dtype=torch.long)).logits[0, -1]
    else:
        net = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
        whole = CAUSAL.replace("{instruction}", INSTRUCTION).replace("{query}", query).replace("{text}", text)
        ids = tokenizer(whole, add_special_tokens=False, return_tensors="pt").input_ids
        with torch.inference_mode():
            logits = net(input_ids=ids).logits[0, -1]
    return float(logits[yes] - logits[no])


def test_scores_are_the_log_odds_of_the_two_words(model):
    kind, folder = model
    reranker = GenerativeReranker(folder, device="cpu", batch_size=2)
    texts = [TEXTS[0], TEXTS[1], "Forty."]  # of three lengths: padding must not change a score
    scores = reranker.score(QUERY, texts)
    np.testing.assert_allclose(scores, [by_hand(kind, folder, QUERY, t) for t in texts], atol=1e-4)
    assert len(set(scores)) == 3 and reranker.scale == "logit"
    assert all(type(score) is float for score in scores)


def test_a_long_text_loses_its_end_and_the_question_stays(model):
    _, folder = model
    reranker = GenerativeReranker(folder, device="cpu", max_length=160)
    whole = "warm nights " * 400
    beginning, other = reranker.score(QUERY, [whole, whole + "and something else"])
    assert beginning == pytest.approx(other, abs=1e-5)
    assert abs(reranker.score("Something else entirely?", [whole])[0] - beginning) > 1e-4


def test_a_document_cannot_set_control_tokens_or_fields(model):
    _, folder = model
    reranker = GenerativeReranker(folder, device="cpu")
    plain, steered = reranker.score(QUERY, ["a  b", "a [SEP] b"])
    assert plain == pytest.approx(steered, abs=1e-5)
    assert len(reranker.score("{text}", ["{query} {instruction}"])) == 1


def test_it_shares_batches_pickles_and_serves_threads(model):
    _, folder = model
    reranker = GenerativeReranker(folder, device="cpu")
    alone = reranker.score(QUERY, TEXTS)
    together = reranker.score_many(
        [Request(QUERY, TEXTS), Request("Nothing?", []), Request(QUERY, TEXTS[:1])]
    )
    assert [len(scores) for scores in together] == [4, 0, 1]
    np.testing.assert_allclose(together[0], alone, atol=1e-4)
    again = pickle.loads(pickle.dumps(reranker))
    with ThreadPoolExecutor(3) as pool:
        for other in pool.map(lambda _: again.score(QUERY, TEXTS), range(3)):
            np.testing.assert_allclose(other, alone, atol=1e-4)
    assert rank(reranker, QUERY, TEXTS)[0].score == max(alone)


def test_words_and_template_can_be_others(model):
    _, folder = model
    other = GenerativeReranker(folder, words=("good", "bad"), template="{text} / {query}", device="cpu")
    assert other.score(QUERY, TEXTS[:1]) != GenerativeReranker(folder, device="cpu").score(QUERY, TEXTS[:1])
    with pytest.raises(ModelError, match="no single token"):
        GenerativeReranker(folder, words=("unquestionably so", "no")).score(QUERY, TEXTS)
    assert isinstance(named_reranker(f"generative:{folder}", device="cpu"), GenerativeReranker)


def test_a_cross_encoder_refuses_models_without_its_head(model, tmp_path):
    _, folder = model
    with pytest.raises(ModelError, match="generative:NAME"):
        CrossEncoderReranker(folder, device="cpu").score(QUERY, TEXTS)
    plain = save_model(tmp_path / "bert", "bert")
    with pytest.raises(ModelError, match="BertModel, no cross-encoder"):
        CrossEncoderReranker(plain, device="cpu").score(QUERY, TEXTS)
    config = plain / "config.json"
    config.write_text(config.read_text().replace('"BertModel"', '"BertForSequenceClassification"'))
    with pytest.raises(ModelError, match="no weights of a classification head"):
        CrossEncoderReranker(plain, device="cpu").score(QUERY, TEXTS)


def test_what_is_no_model_that_generates(tmp_path):
    plain = save_model(tmp_path / "bert", "bert")
    with pytest.raises(ModelError):
        GenerativeReranker(plain).score(QUERY, TEXTS)
    with pytest.raises(ModelError, match="cannot load"):
        GenerativeReranker(tmp_path / "nowhere").score(QUERY, TEXTS)


@pytest.mark.parametrize(
    "arguments", [{"batch_size": 0}, {"max_length": 3}, {"words": ("a", "a")}, {"template": "{text}"}]
)
def test_bad_arguments(arguments):
    with pytest.raises(InputError):
        GenerativeReranker("a-model", **arguments)
    with pytest.raises(InputError):
        GenerativeReranker(" ")
