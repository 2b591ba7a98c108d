"""What the README's snippets bring inside LlamaIndex and LangChain, beside `Sage`, and on indices that exist.

    python benchmarks/doors.py --questions 100
    python benchmarks/doors.py --questions 100 --sets clapnq_dev onestopqa --output doors.npz
    python benchmarks/calibrate_reranker.py --leave-out held-out
    python benchmarks/doors.py --questions 100 --calibrations held-out

With ``--output`` the figures of every question are kept, and what the file has is not run again: a long run
can be made in pieces. The table is of all sets that it has.

Every row gets the same files, with the title as the first heading, and the same embedding model,
all-MiniLM-L6-v2. "Stock" is the framework's own splitter, store and number of results; the rows below it add
one part to that index, and make no vector again.

- Evidence within 250, 500 and 1,000 tokens: what is ranked first is sent first, and the last chunk is cut
  where the tokens end. Recall is the share of the evidence's characters.
- Sent: what comes out by default, its tokens and its evidence.
- At equal tokens: the evidence in the row's list, cut at the tokens that its framework's stock row sends for
  the same question.
- Time: of the processor, for a question, with its embedding; one core with OMP_NUM_THREADS=1. The splitting
  and embedding of the documents is not in it.

The rows of 256 tokens send four: about as many tokens as a row of ours, and the same number as LangChain's.

``--calibrations`` takes the reranker's weights for each set from FOLDER/SET.json, made without that set; else
they are the package's, fitted on these sets among others.

Documents of a set that are equal are one: of copies ours send one, and the evidence is marked in another.

Each set weighs the same in the mean. Intervals are 95%, of a paired bootstrap over the questions of each set.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from board import BUDGETS, RESAMPLES, Memory, Ranked, mark, recall, titled
from development_sets import MORE_SAMPLES, SAMPLES, Corpus, corpora
from numpy.typing import NDArray

from sage_app import Sage
from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.ranking import HybridReranker
from sage_core.text.spans import Span
from sage_core.text.tokens import get_counter


class Embedder(Memory):
    """Embeds a chunk once for all rows, and every question anew; knows the set's calibration."""

    reranker: str | HybridReranker = "hybrid"

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The (384,) row of a question."""
        return np.asarray(self._embedder.embed_query(text), np.float32)


Search = Callable[[str], tuple[Any, Any]]
"""From a question to what is ranked and what is sent, as the framework's own objects, best first."""
Open = Callable[[Path, Embedder], tuple[Search, Callable[[Any], tuple[str, str]]]]
"""From a folder of files to a search, and from a result to its file and text."""


def open_sage(files: Path, embed: Embedder) -> Any:
    """`Sage` with its defaults."""
    reranker = None if embed.reranker == "hybrid" else embed.reranker
    sage = Sage(Path(files.parent, "store"), embedder=embed, reranker=reranker)
    sage.ingest(files)

    def search(question: str) -> tuple[Any, Any]:
        found = sage.retrieve(question)
        return found.candidates, found.hits

    return search, lambda hit: (hit.chunk.source, hit.chunk.text)


