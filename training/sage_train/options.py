"""Options, progress and report of a training run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sage_core._checks import check_float, check_int, check_optional_int
from sage_core.errors import InputError
from sage_core.segmentation.models.context import ContextConfig
from sage_core.segmentation.models.encoder import EncoderConfig
from sage_train.mining import NegativeMix

_KINDS = ("context", "pair", "transformer")
_LEAST = {"patience": 1, "evaluations": 1, "window": 2, "hidden": 1, "seed": 0}
_PAIR_ENCODER = EncoderConfig(mean_size=96, edge_size=32, size=160)


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """How to train.

    Attributes:
        kind: ``"context"`` (sees several sentences each side), ``"pair"`` (the paper's model over token
            tables) or ``"transformer"`` (the paper's model, Algorithm 1).
        start: ``"pretrained"`` (token tables from all-MiniLM-L6-v2), ``"random"``, or the name or folder of a
            model of the same kind to fine-tune. A transformer starts from ``base``.
        base: Folder or name of a model of sentence-transformers; for ``kind="transformer"`` alone.
        frozen: Whether the transformer keeps its weights, so that the MLP alone learns.
        encoder: Sizes of the sentence encoder; None for those of the bundled model of that kind. Ignored when
            fine-tuning.
        context: Sizes of the rest of the context model; ignored when fine-tuning.
        window: Most sentences the context model learns from at once.
        hidden: Width of the MLP of pair models.
        negatives: Mix of negatives of pair models.
        positive_share: Share of positives that pair models learn from; None leaves the text's own.
        loss: ``"bce"`` or ``"mse"`` (the paper's); None: ``"mse"`` for a transformer, else ``"bce"``.
        epochs: Most passes over the training documents; None: 1 for a transformer, else 6.
        patience: Evaluations without a lower held-out loss before training stops.
        evaluations: Evaluations an epoch.
        batch_size: Pairs, or sentences, a step; None: 64 for a transformer, else 2,048.
        learning_rate: Of the dense layers.
        table_rate: Of the token tables; lower, because they memorize. None: 3e-4;
            of a transformer 3e-5.
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
    base: str | None = None
    frozen: bool = False
    encoder: EncoderConfig | None = None
    context: ContextConfig = field(default_factory=ContextConfig)
    window: int = 96
    hidden: int = 256
    negatives: NegativeMix = field(default_factory=NegativeMix)
    positive_share: float | None = None
    loss: str | None = None
    epochs: float | None = None
    patience: int = 3
    evaluations: int = 1
    batch_size: int | None = None
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

    @property
    def loss_name(self) -> str:
        """``loss``, or the default of the kind."""
        return self.loss or ("mse" if self.kind == "transformer" else "bce")

    @property
    def passes(self) -> float:
        """``epochs``, or the default of the kind."""
        return self.epochs or (1.0 if self.kind == "transformer" else 6.0)

    @property
    def batch(self) -> int:
        """``batch_size``, or the default of the kind."""
        return self.batch_size or (64 if self.kind == "transformer" else 2048)

    @property
    def slow_rate(self) -> float:
        """``table_rate``, or the default of the kind."""
        return self.table_rate or (3e-5 if self.kind == "transformer" else 3e-4)

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise InputError(f"kind must be one of {', '.join(_KINDS)}, not {self.kind!r}")
        if self.loss not in (None, "bce", "mse"):
            raise InputError(f"loss must be 'bce' or 'mse', not {self.loss!r}")
        if (self.kind == "transformer") != bool(self.base):
            raise InputError(
                "kind='transformer' needs base=, the folder or name of a sentence transformer; no other kind"
            )
        for name, least in _LEAST.items():
            check_int(name, getattr(self, name), minimum=least)
        check_optional_int("batch_size", self.batch_size, minimum=2)
        check_optional_int("threads", self.threads, minimum=1)
        for name in ("held_out", "dropout", "token_dropout", "average"):
            check_float(name, getattr(self, name), minimum=0, maximum=1)
        check_float("epochs", self.passes if self.epochs is None else self.epochs, minimum=0)
        check_float("learning_rate", self.learning_rate, minimum=0)
        if self.epochs == 0 or not self.learning_rate or not 0 < self.held_out < 1:
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
