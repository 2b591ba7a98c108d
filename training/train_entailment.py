"""Train the model that says whether a text says yes to a question, or supports a claim.

    python training/train_entailment.py --start CROSS_ENCODER --output entailment/ --install

It is the reader's cross-encoder with its own weights in the upper layers and one logit on the
first position; the word embeddings and the lowest layers are those of the reader. Stored as its difference
from all-MiniLM-L6-v2. Data: questions for yes or no (``train/yesno``), claims that people checked
(``train/grounding`` but for BEGIN, of which `fit_grounding.py` learns how much the model may say) and the
sentences of its summaries, and claims made by rule of plain text, true and false (`judge_examples.py`,
`claim_examples.py`, `fit_grounding.py`). Some claims are turned into questions. A long text is cut to the
sentences that hold most of the claim's words. One group in twelve follows the training, and of its
questions for yes or no come the two numbers that turn a logit into a probability. The forward passes run in
bfloat16. What was cut off goes on from its last checkpoint.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import claim_examples
import fit_grounding
import numpy as np
import torch
from fit_grounding import lines
from fit_judge import auroc, logistic
from judge_examples import Maker, prepared
from pair_network import Network, padded
from sage_train.folders import save_difference
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from train_reader import FROZEN, LONGEST, WARM_UP, batches

from sage_core.text.sentences import split_sentences
from sage_core.text.wordpiece import TOKENIZER_FILE
from sage_core.verify.coefficients import COEFFICIENTS
from sage_core.verify.entailment import FOLDER, Entailment
from sage_core.verify.passages import parse_passages
from sage_core.verify.scoring import evidence_text, find_evidence
from sage_core.verify.words import stem_list

logger = logging.getLogger(__name__)

SEED = 1
SURE_OF_YES, SURE_OF_NO = 0.9, 0.1
STEP = 1.65  # Of the rounding, see `quantize_differences`.
LEARNING_RATE = 8e-5
CYCLES = 2  # Of the learning rate, each over the data.
PASSES = {
    "boolq": 3.0,
    "pubmedqa": 1.0,
    "fever": 0.55,
    "lacking": 1.0,
    "summedits": 0.6,
    "sentence": 2.0,
    "twins": 0.7,
    "made": 1.0,
    "fused": 1.0,
    "asked": 1.0,
}
AS_QUESTION = {
    "fever": 0.6,
    "lacking": 0.3,
    "summedits": 0.1,
    "sentence": 0.15,
    "twins": 0.6,
    "made": 0.25,
    "fused": 0.1,
    "asked": 0.25,
}
# Twins: of each change two claims; of the other rules together.
TWINS, MADE, FUSED, ASKED = 650, 3_200, 3_000, 2_000
ALONE = 0.4  # Share of twins that are shown beside the one sentence that they were made of.
_VERB = re.compile(
    r"\b(is|are|was|were|has|have|had|can|could|may|must|should|will|would|do|does|did)\b( not\b)?"
)
_LOWER = {"The", "A", "An", "It", "He", "She", "They", "In", "This", "There"}


@dataclass(frozen=True, slots=True)
class Pair:
    """A claim or a question, a text, and whether the text supports it."""

    kind: str
    question: str
    passage: str
    label: float
    group: str

    @property
    def held_out(self) -> bool:
        """Whether it follows the training instead of taking part."""
        return fit_grounding.held_out(self.group)


def as_question(claim: str, chance: random.Random) -> str:
    """A claim as a question for yes or no.

    Examples:
        >>> as_question("The bridge was opened in 1932.", random.Random(1))
        'Was the bridge opened in 1932?'
    """
    text = claim.strip().rstrip(".")
    lowered = text[0].lower() + text[1:] if text.split()[0] in _LOWER else text
    verb = _VERB.search(lowered)
    if verb is None or not 0 < verb.start() <= 60 or len(text.split()) > 25:
        return f"Is it true that {lowered}?"
    first = verb[1].capitalize() if chance.random() < 0.6 else verb[1]
    return f"{first} {lowered[: verb.start()].strip()}{verb[2] or ''}{lowered[verb.end() :]}?"


def evidence(claim: str, passages: Sequence[str], most: int = 4) -> str:
    """The sentences that hold most of a claim's words, in their order."""
    own = stem_list(claim)
    chosen = find_evidence(own, parse_passages(tuple(passages)))[:most]
    return evidence_text(own, chosen) or " ".join(" ".join(passages).split()[:110])


def pairs(data: Path, cache: Path) -> Iterator[Pair]:
    """Every pair, held-out ones among them."""
    chance = random.Random(SEED)
    for row in lines(data / "train" / "yesno.jsonl.gz"):
        yield Pair(row["kind"], row["question"], row["passage"], float(row["answer"] == "yes"), row["group"])
    for kind, claim, passage, label, group in _claims(data, cache, chance):
        asked = chance.random() < AS_QUESTION[kind]
        yield Pair(kind, as_question(claim, chance) if asked else claim, passage, label, group)


