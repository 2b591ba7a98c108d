"""Bundled and saved models: numpy equals torch, files are checked, nothing is unpickled, torch is not needed."""

import json
import pickle
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sage_train.folders import quantize_rows, save_folder

from sage_core.embedding.storage import load_folder
from sage_core.errors import MissingExtraError, ModelError
from sage_core.segmentation.models import context as context_module
from sage_core.segmentation.models.context import ContextConfig
from sage_core.segmentation.models.encoder import (
    ENCODER_TABLES,
    SURFACE_SIZE,
    EncoderConfig,
    StaticEncoder,
    surface_features,
    tokenize,
)
from sage_core.segmentation.models.load import WEIGHTS, bundled_models, load_model
from sage_core.segmentation.models.protocol import BoundaryModel
from sage_core.text.wordpiece import WordPiece

SMALL = EncoderConfig(mean_size=16, edge_size=8, lead=3, tail=2, size=24, max_tokens=12)
CONTEXT = ContextConfig(width=24, topic_size=8, hash_words=1, kernel=5, dilations=(1, 3))
SHARED = WordPiece()
TEXTS = [
    ["The bakery opens at six.", "Its bread is still warm then.", "Astronomers found a new comet last week."],
    ["Only one sentence, so there is no gap."],
    [],
    ["", "   ", "Émile said: «oui».", "数学 is 3 x 7 = 21!", "a" * 300, "(x) y " * 40],
    [f"Sentence {i} is about number {i * 7} and the {['cat', 'dog', 'sea'][i % 3]}." for i in range(70)],
]


