"""A board of splitters: evidence found at equal tokens, searched by cosine alone and ranked alike.

    python benchmarks/board.py --cache board.jsonl --page board.md
    python benchmarks/board.py --cache board.jsonl --only semchunk sage-rag --sets clapnq_dev

Every splitter gets the same texts and the same embedding model, all-MiniLM-L6-v2, and is searched exactly.
Sizes are in the units of each; "tokens" is the mean chunk in ours. What ranks first is sent first, a text
that was sent is not sent again, and the last chunk is cut where the tokens end: no splitter gains by the size
of its chunks or by white space at their ends. Recall is the share of the evidence's characters. "Ranked"
chooses candidates of 3,000 tokens by cosine, the neighbors' included, scores them with our offline reranker
and lets neighbors vouch: the same for all. Its weights were fitted on these sets among others.

Each set weighs the same in the mean. Differences are from the first of our rows, intervals 95%, of a paired
bootstrap over documents within the sets, 2,000 resamples; a difference whose interval holds 0 is a tie.
"s/MB" is the processor's time to split a megabyte, with what a splitter embeds for itself.

``--cache`` keeps what is done, by splitter and set; another splitter is a line in `chunkers.py`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from chunkers import CHUNKERS, Chunker
from development_sets import MORE_SAMPLES, SAMPLES, Corpus, Question, corpora
from numpy.typing import NDArray

from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.ranking import HybridReranker, Place, link, vouch
from sage_core.text.spans import Span
from sage_core.text.tokens import get_counter

BUDGETS = (250, 500, 1000)
RESAMPLES = 2000
CANDIDATE_TOKENS = 3000

Ranked = list[tuple[int, Span]]
"""Document and span of the chunks of a question, best first."""
Floats = NDArray[np.float64]


class Memory:
    """An `Embedder` that embeds a text once."""

    def __init__(self, embedder: MiniLMEmbedder) -> None:
        self._embedder = embedder
        self.name = embedder.name
        self._known: dict[str, NDArray[np.float32]] = {}

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, 384) unit rows."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing:
            self._known.update(zip(missing, self._embedder.embed_documents(missing), strict=True))
        return np.stack([self._known[text] for text in texts])

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As calling it."""
        return self(texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The row of one text."""
        return np.asarray(self([text])[0], np.float32)


def recall(
    corpus: Corpus, question: Question, ranked: Ranked, budgets: Sequence[float] = BUDGETS
) -> list[float]:
    """Share of the evidence's characters within each budget."""
    counter = get_counter("bert")
    wanted = sum(e.end - e.start for e in question.evidence)
    seen = [np.zeros(e.end - e.start, bool) for e in question.evidence]
    found: list[float] = []
    spent = 0.0
    for document, span in ranked:
        tokens = max(1, counter.count(span.of(corpus.texts[document])))
        while len(found) < len(budgets) and spent + tokens > budgets[len(found)]:
            share = (budgets[len(found)] - spent) / tokens
            part = Span(span.start, span.start + int((span.end - span.start) * share))
            kept = [mask.copy() for mask in seen]
            mark(kept, question, document, part)
            found.append(sum(int(mask.sum()) for mask in kept) / wanted)
        if len(found) == len(budgets):
            return found
        spent += tokens
        mark(seen, question, document, span)
    whole = sum(int(mask.sum()) for mask in seen) / wanted
    return found + [whole] * (len(budgets) - len(found))


def mark(masks: Sequence[NDArray[np.bool_]], question: Question, document: int, sent: Span) -> None:
    """Mark the characters of each piece of evidence that were sent."""
    for mask, piece, owner in zip(masks, question.evidence, question.documents, strict=True):
        if owner == document:
            mask[max(0, sent.start - piece.start) : max(0, sent.end - piece.start)] = True


def titled(corpus: Corpus) -> Corpus:
    """The documents as files would be: their title as the first heading, where they have one."""
    heads = [
        f"# {title}\n\n" if title and not text.startswith(title) else ""
        for title, text in zip(corpus.titles, corpus.texts, strict=True)
    ]
    questions = [
        replace(
            q,
            evidence=[
                Span(e.start + len(heads[d]), e.end + len(heads[d]))
                for e, d in zip(q.evidence, q.documents, strict=True)
            ],
        )
        for q in corpus.questions
    ]
    return replace(
        corpus, texts=[h + t for h, t in zip(heads, corpus.texts, strict=True)], questions=questions
    )


@dataclass(frozen=True)
class Result:
    """Of a splitter on a set: a row of recalls a question, by cosine and ranked; mean size, time."""

    alone: list[list[float]]
    ranked: list[list[float]]
    tokens: float
    seconds: float


def evaluate(corpus: Corpus, chunker: Chunker, embed: Memory) -> Result:
    """Split, embed and search one set."""
    model = MiniLMEmbedder()
    chunker(corpus.texts[0], model.embed_documents)  # what is imported and loaded with the first
    begin = time.process_time()
    spans = [chunker(text, model.embed_documents) for text in corpus.texts]
    seconds = (time.process_time() - begin) / (sum(map(len, corpus.texts)) / 1e6)
    chunks = [(d, span) for d, own in enumerate(spans) for span in own]
    texts = [span.of(corpus.texts[d]) for d, span in chunks]
    sizes = np.array(get_counter("bert").count_many(texts))
    places = [Place(d, *span) for d, span in chunks]
    links, reranker = link(places), HybridReranker(cache_size=200_000)
    cosines = embed([q.text for q in corpus.questions]) @ embed(texts).T
    alone, ranked = [], []
    for question, scores in zip(corpus.questions, cosines, strict=True):
        mine = np.array([not corpus.separate or d == question.document for d, _ in chunks])

        def best(values: Any, mine: NDArray[np.bool_] = mine) -> NDArray[np.intp]:
            order = np.argsort(-np.asarray(values), kind="stable")
            first: dict[str, int] = {}
            for i in order[mine[order]]:
                first.setdefault(texts[i], int(i))
            return np.array(list(first.values()))

        alone.append(recall(corpus, question, [chunks[i] for i in best(scores)]))
        shown = best(vouch(scores.tolist(), links, "cosine"))
        within = int(np.searchsorted(np.cumsum(sizes[shown]), CANDIDATE_TOKENS, "right"))
        shown = shown[: max(1, within)]
        found = reranker.score(question.text, [texts[i] for i in shown], scores[shown])
        better = np.argsort(-np.array(vouch(found, link([places[i] for i in shown]), "probability")))
        ranked.append(recall(corpus, question, [chunks[i] for i in shown[better]]))
    return Result(alone, ranked, float(sizes.mean()), seconds)


def draws(corpus: Corpus, seed: int) -> NDArray[np.intp]:
    """(resamples, questions): how often each question is drawn, with the others of its document."""
    clusters = np.unique([q.document for q in corpus.questions], return_inverse=True)[1]
    rng = np.random.default_rng(seed)
    count = clusters.max() + 1
    return np.stack(
        [np.bincount(rng.integers(0, count, count), minlength=count)[clusters] for _ in range(RESAMPLES)]
    )


def page(results: dict[str, dict[str, Result]], sets: dict[str, Corpus], seed: int) -> str:
    """The board, best by recall within 500 tokens, ranked, first."""
    picks = {name: draws(corpus, seed) for name, corpus in sets.items()}
    base = next((row for row in results if row.startswith("sage-rag")), next(iter(results)))
    figures = {
        row: {n: 100 * np.column_stack([r.alone, r.ranked]) for n, r in found.items()}
        for row, found in results.items()
    }
    mean = {row: np.mean([f.mean(0) for f in found.values()], axis=0) for row, found in figures.items()}
    lines = ["# Splitters at equal tokens\n"]
    for name, corpus in sets.items():
        count = len({q.document for q in corpus.questions})
        lines.append(
            f"- {name}: {len(corpus.texts)} documents, {len(corpus.questions)} questions about {count}"
        )
    heads = [f"alone {b}" for b in BUDGETS] + [f"ranked {b}" for b in BUDGETS]
    heads = ["tokens", "s/MB", *heads, f"alone 500 - {base}", f"ranked 500 - {base}"]
    lines += [f"\n| splitter | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for row in sorted(results, key=lambda r: -mean[r][4]):
        found = results[row].values()
        cells = [f"{np.mean([r.tokens for r in found]):.0f}", f"{np.mean([r.seconds for r in found]):.1f}"]
        cells += [f"{v:.1f}" for v in mean[row]]
        cells += [_difference(figures, row, base, column, picks) for column in (1, 4)]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _difference(
    figures: dict[str, dict[str, Floats]],
    row: str,
    base: str,
    column: int,
    picks: dict[str, NDArray[np.intp]],
) -> str:
    if row == base:
        return ""
    points, drawn = [], []
    for name, picked in picks.items():
        by_question = figures[row][name][:, column] - figures[base][name][:, column]
        points.append(by_question.mean())
        drawn.append(picked @ by_question / picked.sum(1))
    low, high = np.percentile(np.mean(drawn, axis=0), [2.5, 97.5])
    return f"{np.mean(points):+.1f} [{low:+.1f}, {high:+.1f}]{', tie' if low <= 0 <= high else ''}"


def main() -> None:
    """Run every splitter on every set, and print the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = (*SAMPLES, *MORE_SAMPLES)
    parser.add_argument("--cache", type=Path, required=True, help="JSON lines, a splitter and a set each")
    parser.add_argument("--page", type=Path, help="a file for the page")
    parser.add_argument("--sets", nargs="+", default=[*SAMPLES], choices=names, metavar="SET")
    parser.add_argument(
        "--questions", type=int, help="at most so many of each set, in place of its sample's number"
    )
    parser.add_argument("--only", nargs="+", help="splitters whose names contain one of these")
    parser.add_argument("--seed", type=int, default=0, help="of the samples and of the bootstrap")
    options = parser.parse_args()
    known_sets = corpora(options.seed, options.sets, options.questions)
    sets = {name: titled(corpus) for name, corpus in known_sets.items()}
    known: dict[str, Result] = {}
    if options.cache.is_file():
        for line in options.cache.read_text("utf-8").splitlines():
            key, values = json.loads(line)
            known[key] = Result(**values)
    memory = Memory(MiniLMEmbedder())
    results: dict[str, dict[str, Result]] = {}
    for row, chunker in CHUNKERS.items():
        if options.only and not any(part in row for part in options.only):
            continue
        for name, corpus in sets.items():
            key = f"{row}/{name}/{len(corpus.questions)}/{options.seed}"
            if key not in known:
                try:
                    known[key] = evaluate(corpus, chunker, memory)
                except ImportError as error:
                    print(f"{row} is left out: {error}")
                    break
                with options.cache.open("a", encoding="utf-8") as out:
                    out.write(json.dumps([key, vars(known[key])]) + "\n")
                print(f"{row}, {name}: done", flush=True)
            results.setdefault(row, {})[name] = known[key]
    complete = {row: found for row, found in results.items() if len(found) == len(sets)}
    text = page(complete, sets, options.seed)
    print(text)
    if options.page:
        options.page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
