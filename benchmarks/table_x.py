"""The paper's Table X remade: which features of two sentence vectors tell whether they belong together.

    python benchmarks/table_x.py                     # static encoder (trained end to end), frozen all-MiniLM
    python benchmarks/table_x.py --fine-tune 3000    # also all-MiniLM fine-tuned, on so many pairs

Four feature sets, two protocols: negatives drawn from other documents (what the paper's accuracies of
84.5 to 91.8 % can be compared with), and neighbours across a paragraph break (the task at run time). Classes
are balanced, so chance is 50 %. Accuracy at 0.5 on `$SAGE_DATA/dev/seg_wikipedia_valid` and
`seg_openstax_philosophy`, held out. Trained on `$SAGE_DATA/train/train_expository`. A transformer on a CPU is
slow: its rows use fewer pairs, as said in the table.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as f

sys.path.insert(0, str(Path(__file__).parent.parent))

from sage_core.segmentation.corpus import Corpus, Document, index_corpus, read_corpus
from sage_core.segmentation.encoder import EncoderConfig
from sage_core.segmentation.mining import NegativeMix, mine_pairs
from sage_core.segmentation.networks import Layer, SentenceNet, sentence_batch
from sage_core.segmentation.tables import (
    pretrained_features,
    principal_components,
    start_weights,
    token_shares,
)
from sage_core.segmentation.transformer import TransformerEncoder

DATA = Path(os.environ.get("SAGE_DATA", "../shared/data"))
PROTOCOLS = {"random": NegativeMix(1, 0, 0), "neighbours": NegativeMix(0, 0, 1)}
FEATURES: dict[str, Callable[[Tensor, Tensor], list[Tensor]]] = {
    "x1, x2": lambda a, b: [a, b],
    "x1, x2, x1-x2": lambda a, b: [a, b, a - b],
    "x1, x2, x1*x2": lambda a, b: [a, b, a * b],
    "x1, x2, x1-x2, x1*x2": lambda a, b: [a, b, a - b, a * b],
}
STATIC = EncoderConfig(mean_size=96, edge_size=32, size=160)
TEST_PAIRS = 8000


@dataclass(frozen=True)
class Text:
    """A corpus and its sentences as strings."""

    corpus: Corpus
    sentences: list[str]


class Judge(nn.Module):
    """An MLP over features of two vectors."""

    def __init__(self, size: int, features: str, hidden: int = 256, dropout: float = 0.1) -> None:
        super().__init__()
        self._features = FEATURES[features]
        self.layers = nn.Sequential(
            nn.Dropout(dropout),
            Layer(size * features.count(",") + size, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            Layer(hidden, 1),
        )

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """(p,) logits."""
        scores: Tensor = self.layers(torch.cat(self._features(left, right), -1))[:, 0]
        return scores


Encode = Callable[[NDArray[np.int64], bool], Tensor]  # sentence numbers, training -> vectors
Pairs = tuple[NDArray[np.int64], NDArray[np.float32]]


def fit(
    encode: Encode,
    encoder: list[nn.Parameter],
    judge: Judge,
    pairs: Pairs,
    *,
    epochs: int,
    batch: int,
    rate: float,
) -> None:
    """Algorithm 1: update the MLP and, where it has parameters, the encoder."""
    groups = [{"params": list(judge.parameters()), "lr": 2e-3}]
    if encoder:
        groups.append({"params": encoder, "lr": rate})
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    steps = epochs * -(-len(pairs[1]) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, [g["lr"] for g in groups], total_steps=steps)
    rng = np.random.default_rng(0)
    judge.train()
    for _ in range(epochs):
        order = rng.permutation(len(pairs[1]))
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            vectors = encode(pairs[0][rows].T.ravel(), True)
            logits = judge(vectors[: len(rows)], vectors[len(rows) :])
            loss = f.binary_cross_entropy_with_logits(logits, torch.from_numpy(pairs[1][rows]))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()


def accuracy(encode: Encode, judge: Judge, pairs: Pairs, batch: int) -> float:
    """Share of pairs judged rightly at 0.5."""
    judge.eval()
    right = 0
    with torch.inference_mode():
        for start in range(0, len(pairs[1]), batch):
            some = pairs[0][start : start + batch]
            vectors = encode(some.T.ravel(), False)
            same = judge(vectors[: len(some)], vectors[len(some) :]).numpy() > 0
            right += int((same == (pairs[1][start : start + batch] > 0)).sum())
    return right / len(pairs[1])


def static_row(
    train: Text, test: Text, features: str, mined: tuple[Pairs, Pairs], start: NDArray[np.float32]
) -> float:
    """Our encoder, trained end to end."""
    torch.manual_seed(0)
    net, judge = SentenceNet(STATIC, 0.1), Judge(STATIC.size, features)
    assert net.mean.weight is not None
    with torch.no_grad():
        net.mean.weight.copy_(
            torch.from_numpy(start_weights(token_shares(train.corpus.ids, STATIC.vocabulary)))
        )
        for table in (net.mean.table, net.edge.table):
            table.copy_(torch.from_numpy(principal_components(start, table.shape[1])))
    rng = np.random.default_rng(0)

    def encode(text: Text) -> Encode:
        def run(rows: NDArray[np.int64], training: bool) -> Tensor:
            net.train(training)
            batch = sentence_batch(text.corpus, rows, STATIC, drop=0.1 if training else 0.0, rng=rng)
            vectors: Tensor = net(batch)[0]
            return vectors

        return run

    fit(encode(train), list(net.parameters()), judge, mined[0], epochs=2, batch=512, rate=3e-3)
    return accuracy(encode(test), judge, mined[1], 1024)


def frozen_row(vectors: dict[str, Tensor], features: str, mined: tuple[Pairs, Pairs]) -> float:
    """all-MiniLM as it is; only the MLP learns, from the vectors of the distinct sentences."""
    torch.manual_seed(0)
    judge = Judge(vectors["train"].shape[1], features)

    def encode(part: str) -> Encode:
        return lambda rows, training: vectors[part][torch.from_numpy(rows)]

    fit(encode("train"), [], judge, mined[0], epochs=12, batch=256, rate=0.0)
    return accuracy(encode("test"), judge, mined[1], 1024)


def tuned_row(train: Text, test: Text, features: str, mined: tuple[Pairs, Pairs]) -> float:
    """all-MiniLM and the MLP, trained together."""
    torch.manual_seed(0)
    model = TransformerEncoder(device="cpu").model
    judge = Judge(384, features)

    def encode(text: Text) -> Encode:
        def run(rows: NDArray[np.int64], training: bool) -> Tensor:
            model.train(training)
            tokens = model.tokenizer(
                [text.sentences[i] for i in rows],
                padding=True,
                truncation=True,
                max_length=64,
                return_tensors="pt",
            )
            vectors: Tensor = model(dict(tokens))["sentence_embedding"]
            return vectors * vectors.shape[1] ** 0.5  # entries of about 1, as the products need

        return run

    fit(encode(train), list(model.parameters()), judge, mined[0], epochs=1, batch=32, rate=1e-4)
    return accuracy(encode(test), judge, mined[1], 64)


def compact(text: Text, pairs: Pairs) -> tuple[list[str], Pairs]:
    """The distinct sentences of the pairs, and the pairs renumbered to them."""
    rows, renumbered = np.unique(pairs[0], return_inverse=True)
    return [text.sentences[i] for i in rows], (renumbered.reshape(-1, 2), pairs[1])


def mine(text: Text, protocol: str, count: int, seed: int) -> Pairs:
    """Balanced pairs, at most ``count``."""
    rng = np.random.default_rng(seed)
    pairs, labels = mine_pairs(text.corpus, PROTOCOLS[protocol], rng, positive_share=0.5)
    return pairs[:count], labels[:count]


def read(*paths: str, limit: int | None = None) -> Text:
    """Documents of some files; with a limit, the first so many sentences' worth, evenly spaced."""
    documents: list[Document] = [d for path in paths for d in read_corpus(DATA / path)]
    if limit:
        documents = documents[:: max(1, len(documents) // limit)]
    return Text(index_corpus(documents), [s for d in documents for p in d.paragraphs for s in p])


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=None, help="only so many training documents")
    parser.add_argument("--pairs", type=int, default=200_000, help="training pairs of the static encoder")
    parser.add_argument(
        "--frozen-pairs", type=int, default=12_000, help="training pairs of the frozen all-MiniLM"
    )
    parser.add_argument("--frozen-test", type=int, default=4000, help="test pairs of both all-MiniLM rows")
    parser.add_argument(
        "--fine-tune", type=int, default=0, help="training pairs of the fine-tuned all-MiniLM"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    train = read("train/train_expository.jsonl.gz", limit=arguments.documents)
    test = read("dev/seg_wikipedia_valid.jsonl.gz", "dev/seg_openstax_philosophy.jsonl.gz")
    start = pretrained_features("all-MiniLM-L6-v2", STATIC.vocabulary)
    print("| negatives | encoder | training / test pairs | " + " | ".join(FEATURES) + " |", flush=True)
    print("|---|---|---|" + "---|" * len(FEATURES), flush=True)
    for protocol in PROTOCOLS:
        for encoder in ("static", "frozen all-MiniLM", "all-MiniLM fine-tuned"):
            sizes = {
                "static": (arguments.pairs, TEST_PAIRS),
                "frozen all-MiniLM": (arguments.frozen_pairs, arguments.frozen_test),
                "all-MiniLM fine-tuned": (arguments.fine_tune, arguments.frozen_test),
            }[encoder]
            if not sizes[0]:
                continue
            mined = (mine(train, protocol, sizes[0], 0), mine(test, protocol, sizes[1], 1))
            began = time.perf_counter()
            if encoder == "static":
                cells = [static_row(train, test, name, mined, start) for name in FEATURES]
            elif encoder.startswith("frozen"):
                cells = frozen_cells(train, test, mined)
            else:
                cells = [tuned_row(train, test, list(FEATURES)[-1], mined)]
                cells = [float("nan")] * (len(FEATURES) - 1) + cells
            shown = " | ".join("" if np.isnan(cell) else f"{100 * cell:.1f} %" for cell in cells)
            used = f"{len(mined[0][1]):,} / {len(mined[1][1]):,}"
            print(f"| {protocol} | {encoder} | {used} | {shown} |", flush=True)
            print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


def frozen_cells(train: Text, test: Text, mined: tuple[Pairs, Pairs]) -> list[float]:
    """The row of the frozen encoder: vectors once, then one MLP a feature set."""
    encoder = TransformerEncoder(device="cpu", batch_size=64)
    (texts, first), (others, second) = compact(train, mined[0]), compact(test, mined[1])
    vectors = {
        part: torch.from_numpy(encoder.encode(some)) * encoder.size**0.5  # entries of about 1
        for part, some in (("train", texts), ("test", others))
    }
    return [frozen_row(vectors, name, (first, second)) for name in FEATURES]


if __name__ == "__main__":
    main()