def _claims(data: Path, cache: Path, chance: random.Random) -> Iterator[tuple[str, str, str, float, str]]:
    rows = list(lines(data / "train" / "grounding.jsonl.gz"))
    summaries = [row for row in rows if str(row["kind"]).startswith("summedits")]
    for claim, text, label, group in claim_examples.summary_sentences(summaries):
        yield "sentence", claim, evidence(claim, [text]), float(label), group
    for row in rows:
        kind, claim, passage = str(row["kind"]).split("_")[0], row["claim"], row["context"]
        if kind == "begin":
            continue
        if row["supported"] and (less := claim_examples.lacking(claim, passage)):
            yield "lacking", claim, evidence(claim, [less]), 0.0, str(row["group"])
        if kind != "fever" or len(passage.split()) >= 130:
            passage = evidence(claim, [passage])
        yield kind, claim, passage, float(row["supported"]), str(row["group"])
    for _, claim, passages, label in fit_grounding.twins(data, TWINS, SEED + 20):
        passage = evidence(claim, passages, 1 if chance.random() < ALONE else 4)
        yield "twins", claim, passage, float(label), claim[:20]
    bundle, near = prepared(data, cache)
    articles = [[" ".join(p[1]) for p in d[2] if len(p[1]) > 2] for d in bundle["docs"]]
    articles = [own for own in articles if len(own) > 3]
    for claim, passages, label in claim_examples.fused(articles, FUSED, random.Random(SEED)):
        text = evidence(claim, passages)
        yield "fused", claim, text, float(label), passages[-1][:20]
    maker = Maker(bundle, SEED, near=near)
    for kind, make, most in (("made", maker.claims, MADE), ("asked", maker.answer_claims, ASKED)):
        count = 0
        while count < most:
            for example in make():
                if example.supported is None:
                    continue
                count += 1
                yield kind, example.first, example.passage, float(example.supported), example.passage[:20]


class Trainer:
    """Network, tokenizer and optimizer."""

    def __init__(self, start: Path) -> None:
        self.network = Network(start).train()
        for module in self.network.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.1
        self.head = torch.nn.Linear(self.network.bert.config.hidden_size, 1)
        with torch.no_grad():  # That of support, as far as the cross-encoder learned it.
            self.head.weight.copy_(self.network.heads.weight[1:2])
            self.head.bias.copy_(self.network.heads.bias[1:2])
        self.tokenizer = Tokenizer.from_file(str(TOKENIZER_FILE))
        self.tokenizer.enable_truncation(LONGEST, strategy="longest_first")
        named = [(f"bert.{n}", w) for n, w in self.network.bert.named_parameters() if w.requires_grad]
        self.own = dict([*named, ("affirms.weight", self.head.weight), ("affirms.bias", self.head.bias)])
        groups = [
            {"params": [w for w in self.own.values() if w.ndim > 1], "weight_decay": 0.01},
            {"params": [w for w in self.own.values() if w.ndim < 2], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98))

    def logits(self, rows: Sequence[Pair]) -> Tensor:
        """Shape ``(len(rows),)``."""
        ids, kinds = padded(self.tokenizer.encode_batch([(r.question, r.passage) for r in rows]))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = self.network.bert(input_ids=ids, token_type_ids=kinds, attention_mask=(ids != 0).long())
        result: Tensor = self.head(out.pooler_output.float())[:, 0]
        return result

    def step(self, rows: Sequence[Pair], share: float) -> float:
        """One step at ``share`` (0 to 1) of its cycle; returns the loss."""
        for setting in self.optimizer.param_groups:
            setting["lr"] = LEARNING_RATE * min(share / WARM_UP + 1e-3, (1 - share) / (1 - WARM_UP))
        loss = binary_cross_entropy_with_logits(self.logits(rows), torch.tensor([r.label for r in rows]))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(self.own.values()), 1.0)
        self.optimizer.step()
        return float(loss.detach())

    @torch.no_grad()
    def read(self, rows: Sequence[Pair]) -> fit_grounding.Rows:
        """Logits, as when it is used."""
        self.network.eval()
        result = np.zeros(len(rows))
        order = sorted(range(len(rows)), key=lambda i: len(rows[i].passage))
        for at in range(0, len(order), 16):
            part = order[at : at + 16]
            result[part] = self.logits([rows[i] for i in part]).numpy()
        self.network.train()
        return result

    def save(self, folder: Path) -> None:
        """Write what is not shared with the reader, as its difference from all-MiniLM-L6-v2."""
        tensors = {n: w.detach().float().numpy() for n, w in self.own.items()}
        bert = {**self.network.config["bert"], "max_position_embeddings": LONGEST}
        about = {"kind": "entailment", "shared_layers": FROZEN, "bert": bert}
        save_difference(folder, about, tensors, lambda _: STEP)