def llamaindex_index(files: Path, embed: Embedder, parser: Any) -> Any:
    """A vector index of the files."""
    from llama_index.core import SimpleDirectoryReader, VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding

    class Cached(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return embed([text])[0].tolist()

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return embed(texts).tolist()

        def _get_query_embedding(self, query: str) -> list[float]:
            return embed.embed_query(query).tolist()

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

    documents = SimpleDirectoryReader(str(files), required_exts=[".md"]).load_data()
    return VectorStoreIndex.from_documents(documents, transformations=[parser], embed_model=Cached())


def node_place(found: Any) -> tuple[str, str]:
    """File and text of a node."""
    return found.node.metadata["file_name"], found.node.text


def llamaindex_snippet(files: Path, embed: Embedder) -> Any:
    """README: parser, index, retriever."""
    from sage_llamaindex import SageNodeParser

    return _retriever(llamaindex_index(files, embed, SageNodeParser()), embed)


def llamaindex_stock(files: Path, embed: Embedder) -> Any:
    """Stock splitter and top 2."""
    index = llamaindex_index(files, embed, _sentence_splitter())
    first, many = index.as_retriever(), index.as_retriever(similarity_top_k=60)
    return lambda question: (many.retrieve(question), first.retrieve(question)), node_place


def llamaindex_fusion(files: Path, embed: Embedder) -> Any:
    """Chunks of 256 tokens, vector search and BM25 by reciprocal ranks; top 4."""
    from llama_index.core.llms import MockLLM
    from llama_index.core.node_parser import SentenceSplitter
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.retrievers.bm25 import BM25Retriever

    index = llamaindex_index(files, embed, SentenceSplitter(chunk_size=256, chunk_overlap=20))
    nodes = list(index.docstore.docs.values())
    many = min(30, len(nodes))
    both = [
        index.as_retriever(similarity_top_k=many),
        BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=many),
    ]
    fused = QueryFusionRetriever(
        both, llm=MockLLM(), num_queries=1, mode="reciprocal_rerank", similarity_top_k=60, use_async=False
    )

    def search(question: str) -> tuple[Any, Any]:
        found = fused.retrieve(question)
        return found, found[:4]

    return search, node_place


def llamaindex_small(files: Path, embed: Embedder) -> Any:
    """Chunks of 256 tokens, top 4."""
    from llama_index.core.node_parser import SentenceSplitter

    index = llamaindex_index(files, embed, SentenceSplitter(chunk_size=256, chunk_overlap=20))
    many = index.as_retriever(similarity_top_k=60)

    def search(question: str) -> tuple[Any, Any]:
        found = many.retrieve(question)
        return found, found[:4]

    return search, node_place


def llamaindex_postprocessor(files: Path, embed: Embedder) -> Any:
    """A stock index, and our postprocessor behind its 60 best."""
    from sage_llamaindex import SageNodePostprocessor

    index = llamaindex_index(files, embed, _sentence_splitter())
    retriever = index.as_retriever(similarity_top_k=60)
    sage = SageNodePostprocessor(reranker=embed.reranker)

    def search(question: str) -> tuple[Any, Any]:
        from llama_index.core.schema import QueryBundle

        ranking = sage.rerank(retriever.retrieve(question), QueryBundle(question))
        return ranking.best_first, sage.cut(ranking)

    return search, node_place


def llamaindex_retriever(files: Path, embed: Embedder) -> Any:
    """A stock index, and our retriever over it."""
    return _retriever(llamaindex_index(files, embed, _sentence_splitter()), embed)


def llamaindex_small_retriever(files: Path, embed: Embedder) -> Any:
    """An index of chunks of 256 tokens, and our retriever over it."""
    from llama_index.core.node_parser import SentenceSplitter

    splitter = SentenceSplitter(chunk_size=256, chunk_overlap=20)
    return _retriever(llamaindex_index(files, embed, splitter), embed)


def _retriever(index: Any, embed: Embedder) -> Any:
    from llama_index.core.schema import QueryBundle

    from sage_llamaindex import SageRetriever

    retriever = SageRetriever.from_index(index, reranker=embed.reranker)
    candidates, sage = retriever.unselected(), retriever.postprocessor

    def search(question: str) -> tuple[Any, Any]:
        ranking = sage.rerank(candidates.retrieve(question), QueryBundle(question))
        return ranking.best_first, sage.cut(ranking)

    return search, node_place


def _sentence_splitter() -> Any:
    from llama_index.core.node_parser import SentenceSplitter

    return SentenceSplitter(chunk_size=1024, chunk_overlap=200)


