"""Does the gate find regressions, and do questions made by rule rank retrievers as questions of people do?

    python benchmarks/gate.py
    python benchmarks/gate.py --sets onestopqa clapnq_dev --questions 100

Stock pipelines of both frameworks (LlamaIndex: SentenceSplitter 1024/200, top 2; LangChain:
RecursiveCharacterTextSplitter 1000/200, top 4; all-MiniLM-L6-v2) are the baselines. Twelve regressions are
put into each, and each is compared with the baseline by `sage_app.tuning.compare` on the same questions,
once on those that people asked, once on those that `make_questions` makes of the documents. False alarms:
changes that should not matter (another order of the documents, vectors in float16, an overlap a little
smaller), and pairs of pipelines whose outcomes are swapped by question at random, so that neither is better.

Rank correlation: twelve pipelines (four splitters, three rankings) by their mean evidence, on made questions
and on those of people (Spearman).
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from board import Memory, titled
from development_sets import Corpus, corpora
from numpy.typing import NDArray
from sage_eval.gate import Outcome, compare, measure

from sage_app.documents.reader import Document, parse_document
from sage_app.tuning import QuotedQuestion, make_questions
from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.ranking import HybridReranker
from sage_core.segmentation import Segmenter
from sage_core.text.keywords import bm25_share, words

SETS = ("onestopqa", "squad2_dev16", "clapnq_dev", "hotpot_sample")
MOST_TEXT = 90_000  # Characters of a set: every splitting is embedded anew.
SWAPS = 200
Embed = Callable[[Sequence[str]], NDArray[np.float32]]
Split = Callable[[str], list[str]]
Splitter = Callable[[int, int], Split]


@dataclass(frozen=True)
class Pipeline:
    """A splitter, a ranking, and how many chunks are returned."""

    split: Split
    top: int
    ranking: str = "cosine"
    embed: Embed | None = None
    keep: Callable[[list[list[str]]], list[list[str]]] = lambda chunks: chunks
    after: Callable[[list[str]], list[str]] = lambda texts: texts
    twice: bool = False


def llamaindex(size: int, overlap: int) -> Split:
    """LlamaIndex's default splitter."""
    from llama_index.core.node_parser import SentenceSplitter

    return SentenceSplitter(chunk_size=size, chunk_overlap=overlap).split_text


def langchain(size: int, overlap: int) -> Split:
    """LangChain's usual splitter."""
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    return RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=overlap).split_text


def sage(text: str) -> list[str]:
    """Our chunks."""
    return [span.of(text) for span in Segmenter().segment(text)]


def outcomes(
    pipeline: Pipeline, texts: Sequence[str], questions: Sequence[QuotedQuestion], memory: Memory
) -> dict[str, Outcome]:
    """What the gate measures of a pipeline."""
    chunks = [c for mine in pipeline.keep([pipeline.split(t) for t in texts]) for c in mine if c.strip()]
    if not chunks:
        return measure(lambda question: [], questions)
    if pipeline.twice:
        chunks = [c for c in chunks for _ in range(2)]
    embed = pipeline.embed or memory
    rows = embed(chunks) if pipeline.ranking != "bm25" else None
    listed = [words(c) for c in chunks] if pipeline.ranking == "bm25" else []
    hybrid = HybridReranker() if pipeline.ranking == "hybrid" else None

    def search(question: str) -> list[str]:
        if rows is None:
            scores = np.asarray(bm25_share(words(question), listed), np.float64)
        else:
            scores = rows @ memory([question])[0]
        order = np.argsort(-scores, kind="stable")
        if hybrid is not None:
            order = order[:30]
            better = hybrid.score(question, [chunks[i] for i in order], scores[order])
            order = order[np.argsort(-np.asarray(better), kind="stable")]
        return pipeline.after([chunks[i] for i in order[: pipeline.top]])

    return measure(search, questions)


def hashed(texts: Sequence[str]) -> NDArray[np.float32]:
    """Vectors of another model: words hashed to 384 numbers."""
    rows = np.zeros((len(texts), 384), np.float32)
    for row, text in zip(rows, texts, strict=True):
        for word in words(text):
            row[sum(map(ord, word)) * 31 % 384] += 1
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)


