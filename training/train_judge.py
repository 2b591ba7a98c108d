"""Train the cross-encoder on, together with heads for what the judge asks; reader and entailment start there.

    python training/train_judge.py START model/ --minutes 60 --install

``START`` is a folder that ``train_cross_encoder.py --pack`` or this script wrote. Examples are made on the
way, see ``judge_examples.py``. A run that was cut off goes on from its last checkpoint. At the end the
weights are packed to 8 bits and the relevance head is brought to the scale of the one it started from;
``--install`` puts them into the package. The loss is a binary cross-
entropy each for answerability and support, a cross-entropy for the first and last token of the answer (the
first token of the pair where there is none), and, for relevance, the softmax over a group with a smaller
binary cross-entropy, which keeps what the first training taught. The word embeddings and the two lowest
layers stay as they are. The learning rate falls with the time. The forward passes run in bfloat16.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from judge_examples import Example, Maker, prepared
from sage_train.folders import save_folder
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from transformers import BertConfig, BertModel

from sage_core.embedding.storage import load_folder
from sage_core.ranking.packed import PackedCrossEncoder, require_offline_folder
from sage_core.text.wordpiece import TOKENIZER_FILE

logger = logging.getLogger(__name__)

SEED = 1
LONGEST = 144  # Word pieces of a pair.
PAIRS = 48  # A step.
PASSES = 3  # Forward passes of a step, of pairs of like length.
LEARNING_RATE = 1e-4
WARM_UP = 0.03
FROZEN = 2  # Lowest layers that stay as they are.
GROUPS = 250  # Questions with passages to bring the relevance head to scale with.
CHECKPOINT = 600  # Seconds from one checkpoint to the next.


class Network(torch.nn.Module):
    """A BERT with three heads on its first position and one on every token."""

    def __init__(self, start: Path) -> None:
        super().__init__()
        torch.manual_seed(SEED)
        self.config, tensors, _ = load_folder(start)
        quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        self.bert = BertModel(BertConfig(**self.config["bert"], **quiet), add_pooling_layer=True)
        width = self.bert.config.hidden_size
        self.heads = torch.nn.Linear(width, 3)  # Answerable, supported, relevant.
        self.span = torch.nn.Linear(width, 2)
        weight, bias = tensors.pop("classifier.weight"), tensors.pop("classifier.bias")
        own = tensors.get("heads.weight", np.concatenate([weight, 0.5 * weight]))
        own_bias = tensors.get("heads.bias", np.concatenate([bias, 0.5 * bias]))
        tensors["heads.weight"] = np.concatenate([own, weight])
        tensors["heads.bias"] = np.concatenate([own_bias, bias])
        self.load_state_dict({n: torch.from_numpy(v) for n, v in tensors.items()}, strict=False)
        for weights in (*self.bert.embeddings.parameters(), *self.bert.encoder.layer[:FROZEN].parameters()):
            weights.requires_grad_(False)

    def forward(self, ids: Tensor, kinds: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the heads ``(n, 3)``, and of first and last token ``(n, width, 2)``."""
        out = self.bert(input_ids=ids, token_type_ids=kinds, attention_mask=(ids != 0).long())
        tokens = self.span(out.last_hidden_state).float()
        # Only the passage, and the first position for "no answer".
        outside = (kinds == 0) & (torch.arange(ids.shape[1], device=ids.device) > 0)
        return self.heads(out.pooler_output).float(), tokens.masked_fill(outside[..., None], -1e4)


def span_of(example: Example, encoded: Any) -> tuple[int, int]:
    """First and last token of the answer; (0, 0) for none, (-1, -1) where it is not known."""
    if example.span is None:
        return (0, 0) if example.answerable == 0.0 else (-1, -1)
    first = encoded.char_to_token(example.span[0], 1)
    last = encoded.char_to_token(example.span[1] - 1, 1)
    return (first, last) if first is not None and last is not None else (-1, -1)


def padded(encoded: Sequence[Any]) -> tuple[Tensor, Tensor]:
    """Ids and types of pairs, padded with zeros."""
    ids = torch.zeros((len(encoded), max(len(e.ids) for e in encoded)), dtype=torch.long)
    kinds = torch.zeros_like(ids)
    for row, pair in enumerate(encoded):
        ids[row, : len(pair.ids)] = torch.tensor(pair.ids)
        kinds[row, : len(pair.ids)] = torch.tensor(pair.type_ids)
    return ids, kinds