def langchain_store(files: Path, embed: Embedder, splitter: Any) -> Any:
    """An in-memory store of the files."""
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    class Cached(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return embed(texts).tolist()

        def embed_query(self, text: str) -> list[float]:
            return embed.embed_query(text).tolist()

    pages = [Document(p.read_text("utf-8"), metadata={"source": p.name}) for p in sorted(files.glob("*.md"))]
    store = InMemoryVectorStore(Cached())
    store.add_documents(splitter.split_documents(pages))
    return store


def document_place(found: Any) -> tuple[str, str]:
    """File and text of a document."""
    return found.metadata["source"], found.page_content


def langchain_snippet(files: Path, embed: Embedder) -> Any:
    """README: splitter, store, retriever."""
    from sage_langchain import SageTextSplitter

    return _from_vectorstore(langchain_store(files, embed, SageTextSplitter(add_start_index=True)), embed)


def langchain_stock(files: Path, embed: Embedder) -> Any:
    """Stock splitter and top 4."""
    store = langchain_store(files, embed, _recursive_splitter())
    first, many = store.as_retriever(), store.as_retriever(search_kwargs={"k": 60})
    return lambda question: (many.invoke(question), first.invoke(question)), document_place


def langchain_compressor(files: Path, embed: Embedder) -> Any:
    """A stock store, and our compressor behind its 60 best."""
    from sage_langchain import SageCompressor

    store = langchain_store(files, embed, _recursive_splitter())
    retriever, sage = store.as_retriever(search_kwargs={"k": 60}), SageCompressor(reranker=embed.reranker)

    def search(question: str) -> tuple[Any, Any]:
        ranked = sage.rank(retriever.invoke(question), question)
        return ranked, sage.keep(ranked)

    return search, document_place


def langchain_retriever(files: Path, embed: Embedder) -> Any:
    """A stock store, and our retriever over it."""
    return _from_vectorstore(langchain_store(files, embed, _recursive_splitter()), embed)


def _from_vectorstore(store: Any, embed: Embedder) -> Any:
    from sage_langchain import SageCompressor, SageRetriever

    retriever = SageRetriever.from_vectorstore(store, reranker=embed.reranker)
    compressor = retriever.base_compressor
    assert isinstance(compressor, SageCompressor)

    def search(question: str) -> tuple[Any, Any]:
        ranked = retriever.invoke(question, select=False)
        return ranked, compressor.keep(ranked)

    return search, document_place


def _recursive_splitter() -> Any:
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    return RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200)


LLAMAINDEX, LANGCHAIN = (
    "LlamaIndex stock: SentenceSplitter(1024, 200), top 2",
    "LangChain stock: RecursiveCharacterTextSplitter(1000, 200), top 4",
)
DOORS: dict[str, Any] = {
    "Sage": open_sage,
    "LlamaIndex, README": llamaindex_snippet,
    "LangChain, README": langchain_snippet,
    LLAMAINDEX: llamaindex_stock,
    "LlamaIndex: SentenceSplitter(256, 20), top 4": llamaindex_small,
    "LlamaIndex: SentenceSplitter(256, 20) with BM25, top 4": llamaindex_fusion,
    "LlamaIndex: SentenceSplitter(256, 20) and SageRetriever": llamaindex_small_retriever,
    "+ SageNodePostprocessor": llamaindex_postprocessor,
    "+ SageRetriever": llamaindex_retriever,
    LANGCHAIN: langchain_stock,
    "+ SageCompressor": langchain_compressor,
    "+ SageRetriever, LangChain": langchain_retriever,
}
STOCK = {
    "LlamaIndex, README": LLAMAINDEX,
    "+ SageNodePostprocessor": LLAMAINDEX,
    "+ SageRetriever": LLAMAINDEX,
    "LangChain, README": LANGCHAIN,
    "+ SageCompressor": LANGCHAIN,
    "+ SageRetriever, LangChain": LANGCHAIN,
}
"""What each row is compared with."""


