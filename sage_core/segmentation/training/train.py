"""Training of boundary models (Algorithm 1 of the paper, and the model with context).

``train(data, output, options=TrainOptions(), *, progress=None) -> TrainReport`` is the only door:

- ``data``: a ``.jsonl``/``.jsonl.gz`` file, or a folder of such files or of ``.txt``/``.md`` files, or a list
  of those (see ``corpus.read_corpus``);
- ``output``: the folder that gets ``model.safetensors``, ``config.json`` and ``MODEL_CARD.md``;
- ``options``: ``TrainOptions(kind="context" | "pair" | "transformer", start="pretrained" | "random" | model,
  epochs=...,
  ...)``;
- ``progress``: called with a ``Progress(step, steps, loss, auc, f1)`` now and then;
- the report holds ``figures`` (held-out metrics with their base rate) and ``folder``.

Needs torch: ``pip install "sage-rag[models]"``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sage_core._checks import optional_whole_number, real_number, whole_number
from sage_core.errors import InputError, MissingExtraError
from sage_core.segmentation.models.context import ContextConfig
from sage_core.segmentation.models.encoder import ENCODER_TABLES, EncoderConfig
from sage_core.segmentation.models.load import read_model
from sage_core.segmentation.models.ops import sigmoid
from sage_core.segmentation.models.storage import save_folder
from sage_core.segmentation.training.calibration import expected_calibration_error, platt
from sage_core.segmentation.training.card import CorpusSummary, model_card, summarize
from sage_core.segmentation.training.corpus import (
    Corpus,
    Document,
    index_corpus,
    read_corpus,
    split_by_document,
)
from sage_core.segmentation.training.metrics import best_f1, f1, roc_auc
from sage_core.segmentation.training.mining import NegativeMix

if TYPE_CHECKING:
    from sage_core.segmentation.training.tasks import Task

_log = logging.getLogger(__name__)
DEFAULT_THRESHOLD = 0.55
_LEAST = {"batch_size": 2, "patience": 1, "evaluations": 1, "window": 2, "hidden": 1, "seed": 0}
_PAIR_ENCODER = EncoderConfig(mean_size=96, edge_size=32, size=160)


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """How to train.

    Attributes:
        kind: ``"context"`` (sees several sentences each side), ``"pair"`` (the paper's model), or
            ``"transformer"`` (the paper's model with any sentence-transformers model; wants a GPU).
        start: ``"pretrained"`` (token tables from all-MiniLM-L6-v2), ``"random"``, or the name or folder of a
            model of the same kind to fine-tune. For ``"transformer"``: the encoder's name or folder.
        encoder: Sizes of the sentence encoder; None for those of the bundled model of that kind. Ignored when
            fine-tuning.
        context: Sizes of the rest of the context model; ignored when fine-tuning.
        window: Most sentences the context model learns from at once.
        hidden: Width of the pair model's MLP.
        negatives: Mix of negatives of the pair model.
        positive_share: Share of positives the pair model learns from; None leaves the text's own.
        loss: ``"bce"`` or ``"mse"`` (the paper's).
        epochs: Most passes over the training documents.
        patience: Evaluations without a lower held-out loss before training stops.
        evaluations: Evaluations an epoch.
        batch_size: Pairs, or sentences, a step.
        learning_rate: Of the dense layers.
        table_rate: Of the token tables, or of a transformer; lower, because they memorise. None: 3e-4, 5e-5.
        weight_decay: Of the dense layers (AdamW).
        dropout: On features.
        token_dropout: Share of tokens hidden in each step.
        average: Decay of the running average of the weights, which is what is kept.
        held_out: Share of documents held out, to stop in time and to calibrate.
        seed: Of every random choice.
        device: As in torch; None takes a GPU where there is one.
        threads: Of torch on a CPU; None leaves its own choice.
    """

    kind: str = "context"
    start: str = "pretrained"
    encoder: EncoderConfig | None = None
    context: ContextConfig = field(default_factory=ContextConfig)
    window: int = 96
    hidden: int = 256
    negatives: NegativeMix = field(default_factory=NegativeMix)
    positive_share: float | None = None
    loss: str = "bce"
    epochs: float = 6.0
    patience: int = 3
    evaluations: int = 1
    batch_size: int = 2048
    learning_rate: float = 2e-3
    table_rate: float | None = None
    weight_decay: float = 0.05
    dropout: float = 0.15
    token_dropout: float = 0.1
    average: float = 0.998
    held_out: float = 0.04
    seed: int = 0
    device: str | None = None
    threads: int | None = None

    @property
    def encoder_sizes(self) -> EncoderConfig:
        """``encoder``, or the default of the kind."""
        return self.encoder or (_PAIR_ENCODER if self.kind == "pair" else EncoderConfig())

    def __post_init__(self) -> None:
        if self.kind not in ("context", "pair", "transformer"):
            raise InputError(f"kind must be 'context', 'pair' or 'transformer', not {self.kind!r}")
        if self.loss not in ("bce", "mse"):
            raise InputError(f"loss must be 'bce' or 'mse', not {self.loss!r}")
        for name, least in _LEAST.items():
            whole_number(name, getattr(self, name), least)
        optional_whole_number("threads", self.threads, 1)
        for name in ("held_out", "dropout", "token_dropout", "average"):
            real_number(name, getattr(self, name), 0, 1)
        for name in ("epochs", "learning_rate"):
            real_number(name, getattr(self, name), 0)
        if not self.epochs or not self.learning_rate or not 0 < self.held_out < 1:
            raise InputError("epochs and learning_rate must be above 0, and held_out between 0 and 1")


@dataclass(frozen=True, slots=True)
class Progress:
    """Where training stands; ``auc`` and ``f1`` are None between evaluations."""

    step: int
    steps: int
    loss: float
    auc: float | None = None
    f1: float | None = None


@dataclass(frozen=True, slots=True)
class TrainReport:
    """What came of it.

    Attributes:
        folder: Where the model is.
        figures: On held-out documents: ``auc``, ``f1`` (at the threshold that is best there), ``threshold``
            (on P(same)), ``f1_at_default`` (at 0.55), ``base_rate``, ``calibration_error``, ``gaps``.
        seconds: Wall time.
        steps: Steps made before the best evaluation.
    """

    folder: Path
    figures: dict[str, float]
    seconds: float
    steps: int


def train(
    data: str | Path | Sequence[str | Path],
    output: str | Path,
    options: TrainOptions | None = None,
    *,
    progress: Callable[[Progress], None] | None = None,
    command: str = "",
) -> TrainReport:
    """Train a boundary model on text with paragraphs and write it to a folder.

    Args:
        data: See ``corpus.read_corpus``.
        output: Folder for the model, made where it does not exist.
        options: How.
        progress: Called now and then.
        command: What the model card names as the command that remakes it.

    Returns:
        Figures on held-out documents.

    Raises:
        InputError: Where the data cannot be used.
        ModelError: Where ``options.start`` is not a fitting model.
        MissingExtraError: Without torch.
    """
    options = options or TrainOptions()
    began = time.perf_counter()
    summary, corpus = _read(data, keep_texts=options.kind == "transformer")
    rng = np.random.default_rng(options.seed)
    training, held = split_by_document(corpus, options.held_out, rng)
    if not len(held.gaps) or not 0 < held.base_rate < 1:
        raise InputError("the held-out documents have no paragraph breaks to learn from; give more text")
    try:
        from sage_core.segmentation.training.fitting import build_task, fit, training_device
    except ImportError as error:
        raise MissingExtraError("training", "models") from error
    training_device(options.device)  # a wrong one is told before the long wait, not after it
    folder = Path(output).expanduser()
    try:  # before the long wait, not after it
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"no model can be written to {folder}: {error.strerror}") from error
    task = build_task(training, held, options)
    steps = fit(task, options, rng, progress)
    figures, calibrated = judge(task)
    config = {**task.config(), "calibration": calibrated, "threshold": figures["threshold"]}
    save_folder(folder, config, task.tensors(), tables=ENCODER_TABLES)
    task.write(folder)
    report = TrainReport(folder, figures, time.perf_counter() - began, steps)
    (folder / "MODEL_CARD.md").write_text(model_card(options, summary, report, command), encoding="utf-8")
    read_model(folder)
    return report


def judge(task: Task) -> tuple[dict[str, float], dict[str, float]]:
    """Held-out figures of a trained network, and its calibration."""
    logits, same = task.held_out()
    scale, shift = platt(logits, same)
    p_same = sigmoid(logits * scale + shift)
    best, threshold = best_f1(~same, -p_same)
    figures = {
        "auc": roc_auc(~same, -p_same),
        "f1": best,
        "threshold": -threshold,
        "f1_at_default": f1(~same, p_same < DEFAULT_THRESHOLD),
        "base_rate": float((~same).mean()),
        "calibration_error": expected_calibration_error(p_same, same),
        "gaps": float(len(same)),
    }
    return figures, {"scale": scale, "shift": shift}


def _read(data: str | Path | Sequence[str | Path], *, keep_texts: bool) -> tuple[CorpusSummary, Corpus]:
    documents: list[Document] = list(read_corpus(data))
    return summarize(documents), index_corpus(documents, keep_texts=keep_texts)