def random_tensors(shapes: dict[str, tuple[int, ...]], seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture(scope="module", params=["pair", "context"])
def folder(request, tmp_path_factory):
    config = {"kind": request.param, "encoder": asdict(SMALL), "calibration": {"scale": 1.0, "shift": 0.5}}
    shapes = SMALL.shapes()
    if request.param == "pair":
        config["hidden"] = 20
        shapes |= {
            "hidden.weight": (96, 20),
            "hidden.bias": (20,),
            "output.weight": (20, 1),
            "output.bias": (1,),
        }
    else:
        config["context"] = asdict(CONTEXT)
        shapes |= CONTEXT.shapes(SMALL)
    path = tmp_path_factory.mktemp("model") / request.param
    save_folder(path, config, random_tensors(shapes), tables=ENCODER_TABLES)
    return path


def copy_of(folder: Path, to: Path, **config) -> Path:
    to.mkdir()
    (to / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    values = json.loads((folder / "config.json").read_text()) | config
    (to / "config.json").write_text(json.dumps(values))
    return to


class TestProbabilities:
    def test_there_is_one_value_a_gap_in_every_document(self, folder):
        model = load_model(folder)
        assert isinstance(model, BoundaryModel)
        found = model.probabilities(TEXTS)
        assert [len(values) for values in found] == [2, 0, 0, 5, 69]
        assert all(v.dtype == np.float32 and ((v >= 0) & (v <= 1)).all() for v in found)
        assert model.probabilities([]) == []

    def test_a_document_is_judged_alike_alone_and_in_company(self, folder):
        model = load_model(folder)
        together = model.probabilities(TEXTS)
        for text, values in zip(TEXTS, together, strict=True):
            np.testing.assert_allclose(model.probabilities([text])[0], values, atol=1e-5)

    def test_a_long_document_is_judged_alike_whole_and_in_pieces(self, folder, monkeypatch):
        text = [f"{TEXTS[4][i % 70]} {i * i}" for i in range(300)]
        whole = load_model(folder).probabilities([text, TEXTS[0]])
        monkeypatch.setattr(context_module, "_PIECE", 50)
        for a, b in zip(whole, load_model(folder).probabilities([text, TEXTS[0]]), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)

    def test_lengths_are_those_of_the_counter_and_not_truncated(self, folder):
        texts = [text for document in TEXTS for text in document]
        lengths = load_model(folder).probabilities_and_lengths(TEXTS)[1]
        tokenizer = WordPiece()
        assert lengths.tolist() == [tokenizer.count(text) for text in texts]
        assert lengths.max() > SMALL.max_tokens

    def test_context_is_used_and_reaches_no_further_than_it_says(self, folder):
        if folder.name != "context":
            pytest.skip("a pair of sentences has no context")
        model, halo = load_model(folder), CONTEXT.halo
        text = [f"Sentence {i} has words {i * 31 % 97} and {i * 17 % 89}." for i in range(120)]
        before = model.probabilities([text])[0]
        changed = [*text[:60], "Whales sing!", *text[61:]]
        moved = np.flatnonzero(np.abs(model.probabilities([changed])[0] - before) > 1e-6)
        assert len(moved) > 2
        assert moved.min() >= 60 - halo and moved.max() <= 60 + halo


class TestAgainstTorch:
    @pytest.mark.slow
    def test_numpy_and_torch_agree(self, folder):
        pytest.importorskip("torch")
        import torch
        from sage_train.context_net import ContextNet
        from sage_train.corpus import Document, index_corpus
        from sage_train.networks import PairNet, load_tensors, sentence_batch

        tensors = load_folder(folder)[1]
        text = [t for t in TEXTS[4] if t] + TEXTS[3][2:]
        corpus = index_corpus([Document("d", (tuple(text),))], max_tokens=SMALL.max_tokens)
        batch = sentence_batch(corpus, np.arange(len(text)), SMALL)
        if folder.name == "pair":
            net = PairNet(SMALL, 20, 0.1)
            load_tensors(net, tensors)
            with torch.inference_mode():
                vectors, _ = net.eval().encoder(batch)
                logits = net(vectors[:-1], vectors[1:])
        else:
            net = ContextNet(SMALL, CONTEXT, 0.1)
            load_tensors(net, tensors)
            with torch.inference_mode():
                logits = net.eval()(batch, torch.ones(1, len(text)))[0]
        expected = torch.sigmoid(logits + 0.5).numpy()
        assert expected.std() > 0.003
        np.testing.assert_allclose(load_model(folder).probabilities([text])[0], expected, atol=1e-4)


class TestFiles:
    def test_what_is_saved_is_loaded(self, tmp_path):
        tensors = random_tensors({"mean.table": (40, 16), "input.weight": (8, 4)})
        save_folder(tmp_path, {"kind": "x"}, tensors, tables=["mean.table"])
        config, loaded, fingerprint = load_folder(tmp_path)
        assert config["kind"] == "x" and len(fingerprint) == 64
        np.testing.assert_allclose(loaded["input.weight"], tensors["input.weight"], atol=1e-3)
        np.testing.assert_allclose(loaded["mean.table"], tensors["mean.table"], atol=6e-3)

    @given(st.lists(st.lists(st.floats(-50, 50, width=32), min_size=3, max_size=3), min_size=1, max_size=9))
    def test_eight_bit_rows_are_within_half_a_step(self, rows):
        table = np.array(rows, np.float32)
        stored, scale = quantize_rows(table)
        steps = scale.astype(np.float32)[:, None]
        # Steps are kept in half precision, whose smallest numbers lie 2**-24 apart.
        rounding = np.abs(table) * 1e-2 + 127 * 2.0**-25
        assert (np.abs(stored * steps - table) <= 0.51 * steps + rounding).all()

    def test_the_fingerprint_changes_with_weights_and_configuration(self, folder, tmp_path):
        original = load_model(folder).fingerprint
        assert load_model(copy_of(folder, tmp_path / "same")).fingerprint == original
        other = copy_of(folder, tmp_path / "other", calibration={"scale": 2.0, "shift": 0.0})
        assert load_model(other).fingerprint != original

    def test_what_is_no_model_says_what_one_is(self, tmp_path):
        with pytest.raises(ModelError, match="default"):
            load_model("no-such-model")
        with pytest.raises(ModelError, match=r"model\.safetensors"):
            load_model(tmp_path)

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("model.safetensors", b""),
            ("model.safetensors", b"\x10\x00\x00\x00\x00\x00\x00\x00{not json}......"),
            ("model.safetensors", None),
            ("config.json", b"{"),
            ("config.json", b"[1]"),
            ("config.json", b'{"format": 99, "kind": "pair"}'),
            ("config.json", b'{"format": 1, "kind": "mystery"}'),
            ("config.json", b'{"format": 1, "kind": "pair"}'),
            ("config.json", b'{"format": 1, "kind": "context", "encoder": {"size": "many"}}'),
        ],
    )
    def test_damaged_files_are_refused(self, folder, tmp_path, name, content):
        broken = copy_of(folder, tmp_path / "broken")
        whole = (broken / name).read_bytes()
        (broken / name).write_bytes(whole[:-1000] if content is None else content)  # None: cut short
        with pytest.raises(ModelError):
            load_model(broken)

    @pytest.mark.parametrize("fault", ["missing", "shape", "nan"])
    def test_tensors_that_do_not_fit_are_refused(self, tmp_path, fault):
        tensors = random_tensors(SMALL.shapes())
        if fault == "missing":
            del tensors["input.bias"]
        elif fault == "shape":
            tensors["input.bias"] = tensors["input.bias"][:-1]
        else:
            tensors["input.bias"][3] = np.nan
        with pytest.raises(ModelError, match=r"input\.bias"):
            StaticEncoder(SMALL, tensors)

    def test_a_pickle_is_never_opened(self, folder, tmp_path):
        trap = tmp_path / "trap"

        class Bomb:
            def __reduce__(self):
                return (Path.touch, (trap,))

        pickle.loads(pickle.dumps(Bomb()))
        assert trap.exists()  # it would go off
        trap.unlink()
        broken = copy_of(folder, tmp_path / "broken")
        for name in ("model.safetensors", "pytorch_model.bin", "model.pt"):
            (broken / name).write_bytes(pickle.dumps(Bomb()))
        with pytest.raises(ModelError):
            load_model(broken)
        assert not trap.exists()