def probability(model: Entailment, held: Sequence[Pair]) -> list[float]:
    """Weight and intercept that turn the logit of a question and its sentence into a probability of yes.

    Fitted on questions with a sentence that holds nearly all of their words; each kind weighs alike.
    """
    rows = []
    for pair in held:
        asked = pair.kind in ("boolq", "pubmedqa") or pair.question.endswith("?")
        if asked and (sentence := direct_sentence(pair.question, pair.passage)):
            rows.append(Pair(pair.kind, pair.question, sentence, pair.label, pair.group))
    logits = model.logits([(r.question, r.passage) for r in rows]).astype(float)
    labels = np.array([r.label for r in rows])
    kinds = np.array([r.kind for r in rows])
    weights = np.array([len(rows) / (kinds == kind).sum() / len(set(kinds)) for kind in kinds])
    fitted = logistic(logits[:, None], labels, weights)
    chance = 1 / (1 + np.exp(-(fitted[0] * logits + fitted[1])))
    for kind in (*PASSES, ""):
        own = (kinds == kind) | (kind == "")
        sure = own & ((chance >= SURE_OF_YES) | (chance <= SURE_OF_NO))
        right = float(((chance > 0.5) == (labels > 0.5))[sure].mean()) if sure.any() else float("nan")
        logger.info("yes or no, %s: %d of %d sure, %.3f right", kind or "all", sure.sum(), own.sum(), right)
    return [round(float(v), 4) for v in fitted]


def direct_sentence(question: str, passage: str) -> str | None:
    """The sentence of a passage that holds most of a question's words; None if none holds four in five."""
    words = set(stem_list(question))
    sentences = [span.of(passage) for span in split_sentences(passage)]
    best = max(sentences, key=lambda text: len(words & set(stem_list(text))), default="")
    return best if len(words & set(stem_list(best))) >= 0.8 * len(words) > 0 else None


def main() -> None:
    """Train, and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--start", type=Path, required=True, help="folder of a cross-encoder")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SAGE_DATA", "../shared/data")))
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--install", action="store_true", help="put weights and numbers into the package")
    parser.add_argument("--steps", type=int, help="fewer steps")
    parser.add_argument("--every", type=int, default=200, help="steps from one checkpoint to the next")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    arguments.output.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(SEED)
    every = list(pairs(arguments.data, arguments.output / "bundle.pickle"))
    chance, trainer = random.Random(SEED), Trainer(arguments.start)
    held = [pair for pair in every if pair.held_out]
    follow = {kind: chance.sample(own, min(150, len(own))) for kind, own in _by_kind(held).items()}
    steps: list[tuple[list[Pair], float]] = []
    for _ in range(CYCLES):
        rows = [p for p in every if not p.held_out for _ in range(int(PASSES[p.kind] + chance.random()))]
        order = batches(rows, trainer.tokenizer, chance)[: arguments.steps]
        steps += [([rows[i] for i in step], at / len(order)) for at, step in enumerate(order)]
    logger.info("%d pairs, %d steps", sum(len(own) for own, _ in steps), len(steps))
    checkpoint, first, mean = arguments.output / "checkpoint.pt", 0, 0.0
    if checkpoint.exists():
        state = torch.load(checkpoint)
        trainer.network.load_state_dict(state["network"])
        trainer.head.load_state_dict(state["head"])
        trainer.optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    for at in range(first, len(steps)):
        loss = trainer.step(*steps[at])
        mean += 0.02 * (loss - mean) if mean else loss
        if (at + 1) % 50 == 0:
            logger.info("step %d, loss %.3f", at + 1, mean)
        if (at + 1) % arguments.every and at + 1 < len(steps):
            continue
        state = {"network": trainer.network.state_dict(), "head": trainer.head.state_dict()}
        torch.save({**state, "optimizer": trainer.optimizer.state_dict(), "step": at + 1}, checkpoint)
        for kind, own in follow.items():
            right = auroc(np.array([p.label for p in own]), trainer.read(own))
            logger.info("%d, %s: AUROC %.3f (n = %d)", at + 1, kind, right, len(own))
    trainer.save(arguments.output)
    # Rounding shrinks the logits, so the numbers are those of the weights as stored.
    weights = probability(Entailment(arguments.output), held)
    logger.info("affirms: %s", weights)
    if arguments.install:
        for name in ("model.safetensors", "config.json"):
            FOLDER.mkdir(exist_ok=True)
            shutil.copy(arguments.output / name, FOLDER)
        result = json.loads(COEFFICIENTS.read_text(encoding="utf-8"))
        result["affirms"] = {"weights": weights}
        COEFFICIENTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _by_kind(held: Sequence[Pair]) -> dict[str, list[Pair]]:
    return {kind: [p for p in held if p.kind == kind] for kind in PASSES}


if __name__ == "__main__":
    main()
