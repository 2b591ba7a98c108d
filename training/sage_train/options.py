"""Options, progress and report of a training run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sage_core._checks import check_float, check_int, check_optional_int
from sage_core.errors import InputError
from sage_core.segmentation.models.context import ContextConfig
from sage_core.segmentation.models.encoder import EncoderConfig
from sage_train.mining import NegativeMix

_LEAST = {"batch_size": 2, "patience": 1, "evaluations": 1, "window": 2, "hidden": 1, "seed": 0}
_PAIR_ENCODER = EncoderConfig(mean_size=96, edge_size=32, size=160)


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """How to train.

    Attributes:
        kind: ``"context"`` (sees several sentences each side) or ``"pair"`` (the paper's model).
        start: ``"pretrained"`` (token tables from all-MiniLM-L6-v2), ``"random"``, or the name or folder of a
            model of the same kind to fine-tune.
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
        table_rate: Of the token tables; lower, because they memorize. None: 3e-4.
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
        if self.kind not in ("context", "pair"):
            raise InputError(f"kind must be 'context' or 'pair', not {self.kind!r}")
        if self.loss not in ("bce", "mse"):
            raise InputError(f"loss must be 'bce' or 'mse', not {self.loss!r}")
        for name, least in _LEAST.items():
            check_int(name, getattr(self, name), minimum=least)
        check_optional_int("threads", self.threads, minimum=1)
        for name in ("held_out", "dropout", "token_dropout", "average"):
            check_float(name, getattr(self, name), minimum=0, maximum=1)
        for name in ("epochs", "learning_rate"):
            check_float(name, getattr(self, name), minimum=0)
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
