"""The training loop: AdamW, warm-up and cosine decay, a running average of the weights, early stop."""

from __future__ import annotations

import copy
import itertools
import logging
import math
import pickle
import queue
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as f

from sage_core.embedding.ops import Tensors
from sage_core.embedding.storage import load_folder
from sage_core.errors import InputError, ModelError
from sage_core.segmentation.models.context import ContextConfig
from sage_core.segmentation.models.encoder import EncoderConfig
from sage_core.segmentation.models.load import WEIGHTS
from sage_core.segmentation.models.pair import encoder_config
from sage_core.segmentation.models.transformer import TransformerPairNet
from sage_train.context_net import ContextNet
from sage_train.corpus import Corpus
from sage_train.metrics import best_f1, roc_auc
from sage_train.networks import PairNet, SentenceNet, load_tensors
from sage_train.options import Progress, TrainOptions
from sage_train.tables import (
    pretrained_features,
    principal_components,
    rarity,
    start_weights,
    token_shares,
)
from sage_train.tasks import Batch, ContextTask, PairTask, Task, TransformerTask
from sage_train.transformer import start_from

_log = logging.getLogger(__name__)
_WARM_UP = 200  # steps
_LAST_RATE = 0.02  # share of the learning rate left at the end
_CLIP = 1.0
_PER_TOKEN = ("mean.weight", "rarity")
_REPORT_EVERY = 50
_SAVE_EVERY = 60.0  # seconds
_AHEAD = 4  # batches made while the network works


def build_task(training: Corpus, held: Corpus, options: TrainOptions) -> Task:
    """The network of the kind asked for, its tables started as asked for."""
    torch.manual_seed(options.seed)
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.kind == "transformer":
        return _pair_task(TransformerTask, start_from(str(options.base), options), training, held, options)
    start: Tensors | None = None
    encoder, context = options.encoder_sizes, options.context
    if options.start not in ("pretrained", "random"):
        config, start, _ = load_folder(_model_folder(options.start))
        if config.get("kind") != options.kind:
            raise ModelError(f"{options.start!r} is a {config.get('kind')} model, not a {options.kind} model")
        encoder = encoder_config(config)
        context = ContextConfig.from_dict(config["context"]) if options.kind == "context" else context
    task = _task(training, held, encoder, context, options)
    if start is not None:
        load_tensors(task.net, start)
    else:
        _start_tables(task.net, training, encoder, options.start == "pretrained")
    return task


def training_device(name: str | None) -> torch.device:
    """The device to train on.

    Raises:
        InputError: Where torch does not know it, or cannot use it here.
    """
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # the latter: built without CUDA
        reason = str(error).partition("\n")[0]
        raise InputError(f"cannot train on device {name!r} ({reason}): leave it out, or take cpu") from error
    return device


