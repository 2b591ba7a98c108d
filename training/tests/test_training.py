"""Training: it learns, it repeats itself exactly, and it refuses what it cannot use."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sage_train.corpus import index_corpus, read_corpus, split_by_document
from sage_train.metrics import best_f1, expected_calibration_error, platt, roc_auc
from sage_train.mining import NegativeMix, mine_pairs

from sage_core.embedding.storage import load_folder
from sage_core.errors import InputError, ModelError
from sage_core.segmentation.models.context import ContextConfig
from sage_core.segmentation.models.encoder import EncoderConfig
from sage_core.segmentation.models.load import load_model
from tests.fakes.corpus import write_corpus
from tests.fakes.sentence_transformer import save_transformer

pytestmark = pytest.mark.slow

SMALL = EncoderConfig(mean_size=16, edge_size=8, lead=4, tail=1, size=24)
CONTEXT = ContextConfig(width=24, topic_size=8, hash_words=1, kernel=3, dilations=(1, 2))


@pytest.fixture(scope="module")
def corpus_file(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus") / "corpus.jsonl")


def small_options(**changes):
    pytest.importorskip("torch", reason="training needs torch")
    from sage_train.options import TrainOptions

    values = {
        "start": "random", "encoder": SMALL, "context": CONTEXT, "hidden": 24, "epochs": 8.0, "batch_size": 128,
        "learning_rate": 5e-3, "table_rate": 2e-2, "held_out": 0.2, "average": 0.9, "threads": 1, "device": "cpu",
    }  # fmt: skip
    return TrainOptions(**(values | changes))


@pytest.fixture(scope="module")
def trained(corpus_file, tmp_path_factory):
    from sage_train.train import train

    seen = []
    folder = tmp_path_factory.mktemp("models")
    reports = {
        kind: train(
            corpus_file, folder / kind, small_options(kind=kind), progress=seen.append, command=f"make {kind}"
        )
        for kind in ("pair", "context")
    }
    return reports, seen


class TestTrain:
    @pytest.mark.parametrize("kind", ["pair", "context"])
    def test_it_learns_to_tell_boundaries_in_documents_it_has_not_seen(self, trained, kind):
        figures = trained[0][kind].figures
        assert figures["auc"] > 0.95
        chance = 2 * figures["base_rate"] / (1 + figures["base_rate"])  # F1 of calling everything a boundary
        assert figures["f1"] > chance + 0.2
        assert figures["calibration_error"] < 0.1

    @pytest.mark.parametrize("kind", ["pair", "context"])
    def test_the_saved_model_judges_fresh_text(self, trained, kind):
        model = load_model(trained[0][kind].folder)
        text = [
            "In 1950 people wrote about chess.", "The pawn is near the queen.", "This board was made for the bishop.",
            "In 1961 people wrote about bread.", "It needs a good oven and an old baker.",
        ]  # fmt: skip
        same = model.probabilities([text])[0]
        assert same.argmin() == 2
        assert ((same >= 0) & (same <= 1)).all()

    def test_the_card_names_data_license_seed_figures_and_command(self, trained):
        report = trained[0]["context"]
        card = (report.folder / "MODEL_CARD.md").read_text()
        for expected in ("CC0-1.0: 60 documents", "Seed: 0", "make context", f"{report.figures['auc']:.3f}"):
            assert expected in card

    def test_progress_tells_step_loss_and_held_out_figures(self, trained):
        seen = trained[1]
        assert any(p.auc is not None for p in seen)
        assert all(0 < p.step <= p.steps and p.loss > 0 for p in seen)

    @pytest.mark.parametrize("kind", ["pair", "context"])
    def test_same_seed_same_weights_other_seed_others(self, corpus_file, tmp_path, kind):
        from sage_train.train import train

        weights = []
        for name, seed in (("a", 3), ("b", 3), ("c", 4)):
            train(corpus_file, tmp_path / name, small_options(kind=kind, epochs=1.0, seed=seed))
            weights.append(load_folder(tmp_path / name)[1])
        for name, value in weights[0].items():
            np.testing.assert_allclose(value, weights[1][name], atol=2e-3, err_msg=name)
        assert not np.allclose(weights[0]["input.weight"], weights[2]["input.weight"], atol=2e-3)

    def test_fine_tuning_starts_from_a_models_weights(self, corpus_file, trained, tmp_path):
        from sage_train.train import train

        start = trained[0]["context"].folder
        options = small_options(start=str(start), epochs=0.1, learning_rate=1e-6, table_rate=1e-6)
        report = train(corpus_file, tmp_path / "tuned", options)
        before, after = load_folder(start)[1], load_folder(tmp_path / "tuned")[1]
        np.testing.assert_allclose(before["gap.weight"], after["gap.weight"], atol=2e-3)
        assert report.figures["auc"] > 0.95

    def test_fine_tuning_a_model_of_another_kind_is_refused(self, corpus_file, trained, tmp_path):
        from sage_train.train import train

        options = small_options(kind="pair", start=str(trained[0]["context"].folder))
        with pytest.raises(ModelError, match="context model, not a pair model"):
            train(corpus_file, tmp_path / "x", options)

    def test_the_papers_loss_trains_too(self, corpus_file, tmp_path):
        from sage_train.train import train

        report = train(corpus_file, tmp_path / "mse", small_options(kind="pair", loss="mse", epochs=4.0))
        assert report.figures["auc"] > 0.9

    @pytest.mark.parametrize(
        "changes", [{"kind": "three"}, {"loss": "hinge"}, {"epochs": 0}, {"held_out": 1.0}]
    )
    def test_options_that_make_no_sense_are_refused(self, changes):
        with pytest.raises(InputError):
            small_options(**changes)

    def test_text_without_paragraph_breaks_is_refused(self, tmp_path):
        from sage_train.train import train

        for name in ("one", "two", "three"):
            (tmp_path / f"{name}.txt").write_text("A single paragraph here. It has two sentences.")
        with pytest.raises(InputError, match="no paragraph breaks"):
            train(tmp_path, tmp_path / "out", small_options())


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    pytest.importorskip("sentence_transformers", reason="training a transformer needs it")
    return str(save_transformer(tmp_path_factory.mktemp("base")))


TRANSFORMER = {
    "kind": "transformer",
    "start": "pretrained",
    "batch_size": 64,
    "table_rate": 2e-3,
    "epochs": 3.0,
}


class TestTransformer:
    def parts(self, corpus_file, base, **changes):
        from sage_train.fitting import build_task

        options = small_options(**(TRANSFORMER | {"base": base} | changes))
        training, held = split_by_document(
            index_corpus(read_corpus(corpus_file)), 0.2, np.random.default_rng(options.seed)
        )
        return build_task(training, held, options), held, options

    def test_algorithm_1_learns_and_survives_saving(self, corpus_file, base, tmp_path):
        from sage_train.fitting import fit

        task, held, options = self.parts(corpus_file, base)
        before = {name: value.detach().clone() for name, value in task.net.encoder.named_parameters()}
        fit(task, options)
        logits, same = task.held_out()
        assert roc_auc(~same, -logits) > 0.9
        moved = [n for n, v in task.net.encoder.named_parameters() if not np.allclose(v.detach(), before[n])]
        assert any("layer.0" in name for name in moved)  # the transformer learned, not the MLP alone
        task.save(tmp_path, {**task.config(), "calibration": {"scale": 1.0, "shift": 0.0}})
        documents = [held.texts[a:b] for a, b in zip(held.documents, held.documents[1:], strict=False)]
        loaded = np.concatenate(load_model(tmp_path).probabilities(documents))
        np.testing.assert_allclose(loaded, 1 / (1 + np.exp(-logits)), atol=1e-5)

    def test_the_command_writes_a_model_that_the_segmenter_cuts_with(self, corpus_file, base, tmp_path):
        from sage_train.train import train

        from sage_core import Segmenter

        report = train(corpus_file, tmp_path / "m", small_options(**TRANSFORMER, base=base))
        assert sorted(path.name for path in report.folder.iterdir()) == [
            "MODEL_CARD.md", "config.json", "model.safetensors", "tokenizer.json"
        ]  # fmt: skip
        text = "In 1950 people wrote about chess. The pawn is near the queen. In 1961 people wrote about bread. It needs an oven."
        spans = Segmenter(report.folder, strategy="threshold", min_tokens=0).segment(text)
        assert spans[0].of(text).endswith("queen.")

    def test_a_frozen_transformer_keeps_its_weights(self, corpus_file, base):
        from sage_train.fitting import fit

        task, _, options = self.parts(corpus_file, base, frozen=True, epochs=0.5)
        before = {name: value.detach().clone() for name, value in task.net.named_parameters()}
        fit(task, options)
        changed = {n for n, v in task.net.named_parameters() if not np.array_equal(v.detach(), before[n])}
        assert changed == {"hidden.weight", "hidden.bias", "output.weight", "output.bias"}

    def test_a_killed_run_goes_on_as_if_it_had_not_been(self, corpus_file, base, tmp_path):
        from sage_train.fitting import fit

        changes = {"evaluations": 3, "epochs": 1.0}
        whole, _, options = self.parts(corpus_file, base, **changes)
        fit(whole, options)

        def killed(progress):
            if progress.auc is not None and progress.step < progress.steps:
                raise KeyboardInterrupt

        checkpoint = tmp_path / "checkpoint.pt"
        with pytest.raises(KeyboardInterrupt):
            fit(self.parts(corpus_file, base, **changes)[0], options, killed, checkpoint)
        again = self.parts(corpus_file, base, **changes)[0]
        steps = []
        fit(again, options, lambda progress: steps.append(progress.step), checkpoint)
        assert steps[0] > 5  # it did not begin anew
        for (name, one), other in zip(whole.net.named_parameters(), again.net.parameters(), strict=True):
            np.testing.assert_array_equal(one.detach(), other.detach(), err_msg=name)
        with pytest.raises(InputError, match="other options"):
            fit(again, small_options(**TRANSFORMER, base=base, seed=1), checkpoint=checkpoint)

    def test_what_cannot_be_trained_or_read_says_so(self, corpus_file, base, tmp_path):
        with pytest.raises(InputError, match="base="):
            small_options(kind="transformer")
        with pytest.raises(ModelError, match="no model of sentence-transformers"):
            self.parts(corpus_file, str(tmp_path))
        task = self.parts(corpus_file, base)[0]
        task.save(tmp_path, {**task.config(), "calibration": {"scale": 1.0, "shift": 0.0}})
        tokenizer = tmp_path / "tokenizer.json"
        tokenizer.write_text(tokenizer.read_text().replace('"[UNK]":100', '"[UNK]":99'))
        with pytest.raises(ModelError, match=r"tokenizer\.json is not the one"):
            load_model(tmp_path)


class TestReading:
    def test_markdown_gives_prose_paragraphs_only(self, tmp_path):
        (tmp_path / "note.md").write_text(
            "# A heading. Of two sentences.\n\nFirst sentence here. Second one\nwrapped.\n\n- a list item. Skipped.\n\n"
            "> A quotation. Skipped.\n\n```\nx = 1. y\n\nz = 2. w\n```\n\nNew paragraph. Its end.\n"
        )
        (document,) = read_corpus(tmp_path)
        assert document.paragraphs == (
            ("First sentence here.", "Second one\nwrapped."),
            ("New paragraph.", "Its end."),
        )

    def test_paragraphs_may_come_as_sentences(self, tmp_path):
        record = {"doc_id": "d", "sections": [{"paragraphs": [["Dr. A came", "and left."], ["The end."]]}]}
        path = tmp_path / "x.jsonl"
        path.write_text(json.dumps(record))
        (document,) = read_corpus(path)
        assert document.paragraphs == (("Dr. A came", "and left."), ("The end.",))

    def test_a_missing_path_a_broken_line_and_an_empty_folder_say_so(self, tmp_path):
        with pytest.raises(InputError, match="does not exist"):
            list(read_corpus(tmp_path / "nowhere"))
        with pytest.raises(InputError, match="no document"):
            list(read_corpus(tmp_path))
        (tmp_path / "x.jsonl").write_text('{"paragraphs": [\n')
        with pytest.raises(InputError, match="line 1"):
            list(read_corpus(tmp_path))
        (tmp_path / "x.jsonl").rename(tmp_path / "x.jsonl.gz")
        with pytest.raises(InputError, match="line 0"):
            list(read_corpus(tmp_path))

    def test_indexing_marks_the_opening_sentences_and_take_keeps_them(self, corpus_file):
        documents = list(read_corpus(corpus_file))
        corpus = index_corpus(documents)
        flags = [i == 0 for d in documents for p in d.paragraphs for i in range(len(p))]
        assert corpus.starts.tolist() == flags
        part, alone = corpus.take([5, 2]), index_corpus([documents[5], documents[2]])
        for name in ("ids", "offsets", "starts", "documents", "surface"):
            np.testing.assert_array_equal(getattr(part, name), getattr(alone, name))

    def test_no_document_is_both_trained_on_and_held_out(self, corpus_file):
        corpus = index_corpus(read_corpus(corpus_file))
        train, held = split_by_document(corpus, 0.25, np.random.default_rng(0))
        assert (len(train.documents) - 1, len(held.documents) - 1) == (45, 15)
        assert len(train.starts) + len(held.starts) == len(corpus.starts)


@pytest.fixture(scope="module")
def corpus(corpus_file):
    return index_corpus(read_corpus(corpus_file))


class TestPairs:
    @staticmethod
    def where(corpus):
        owner = np.repeat(np.arange(len(corpus.documents) - 1), np.diff(corpus.documents))
        return owner, np.cumsum(corpus.starts)

    def test_positives_are_neighbors_in_a_paragraph_and_breaks_are_negatives(self, corpus):
        pairs, labels = mine_pairs(corpus, NegativeMix(), np.random.default_rng(0))
        owner, paragraph = self.where(corpus)
        left, right = pairs.T
        assert (right - left == 1).all() and (owner[left] == owner[right]).all()
        np.testing.assert_array_equal(labels > 0, paragraph[left] == paragraph[right])
        assert len(pairs) == len(corpus.gaps)

    @pytest.mark.parametrize(
        ("mix", "same_document"), [(NegativeMix(1, 0, 0), False), (NegativeMix(0, 1, 0), True)]
    )
    def test_random_negatives_come_from_where_they_should(self, corpus, mix, same_document):
        pairs, labels = mine_pairs(corpus, mix, np.random.default_rng(0))
        owner, paragraph = self.where(corpus)
        left, right = pairs[labels == 0].T
        assert len(left) > 100
        assert ((owner[left] == owner[right]) == same_document).all()
        assert (paragraph[left] != paragraph[right]).all()

    def test_a_mix_is_mixed_and_a_share_is_kept(self, corpus):
        _, labels = mine_pairs(corpus, NegativeMix(0.5, 0, 0.5), np.random.default_rng(0), positive_share=0.5)
        assert labels.mean() == pytest.approx(0.5, abs=0.01)

    @pytest.mark.parametrize("shares", [(0, 0, 0), (1, -1, 1)])
    def test_impossible_shares_are_refused(self, shares):
        with pytest.raises(InputError):
            NegativeMix(*shares)


class TestFigures:
    def test_platt_finds_scale_and_shift_and_calibrates(self):
        rng = np.random.default_rng(0)
        logits = rng.normal(0, 2, 40_000)
        same = rng.random(40_000) < 1 / (1 + np.exp(-(0.5 * logits + 1)))
        scale, shift = platt(logits, same)
        assert (scale, shift) == (pytest.approx(0.5, abs=0.03), pytest.approx(1.0, abs=0.05))
        fitted, raw = 1 / (1 + np.exp(-(scale * logits + shift))), 1 / (1 + np.exp(-logits))
        assert expected_calibration_error(fitted, same) < 0.02 < expected_calibration_error(raw, same)

    def test_platt_stays_finite_where_the_classes_are_apart(self):
        scale, shift = platt(np.array([-3.0, -2.0, 2.0, 3.0]), np.array([False, False, True, True]))
        assert np.isfinite([scale, shift]).all() and scale > 0

    def test_auc_and_f1_agree_with_scikit_learn_ties_included(self):
        metrics = pytest.importorskip("sklearn.metrics")
        rng = np.random.default_rng(1)
        labels, scores = rng.random(500) < 0.3, rng.integers(0, 20, 500) / 20
        assert roc_auc(labels, scores) == pytest.approx(metrics.roc_auc_score(labels, scores))
        value, threshold = best_f1(labels, scores)
        assert value == pytest.approx(metrics.f1_score(labels, scores >= threshold))
        assert value == pytest.approx(max(metrics.f1_score(labels, scores >= t) for t in np.unique(scores)))

    def test_windowed_errors_agree_with_nltk(self):
        nltk = pytest.importorskip("nltk.metrics.segmentation")
        from sage_train.metrics import pk, window_diff

        rng = np.random.default_rng(2)
        for k in (2, 3, 7):
            real, guess = rng.random(60) < 0.25, rng.random(60) < 0.3
            a, b = ("".join("1" if x else "0" for x in gaps) for gaps in (real, guess))
            assert pk(real, guess, k) == pytest.approx(nltk.pk(a, b, k=k))
            assert window_diff(real, guess, k) == pytest.approx(nltk.windowdiff(a, b, k))
        assert pk(real, real) == window_diff(real, real) == 0.0
