"""Write the bundled embedding model: all-MiniLM-L6-v2 in 8 bits, without the table of words.

    python training/convert_minilm.py FOLDER [--target FOLDER]

FOLDER is that of sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0): ``model.safetensors``, ``config.json``.
Each 32 numbers of a row share a scale: the vectors' cosine to those of the original is .9998 on average; with
64 it is .9998, with a whole row .9995. The table of words is the one in the bundled cross-encoder, which was
trained from this model with the table frozen; the script fails where it is another.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from sage_train.folders import save_folder

from sage_core.embedding.encoder import MINILM, WORDS
from sage_core.embedding.minilm import DEFAULT_EMBEDDER, WEIGHTS
from sage_core.embedding.storage import CONFIG_FILE, MODEL_FILE, load_folder

GROUP = 32
SETTINGS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
    "layer_norm_eps",
    "hidden_act",
)


def main() -> None:
    """Read the arguments and convert."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", type=Path, default=WEIGHTS)
    options = parser.parse_args()
    original = json.loads((options.folder / CONFIG_FILE).read_text(encoding="utf-8"))
    tensors = {
        f"bert.{name}": value
        for name, value in load_file(options.folder / MODEL_FILE).items()
        if value.dtype == np.float32 and not name.startswith("pooler.")
    }
    words = tensors.pop(WORDS)
    bundled = load_folder(MINILM)[1][WORDS]
    step = np.abs(words).max(axis=1, keepdims=True) / 127
    if not (np.abs(bundled - words) < 0.51 * step).all():
        raise SystemExit(f"the table of words in {MINILM} is not that of {options.folder}")
    save_folder(
        options.target,
        {
            "kind": "embedder",
            "name": DEFAULT_EMBEDDER,
            "words": MINILM.name,
            "bert": {name: original[name] for name in SETTINGS},
        },
        tensors,
        tables=[name for name, value in tensors.items() if ".layer." in name and value.ndim == 2],
        group=GROUP,
    )


if __name__ == "__main__":
    main()
