"""Train the reader, which finds the words that answer a question in a passage.

    python training/train_reader.py --start CROSS_ENCODER --output reader/ --install

It is a cross-encoder (a BERT of six layers, trained from all-MiniLM-L6-v2) with its own weights in the upper
layers and its own head on every token; stored as its difference from all-MiniLM-L6-v2, in 4 bits. Data:
``reader_qa`` and ``qamr`` of the training data, with the questions of some articles left out to follow the
training, and in the second run questions made of plain text (`cloze.py`). The loss is the cross-entropy of
the first and the last token of the answer. In each run the learning rate rises, then falls in a straight
line. The forward passes run in bfloat16. What was cut off goes on from its last checkpoint.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import random
import re
import shutil
import string
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from cloze import cloze_questions
from pair_network import Network, padded
from sage_train.folders import save_difference
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import cross_entropy

from sage_core.embedding.encoder import WORDS
from sage_core.text.wordpiece import TOKENIZER_FILE
from sage_core.verify.reader import FOLDER

logger = logging.getLogger(__name__)

LONGEST = 256  # Word pieces of question and passage.
TOKENS = 3072  # A step.
WARM_UP = 0.05
FROZEN = 2  # Lowest layers, which stay those of the cross-encoder.
# Of the rounding, see `quantize_differences`.
OWN_STEP, FROZEN_STEP = 1.0, 1.8
Passes = Mapping[str, float]
"""Over each kind of questions; of those made of plain text, their number."""


@dataclass(frozen=True, slots=True)
class Run:
    """One fall of the learning rate, over parts that follow each other."""

    seed: int
    learning_rate: float
    steps: int
    parts: tuple[Passes, ...]
    lengths: tuple[int, ...]  # Longest passages in characters, one of them at random.


RUNS = (
    Run(
        1,
        1.2e-4,
        1150,
        ({"squad1": 3.0, "squad2": 3.0, "policyqa": 1.0, "fairytaleqa": 0.4, "qamr": 0.7},),
        (1100,),
    ),
    Run(
        2,
        9e-5,
        1900,
        (
            {"squad1": 1, "squad2": 1, "policyqa": 0.3, "fairytaleqa": 0.2, "qamr": 0.2, "cloze": 13_000},
            {"squad1": 2, "squad2": 2, "policyqa": 0.5, "fairytaleqa": 0.3, "qamr": 0.25},
        ),
        (500, 800, 1100, 1100),
    ),
)
HELD_OUT = 20  # One article of so many follows the training.


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the span of its answer in the passage, characters."""

    kind: str
    question: str
    passage: str
    start: int
    end: int
    answers: tuple[str, ...]
    group: str

    @property
    def held_out(self) -> bool:
        """Whether its article follows the training instead of taking part."""
        return zlib.crc32(self.group.encode()) % HELD_OUT == 0