def fit(
    task: Task,
    options: TrainOptions,
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Path | None = None,
) -> int:
    """Train until the held-out loss no longer falls; leaves the best averaged weights in ``task.net``.

    Args:
        task: What to train.
        options: How.
        progress: Called now and then.
        checkpoint: File that keeps the state, once a minute and at each evaluation; a run that was killed
            goes on from it as if it had not been.

    Returns:
        The step they are of.

    Raises:
        InputError: If ``checkpoint`` is of other options or texts.
        ModelError: If the loss is no number any more.
    """
    device = training_device(options.device)
    net = task.net.to(device)
    run = _Run(net, copy.deepcopy(net), *_optimizer(net, options), best=copy.deepcopy(net.state_dict()))
    steps = max(1, round(options.passes * task.steps()))
    every = max(1, task.steps() // max(1, options.evaluations))
    identity = f"{replace(options, device=None, threads=None)} {task.steps()}"
    if checkpoint is not None and checkpoint.is_file():
        run.load(checkpoint, identity)
        _log.info("going on from step %d of %d", run.step, steps)
    saved = time.monotonic()
    with closing(_endless(task, options.seed, run.step)) as batches:
        while run.step < steps and run.stale < options.patience:
            run.step += 1
            for group, rate in zip(run.optimizer.param_groups, run.rates, strict=True):
                group["lr"] = rate * _schedule(run.step, steps)
            loss = _step(task, net, run.optimizer, next(batches), options.loss_name, device)
            if not math.isfinite(loss):
                raise ModelError(f"the loss is {loss} at step {run.step}: lower the learning rate")
            _follow(run.average, net, min(options.average, run.step / (run.step + 9.0)))
            run.recent += (loss - run.recent) / min(run.step, _REPORT_EVERY)
            evaluated = run.step % every == 0 or run.step == steps
            auc = value = None
            if evaluated:
                task.net = run.average
                held, auc, value = _evaluate(task)
                task.net = net
                _log.info(
                    "step %d of %d: loss %.4f, held-out %.4f, AUC %.4f",
                    run.step,
                    steps,
                    run.recent,
                    held,
                    auc,
                )
                run.stale += 1
                if held < run.best_loss:
                    run.best, run.best_loss, run.stale = copy.deepcopy(run.average.state_dict()), held, 0
                    run.best_step = run.step
            if checkpoint is not None and (evaluated or time.monotonic() - saved > _SAVE_EVERY):
                run.save(checkpoint, identity)
                saved = time.monotonic()
            if progress and (evaluated or run.step % _REPORT_EVERY == 0):
                progress(Progress(run.step, steps, run.recent, auc, value))
    net.load_state_dict(run.best)
    net.eval()
    return run.best_step


@dataclass
class _Run:
    """Everything that a step changes."""

    net: nn.Module
    average: nn.Module
    optimizer: torch.optim.Optimizer
    rates: list[float]
    best: dict[str, Tensor]
    step: int = 0
    best_step: int = 0
    best_loss: float = math.inf
    stale: int = 0
    recent: float = 0.0

    def save(self, path: Path, identity: str) -> None:
        """Write it beside the file first, so that a kill leaves the old one or the new one."""
        state = {name: getattr(self, name) for name in (*_NUMBERS, "best")}
        state |= {name: getattr(self, name).state_dict() for name in _PARTS}
        torch.save({**state, "random": torch.get_rng_state(), "of": identity}, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)

    def load(self, path: Path, identity: str) -> None:
        """Take over what `save` wrote."""
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
            raise InputError(f"{path} cannot be read ({error}): delete it to start anew") from error
        if state["of"] != identity:
            raise InputError(f"{path} is of a run with other options or texts: delete it to start anew")
        for name in _PARTS:
            getattr(self, name).load_state_dict(state[name])
        for name in (*_NUMBERS, "best"):
            setattr(self, name, state[name])
        torch.set_rng_state(state["random"])


_NUMBERS = ("step", "best_step", "best_loss", "stale", "recent")
_PARTS = ("net", "average", "optimizer")


def _task(
    training: Corpus, held: Corpus, encoder: EncoderConfig, context: ContextConfig, options: TrainOptions
) -> Task:
    if options.kind == "context":
        return ContextTask(
            training,
            held,
            encoder,
            context,
            dropout=options.dropout,
            token_dropout=options.token_dropout,
            batch_size=options.batch,
            window=options.window,
        )
    return _pair_task(PairTask, PairNet(encoder, options.hidden, options.dropout), training, held, options)


def _pair_task(
    task: type[PairTask],
    net: PairNet | TransformerPairNet,
    training: Corpus,
    held: Corpus,
    options: TrainOptions,
) -> PairTask:
    return task(
        net,
        training,
        held,
        mix=options.negatives,
        positive_share=options.positive_share,
        token_dropout=options.token_dropout,
        batch_size=options.batch,
    )


def _model_folder(name: str) -> Path:
    from sage_core.segmentation.models.load import DEFAULT, bundled_models

    chosen = DEFAULT if name == "default" else name
    return WEIGHTS / chosen if chosen in bundled_models() else Path(chosen).expanduser()


def _start_tables(net: nn.Module, training: Corpus, config: EncoderConfig, pretrained: bool) -> None:
    sentences = net.get_submodule("encoder")
    assert isinstance(sentences, SentenceNet) and sentences.mean.weight is not None
    shares = token_shares(training.ids, config.vocabulary)
    with torch.no_grad():
        sentences.mean.weight.copy_(torch.from_numpy(start_weights(shares)))
        if isinstance(net, ContextNet):
            net.rarity.copy_(torch.from_numpy(rarity(shares)))
        if pretrained:
            features = pretrained_features()
            for table in (sentences.mean.table, sentences.edge.table):
                table.copy_(torch.from_numpy(principal_components(features, table.shape[1])))


def _optimizer(net: nn.Module, options: TrainOptions) -> tuple[torch.optim.Optimizer, list[float]]:
    """AdamW over tables, token weights and dense layers; only the last decay."""
    groups: dict[str, list[nn.Parameter]] = {"table": [], "token": [], "dense": []}
    for name, parameter in net.named_parameters():
        slow = name.endswith(".table") or name.startswith("encoder.transformer.")
        kind = "table" if slow else "token" if name.endswith(_PER_TOKEN) else "dense"
        groups[kind].append(parameter)
    rates = [options.slow_rate, options.learning_rate, options.learning_rate]
    decays = [0.0, 0.0, options.weight_decay]
    parameters = [
        {"params": group, "lr": rate, "weight_decay": decay}
        for group, rate, decay in zip(groups.values(), rates, decays, strict=True)
    ]
    return torch.optim.AdamW(parameters, betas=(0.9, 0.98), foreach=True), rates


def _schedule(step: int, steps: int) -> float:
    warm = min(1.0, step / min(_WARM_UP, max(1, steps // 4)))
    decay = 0.5 * (1.0 + math.cos(math.pi * step / steps))
    return warm * (_LAST_RATE + (1.0 - _LAST_RATE) * decay)


def _step(
    task: Task,
    net: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    kind: str,
    device: torch.device,
) -> float:
    net.train()
    moved = batch.to(device)
    loss = loss_of(task.logits(moved), moved.same, kind)
    optimizer.zero_grad(set_to_none=True)
    torch.autograd.backward(loss)
    nn.utils.clip_grad_norm_(net.parameters(), _CLIP)
    optimizer.step()
    return float(loss.item())


def loss_of(logits: Tensor, same: Tensor, kind: str) -> Tensor:
    """Binary cross-entropy ("bce"), or the squared error of the probability ("mse")."""
    if kind == "mse":
        return f.mse_loss(torch.sigmoid(logits), same)
    return f.binary_cross_entropy_with_logits(logits, same)


def _follow(average: nn.Module, net: nn.Module, decay: float) -> None:
    with torch.no_grad():
        torch._foreach_lerp_(list(average.parameters()), list(net.parameters()), 1.0 - decay)


def _evaluate(task: Task) -> tuple[float, float, float]:
    """Held-out loss, AUC and best F1 of boundaries."""
    task.net.eval()
    logits, same = task.held_out()
    loss = float(np.logaddexp(0.0, np.where(same, -logits, logits).astype(np.float64)).mean())
    return loss, roc_auc(~same, -logits), best_f1(~same, -logits)[0]


def _endless(task: Task, seed: int, skipped: int) -> Generator[Batch, None, None]:
    """Epoch after epoch but for the first batches, made ahead in one thread, which draws everything."""
    ready: queue.Queue[Batch | BaseException] = queue.Queue(_AHEAD)
    stop = threading.Event()

    def produce() -> None:
        try:
            epochs = (task.epoch(np.random.default_rng([seed, number])) for number in itertools.count())
            for batch in itertools.islice(itertools.chain.from_iterable(epochs), skipped, None):
                while not stop.is_set():
                    try:
                        ready.put(batch, timeout=0.2)
                        break
                    except queue.Full:
                        continue
                if stop.is_set():
                    return
        except BaseException as error:  # handed to the consumer, which raises it
            ready.put(error)

    worker = threading.Thread(target=produce, daemon=True)
    worker.start()
    try:
        while True:
            item = ready.get()
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        worker.join(timeout=5.0)
