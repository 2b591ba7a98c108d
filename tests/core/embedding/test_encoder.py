"""The numpy BERT: the same numbers as transformers', and files that lie."""

import gc
import json
import shutil
import weakref

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from sage_train.folders import save_folder
from threadpoolctl import ThreadpoolController, threadpool_limits

from sage_core.embedding.encoder import WORDS, Encoder, load_encoder
from sage_core.embedding.minilm import WEIGHTS
from sage_core.errors import ModelError

VOCABULARY = 30_522
CONFIG = {
    "vocab_size": VOCABULARY,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 40,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
}
_DENSE = {
    "attention.self.query": (8, 8),
    "attention.self.key": (8, 8),
    "attention.self.value": (8, 8),
    "attention.output.dense": (8, 8),
    "intermediate.dense": (16, 8),
    "output.dense": (8, 16),
}


def weights(seed=0):
    """Random tensors of a small BERT, large enough that activations are not all near zero."""
    random = np.random.default_rng(seed)

    def normal(*shape):
        return random.normal(size=shape).astype(np.float32)

    tensors = {
        WORDS: normal(VOCABULARY, 8),
        "bert.embeddings.position_embeddings.weight": normal(40, 8),
        "bert.embeddings.token_type_embeddings.weight": normal(2, 8),
        "bert.pooler.dense.weight": normal(8, 8),
        "bert.pooler.dense.bias": normal(8),
        "classifier.weight": normal(1, 8),
        "classifier.bias": normal(1),
    }
    norms = ["bert.embeddings.LayerNorm"]
    for i in range(2):
        at = f"bert.encoder.layer.{i}"
        norms += [f"{at}.attention.output.LayerNorm", f"{at}.output.LayerNorm"]
        for name, shape in _DENSE.items():
            tensors[f"{at}.{name}.weight"] = normal(*shape)
            tensors[f"{at}.{name}.bias"] = normal(shape[0])
    for name in norms:
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = 1 + 0.1 * normal(8), normal(8)
    return tensors


