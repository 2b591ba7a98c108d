"""Documents that are named: what following names brings, and what it costs.

    python benchmarks/links.py
    python benchmarks/links.py --sets 2wiki_pool --fit     # weights chosen without the set they are judged on
    python benchmarks/links.py --lookup 50000              # time of the lookup, size of the table
    python benchmarks/links.py --cost 100                  # processor time of a question and of an ingest

Candidates and scores are those of `Sage` by default; "names" follows names with the library's own functions,
"among candidates" only to documents that are candidates anyway, as far as a postprocessor can see. Recall of
evidence within 250, 500 and 1,000 tokens, and the share of questions with at least half of every piece of
evidence within 1,000. "recall@5" is the share of documents with evidence among those of the five best
documents. Intervals: paired bootstrap over questions, 2,000 resamples, seed 0.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from ranking_data import DATA as DATA_FOLDER
from ranking_data import SETS, Candidates, DevSet, figures, read_jsonl
from sage_eval.datasets.load import dev_folder

from sage_app import Sage, SageConfig
from sage_app.store import FolderStore
from sage_app.store import folder as folder_store
from sage_app.store.chunks import Chunk, NewDocument
from sage_app.store.identity import StoreIdentity
from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.ranking import HybridReranker, link, links, vouch
from sage_core.ranking.links import NamedLink, NameIndex, named_links, vouch_named
from sage_core.text.keywords import index_terms
from sage_core.text.links import document_names

Floats = NDArray[np.float64]
RESAMPLES = 2_000
WEIGHTS = list(itertools.product((0.3, 0.4, 0.5), (0.4, 0.6, 0.8), (0.1, 0.2, 0.3)))


class Weights(NamedTuple):
    """Of a document's first chunk, of the same where the question names it, of its other chunks."""

    first: float = links.FIRST_WEIGHT
    question: float = links.QUESTION_WEIGHT
    other: float = links.WEIGHT


class Scored(NamedTuple):
    """A question's candidates with their scores before and after those who name them vouch."""

    shown: Candidates
    scores: Floats
    named: list[NamedLink]


class Names:
    """The names of a set's documents, and scores with and without following them."""

    def __init__(self, dev: DevSet) -> None:
        self.dev = dev
        self.reranker = HybridReranker(cache_size=100_000)
        self.rows: dict[str, list[int]] = {}
        for row, chunk in enumerate(dev.chunks):
            self.rows.setdefault(chunk.doc_id, []).append(row)
        self.frequency = Counter(t for c in dev.chunks for t in {*index_terms(c.text_for_models)})
        documents = [*read_jsonl(DATA_FOLDER / "dev" / f"{dev.name}_docs.jsonl.gz")]
        self.titles = {d["doc_id"]: d["title"] for d in documents if d["doc_id"] in self.rows}
        self.texts = {d["doc_id"]: d["text"] for d in documents if d["doc_id"] in self.rows}
        # A question of one document is not about others.
        self.index = self.index_of([] if dev.separate else [*self.titles])

    def index_of(self, documents: Sequence[str]) -> NameIndex:
        """The names of some documents."""
        names: dict[str, tuple[str, ...]] = {}
        for document in documents:
            beginning = "\n".join(self.dev.chunks[row].text for row in self.rows[document][:2])
            names[document] = document_names(self.titles[document], beginning=beginning)
        return NameIndex(names, count=lambda terms: (self.frequency, len(self.dev.chunks)))

    def score(self, question: int, chunks: Sequence[int]) -> list[float | None]:
        """Probabilities, neighbors having vouched."""
        dev = self.dev
        own = self.reranker.score(
            dev.questions[question].text,
            [dev.chunks[i].text for i in chunks],
            dev.similarity[question][list(chunks)].tolist(),
        )
        return vouch(own, link(dev.places(chunks), longest_gap=0), "probability")

    def follow(self, question: int, *, fetch: bool = True) -> Scored:
        """Candidates with those that are named; their scores before these are vouched for."""
        dev, shown = self.dev, self.dev.candidates[question]
        chunks = shown.chunks.tolist()
        scores = self.score(question, chunks)
        sources = [dev.chunks[i].doc_id for i in chunks]
        names = self.index if fetch else self.index_of([] if dev.separate else [*dict.fromkeys(sources)])
        texts = [dev.chunks[i].text for i in chunks]
        named = named_links(
            dev.questions[question].text,
            texts,
            sources,
            scores,
            names,
        )
        documents = dict.fromkeys(x.document for x in named)
        first = [
            (position, row)
            for document in documents
            for position, row in enumerate(self.rows[document][: links.FIRST_CHUNKS])
            if row not in chunks
        ]
        if fetch and first:
            chunks += [row for _, row in sorted(first, key=lambda x: x[0])][: links.MAX_CHUNKS]
            scores = self.score(question, chunks)
        return Scored(dev.shown(question, np.array(chunks)), np.array(scores, dtype=float), named)

    def vouched(self, scored: Scored, weights: Weights = Weights()) -> Floats:  # noqa: B008
        """Scores when those who name a document have vouched."""
        positions: dict[str, list[tuple[int, int]]] = {}
        for i, row in enumerate(scored.shown.chunks):
            chunk = self.dev.chunks[int(row)]
            if chunk.position < links.FIRST_CHUNKS:
                positions.setdefault(chunk.doc_id, []).append((i, chunk.position))
        edges = [
            links.Edge(x.source, i, x.share * _weight(x, number, weights))
            for x in scored.named
            for i, number in positions.get(x.document, ())
        ]
        return np.array(vouch_named(scored.scores.tolist(), edges, "probability"), dtype=float)

    def recall_at_5(self, scored: Sequence[Scored], scores: Sequence[Floats]) -> Floats:
        """By question, the share of its documents of evidence among the five best documents."""
        shares = []
        for one, values in zip(scored, scores, strict=True):
            order = np.argsort(-values, kind="stable")
            best = [*dict.fromkeys(self.dev.chunks[int(i)].doc_id for i in one.shown.chunks[order])][:5]
            needed = {e.doc_id for e in one.shown.question.evidence}
            shares.append(len(needed & {*best}) / len(needed))
        return np.array(shares)