def questions(data: Path) -> Iterator[Question]:
    """The answerable questions of the training data."""
    for name in ("reader_qa", "qamr"):
        with gzip.open(data / "train" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                if name == "qamr":
                    start, end, answers = row["start"], row["end"], [row["answer"]]
                elif row["answerable"] and row["answer_spans"]:
                    span = row["answer_spans"][0]
                    start, end, answers = span["start"], span["end"], row["answers"]
                else:
                    continue
                yield Question(
                    row["kind"], row["question"], row["passage"], start, end, tuple(answers), row["group"]
                )


def made_questions(data: Path, count: int, seed: int) -> list[Question]:
    """Questions made of plain text, of articles that are not held out."""
    made = [
        Question("cloze", c.question, c.passage, c.start, c.end, (c.passage[c.start : c.end],), c.document)
        for c in cloze_questions(data, count + 1_000, seed=1)
    ]
    made = [question for question in made if not question.held_out]
    random.Random(seed).shuffle(made)
    return made[:count]


def part_steps(
    run: Run,
    passes: Passes,
    every: Sequence[Question],
    data: Path,
    tokenizer: Tokenizer,
    chance: random.Random,
) -> list[list[Question]]:
    """The batches of a part."""
    rows = [
        near(question, chance, chance.choice(run.lengths))
        for question in every
        if not question.held_out
        for _ in range(int(passes[question.kind] + chance.random()))
    ]
    rows += made_questions(data, int(passes.get("cloze", 0)), run.seed)
    return [[rows[i] for i in batch] for batch in batches(rows, tokenizer, chance)]


def near(question: Question, chance: random.Random, longest: int) -> Question:
    """The question with the part of a long passage that holds the answer somewhere."""
    if len(question.passage) <= longest:
        return question
    first = max(0, question.end - longest + 20)
    start = chance.randint(first, max(first, min(question.start, len(question.passage) - longest)))
    space = question.passage.find(" ", start, question.start)
    start = space + 1 if start and space >= 0 else start
    return Question(
        question.kind,
        question.question,
        question.passage[start : start + longest],
        question.start - start,
        question.end - start,
        question.answers,
        question.group,
    )


def batches(rows: Sequence[Question], tokenizer: Tokenizer, chance: random.Random) -> list[list[int]]:
    """Indices of rows of like length, `TOKENS` word pieces at most with their padding."""
    lengths = [len(e.ids) for e in tokenizer.encode_batch([(q.question, q.passage) for q in rows])]
    order = sorted(range(len(rows)), key=lambda i: lengths[i] + 8 * chance.random())
    result: list[list[int]] = [[]]
    for i in order:
        if lengths[i] * (len(result[-1]) + 1) > TOKENS:
            result.append([])
        result[-1].append(i)
    chance.shuffle(result)
    return result


class Reader:
    """Network, tokenizer and optimizer."""

    def __init__(self, start: Path, network: Network | None = None) -> None:
        self.network = (network if network is not None else Network(start)).train()
        for module in self.network.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.1
        for name, weights in self.network.named_parameters():
            own = name.startswith("span.") or re.match(rf"bert\.encoder\.layer\.[{FROZEN}-9]\.", name)
            weights.requires_grad_(bool(own))
        self.tokenizer = Tokenizer.from_file(str(TOKENIZER_FILE))
        self.tokenizer.enable_truncation(LONGEST, strategy="only_second")
        self.weights = [w for w in self.network.parameters() if w.requires_grad]
        groups = [
            {"params": [w for w in self.weights if w.ndim > 1], "weight_decay": 0.01},
            {"params": [w for w in self.weights if w.ndim < 2], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98))

    def save(self, folder: Path) -> None:
        """Write the reader as its difference from all-MiniLM-L6-v2."""
        named = self.network.named_parameters()
        tensors = {n: w.detach().float().numpy() for n, w in named if n.startswith(("bert.", "span."))}
        tensors = {n: v for n, v in tensors.items() if n != WORDS and "pooler" not in n}
        positions = "bert.embeddings.position_embeddings.weight"
        tensors[positions] = tensors[positions][:LONGEST]
        bert = {**self.network.config["bert"], "max_position_embeddings": LONGEST}

        def step(name: str) -> float:
            return OWN_STEP if re.match(rf"bert\.encoder\.layer\.[{FROZEN}-9]\.", name) else FROZEN_STEP

        save_difference(folder, {"kind": "reader", "bert": bert}, tensors, step)

    def tokens(self, encoded: Sequence[Any]) -> Tensor:
        """Logits of first and last token, shape ``(n, width, 2)``; passage tokens only."""
        ids, kinds = padded(encoded)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = self.network.bert(input_ids=ids, token_type_ids=kinds, attention_mask=(ids != 0).long())
        logits: Tensor = self.network.span(out.last_hidden_state.float())
        outside = kinds == 0
        for row, one in enumerate(encoded):
            outside[row, len(one.ids) - 1] = True  # The separator behind the passage.
        return logits.masked_fill(outside[..., None], -1e4)

    def step(self, rows: Sequence[Question], share: float, learning_rate: float) -> float:
        """One step at ``share`` (0 to 1) of a run with this peak of the learning rate; returns the loss."""
        for setting in self.optimizer.param_groups:
            setting["lr"] = learning_rate * min(share / WARM_UP + 1e-3, (1 - share) / (1 - WARM_UP))
        encoded = self.tokenizer.encode_batch([(q.question, q.passage) for q in rows])
        wanted = torch.full((len(rows), 2), -1)
        for i, (row, one) in enumerate(zip(rows, encoded, strict=True)):
            if row.start < 0:  # an answer longer than what is left of its passage
                continue
            first, last = one.char_to_token(row.start, 1), one.char_to_token(row.end - 1, 1)
            if first is not None and last is not None:
                wanted[i] = torch.tensor([first, last])
        logits = self.tokens(encoded)
        loss = sum(cross_entropy(logits[:, :, k], wanted[:, k], ignore_index=-1) for k in (0, 1)) / 2
        if not torch.isfinite(loss):
            return float("nan")
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
        self.optimizer.step()
        return float(loss.detach())

    @torch.no_grad()
    def answers(self, rows: Sequence[Question], longest: int = 30) -> list[str]:
        """The likeliest span of each passage."""
        self.network.eval()
        result = [""] * len(rows)
        order = sorted(range(len(rows)), key=lambda i: len(rows[i].passage))
        for at in range(0, len(order), 16):
            part = order[at : at + 16]
            encoded = self.tokenizer.encode_batch([(rows[i].question, rows[i].passage) for i in part])
            for i, one, logits in zip(part, encoded, self.tokens(encoded), strict=True):
                pairs = logits[:, None, 0] + logits[None, :, 1]
                allowed = torch.ones_like(pairs).triu().tril(longest - 1).bool()
                best = int(pairs.masked_fill(~allowed, -1e9).argmax())
                first, last = divmod(best, pairs.shape[1])
                result[i] = rows[i].passage[one.offsets[first][0] : one.offsets[last][1]]
        self.network.train()
        return result


def scores(said: Sequence[str], rows: Sequence[Question]) -> tuple[float, float]:
    """SQuAD's F1 and exact match, means."""
    totals = [0.0, 0.0]
    for text, row in zip(said, rows, strict=True):
        pairs = [_overlap(_bare(text), _bare(gold)) for gold in row.answers]
        totals[0] += max(f1 for f1, _ in pairs)
        totals[1] += max(exact for _, exact in pairs)
    return totals[0] / len(rows), totals[1] / len(rows)


def _overlap(a: list[str], b: list[str]) -> tuple[float, float]:
    same = sum((Counter(a) & Counter(b)).values())
    return (2 * same / (len(a) + len(b)) if same else 0.0), float(a == b)


def _bare(text: str) -> list[str]:
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return re.sub(r"\b(?:a|an|the)\b", " ", text).split()


def main() -> None:
    """Train, and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--start", type=Path, required=True, help="folder of a cross-encoder")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--install", action="store_true", help="put the weights into the package")
    parser.add_argument("--steps", type=int, help="fewer steps of each run")
    parser.add_argument("--every", type=int, default=200, help="steps from one checkpoint to the next")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    arguments.output.mkdir(parents=True, exist_ok=True)
    every = list(questions(arguments.data))
    start = arguments.start
    reader = Reader(start)
    checkpoint, done, first = arguments.output / "checkpoint.pt", 0, 0
    if checkpoint.exists():
        state = torch.load(checkpoint)
        reader.network.load_state_dict(state["network"])
        reader.optimizer.load_state_dict(state["optimizer"])
        done, first = state["run"], state["step"]
    for number, run in enumerate(RUNS):
        if number < done:
            continue
        if number > done:
            reader, first = Reader(start, reader.network), 0
        torch.manual_seed(run.seed)
        chance = random.Random(run.seed)
        follow = {kind: [q for q in every if q.held_out and q.kind == kind] for kind in run.parts[0]}
        follow = {kind: chance.sample(own, min(200, len(own))) for kind, own in follow.items() if own}
        steps = [
            step
            for passes in run.parts
            for step in part_steps(run, passes, every, arguments.data, reader.tokenizer, chance)
        ][: arguments.steps or run.steps]
        logger.info("run %d: %d steps", number + 1, len(steps))
        mean = 0.0
        for at in range(first, len(steps)):
            loss = reader.step(steps[at], at / len(steps), run.learning_rate)
            mean += 0.02 * (loss - mean) if mean else loss
            if (at + 1) % 50 == 0:
                logger.info("step %d, loss %.3f", at + 1, mean)
            if (at + 1) % arguments.every and at + 1 < len(steps):
                continue
            state = {"network": reader.network.state_dict(), "optimizer": reader.optimizer.state_dict()}
            torch.save({**state, "run": number, "step": at + 1}, checkpoint)
            for kind, own in follow.items():
                f1, exact = scores(reader.answers(own), own)
                logger.info("%d, %s: F1 %.3f, exact %.3f (n = %d)", at + 1, kind, f1, exact, len(own))
    reader.save(arguments.output)
    if arguments.install:
        for name in ("model.safetensors", "config.json"):
            shutil.copy(arguments.output / name, FOLDER)


if __name__ == "__main__":
    main()