def run(
    opened: Any, corpus: Corpus, embed: Embedder, folder: Path, equal: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """A row a question: recall within each budget, recall and tokens of what is sent, milliseconds.

    The last column is the recall within ``equal``, tokens for each question; without them of what is sent.
    """
    counter = get_counter("bert")
    rows = np.zeros((len(corpus.questions), len(BUDGETS) + 4))
    groups = [[d] for d in range(len(corpus.texts))] if corpus.separate else [list(range(len(corpus.texts)))]
    for group in groups:
        mine = [i for i, q in enumerate(corpus.questions) if q.document in group]
        if not mine:
            continue
        files = folder / str(group[0]) / "files"
        files.mkdir(parents=True, exist_ok=True)
        for d in group:
            Path(files, f"{d}.md").write_text(corpus.texts[d], encoding="utf-8", newline="")
        search, place = opened(files, embed)
        search(corpus.questions[mine[0]].text)  # whatever is made with the first question
        for i in mine:
            question = corpus.questions[i]
            begin = time.process_time()
            ranked, sent = search(question.text)
            spent = time.process_time() - begin
            found = [_located(corpus, *place(r)) for r in ranked]
            kept = [_located(corpus, *place(r)) for r in sent]
            tokens = sum(counter.count_many([s.of(corpus.texts[d]) for d, s in kept]))
            sent_share = _whole(question, kept)
            same = sent_share if equal is None else recall(corpus, question, found, [equal[i]])[0]
            rows[i] = [*recall(corpus, question, found), sent_share, tokens, 1000 * spent, same]
    return rows


def without_copies(corpus: Corpus) -> Corpus:
    """The corpus with one of documents that are equal; those searched alone are left."""
    if corpus.separate:
        return corpus
    first: dict[str, int] = {}
    for i, text in enumerate(corpus.texts):
        first.setdefault(text, i)
    place = {i: n for n, i in enumerate(first.values())}
    to = [place[first[text]] for text in corpus.texts]
    return replace(
        corpus,
        texts=list(first),
        titles=[corpus.titles[i] for i in place],
        questions=[
            replace(q, document=to[q.document], others=tuple(to[d] for d in q.others))
            for q in corpus.questions
        ],
    )


def _located(corpus: Corpus, file: str, text: str) -> tuple[int, Span]:
    document = int(Path(file).stem)
    start = corpus.texts[document].index(text.strip())
    return document, Span(start, start + len(text.strip()))


def _whole(question: Any, ranked: Ranked) -> float:
    """Share of the evidence's characters in all of it."""
    masks = [np.zeros(e.end - e.start, bool) for e in question.evidence]
    for document, span in ranked:
        mark(masks, question, document, span)
    return sum(int(m.sum()) for m in masks) / max(sum(len(m) for m in masks), 1)


Rows = dict[str, dict[str, NDArray[np.float64]]]
"""By row and set, a line for each question."""
PAIRS = (
    ("LlamaIndex, README", "Sage"),
    ("LangChain, README", "Sage"),
    (
        "LlamaIndex: SentenceSplitter(256, 20) and SageRetriever",
        "LlamaIndex: SentenceSplitter(256, 20) with BM25, top 4",
    ),
    *((row, STOCK[row]) for row in DOORS if row.startswith("+")),
)


def table(rows: Rows, sets: Sequence[str]) -> None:
    """Print the means."""
    heads = [*map(str, BUDGETS), "sent: evidence", "tokens", "at equal tokens", "ms", *sets]
    print(f"\n| | {' | '.join(heads)} |\n" + "|---" * (len(heads) + 1) + "|")
    for row, found in rows.items():
        means = [found[name].mean(0) for name in sets]
        mean = np.mean(means, axis=0)
        by_set = [
            f"{' / '.join(f'{100 * v:.1f}' for v in m[:3])}; {100 * m[3]:.1f} in {m[4]:.0f}" for m in means
        ]
        equal = f"{100 * mean[6]:.1f}" if row in STOCK else ""
        cells = [*(f"{100 * v:.1f}" for v in mean[:4]), f"{mean[4]:.0f}", equal, f"{mean[5]:.0f}"]
        print(f"| {row} | {' | '.join([*cells, *by_set])} |")


def differences(rows: Rows, sets: Sequence[str], seed: int) -> None:
    """Print what each row gains over another, with intervals; by set what is sent, and at equal tokens."""
    heads = [*map(str, BUDGETS), "sent: evidence", "tokens", "at equal tokens", *sets]
    print(f"\n| difference | {' | '.join(heads)} |\n" + "|---" * (len(heads) + 1) + "|")
    for mine, other in PAIRS:
        if mine not in rows or other not in rows:
            continue
        rng, points, draws = np.random.default_rng(seed), [], []
        for name in sets:
            own, beside = rows[mine][name], rows[other][name]
            delta = np.column_stack([own[:, :5] - beside[:, :5], own[:, 6] - beside[:, 3]])
            delta *= [100, 100, 100, 100, 1, 100]
            points.append(delta.mean(0))
            draws.append(delta[rng.integers(0, len(delta), (RESAMPLES, len(delta)))].mean(1))
        low, high = np.percentile(np.mean(draws, axis=0), [2.5, 97.5], axis=0)
        cells = [
            f"{m:+.1f} [{lo:+.1f}, {hi:+.1f}]"
            for m, lo, hi in zip(np.mean(points, axis=0), low, high, strict=True)
        ]
        by_set = [f"{point[3]:+.1f} in {point[4]:+.0f}" for point in points]
        if STOCK.get(mine) == other:
            by_set = [f"{cell}; {point[5]:+.1f}" for cell, point in zip(by_set, points, strict=True)]
        else:
            cells[-1] = ""
        print(f"| {mine} - {other.split(':')[0]} | {' | '.join([*cells, *by_set])} |")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run every row on every set, and print Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = (*SAMPLES, *MORE_SAMPLES)
    parser.add_argument("--sets", nargs="*", default=names, choices=names, metavar="SET", help=f"of {names}")
    parser.add_argument("--questions", type=int, help="at most so many of each set")
    parser.add_argument("--seed", type=int, default=0, help="of the samples and of the bootstrap")
    parser.add_argument("--only", nargs="+", help="rows whose names contain one of these")
    parser.add_argument("--calibrations", type=Path, metavar="FOLDER", help="weights by set, SET.json")
    parser.add_argument("--output", type=Path, help="a .npz file for the figures of every question")
    options = parser.parse_args(arguments)
    # The stock rows first: they say at how many tokens the others are compared.
    ordered = sorted(DOORS.items(), key=lambda item: item[0] in STOCK)
    named = {r: o for r, o in ordered if not options.only or any(part in r for part in options.only)}
    rows: Rows = {}
    if options.output and options.output.is_file():
        with np.load(options.output) as saved:
            for key in saved.files:
                row, _, name = key.rpartition("/")
                rows.setdefault(row, {})[name] = saved[key]
    for name, corpus in corpora(options.seed, options.sets).items():
        embed = Embedder(MiniLMEmbedder())
        if options.calibrations:
            embed.reranker = HybridReranker(calibration=options.calibrations / f"{name}.json")
        corpus = without_copies(titled(corpus))
        corpus = replace(corpus, questions=corpus.questions[: options.questions])
        print(f"- {name}: {len(corpus.texts)} documents, {len(corpus.questions)} questions", flush=True)
        with tempfile.TemporaryDirectory() as folder:  # one for all rows: some embed the path
            for row, opened in named.items():
                if name in rows.get(row, {}):
                    continue
                stock = rows.get(STOCK.get(row, ""), {}).get(name)
                equal = None if stock is None else stock[:, len(BUDGETS) + 1]
                rows.setdefault(row, {})[name] = run(opened, corpus, embed, Path(folder), equal)
                if options.output:
                    figures = {f"{r}/{s}": v for r, f in rows.items() for s, v in f.items()}
                    np.savez(options.output, **figures)
    rows = {row: rows[row] for row in DOORS if row in rows}
    measured = [name for name in names if all(name in found for found in rows.values())]
    table(rows, measured)
    differences(rows, measured, options.seed)


if __name__ == "__main__":
    main()