def regressions(
    base: Pipeline, splitter: Splitter, size: int, memory: Memory
) -> Iterator[tuple[str, Pipeline]]:
    """Twelve ways in which applications have lost evidence."""
    short = replace(base, embed=lambda texts: memory([text[:100] for text in texts]))
    fewer = replace(base, keep=lambda chunks: [c for i, c in enumerate(chunks) if i % 10])
    yield "chunks a sixth of the size", replace(base, split=splitter(size // 6, 0))
    yield "chunks three times the size, one returned", replace(base, split=splitter(size * 3, 0), top=1)
    yield "titles lost", replace(base, split=lambda text: base.split(text[_title_end(text) :]))
    yield "passages embedded by another model", replace(base, embed=hashed)
    yield "a fifth of the chunks not searched", replace(base, embed=_partly(memory))
    yield "last chunk of each document lost", replace(base, keep=lambda chunks: [c[:-1] for c in chunks])
    yield "first chunk of each document lost", replace(base, keep=lambda chunks: [c[1:] for c in chunks])
    yield "half of the chunks returned", replace(base, top=max(1, base.top // 2))
    yield "worst first", replace(base, after=lambda texts: texts[::-1])
    yield "100 characters of a chunk embedded", short
    yield "a tenth of the documents missing", fewer
    yield "every chunk twice", replace(base, twice=True)


def _title_end(text: str) -> int:
    return text.find("\n\n") + 2 if text.startswith("# ") else 0


def _partly(memory: Memory) -> Embed:
    """Of every five chunks one is never ranked, as where a list is cut before it is sorted."""

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        rows = np.array(memory(texts))
        rows[3::5] = 0.0
        return rows

    return embed


def neutral(
    base: Pipeline, splitter: Splitter, size: int, overlap: int, memory: Memory
) -> Iterator[tuple[str, Pipeline]]:
    """Changes that should not matter."""
    yield "documents in another order", replace(base, keep=lambda chunks: chunks[::-1])
    yield "vectors in float16", replace(base, embed=lambda texts: np.float32(np.float16(memory(texts))))
    yield "an overlap 5% smaller", replace(base, split=splitter(size, overlap * 95 // 100))
    yield "chunks 2% larger", replace(base, split=splitter(size * 102 // 100, overlap))


def swapped(a: dict[str, Outcome], b: dict[str, Outcome], rng: random.Random) -> bool:
    """Whether the gate calls one of two mixtures worse, neither of which is."""
    first, second = dict(a), dict(b)
    for text in a:
        if rng.random() < 0.5:
            first[text], second[text] = b[text], a[text]
    return compare(first, second, seed=rng.randrange(10**6)).worse


def small(corpus: Corpus) -> tuple[list[str], list[QuotedQuestion]]:
    """The documents up to a number of characters, and the questions about them."""
    texts: list[str] = []
    for text in corpus.texts:
        if sum(map(len, texts)) + len(text) <= MOST_TEXT or not texts:
            texts.append(text)
        else:
            break
    asked = [
        QuotedQuestion(
            q.text, tuple(e.of(corpus.texts[d]) for e, d in zip(q.evidence, q.documents, strict=True))
        )
        for q in corpus.questions
        if max(q.documents) < len(texts)
    ]
    return texts, asked


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Correlation of ranks."""
    ranks = [np.argsort(np.argsort(values)) for values in (first, second)]
    return float(np.corrcoef(*ranks)[0, 1])


def main() -> None:
    """Print Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=list(SETS), help="some of the sets")
    parser.add_argument("--questions", type=int, default=100, help="a set")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    memory = Memory(MiniLMEmbedder())
    rng = random.Random(options.seed)
    alarms: list[bool] = []
    nulls: list[bool] = []
    caught: dict[str, list[str]] = {}
    for name, corpus in corpora(options.seed, options.sets).items():
        start = time.process_time()
        texts, asked = small(titled(corpus))
        documents: list[Document] = [parse_document(f"{i}.md", t.encode()) for i, t in enumerate(texts)]
        kinds = {
            "people": asked[: options.questions],
            "made": make_questions(documents, limit=options.questions),
        }
        rows: dict[str, list[float]] = {kind: [] for kind in kinds}
        splitters = (llamaindex(1024, 200), llamaindex(256, 20), langchain(1000, 200), sage)
        for kind, questions in kinds.items():
            for split in splitters:
                for ranking in ("cosine", "bm25", "hybrid"):
                    found = outcomes(Pipeline(split, 20, ranking), texts, questions, memory)
                    rows[kind].append(float(np.mean([o.mean for o in found.values()])))
            for splitter, size, overlap, top in (
                (llamaindex, 1024, 200, 2),
                (langchain, 1000, 200, 4),
            ):
                base = Pipeline(splitter(size, overlap), top)
                before = outcomes(base, texts, questions, memory)
                for what, worse in regressions(base, splitter, size, memory):
                    after = outcomes(worse, texts, questions, memory)
                    verdict = compare(before, after)
                    caught.setdefault(f"{kind}, {what}", []).append(
                        f"{100 * verdict.overall.value:+.1f}{'' if verdict.worse else '*'}"
                    )
                    nulls += [swapped(before, after, rng) for _ in range(SWAPS // 20)]
                for _, same in neutral(base, splitter, size, overlap, memory):
                    alarms.append(compare(before, outcomes(same, texts, questions, memory)).worse)
        print(
            f"- {name}: {len(texts)} documents, {len(kinds['people'])} and {len(kinds['made'])} questions; "
            f"rank correlation of twelve pipelines {spearman(rows['people'], rows['made']):.2f}; "
            f"{time.process_time() - start:.0f} s of processor time",
            flush=True,
        )
    print("\nChange in points, each set with LlamaIndex and LangChain; *: not called worse\n")
    for kind in ("people", "made"):
        print(f"| regression, questions: {kind} | found | changes |\n|---|---:|---|")
        for what, cases in caught.items():
            if what.startswith(kind):
                count = sum(not case.endswith("*") for case in cases)
                print(f"| {what.partition(', ')[2]} | {count}/{len(cases)} | {' '.join(cases)} |")
        print()
    print(f"False alarms: {sum(alarms)} of {len(alarms)} neutral changes,", end=" ")
    print(f"{sum(nulls)} of {len(nulls)} mixtures")


if __name__ == "__main__":
    main()
