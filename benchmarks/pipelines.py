"""Whole retrieval pipelines as their users run them: evidence within a number of tokens sent.

    python benchmarks/pipelines.py
    python benchmarks/pipelines.py --sets onestopqa cuad_leval --seed 1

Every pipeline gets the same files and the same embedding model, all-MiniLM-L6-v2. The splitters of
LlamaIndex, LangChain and semchunk run with the settings given, in their own units, and are searched by
cosine; `Sage` runs with its defaults. "+ reranker" puts our offline reranker behind the 30 best by cosine.
What a pipeline ranks first is sent first, and the last chunk is cut where the tokens end, so that large
chunks neither gain nor lose by their size. Overlapping chunks spend their tokens twice.

Recall is the share of the evidence's characters sent. Each set weighs the same in the mean. Intervals: paired
bootstrap over questions within the sets, 2,000 resamples. Needs ``semchunk``
 and ``langchain-experimental`` for their rows; a row whose package is missing is left out and named.

The weights of our reranker were fitted on these sets among others, so that its rows are seen data;
`context.py` judges it on sets left out.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from chunk_retrieval import cells
from chunkers import located, semchunk
from development_sets import Corpus, Question, corpora
from numpy.typing import NDArray

from sage_app import Sage
from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.ranking import HybridReranker
from sage_core.segmentation import Segmenter
from sage_core.text.spans import Span
from sage_core.text.tokens import get_counter

BUDGETS = (250, 500, 1000)
RESAMPLES = 2000
RERANKED = 30

Split = Callable[[str], list[Span]]
Ranked = list[tuple[int, Span]]
"""Document and span of the chunks of a question, best first."""


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


@dataclass(frozen=True)
class Pipeline:
    """A row of the table.

    Attributes:
        name: What it is called there.
        split: A text's chunks; None for `Sage` as it is.
        rerank: Whether our offline reranker follows the search.
    """

    name: str
    split: Callable[[Memory], Split] | None
    rerank: bool = False


def sentence_splitter(size: int, overlap: int) -> Callable[[Memory], Split]:
    """LlamaIndex's default splitter."""

    def make(embed: Memory) -> Split:
        from llama_index.core.node_parser import SentenceSplitter

        splitter = SentenceSplitter(chunk_size=size, chunk_overlap=overlap)
        return lambda text: overlapping(text, splitter.split_text(text))

    return make


def semantic_splitter(embed: Memory) -> Split:
    """LlamaIndex's SemanticSplitterNodeParser with its defaults."""
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.node_parser import SemanticSplitterNodeParser
    from llama_index.core.schema import Document

    class Cached(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return [float(v) for v in embed([text])[0]]

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return [[float(v) for v in row] for row in embed(texts)]

        def _get_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    parser = SemanticSplitterNodeParser(embed_model=Cached())

    def split(text: str) -> list[Span]:
        nodes = parser.get_nodes_from_documents([Document(text=text)])
        return located(text, [node.get_content() for node in nodes])

    return split


def recursive_splitter(embed: Memory) -> Split:
    """LangChain's RecursiveCharacterTextSplitter with the settings of its tutorials."""
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    splitter = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200)
    return lambda text: overlapping(text, splitter.split_text(text))


