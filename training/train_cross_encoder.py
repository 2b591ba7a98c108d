"""Train sage-minilm, the cross-encoder, from all-MiniLM-L6-v2: groups of a right passage and wrong ones.

    python training/reranker_groups.py groups.jsonl
    python training/train_cross_encoder.py groups.jsonl model/ --minutes 76
    python training/train_cross_encoder.py --pack model/ packages/sage-rag-models/sage_rag_models/sage-minilm

The loss is the softmax over a group, which orders passages, plus a smaller binary cross-entropy, which keeps
scores comparable between questions. Word embeddings stay as they are: they are half of the weights, and the
training set has too few words to improve them. The learning rate falls with the share of the groups, or of
the time, that is used.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from sage_train.folders import pack
from transformers import AutoModelForSequenceClassification, AutoTokenizer

MINILM = os.environ.get("SAGE_MINILM", "sentence-transformers/all-MiniLM-L6-v2")
"""The original all-MiniLM-L6-v2: a folder, or a name to download."""

logger = logging.getLogger(__name__)

SEED = 0
LONGEST = 112  # Word pieces of a pair; chunks are shorter.
GROUPS = 16  # A step.
PASS_TOKENS = 4_000  # Of one forward pass, padding included.
LEARNING_RATE = 6e-5
WARM_UP = 0.05
BINARY = 0.3


def read_groups(path: Path) -> list[dict[str, Any]]:
    """The groups, shuffled."""
    groups = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    random.Random(SEED).shuffle(groups)
    return groups


def passes(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Positions of pairs of like length, as many as one forward pass takes."""
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[i] > PASS_TOKENS:
            yield batch
            batch = []
        batch.append(i)
    yield batch


class Trainer:
    """Model, tokenizer and optimizer."""

    def __init__(self) -> None:
        torch.manual_seed(SEED)
        self.tokenizer = AutoTokenizer.from_pretrained(MINILM)
        self.model = AutoModelForSequenceClassification.from_pretrained(
            MINILM, num_labels=1, use_safetensors=True
        )
        self.model.bert.embeddings.word_embeddings.requires_grad_(False)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model.to(self.device).train()
        weights = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(weights, lr=LEARNING_RATE, weight_decay=0.01)

    def logits(self, pairs: Sequence[tuple[str, str]]) -> torch.Tensor:
        """One raw logit per pair, shape ``(len(pairs),)``."""
        encoded = self.tokenizer(
            [q for q, _ in pairs], [p for _, p in pairs], truncation="longest_first", max_length=LONGEST
        )
        lengths = [len(ids) for ids in encoded["input_ids"]]
        order: list[int] = []
        parts = []
        for batch in passes(lengths):
            inputs = self.tokenizer.pad(
                {name: [values[i] for i in batch] for name, values in encoded.items()}, return_tensors="pt"
            ).to(self.device)
            with torch.autocast(self.device.type, dtype=torch.bfloat16):
                parts.append(self.model(**inputs).logits[:, 0].float())
            order += batch
        place = torch.empty(len(order), dtype=torch.long)
        place[torch.tensor(order)] = torch.arange(len(order))
        return torch.cat(parts)[place.to(self.device)]

    def step(self, groups: Sequence[dict[str, Any]], share: float) -> float:
        """One step of the optimizer at ``share`` (0 to 1) of the training; returns the loss."""
        for setting in self.optimizer.param_groups:
            setting["lr"] = LEARNING_RATE * min(share / WARM_UP, (1 - share) / (1 - WARM_UP))
        size = len(groups[0]["passages"])
        scores = self.logits([(g["question"], p) for g in groups for p in g["passages"]]).view(-1, size)
        right = torch.zeros(len(groups), dtype=torch.long, device=self.device)
        ordered = torch.nn.functional.cross_entropy(scores, right)
        target = torch.zeros_like(scores)
        target[:, 0] = 1
        balance = torch.tensor(float(size - 1), device=self.device)
        known = torch.nn.functional.binary_cross_entropy_with_logits(scores, target, pos_weight=balance)
        loss = ordered + BINARY * known
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return float(ordered.detach())

    def save(self, folder: Path) -> None:
        """Write the model as transformers and sentence-transformers load it."""
        self.model.save_pretrained(folder, safe_serialization=True)
        self.tokenizer.save_pretrained(folder)


def main() -> None:
    """Train until the groups or the minutes are used up."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pack", action="store_true", help="no training: GROUPS is a trained model")
    parser.add_argument("groups", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--minutes", type=float, default=90.0)
    parser.add_argument("--save-every", type=int, default=250, help="steps between saved states")
    arguments = parser.parse_args()
    if arguments.pack:
        pack(arguments.groups, arguments.output, {"name": arguments.output.name, "start": "all-MiniLM-L6-v2"})
        return
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    groups = read_groups(arguments.groups)
    trainer = Trainer()
    start = time.monotonic()
    mean = 0.0
    used = 0
    for step in range(len(groups) // GROUPS):
        spent = (time.monotonic() - start) / (60 * arguments.minutes)
        share = max(spent, step * GROUPS / len(groups))
        if share >= 1:
            break
        loss = trainer.step(groups[step * GROUPS : (step + 1) * GROUPS], share)
        used += GROUPS
        mean = loss if not step else 0.98 * mean + 0.02 * loss
        if step % 25 == 0:
            logger.info("step %d, %.0f%% done, loss %.3f", step, 100 * share, mean)
        if step and step % arguments.save_every == 0:
            trainer.save(arguments.output)
    trainer.save(arguments.output)
    logger.info("used %d of %d groups", used, len(groups))


if __name__ == "__main__":
    main()
