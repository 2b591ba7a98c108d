"""`sage-rag train-entailment`: the model that says whether a text supports a claim."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer

from sage_app.cli.options import console, path_argument
from sage_core.embedding.encoder import MINILM
from sage_core.embedding.pairs import PAIR_TOKENS
from sage_core.embedding.storage import load_folder
from sage_core.errors import InputError, MissingExtraError
from sage_core.text.keywords import stem_list
from sage_core.text.wordpiece import TOKENIZER_FILE
from sage_core.verify.judge import Entailment, evidence_text, find_evidence
from sage_core.verify.passages import parse_passages
from sage_train.folders import save_difference

# As the bundled weights were trained; they saw claims made by rule of plain text besides.
LEARNING_RATE, WARM_UP, DECAY = 8e-5, 0.05, 0.01
BATCH_TOKENS = 3_072  # Word pieces of a step, padding included.
FROZEN = 2  # Lowest layers that stay as they are, as the word embeddings do.
ROUNDING = 1.65  # See `sage_train.folders.quantize_differences`.
HELD_OUT = 12  # One group in so many follows the training.
app = typer.Typer()


class Pair(NamedTuple):
    """A claim, the sentences it is read with, whether they support it, and its group for splits."""

    claim: str
    evidence: str
    supported: bool
    group: str


def read_pairs(path: Path) -> list[Pair]:
    """The claims of a file of JSON lines, each with ``claim``, ``context``, ``supported`` and ``group``."""
    opened = gzip.open if path.suffix == ".gz" else open
    pairs = []
    try:
        with opened(path, "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                words = stem_list(row["claim"])
                # As `LocalJudge` reads a claim: beside the sentences that hold most of its words.
                evidence = evidence_text(words, find_evidence(words, parse_passages((row["context"],))))
                pairs.append(Pair(row["claim"], evidence, bool(row["supported"]), str(row["group"])))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} holds no claims with claim, context, supported and group: {error}"
        ) from error
    if len({pair.supported for pair in pairs if not _held_out(pair)}) < 2:
        raise InputError(f"{path} needs claims that are supported, and claims that are not")
    return pairs


def fit(pairs: Sequence[Pair], start: Path, output: Path, passes: float, seed: int) -> list[float]:
    """Train from the model in ``start``, write the model to ``output``, and return the loss of each step."""
    try:
        import torch
        from tokenizers import Tokenizer
        from transformers import BertConfig, BertModel
    except ImportError as error:
        raise MissingExtraError("training", "models") from error
    torch.manual_seed(seed)
    base, (config, own, _) = load_folder(MINILM)[1], load_folder(start)
    if config.get("difference_from") == MINILM.name:
        own = {name: value + base[name] if name in base else value for name, value in own.items()}
    settings = {**config["bert"], "max_position_embeddings": PAIR_TOKENS}
    network = BertModel(BertConfig(**settings), add_pooling_layer=True).train()
    head = torch.nn.Linear(network.config.hidden_size, 1)
    weights = {name: torch.from_numpy(value) for name, value in {**base, **own}.items()}
    network.load_state_dict({n.removeprefix("bert."): v for n, v in weights.items()}, strict=False)
    head.load_state_dict({n: weights.get(f"affirms.{n}", v) for n, v in head.state_dict().items()})
    for frozen in (network.embeddings, *network.encoder.layer[:FROZEN]):
        frozen.requires_grad_(False)
    tokenizer = Tokenizer.from_file(str(TOKENIZER_FILE))
    tokenizer.enable_truncation(PAIR_TOKENS, strategy="longest_first")
    tokenizer.enable_padding()
    learned = [w for w in (*network.parameters(), *head.parameters()) if w.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=LEARNING_RATE, betas=(0.9, 0.98), weight_decay=DECAY)
    steps, losses = _steps(pairs, passes, random.Random(seed)), []
    for at, rows in enumerate(steps):
        share = (at + 1) / len(steps)
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(share / WARM_UP, (1 - share) / (1 - WARM_UP) + 1e-3)
        encoded = tokenizer.encode_batch([(pair.claim, pair.evidence) for pair in rows])
        ids, kinds = (torch.tensor([getattr(e, name) for e in encoded]) for name in ("ids", "type_ids"))
        mask = torch.tensor([e.attention_mask for e in encoded])
        pooled = network(input_ids=ids, token_type_ids=kinds, attention_mask=mask).pooler_output
        labels = torch.tensor([float(pair.supported) for pair in rows])
        loss = torch.nn.functional.binary_cross_entropy_with_logits(head(pooled)[:, 0], labels)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(learned, 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
    tensors = {f"bert.{name}": value for name, value in network.state_dict().items()}
    tensors |= {f"affirms.{name}": value for name, value in head.state_dict().items()}
    shared = "bert.embeddings.word_embeddings.weight"  # The bundled table of words serves all models.
    tensors = {name: value.detach().numpy() for name, value in tensors.items() if name != shared}
    save_difference(output, {"kind": "entailment", "bert": settings}, tensors, lambda _: ROUNDING)
    return losses


def _held_out(pair: Pair) -> bool:
    return zlib.crc32(pair.group.encode()) % HELD_OUT == 0


def _steps(pairs: Sequence[Pair], passes: float, chance: random.Random) -> list[list[Pair]]:
    """Pairs of like length together, so that little is padded."""
    rows = [pair for pair in pairs for _ in range(int(passes + chance.random()))]
    # A word is about one and a half word pieces.
    sizes = {pair: 1.5 * len(f"{pair.claim} {pair.evidence}".split()) for pair in pairs}
    steps: list[list[Pair]] = [[]]
    for row in sorted(rows, key=lambda row: sizes[row] + 8 * chance.random()):
        if steps[-1] and sizes[row] * (len(steps[-1]) + 1) > BATCH_TOKENS:
            steps.append([])
        steps[-1].append(row)
    chance.shuffle(steps)
    return [step for step in steps if step]


@app.command()
def train_entailment(
    data: Annotated[Path, typer.Argument(help="Claims as JSON lines.", parser=path_argument)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the model.", parser=path_argument)
    ],
    start: Annotated[Path | None, typer.Option(help="Folder to begin with; all-MiniLM-L6-v2.")] = None,
    passes: Annotated[float, typer.Option(help="Over the claims.")] = 2.0,
    seed: Annotated[int, typer.Option(help="Of every random choice.")] = 0,
) -> None:
    """Train the model that says whether a text supports a claim, on claims that people checked."""
    pairs = read_pairs(data)
    losses = fit([p for p in pairs if not _held_out(p)], start or MINILM, output, passes, seed)
    console().print(f"{len(losses)} steps, loss {np.mean(losses[-50:]):.3f}; written to {output}")
    held = [pair for pair in pairs if _held_out(pair)]
    logits = Entailment(output).logits([(pair.claim, pair.evidence) for pair in held])
    right = np.mean([(logit > 0) == pair.supported for logit, pair in zip(logits, held, strict=True)] or [0])
    console().print(f"{right:.1%} of {len(held)} claims that were held out are right")