def _weight(named: NamedLink, number: int, weights: Weights) -> float:
    if number:
        return weights.other
    return weights.question if named.source is None else weights.first


def measure(dev: DevSet) -> tuple[dict[str, Floats], dict[Weights, Floats]]:
    """Figures by what is compared, and those of other weights."""
    names = Names(dev)
    numbers = range(len(dev.questions))
    plain = [
        Scored(dev.candidates[q], np.array(names.score(q, dev.candidates[q].chunks.tolist()), float), [])
        for q in numbers
    ]
    among, followed = [names.follow(q, fetch=False) for q in numbers], [names.follow(q) for q in numbers]
    rows: dict[str, Floats] = {}
    compared = [("without", plain), ("among candidates", among), ("names", followed)]
    for label, scored in compared:
        scores = [names.vouched(one) for one in scored]
        found = figures(dev, [one.shown for one in scored], scores)
        rows[label] = np.column_stack([found, names.recall_at_5(scored, scores)])
    shown = [one.shown for one in followed]
    others = {
        Weights(*w): figures(dev, shown, [names.vouched(one, Weights(*w)) for one in followed])
        for w in WEIGHTS
    }
    return rows, others


def report(name: str, rows: dict[str, Floats]) -> None:
    """Means, and differences from no names."""
    base = rows["without"]
    picks = np.random.default_rng(0).integers(0, len(base), (RESAMPLES, len(base)))
    for label, values in rows.items():
        cells = [f"{v:.3f}" for v in values.mean(axis=0)]
        if label != "without":
            delta = 100 * (values - base)
            low, high = np.percentile(delta[picks].mean(axis=1), [2.5, 97.5], axis=0)
            ends = zip(cells, delta.mean(axis=0), low, high, strict=True)
            cells = [f"{c} ({m:+.1f} [{a:+.1f}, {b:+.1f}])" for c, m, a, b in ends]
        print(f"| {name} ({len(base)}) | {label} | {' | '.join(cells)} |", flush=True)


def fit(others: dict[str, dict[Weights, Floats]], base: dict[str, Floats]) -> None:
    """Weights chosen on all sets but one, by the mean gain of recall within each budget."""
    for name in others:
        rest = [n for n in others if n != name]
        gain = {
            w: np.mean([(others[n][w] - base[n][:, :4]).mean() for n in rest])
            for w in next(iter(others.values()))
        }
        best = max(gain, key=lambda w: gain[w])
        delta = 100 * (others[name][best] - base[name][:, :4]).mean(axis=0)
        print(f"| {name} | {tuple(best)} | {' | '.join(f'{d:+.1f}' for d in delta)} |", flush=True)


