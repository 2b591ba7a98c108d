"""A corpus made up for tests: paragraphs of one subject each, opened by a sentence that names it."""

import json
import random
from pathlib import Path

SUBJECTS = {
    "bread": ["flour", "dough", "oven", "crust", "yeast", "baker"],
    "sailing": ["mast", "harbour", "wind", "anchor", "rope", "sailor"],
    "stars": ["telescope", "galaxy", "planet", "orbit", "comet", "moon"],
    "music": ["violin", "melody", "rhythm", "singer", "drum", "concert"],
    "farming": ["tractor", "harvest", "wheat", "barn", "soil", "farmer"],
    "chess": ["queen", "pawn", "board", "opponent", "bishop", "opening"],
}
LATER = [
    "The {a} is near the {b}.",
    "It needs a good {a} and an old {b}.",
    "They also use the {a} for every {b}.",
    "This {a} was made for the {b}.",
]


def paragraph(subject: str, rng: random.Random) -> str:
    words = SUBJECTS[subject]
    later = [
        rng.choice(LATER).format(a=rng.choice(words), b=rng.choice(words)) for _ in range(rng.randint(1, 4))
    ]
    return " ".join([f"In 19{rng.randint(10, 99)} people wrote about {subject}.", *later])


def write_corpus(path: Path, *, documents: int = 60, seed: int = 1) -> Path:
    """JSON lines of ``documents`` documents with eight paragraphs each."""
    rng = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for number in range(documents):
            order = [rng.choice(list(SUBJECTS)) for _ in range(8)]
            record = {
                "doc_id": f"doc{number}",
                "license": "CC0-1.0",
                "sections": [{"heading": "H", "paragraphs": [paragraph(s, rng) for s in order]}],
            }
            file.write(json.dumps(record) + "\n")
    return path