class Trainer:
    """Network, tokenizer, optimizer and the maker of examples."""

    def __init__(self, start: Path, maker: Maker) -> None:
        self.maker = maker
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.network = Network(start).to(self.device).train()
        self.tokenizer = Tokenizer.from_file(str(TOKENIZER_FILE))
        self.tokenizer.enable_truncation(LONGEST, strategy="longest_first")
        named = [(n, w) for n, w in self.network.named_parameters() if w.requires_grad]
        self.weights = [w for _, w in named]
        groups = [
            {"params": [w for w in self.weights if w.ndim > 1], "weight_decay": 0.01},
            {"params": [w for w in self.weights if w.ndim < 2], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=(0.9, 0.98))

    def batch(self) -> list[Example]:
        """Examples of one step."""
        examples: list[Example] = []
        while len(examples) < PAIRS:
            examples += self.maker.examples()
        return examples

    def step(self, share: float) -> dict[str, float]:
        """One step at ``share`` (0 to 1) of the training; returns the losses by head."""
        for setting in self.optimizer.param_groups:
            setting["lr"] = LEARNING_RATE * min(share / WARM_UP + 1e-3, (1 - share) / (1 - WARM_UP))
        examples = self.batch()
        encoded = self.tokenizer.encode_batch([(e.first, e.passage) for e in examples])
        order = sorted(range(len(examples)), key=lambda i: len(encoded[i].ids))
        heads, span_loss, spans = [], torch.zeros((), device=self.device), 0
        for part in np.array_split(np.array(order), PASSES):
            ids, kinds = padded([encoded[i] for i in part])
            with torch.autocast(self.device.type, dtype=torch.bfloat16):
                logits, tokens = self.network(ids.to(self.device), kinds.to(self.device))
            heads.append(logits)
            wanted = torch.tensor([span_of(examples[i], encoded[i]) for i in part], device=self.device)
            spans += int((wanted[:, 0] >= 0).sum())
            for k in (0, 1):
                span_loss = span_loss + cross_entropy(
                    tokens[:, :, k], wanted[:, k], ignore_index=-1, reduction="sum"
                )
        losses = self.head_losses(torch.cat(heads), [examples[i] for i in order])
        losses["span"] = span_loss / (2 * max(1, spans))
        total = losses["answerable"] + 1.3 * losses["supported"] + 0.5 * losses["span"]
        total = total + 0.4 * losses["relevant"]
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()
        torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
        self.optimizer.step()
        return {name: float(loss.detach()) for name, loss in losses.items()}

    @torch.no_grad()
    def relevance(self, examples: Sequence[Example]) -> np.ndarray[Any, Any]:
        """Logits of the relevance head."""
        ids, kinds = padded(self.tokenizer.encode_batch([(e.first, e.passage) for e in examples]))
        logits, _ = self.network(ids.to(self.device), kinds.to(self.device))
        return logits[:, 2].cpu().numpy()

    def checkpoint(self, path: Path, seconds: float, step: int) -> None:
        """Write all that is needed to go on."""
        state = {"network": self.network.state_dict(), "optimizer": self.optimizer.state_dict()}
        new = path.with_suffix(".new")
        torch.save({**state, "seconds": seconds, "step": step}, new)
        new.replace(path)

    def resume(self, path: Path) -> tuple[float, int]:
        """Seconds and steps of the checkpoint; zeros where there is none."""
        if not path.exists():
            return 0.0, 0
        state = torch.load(path, map_location=self.device)
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        return state["seconds"], state["step"]

    def head_losses(self, logits: Tensor, examples: Sequence[Example]) -> dict[str, Tensor]:
        """Losses of the three heads on the first position."""
        losses = {}
        for k, name in enumerate(("answerable", "supported")):
            labels = [getattr(e, name) for e in examples]
            weights = torch.tensor(
                [0.0 if label is None else e.weight for label, e in zip(labels, examples, strict=True)],
                device=self.device,
            )
            target = torch.tensor([label or 0.0 for label in labels], device=self.device)
            known = binary_cross_entropy_with_logits(logits[:, k], target, weight=weights, reduction="sum")
            losses[name] = known / weights.sum().clamp(min=1)
        rows = [i for i, e in enumerate(examples) if e.group is not None]
        losses["relevant"] = torch.zeros((), device=self.device)
        if rows:
            scores = logits[rows, 2]
            right = torch.tensor([float(examples[i].relevant) for i in rows], device=self.device)
            parts = []
            for group in sorted({examples[i].group for i in rows}, key=str):
                own = [j for j, i in enumerate(rows) if examples[i].group == group]
                parts.append(torch.logsumexp(scores[own], 0) - (scores[own] * right[own]).sum())
            known = binary_cross_entropy_with_logits(
                scores, right, pos_weight=torch.tensor(2.0, device=self.device)
            )
            losses["relevant"] = torch.stack(parts).mean() + 0.3 * known
        return losses

    def save(self, folder: Path) -> None:
        """Write the packed folder: the relevance head as the cross-encoder's, the others beside it."""
        tensors = {n: v.detach().float().cpu().numpy() for n, v in self.network.state_dict().items()}
        weight, bias = tensors.pop("heads.weight"), tensors.pop("heads.bias")
        tensors |= {"classifier.weight": weight[2:], "classifier.bias": bias[2:]}
        tensors |= {"heads.weight": weight[:2], "heads.bias": bias[:2]}
        tables = [n for n, v in tensors.items() if v.ndim == 2 and len(v) > 2]
        config = {k: v for k, v in self.network.config.items() if k != "format"}
        save_folder(folder, {**config, "heads": ["answerable", "supported"]}, tensors, tables=tables)


def match_relevance(trainer: Trainer, start: Path, maker: Maker) -> None:
    """Bring the relevance head to mean and spread of the one it started from; log how well both rank."""
    groups: dict[int, list[Example]] = {}
    while len(groups) < GROUPS:
        for example in maker.ranked():
            groups.setdefault(example.group, []).append(example)
    examples = [e for group in groups.values() for e in group]
    before = PackedCrossEncoder(start, device="cpu").logits([(e.first, e.passage) for e in examples])
    after = np.concatenate(
        [trainer.relevance(examples[i : i + PAIRS]) for i in range(0, len(examples), PAIRS)]
    )
    scale = float(before.std() / after.std())
    with torch.no_grad():
        trainer.network.heads.weight[2] *= scale
        trainer.network.heads.bias[2] = (
            scale * trainer.network.heads.bias[2] + float(before.mean()) - scale * float(after.mean())
        )
    ranks: dict[str, list[float]] = {"before": [], "after": []}
    at = 0
    for group in groups.values():
        right = [i for i, e in enumerate(group) if e.relevant]
        for name, scores in (("before", before), ("after", after)):
            own = scores[at : at + len(group)]
            if len(group) > 1 and right:
                ranks[name].append(1 / float((own >= own[right[0]]).sum()))
        at += len(group)
    means = {name: round(float(np.mean(values)), 4) for name, values in ranks.items()}
    logger.info("mean reciprocal rank of %d held-out groups: %s", len(ranks["after"]), json.dumps(means))


def main() -> None:
    """Train until the minutes are used up."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("start", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SAGE_DATA", "../shared/data")))
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--install", action="store_true", help="put the weights into the package")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    arguments.output.mkdir(parents=True, exist_ok=True)
    bundle, near = prepared(arguments.data, arguments.output / "bundle.pickle")
    logger.info("%d documents, %d questions", len(bundle["docs"]), len(bundle["reader"]))
    checkpoint = arguments.output / "checkpoint.pt"
    trainer = Trainer(arguments.start, Maker(bundle, SEED, near=near))
    before, step = trainer.resume(checkpoint)
    trainer.maker.rng.seed(SEED + step)
    begin, saved = time.monotonic() - before, time.monotonic()
    sums: dict[str, float] = {}
    while (share := (time.monotonic() - begin) / (60 * arguments.minutes)) < 1:
        losses = trainer.step(share)
        sums = {name: sums.get(name, 0.0) + loss for name, loss in losses.items()}
        step += 1
        if step % 50 == 0:
            means = {name: round(total / 50, 3) for name, total in sums.items()}
            logger.info("step %d, %d pairs, %.0f%%: %s", step, step * PAIRS, 100 * share, json.dumps(means))
            sums = {}
        if time.monotonic() - saved > CHECKPOINT:
            trainer.checkpoint(checkpoint, time.monotonic() - begin, step)
            saved = time.monotonic()
    trainer.checkpoint(checkpoint, time.monotonic() - begin, step)
    match_relevance(trainer, arguments.start, Maker(bundle, SEED, near=near, held=True))
    trainer.save(arguments.output)
    if arguments.install:
        shutil.copy(arguments.output / "model.safetensors", require_offline_folder())
    logger.info("%d steps, %d pairs, %.0f minutes", step, step * PAIRS, arguments.minutes)


if __name__ == "__main__":
    main()
