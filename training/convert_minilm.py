"""Write the bundled embedding model: all-MiniLM-L6-v2 in 8 bits.

    python training/convert_minilm.py FOLDER [--target FOLDER]

FOLDER is that of sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0): ``model.safetensors``, ``config.json``.
Each 32 numbers of a row share a scale: the vectors' cosine to those of the original is .9998 on average; with
64 it is .9998, with a whole row .9995. In the table of words a whole row shares one, and entries that no text
uses are 0. Of the positions the first 256 are kept: texts are read that far.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from sage_train.folders import save_folder

from sage_core.embedding.encoder import WORDS
from sage_core.embedding.minilm import DEFAULT_EMBEDDER, WEIGHTS
from sage_core.embedding.storage import CONFIG_FILE, MODEL_FILE
from sage_core.text.wordpiece import TOKENIZER_FILE

GROUP = 32
POSITIONS = 256
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
    vocabulary = json.loads(TOKENIZER_FILE.read_text(encoding="utf-8"))["model"]["vocab"]
    tensors[WORDS][[i for token, i in vocabulary.items() if token.startswith("[unused")]] = 0
    positions = "bert.embeddings.position_embeddings.weight"
    tensors[positions] = tensors[positions][:POSITIONS]
    settings = {**{name: original[name] for name in SETTINGS}, "max_position_embeddings": POSITIONS}
    layers = [name for name, value in tensors.items() if ".layer." in name and value.ndim == 2]
    save_folder(
        options.target,
        {"kind": "embedder", "name": DEFAULT_EMBEDDER, "bert": settings},
        tensors,
        tables=[WORDS, *layers],
        groups=dict.fromkeys(layers, GROUP),
    )


if __name__ == "__main__":
    main()