def texts(seed=0, count=60):
    random = np.random.default_rng(seed)
    ids = [random.integers(0, VOCABULARY, n).tolist() for n in random.integers(1, 40, count)]
    return ids, [[0] * (len(i) // 2) + [1] * (len(i) - len(i) // 2) for i in ids]


def states_of(encoder, ids, kinds, **options):
    """Hidden states of each text, in the given order."""
    result = [None] * len(ids)
    for rows, states, starts in encoder.passes(ids, kinds, **options):
        ends = [*starts[1:], len(states)]
        for row, start, end in zip(rows, starts, ends, strict=True):
            result[row] = states[start:end]
    return result


@pytest.fixture(scope="module")
def encoder():
    tensors = weights()
    return Encoder(CONFIG, tensors, tensors[WORDS])


@pytest.mark.slow
def test_states_are_those_of_transformers(encoder):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    model = transformers.BertModel(transformers.BertConfig(**CONFIG)).eval()
    own = {n.removeprefix("bert."): torch.from_numpy(v) for n, v in weights().items() if "bert" in n}
    model.load_state_dict(own)
    ids, kinds = texts(count=15)
    for one, kind, states in zip(ids, kinds, states_of(encoder, ids, kinds), strict=True):
        with torch.no_grad():
            expected = model(input_ids=torch.tensor([one]), token_type_ids=torch.tensor([kind]))
        np.testing.assert_allclose(states, expected.last_hidden_state[0].numpy(), atol=5e-4)
        pooled = encoder.pooled(states[:1])
        np.testing.assert_allclose(pooled[0], expected.pooler_output[0].numpy(), atol=1e-3)


def test_a_text_reads_alike_alone_in_company_and_by_its_first_token(encoder, monkeypatch):
    ids, kinds = texts()
    together = states_of(encoder, ids, kinds)
    first = states_of(encoder, ids, kinds, first_only=True)
    monkeypatch.setattr("sage_core.embedding.encoder._PASS_TOKENS", 1)
    for at, (one, kind) in enumerate(zip(ids, kinds, strict=True)):
        (alone,) = states_of(encoder, [one], [kind])
        np.testing.assert_allclose(together[at], alone, atol=1e-5)
        np.testing.assert_allclose(first[at][0], alone[0], atol=1e-5)


def test_a_pass_holds_a_bounded_number_of_tokens(encoder, monkeypatch):
    monkeypatch.setattr("sage_core.embedding.encoder._PASS_TOKENS", 100)
    ids, _ = texts(count=200)
    sizes = [len(states) for _, states, _ in encoder.passes(ids)]
    assert max(sizes) <= 100
    assert sum(sizes) == sum(map(len, ids))
    assert list(encoder.passes([])) == []


def test_passes_run_side_by_side_and_leave_blas_its_threads(encoder, monkeypatch):
    monkeypatch.setattr("sage_core.embedding.encoder._PASS_TOKENS", 1)
    ids, _ = texts()
    alone = [(rows.tolist(), states) for rows, states, _ in encoder.passes(ids)]

    def threads():
        return {one["num_threads"] for one in ThreadpoolController().info() if "numpy" in one["filepath"]}

    with threadpool_limits(2, user_api="blas"):
        early, late = encoder.passes(ids), encoder.passes(ids)
        found = [next(late)]
        next(early)
        assert threads() == {1}
        early.close()
        assert threads() == {1}  # Somebody is still at work.
        found += late
        assert threads() == {2}
    for (rows, states), (again, same, _) in zip(alone, found, strict=True):
        assert rows == again.tolist()
        np.testing.assert_array_equal(states, same)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    target = tmp_path_factory.mktemp("encoder")
    save_folder(target, {"kind": "cross-encoder", "bert": CONFIG}, weights())
    return target


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path, dirs_exist_ok=True)


def test_a_folder_reads_like_its_tensors(folder, encoder):
    ids, kinds = texts(count=5)
    small = states_of(load_encoder(folder).encoder, ids, kinds)
    for one, other in zip(states_of(encoder, ids, kinds), small, strict=True):
        np.testing.assert_allclose(one, other, atol=0.05)  # Stored in float16.


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(weights()))
@pytest.mark.parametrize("fault", ["missing", "shape", "nan", "infinite"])
def test_tensors_that_lie_are_named_with_their_file(folder, name, fault):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    if fault == "missing":
        del tensors[name]
    elif fault == "shape":
        tensors[name] = np.zeros((3, 5), np.float16)
    else:
        tensors[name].flat[-1] = np.nan if fault == "nan" else np.inf
    save_file(tensors, path)
    if fault == "missing" and name == "bert.pooler.dense.weight":
        encoder = load_encoder(folder).encoder  # An embedder has none; whoever reads heads is told.
        with pytest.raises(ModelError, match="pooler"):
            encoder.pooled(np.zeros((1, 8), np.float32))
        return
    with pytest.raises(ModelError) as caught:
        load_encoder(folder).head("classifier", 1)
    assert name in str(caught.value)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        *({name: value} for name in CONFIG for value in (None, "8", -1, [8], {"a": 1}, 1e400, True)),
        {"num_attention_heads": 3},
        {"num_hidden_layers": 10**9},
        {"vocab_size": 99},
        {"hidden_act": "relu"},
    ],
)
def test_settings_that_lie_are_model_errors(folder, wrong):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["bert"].update(wrong)
    path.write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"config\.json"):
        load_encoder(folder)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"format": 1}', b'{"format": 1, "bert": []}']
)
def test_a_damaged_configuration_is_a_model_error(folder, content):
    (folder / "config.json").write_bytes(content)
    with pytest.raises(ModelError):
        load_encoder(folder)


def test_a_pickle_or_half_a_file_is_no_model(folder):
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    for content in (b"", b"\x80\x04N.", whole[:100], whole[:-1], b"\xff" * 100):
        path.write_bytes(content)
        with pytest.raises(ModelError, match=folder.name):
            load_encoder(folder)


def test_the_bundled_models_are_shared_while_they_are_in_use():
    pair, embedder = load_encoder(WEIGHTS.with_name("sage-entailment")), load_encoder(WEIGHTS)
    assert load_encoder(WEIGHTS.with_name("sage-entailment")) is pair
    assert pair.encoder.words is embedder.encoder.words
    gone = weakref.ref(pair)
    del pair
    gc.collect()
    assert gone() is None