class TestBundled:
    def test_the_default_and_the_papers_model_are_there_with_cards(self):
        assert {"context", "pair"} <= set(bundled_models())
        for name in bundled_models():
            card = (WEIGHTS / name / "MODEL_CARD.md").read_text()
            for expected in ("English", "CC BY 4.0", "GFDL", "Seed", "ROC AUC", "sage-rag train"):
                assert expected in card, (name, expected)

    def test_the_weights_stay_small(self):
        assert sum(path.stat().st_size for path in WEIGHTS.rglob("*") if path.is_file()) <= 15_000_000

    @pytest.mark.parametrize("name", ["default", "pair"])
    def test_a_new_subject_parts_sentences_and_a_pronoun_joins_them(self, name):
        text = [
            "The violin has four strings.", "They are tuned in fifths.", "It is played with a bow.",
            "In 1492 Columbus sailed west to find a route to India.", "He reached an island in October.",
        ]  # fmt: skip
        same = load_model(name).probabilities([text])[0]
        assert same.argmin() == 2

    def test_training_without_torch_names_the_extra(self, monkeypatch, tmp_path):
        from sage_train.train import train

        for number in range(4):
            (tmp_path / f"{number}.txt").write_text("One here. Two there.\n\nThree now. Four then.\n")
        for name in ("fitting", "tasks", "networks", "context_net"):
            monkeypatch.delitem(sys.modules, f"sage_train.{name}", raising=False)
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(MissingExtraError, match=r"sage-rag\[models\]"):
            train(tmp_path, tmp_path / "out")


class TestTokens:
    @given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
    def test_ids_are_those_of_the_tokenizers_library(self, text):
        tokenizer = SHARED._tokenizer
        assert SHARED.encode([text])[0].tolist() == tokenizer.encode(text, add_special_tokens=False).ids

    def test_long_sentences_are_cut_and_their_length_is_kept(self):
        tokens = tokenize(["one two three four five", "six"], 3)
        assert tokens.lengths.tolist() == [3, 1]
        assert tokens.full_lengths.tolist() == [5, 1]
        assert tokens.ids.tolist() == SHARED.encode(["one two three six"])[0].tolist()

    def test_an_unreadable_tokenizer_is_a_model_error(self, tmp_path):
        with pytest.raises(ModelError, match="cannot read"):
            WordPiece(tmp_path / "none.json")
        (tmp_path / "bad.json").write_text("{}")
        with pytest.raises(ModelError):
            WordPiece(tmp_path / "bad.json")

    def test_surface_features_see_what_an_uncased_bag_cannot(self):
        rows = surface_features(["lower case", "7 items:", "“Why?” he asked", "- item!", "", "Ab Cd Ef"])
        assert rows.shape == (6, SURFACE_SIZE)
        assert rows[:, 2:].argmax(1)[:4].tolist() == [0, 1, 2, 3]
        assert (rows[4] == 0).all() and rows[5, 1] == pytest.approx(2 / 3)
        assert rows[1, 6] == 1 and rows[3, 7] == 1
