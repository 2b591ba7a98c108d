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
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parent.parent))

from sage_core.evaluation.pair_features import (
    FEATURES,
    PROTOCOLS,
    STATIC,
    Encode,
    Judge,
    Pairs,
    Text,
    Training,
    accuracy,
    fit,
    frozen_cells,
    mine,
    read_text,
    static_row,
)
from sage_core.segmentation.models.transformer import TransformerEncoder
from sage_core.segmentation.training.corpus import read_corpus
from sage_core.segmentation.training.tables import pretrained_features

DATA = Path(os.environ.get("SAGE_DATA", "../shared/data"))
TEST_PAIRS = 8000


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

    fit(encode(train), list(model.parameters()), judge, mined[0], Training(1, 32, 1e-4))
    return accuracy(encode(test), judge, mined[1], 64)


def read(*paths: str, limit: int | None = None) -> Text:
    """Documents of some files."""
    return read_text(list(read_corpus([DATA / path for path in paths])), limit=limit)


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
    minilm = TransformerEncoder(device="cpu", batch_size=64).encode
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
                cells = frozen_cells(train, test, mined, minilm)
            else:
                cells = [tuned_row(train, test, list(FEATURES)[-1], mined)]
                cells = [float("nan")] * (len(FEATURES) - 1) + cells
            shown = " | ".join("" if np.isnan(cell) else f"{100 * cell:.1f} %" for cell in cells)
            used = f"{len(mined[0][1]):,} / {len(mined[1][1]):,}"
            print(f"| {protocol} | {encoder} | {used} | {shown} |", flush=True)
            print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
