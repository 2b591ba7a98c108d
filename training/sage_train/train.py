"""Training of boundary models (Algorithm 1 of the paper, and the model with context).

``train(data, output, options=TrainOptions(), *, progress=None) -> TrainReport`` is the only door:

- ``data``: a ``.jsonl``/``.jsonl.gz`` file, or a folder of such files or of ``.txt``/``.md`` files, or a list
  of those (see ``corpus.read_corpus``);
- ``output``: the folder that gets ``model.safetensors``, ``config.json`` and ``MODEL_CARD.md``;
- ``options``: ``TrainOptions(kind="context" | "pair" | "transformer", start="pretrained" | "random" | model,
  base=..., epochs=..., ...)``;
- ``progress``: called with a ``Progress(step, steps, loss, auc, f1)`` now and then;
- the report holds ``figures`` (held-out metrics with their base rate) and ``folder``.

Needs torch: ``pip install "sage-rag[models]"``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sage_core.embedding.ops import sigmoid
from sage_core.errors import InputError, MissingExtraError
from sage_core.segmentation.models.load import read_model
from sage_train.card import CorpusSummary, model_card, summarize
from sage_train.corpus import (
    Corpus,
    Document,
    index_corpus,
    read_corpus,
    split_by_document,
)
from sage_train.metrics import best_f1, expected_calibration_error, f1, platt, roc_auc
from sage_train.options import Progress, TrainOptions, TrainReport

if TYPE_CHECKING:
    from sage_train.tasks import Task

_log = logging.getLogger(__name__)
DEFAULT_THRESHOLD = 0.55


def train(
    data: str | Path | Sequence[str | Path],
    output: str | Path,
    options: TrainOptions | None = None,
    *,
    progress: Callable[[Progress], None] | None = None,
    command: str = "",
) -> TrainReport:
    """Train a boundary model on text with paragraphs and write it to a folder.

    The folder holds ``checkpoint.pt`` until training ends: the same call goes on from there after a kill.

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
    summary, corpus = _read(data)
    rng = np.random.default_rng(options.seed)
    training, held = split_by_document(corpus, options.held_out, rng)
    if not len(held.gaps) or not 0 < held.base_rate < 1:
        raise InputError("the held-out documents have no paragraph breaks to learn from; give more text")
    try:
        from sage_train.fitting import build_task, fit, training_device
    except ImportError as error:
        raise MissingExtraError("training", "models") from error
    training_device(options.device)  # a wrong one fails before the long wait, not after it
    folder = Path(output).expanduser()
    try:  # before the long wait, not after it
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"no model can be written to {folder}: {error.strerror}") from error
    task = build_task(training, held, options)
    steps = fit(task, options, progress, folder / "checkpoint.pt")
    figures, calibrated = judge(task)
    config = {**task.config(), "calibration": calibrated, "threshold": figures["threshold"]}
    task.save(folder, config)
    (folder / "checkpoint.pt").unlink()
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


def _read(data: str | Path | Sequence[str | Path]) -> tuple[CorpusSummary, Corpus]:
    documents: list[Document] = list(read_corpus(data))
    return summarize(documents), index_corpus(documents)
