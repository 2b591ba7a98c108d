"""The paper's Table X remade: which features of two sentence vectors tell whether they belong together.

    python benchmarks/table_x.py                                    # frozen all-MiniLM, as in RESULTS.md
    python benchmarks/table_x.py --encoders static --documents 2500 --pairs 100000
    python benchmarks/table_x.py --encoders tuned                   # all-MiniLM trained with the MLP, slow

Four feature sets; two protocols: negatives drawn from other documents (what the paper's accuracies of 84.5 to
91.8 % can be compared with), and neighbors across a paragraph break (the task at run time); two losses:
binary cross-entropy (our models) and mean squared error (the paper). Classes are balanced, so chance is 50 %.
Encoders: `frozen`, all-MiniLM, of which only the MLP over the vectors is trained; `static`, the one of the
bundled models, trained with the MLP; `tuned`, all-MiniLM and the MLP, all four features only.

As in the paper, 80 % of the documents are learned from and 20 % tell the accuracy at 0.5: 50 each of
`$SAGE_DATA/dev/seg_wikipedia_valid` and `seg_openstax_philosophy`. With ``--documents``, training documents
take the place of the 80 %. A cell is the mean over seeds, which draw the pairs to learn from, the first
weights and the order; test pairs stay the same. Differences are paired, their 95 % intervals a bootstrap over
test pairs. Vectors of all-MiniLM are made once and cached, in bfloat16.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parent.parent))

from sage_eval.pair_features import (
    FEATURES,
    PROTOCOLS,
    Encode,
    Judge,
    Pairs,
    Text,
    Training,
    fit,
    frozen_row,
    judged,
    mine,
    read_text,
    static_row,
    take,
)
from sage_train.corpus import read_corpus
from sage_train.tables import pretrained_features
from sentence_transformers import SentenceTransformer

DATA = Path(os.environ.get("SAGE_DATA", "../shared/data"))
CACHE = Path(os.environ.get("SAGE_CACHE", Path.home() / ".cache" / "sage-rag-benchmarks"))
MINILM = os.environ.get("SAGE_MINILM", "sentence-transformers/all-MiniLM-L6-v2")
LOSSES = ("bce", "mse")
ALL = list(FEATURES)[-1]
RESAMPLES = 2000

Right = NDArray[np.float64]
"""(test pairs,) share of the seeds whose model judges the pair rightly."""


def read(*paths: str, documents: int | None = None) -> Text:
    """Sentences of some files; with a number, of about so many documents of each, evenly spaced."""
    with tempfile.TemporaryDirectory() as place:
        parts = []
        for path in paths:
            with gzip.open(DATA / path, "rt", encoding="utf-8") as lines:
                step = max(sum(1 for _ in lines) // documents, 1) if documents else 1
            part = Path(place) / f"{len(parts)}.jsonl"
            with (
                gzip.open(DATA / path, "rt", encoding="utf-8") as lines,
                part.open("w", encoding="utf-8") as out,
            ):
                out.writelines(islice(lines, 0, None, step))
            parts.append(part)
        return read_text(list(read_corpus(parts)))


def vectors(text: Text) -> Tensor:
    """(sentences, 384) vectors of all-MiniLM, with entries of about 1, as products need; cached."""
    digest = hashlib.sha256("\n".join(text.sentences).encode()).hexdigest()[:16]
    path = CACHE / f"table-x-{digest}.npy"
    if not path.is_file():
        model = SentenceTransformer(MINILM, device="cpu")
        model.max_seq_length = 64
        model.to(torch.bfloat16)
        rows = model.encode(text.sentences, batch_size=64, convert_to_numpy=False)
        found = torch.stack(list(rows)).float()
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, torch.nn.functional.normalize(found).half().numpy())
    found = torch.from_numpy(np.load(path)).float()
    return found * found.shape[1] ** 0.5


def tuned_row(
    train: Text, test: Text, features: str, mined: tuple[Pairs, Pairs], training: Training
) -> NDArray[np.bool_]:
    """`judged` with all-MiniLM and the MLP, trained together."""
    torch.manual_seed(training.seed)
    model = SentenceTransformer(MINILM, device="cpu")
    judge = Judge(384, features)

    def encode(text: Text) -> Encode:
        def run(rows: NDArray[np.int64], learning: bool) -> Tensor:
            model.train(learning)
            tokens = model.tokenizer(
                [text.sentences[i] for i in rows],
                padding=True,
                truncation=True,
                max_length=64,
                return_tensors="pt",
            )
            found: Tensor = model(dict(tokens))["sentence_embedding"]
            return found * found.shape[1] ** 0.5

        return run

    fit(encode(train), list(model.parameters()), judge, mined[0], training)
    return judged(encode(test), judge, mined[1], 64)


def difference(a: Right, b: Right) -> str:
    """Mean of a - b in points, and its interval."""
    delta = 100 * (a - b)
    picks = np.random.default_rng(0).integers(0, len(delta), (RESAMPLES, len(delta)))
    low, high = np.percentile(delta[picks].mean(axis=1), [2.5, 97.5])
    return f"{delta.mean():+.1f} [{low:+.1f}, {high:+.1f}]"


def show(name: str, cells: Sequence[str]) -> None:
    """Print a row of the table."""
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def split(text: Text, seed: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of the documents to learn from, 80 %, and of the others."""
    count = len(text.corpus.documents) - 1
    order = np.random.default_rng(seed).permutation(count)
    cut = round(0.8 * count)
    return np.sort(order[:cut]), np.sort(order[cut:])


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--encoders", nargs="+", default=["frozen"], help="frozen, static, tuned")
    parser.add_argument("--documents", type=int, help="so many training documents instead of the 80 %%")
    parser.add_argument("--pairs", type=int, default=10_000, help="training pairs, at most")
    parser.add_argument("--test-pairs", type=int, default=4000, help="at most")
    parser.add_argument(
        "--epochs", type=int, default=6, help="over the pairs of other documents; neighbors: 8"
    )
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    whole = read(
        *(f"dev/seg_{name}.jsonl.gz" for name in ("wikipedia_valid", "openstax_philosophy")), documents=50
    )
    learned, tested_on = split(whole)
    (train, train_rows), (test, test_rows) = take(whole, learned), take(whole, tested_on)
    if arguments.documents:
        train = read("train/train_expository.jsonl.gz", documents=arguments.documents)
    print(f"{len(train.sentences):,} sentences to learn from, {len(test.sentences):,} to tell\n")
    show("negatives, encoder, training pairs, loss", list(FEATURES))
    print("|---|" + "---|" * len(FEATURES), flush=True)
    for encoder in arguments.encoders:
        start = pretrained_features() if encoder == "static" else None
        found: dict[str, Tensor] = {}
        if encoder == "frozen":
            every = vectors(whole)
            found = {"train": every[torch.from_numpy(train_rows)], "test": every[torch.from_numpy(test_rows)]}
            if arguments.documents:
                found["train"] = vectors(train)
        for protocol in PROTOCOLS:
            epochs = arguments.epochs if protocol == "random" else arguments.epochs + 2
            tested = mine(test, protocol, arguments.test_pairs, 1)
            right: dict[tuple[str, str], Right] = {}
            for loss in LOSSES:
                began = time.perf_counter()
                used = 0
                for name in [ALL] if encoder == "tuned" else FEATURES:
                    each = []
                    for seed in range(arguments.seeds):
                        mined = (mine(train, protocol, arguments.pairs, seed), tested)
                        used = len(mined[0][1])
                        if start is not None:
                            training = Training(2, 512, 3e-3, loss, seed)
                            each.append(static_row(train, test, name, mined, start, training))
                        elif found:
                            each.append(
                                frozen_row(found, name, mined, Training(epochs, 256, 0.0, loss, seed))
                            )
                        else:
                            each.append(
                                tuned_row(train, test, name, mined, Training(1, 32, 1e-4, loss, seed))
                            )
                    right[loss, name] = np.mean(each, axis=0, dtype=float)
                cells = [f"{100 * right[loss, n].mean():.1f}" if (loss, n) in right else "" for n in FEATURES]
                show(f"{protocol}, {encoder}, {used:,}, {loss}", cells)
                print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
            blank = [""] * (len(FEATURES) - len(right) // len(LOSSES))
            names = [n for n in FEATURES if (LOSSES[0], n) in right]
            cells = [difference(right["mse", n], right["bce", n]) for n in names]
            show(f"mse less bce, {len(tested[1]):,} test pairs", [*blank, *cells])
            if len(names) > 1:
                cells = [difference(right["mse", n], right["mse", ALL]) for n in names[:-1]]
                show("less all four (mse)", [*cells, ""])


if __name__ == "__main__":
    main()