def semantic_chunker(embed: Memory) -> Split:
    """LangChain's SemanticChunker with its defaults."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from langchain_experimental.text_splitter import SemanticChunker
    from langchain_core.embeddings import Embeddings

    class Cached(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [[float(v) for v in row] for row in embed(texts)]

        def embed_query(self, text: str) -> list[float]:
            return self.embed_documents([text])[0]

    chunker = SemanticChunker(Cached(), add_start_index=True)

    def split(text: str) -> list[Span]:
        # It joins sentences by single spaces: a chunk starts where its first sentence does.
        found = [c for c in chunker.split_text(text) if c.strip()]
        return spaced(text, found)

    return split


PIPELINES = (
    Pipeline("LlamaIndex SentenceSplitter(1024, 200)", sentence_splitter(1024, 200)),
    Pipeline("LlamaIndex SentenceSplitter(200, 0)", sentence_splitter(200, 0)),
    Pipeline("LlamaIndex SemanticSplitterNodeParser", semantic_splitter),
    Pipeline("LangChain RecursiveCharacterTextSplitter(1000, 200)", recursive_splitter),
    Pipeline("LangChain SemanticChunker", semantic_chunker),
    Pipeline("semchunk(100)", lambda embed: lambda text: semchunk(100)(text, embed)),
    Pipeline("semchunk(100) + reranker", lambda embed: lambda text: semchunk(100)(text, embed), True),
    Pipeline("sage-rag", None),
)


def overlapping(text: str, chunks: Sequence[str]) -> list[Span]:
    """Where chunks that may overlap stand in ``text``."""
    spans: list[Span] = []
    start = -1
    for chunk in chunks:
        bare = chunk.strip()
        start = text.index(bare, start + 1)
        spans.append(Span(start, start + len(bare)))
    return spans


def spaced(text: str, chunks: Sequence[str]) -> list[Span]:
    """Where chunks stand whose white space was changed: by their other characters, one after the other."""
    solid = [i for i, sign in enumerate(text) if not sign.isspace()]
    spans: list[Span] = []
    at = 0
    for chunk in chunks:
        length = sum(not sign.isspace() for sign in chunk)
        spans.append(Span(solid[at], solid[at + length - 1] + 1))
        at += length
    return spans


def searched(pipeline: Pipeline, corpus: Corpus, embed: Memory) -> tuple[list[Ranked], list[int]]:
    """What a splitter and a search by cosine give for each question, and the tokens of all chunks."""
    assert pipeline.split is not None
    split = pipeline.split(embed)
    chunks = [(d, span) for d, text in enumerate(corpus.texts) for span in split(text)]
    texts = [span.of(corpus.texts[d]) for d, span in chunks]
    owners = np.array([d for d, _ in chunks])
    scores = embed([q.text for q in corpus.questions]) @ embed(texts).T
    reranker = HybridReranker(cache_size=200_000) if pipeline.rerank else None
    ranked = []
    for question, row in zip(corpus.questions, scores, strict=True):
        order = np.argsort(-row, kind="stable")
        if corpus.separate:
            order = order[owners[order] == question.document]
        if reranker is not None:
            order = order[:RERANKED]
            better = np.argsort(
                -np.array(reranker.score(question.text, [texts[i] for i in order], row[order]))
            )
            order = order[better]
        ranked.append([chunks[i] for i in order])
    return ranked, get_counter("bert").count_many(texts)


def sage_ranked(corpus: Corpus, embed: Memory) -> tuple[list[Ranked], list[int]]:
    """What `Sage` with its defaults ranks for each question, and the tokens of all chunks."""
    ranked: list[Ranked] = [[] for _ in corpus.questions]
    groups = [[d] for d in range(len(corpus.texts))] if corpus.separate else [list(range(len(corpus.texts)))]
    for group in groups:
        mine = [i for i, q in enumerate(corpus.questions) if q.document in group]
        if not mine:
            continue
        with tempfile.TemporaryDirectory() as folder:
            files = Path(folder, "files")
            files.mkdir()
            for d in group:
                Path(files, f"{d}.md").write_text(corpus.texts[d], encoding="utf-8", newline="")
            with Sage(Path(folder, "store"), embedder=embed) as sage:
                sage.ingest(files)
                for i in mine:
                    found = sage.retrieve(corpus.questions[i].text).candidates
                    ranked[i] = [
                        (int(Path(c.chunk.source).stem), Span(c.chunk.start, c.chunk.end)) for c in found
                    ]
    texts = [s.of(text) for text in corpus.texts for s in Segmenter().segment(text)]
    return ranked, get_counter("bert").count_many(texts)


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


def main() -> None:
    """Run every pipeline on every set, and print Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", help="some of the sets")
    parser.add_argument("--seed", type=int, default=0, help="of the samples and of the bootstrap")
    parser.add_argument("--output", type=Path, help="a .npz file for the figures of every question")
    options = parser.parse_args()
    embed = Memory(MiniLMEmbedder())
    sets = {
        name: titled(corpus)
        for name, corpus in corpora(options.seed).items()
        if not options.sets or name in options.sets
    }
    for name, corpus in sets.items():
        print(f"- {name}: {len(corpus.texts)} documents, {len(corpus.questions)} questions")
    print(
        "\n| pipeline | tokens per chunk | "
        + " | ".join(map(str, BUDGETS))
        + " | "
        + " | ".join(sets)
        + f" |\n{'|---' * (2 + len(BUDGETS) + len(sets))}|"
    )
    results: dict[str, dict[str, NDArray[np.float64]]] = {}
    for pipeline in PIPELINES:
        try:
            results[pipeline.name] = run(pipeline, sets, embed)
        except ImportError as error:
            print(f"| {pipeline.name}: left out, {error} |", flush=True)
    ours = results[PIPELINES[-1].name]
    print(f"\nDifference of {PIPELINES[-1].name}, points, mean of the sets, 95% interval:\n")
    print("| from | " + " | ".join(f"{b} tokens" for b in BUDGETS) + " |\n" + "|---" * 4 + "|")
    for name, found in results.items():
        if found is not ours:
            print(f"| {name} | {difference(ours, found, options.seed)} |")
    if options.output:
        np.savez(options.output, **{f"{row}/{s}": v for row, f in results.items() for s, v in f.items()})


def run(pipeline: Pipeline, sets: dict[str, Corpus], embed: Memory) -> dict[str, NDArray[np.float64]]:
    """Recall by set, a row a question and a column a budget; prints the pipeline's line."""
    found: dict[str, NDArray[np.float64]] = {}
    sizes: list[int] = []
    search = sage_ranked if pipeline.split is None else partial(searched, pipeline)
    for name, corpus in sets.items():
        ranked, counts = search(corpus, embed)
        sizes += counts
        found[name] = np.array(
            [recall(corpus, q, r) for q, r in zip(corpus.questions, ranked, strict=True)], dtype=np.float64
        )
    mean = 100 * np.mean([values.mean(0) for values in found.values()], axis=0)
    by_set = " | ".join(" / ".join(f"{100 * v:.1f}" for v in values.mean(0)) for values in found.values())
    print(
        f"| {pipeline.name} | {np.mean(sizes):.0f} | {' | '.join(f'{v:.1f}' for v in mean)} | {by_set} |",
        flush=True,
    )
    return found


def difference(mine: dict[str, NDArray[np.float64]], other: dict[str, NDArray[np.float64]], seed: int) -> str:
    """Mean of the sets, with a paired bootstrap over questions within them."""
    rng = np.random.default_rng(seed)
    points, draws = [], []
    for name in mine:
        delta = 100 * (mine[name] - other[name])
        points.append(delta.mean(0))
        draws.append(delta[rng.integers(0, len(delta), (RESAMPLES, len(delta)))].mean(1))
    return cells(np.mean(points, axis=0), np.mean(draws, axis=0))


if __name__ == "__main__":
    main()
