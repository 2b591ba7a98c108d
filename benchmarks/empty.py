"""Below which probability of the best candidate is nothing relevant? The number of ``empty_below="auto"``.

And how many questions end before an LLM is asked, since the local judge sees no answer in what would be sent.

    python benchmarks/empty.py --questions 200 --output empty.npz

Every question is asked through `sage_langchain.SageRetriever` over the bundled embedding model: of documents
that answer it, and of documents that do not. For ClapNQ the latter are its own unanswerable questions, whose
article is there; elsewhere the question is moved: its document is hidden, or another one is searched in its
place.

"No LLM" counts both, as `SageQueryEngine` and `SageChain` do by default.

The threshold, the last line, keeps 99.5% of the answerable questions, each set weighing the same. "Empty" is
by the package's own; "left out" is the threshold of the other sets, judged on this one.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from development_sets import DATA, _read
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from numpy.typing import NDArray

from sage_core.selection import SelectionConfig
from sage_core.selection.rules import EMPTY_BELOW
from sage_core.verify.local_check import unanswered
from sage_langchain import MiniLMEmbeddings, SageCompressor, SageRetriever, SageTextSplitter

KEPT = 0.995
"""Share of the answerable questions that the threshold keeps."""
CONTRACTS = "cuad_leval"
"""Its questions are about clauses that other contracts have too: none is asked of another one."""
LONGEST = 60_000
SEPARATE = ("covidqa", "fairytaleqa", CONTRACTS)
"""Sets whose questions are asked of one document; of the others all are searched."""
SETS = ("clapnq_dev", "squad2_dev16", "xquad_en", *SEPARATE)
Floats = NDArray[np.float64]


def best_probabilities(name: str, most: int, seed: int) -> tuple[Floats, Floats]:
    """Of the best candidate, for questions with and without an answer in what is searched.

    Returns:
        A row a question: the probability, and 1 where no LLM would be asked.
    """
    rng = random.Random(seed)
    documents = _read(f"{name}_docs")
    asked = [q for q in _read(f"{name}_questions") if q["evidence"]]
    if name == CONTRACTS:
        documents = [d for d in documents if len(d["text"]) <= LONGEST]
        asked = [q for q in asked if q["doc_id"] in {d["doc_id"] for d in documents}]
    elif name in SEPARATE:
        about = sorted({q["doc_id"] for q in asked})
        chosen = {*rng.sample(about, min(12, len(about)))}
        documents = [d for d in documents if d["doc_id"] in chosen]
        asked = [q for q in asked if q["doc_id"] in chosen]
    without = _read("clapnq_unanswerable") if name == "clapnq_dev" else []
    documents += [{"doc_id": q["qid"], "title": q["title"], "text": q["passage"]} for q in without]
    asked = rng.sample(asked, min(most, len(asked)))
    retriever = SageRetriever.from_vectorstore(_store(documents))
    ids = [d["doc_id"] for d in documents]

    compressor, selection = SageCompressor(), SelectionConfig()

    def best(question: str, shown: Callable[[str], bool] | None) -> tuple[float, bool]:
        limits = {} if shown is None else {"filter": lambda d: shown(d.metadata["source"])}
        found = retriever.invoke(question, select=False, **limits)
        sent = [d.page_content for d in compressor.keep(found)]
        scores = [d.metadata["relevance_score"] for d in found]
        doubted = selection.doubts(scores, "probability")
        return max(scores, default=0.0), not sent or (doubted and bool(unanswered(question, sent)))

    answerable, moved = [], []
    for question in asked:
        text, own = question["question"], question["doc_id"]
        other = ids[(ids.index(own) + 1) % len(ids)]
        if name in SEPARATE:
            answerable.append(best(text, lambda source, own=own: source == own))
            if name != CONTRACTS:
                moved.append(best(text, lambda source, other=other: source == other))
        else:
            answerable.append(best(text, None))
            if not without:
                moved.append(best(text, lambda source, own=own: source != own))
    moved += [best(q["question"], None) for q in without[:most]]
    return np.array(answerable), np.array(moved).reshape(-1, 2)


def _store(documents: list[dict[str, Any]]) -> InMemoryVectorStore:
    pieces = SageTextSplitter(add_start_index=True).split_documents(
        [Document(d["text"], metadata={"source": d["doc_id"], "title": d["title"] or ""}) for d in documents]
    )
    return InMemoryVectorStore.from_documents(pieces, MiniLMEmbeddings())


def threshold(answerable: dict[str, Floats]) -> float:
    """The largest number below which no more than 0.5% of them are, each set weighing the same."""
    values = np.concatenate([*answerable.values()])
    weights = np.concatenate([np.full(len(v), 1 / len(v) / len(answerable)) for v in answerable.values()])
    order = np.argsort(values)
    below = np.cumsum(weights[order]) - weights[order]
    return float(values[order][np.searchsorted(below, 1 - KEPT, side="right") - 1])


def share(found: NDArray[np.bool_]) -> str:
    """In percent; nothing of nothing."""
    return f"{found.mean():.1%}" if len(found) else ""


def main() -> None:
    """Ask, and print the threshold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=200, help="most of each set and kind")
    parser.add_argument(
        "--sets", nargs="+", default=list(SETS), choices=SETS, metavar="SET", help=f"of {SETS}"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="keeps the probabilities; what it has is not asked again")
    arguments = parser.parse_args()
    if not DATA.is_dir():
        parser.error(f"no {DATA}: set SAGE_DATA to the folder that holds dev/")
    stored: dict[str, Floats] = {}
    if arguments.output is not None and arguments.output.exists():
        stored = dict(np.load(arguments.output))
    for name in arguments.sets:
        if f"{name} answerable" not in stored:
            found = best_probabilities(name, arguments.questions, arguments.seed)
            stored |= {f"{name} answerable": found[0], f"{name} other": found[1]}
            if arguments.output is not None:
                np.savez(arguments.output, **stored)
    answerable = {name: stored[f"{name} answerable"][:, 0] for name in arguments.sets}
    chosen = threshold(answerable)
    print(
        "| set | questions | answerable, empty | no LLM | others | empty | no LLM | left out: threshold "
        "| answerable, empty | others, empty |"
    )
    print("|---" * 10 + "|")
    for name, own in answerable.items():
        others = {n: v for n, v in answerable.items() if n != name}
        apart, moved = threshold(others) if others else chosen, stored[f"{name} other"][:, 0]
        cells = [share(v < t) for t in (EMPTY_BELOW, apart) for v in (own, moved)]
        unasked = [share(stored[f"{name} {kind}"][:, 1] > 0) for kind in ("answerable", "other")]
        row = [
            name,
            len(own),
            cells[0],
            unasked[0],
            len(moved),
            cells[1],
            unasked[1],
            f"{apart:.4f}",
            *cells[2:],
        ]
        print(f"| {' | '.join(map(str, row))} |")
    print(f"\nthreshold: {chosen:.4f}")


if __name__ == "__main__":
    main()