def lookup(documents: int) -> None:
    """Print the time of looking the mentions of eight texts up, and the size of the table."""
    rng = np.random.default_rng(0)
    pool = [*read_jsonl(DATA_FOLDER / "dev" / "2wiki_pool_docs.jsonl.gz")]
    parts = [d["title"].split(" ", 1) for d in pool if " " in d["title"]]
    picks = rng.integers(0, len(parts), (documents, 2))
    # The first word of one title and the rest of another.
    titles = [f"{parts[a][0]} {parts[b][1]}" for a, b in picks]
    vector = np.ones((1, 8), dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder, FolderStore(folder) as store:
        with store.writing(StoreIdentity("none", vector[0], "none")):
            for start in range(0, documents, 1_000):
                store.put(
                    [
                        NewDocument(f"/{i}.md", "0", [Chunk("", t, f"/{i}.md", 0, len(t))], vector, title=t)
                        for i, t in enumerate(titles[start : start + 1_000], start)
                    ]
                )
        seconds = []
        for _ in range(100):
            texts = [f"{pool[int(i)]['text'][:600]} {titles[int(i)]}." for i in rng.integers(0, len(pool), 8)]
            began = time.process_time()
            found = named_links(" ".join(texts[0].split()[:12]), texts, [""] * 8, [0.5] * 8, store)
            seconds.append(time.process_time() - began)
        with store._reading() as connection:
            [(size, whole)] = connection.execute(
                "SELECT SUM(pgsize) FILTER (WHERE name LIKE 'names%'), SUM(pgsize) FROM dbstat"
            )
        low, middle, high = 1_000 * np.percentile(seconds, [5, 50, 95])
        timed = f"{middle:.1f} ms of processor time [{low:.1f}, {high:.1f}]"
        print(f"{documents:,} documents: {timed} for eight texts of up to 600 characters")
        print(f"{len(found)} links in the last; names take {size / 1e6:.1f} of {whole / 1e6:.1f} MB")


def read_pool(name: str, questions: int, documents: int, folder: Path) -> list[str]:
    """Write the pool's documents as files, and return its questions."""

    def rows(kind: str) -> list[dict[str, Any]]:
        with gzip.open(dev_folder() / f"{name}_{kind}.jsonl.gz", "rt", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    asked, pool = rows("questions"), {d["doc_id"]: d for d in rows("docs")}
    random.Random(0).shuffle(asked)
    asked = [q for q in asked if q["evidence"]][:questions]
    needed = {e.get("doc_id") or q["doc_id"] for q in asked for e in q["evidence"]}
    others = [d for d in pool if d not in needed]
    random.Random(1).shuffle(others)
    for doc_id in [*sorted(needed), *others[: max(documents - len(needed), 0)]]:
        document = pool[doc_id]
        text = f"# {document['title']}\n\n{document['text']}\n"
        (folder / f"{_file(doc_id)}.md").write_text(text, encoding="utf-8")
    return [question["question"] for question in asked]


def _file(doc_id: str) -> str:
    """A document's name as a file."""
    return re.sub(r"\W+", "-", doc_id.split(":", 1)[-1])


def cost(questions: int, rounds: int = 3) -> None:
    """Print the processor's time of an ingest and what of it names take, and of a question with and without.

    Each question is a new one: to the store, to the reranker and, by a question mark more, to the embedder.
    """
    clock, parts = time.process_time, [0.0]

    def timed(part: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any) -> Any:
            began = clock()
            try:
                return part(*values)
            finally:
                parts[0] += clock() - began

        return call

    folder_store.insert_names = timed(folder_store.insert_names)
    folder_store.document_names = timed(folder_store.document_names)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "documents"
        folder.mkdir()
        asked = read_pool("2wiki_pool", questions, 520, folder)
        with Sage(Path(place) / "store") as sage:
            sage.embedder.embed_query("The model is loaded.")
            began = clock()
            sage.ingest(folder)
            ingest = clock() - began
            for number in range(2 * rounds):
                follow = bool(number % 2)
                sage._retriever.config = SageConfig(links=follow)
                sage.store.close()
                sage._retriever.reranker = HybridReranker()
                began = clock()
                for question in asked:
                    sage.retrieve(question + "?" * number)
                seconds[follow].append(clock() - began)
    without, follow_names = (1_000 * min(seconds[follow]) / questions for follow in (False, True))
    print(f"{ingest:.1f} s of processor time an ingest, {parts[0] / ingest:.1%} of it for names")
    print(
        f"{without:.1f} ms of processor time a question, {follow_names:.1f} ms with names "
        f"({follow_names / without - 1:+.0%})"
    )


def main() -> None:
    """Measure and print Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS, metavar="SET")
    parser.add_argument("--fit", action="store_true", help="choose weights with one set left out")
    parser.add_argument("--lookup", type=int, metavar="DOCUMENTS", help="only the time of a lookup")
    parser.add_argument("--cost", type=int, metavar="QUESTIONS", help="only the processor time of a question")
    arguments = parser.parse_args()
    if arguments.lookup:
        return lookup(arguments.lookup)
    if arguments.cost:
        return cost(arguments.cost)
    embedder = MiniLMEmbedder()
    print("| set (questions) | | R 250 | R 500 | R 1000 | all evidence, 1000 | recall@5 of documents |")
    print("|---|---|---|---|---|---|---|")
    base, others = {}, {}
    for name in arguments.sets:
        rows, others[name] = measure(DevSet(name, embedder))
        base[name] = rows["without"]
        report(name, rows)
    if arguments.fit:
        print("\n| left out | weights | R 250 | R 500 | R 1000 | all evidence |\n|---|---|---|---|---|---|")
        fit(others, base)
    return None


if __name__ == "__main__":
    main()
