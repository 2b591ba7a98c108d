"""What changes for users of the frameworks' own splitters: vectors, sizes, context, evidence, cost.

    python benchmarks/migration.py
    python benchmarks/migration.py --documents FOLDER --questions FILE
    python benchmarks/migration.py --write     # puts the tables into docs/others.md

Every row is what its users run: the splitter with its defaults (LangChain: those of its tutorials), the
framework's own index in memory, all-MiniLM-L6-v2, and its usual number of results. The texts are the
sample documents under ``demo/documents``, the questions the forty of ``notebooks/island_questions.jsonl``.
Tokens are those of cl100k, for every row. Needs ``langchain-experimental`` for the row of SemanticChunker,
which is left out without it.

Cost is that of the context alone, at the price given, for a thousand questions.
"""

from __future__ import annotations

import argparse
import json
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from chunkers import overlapping, spaced
from numpy.typing import NDArray

from sage_app.documents import read_document
from sage_core.embedding import MiniLMEmbedder
from sage_core.text.spans import Span

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "others.md"

Split = Callable[[str], list[str]]
Chunks = dict[str, list[Span]]
"""Spans of the chunks by document."""
Found = list[tuple[str, Span]]
"""Document and span of what was sent for a question."""


@dataclass(frozen=True)
class Question:
    """A question and where its evidence stands."""

    text: str
    evidence: tuple[tuple[str, Span], ...]


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    splitter: str
    retrieval: str
    sizes: tuple[int, ...]
    embedded: int
    sent: tuple[int, ...]
    recall: tuple[float, ...]


class Embedder:
    """all-MiniLM-L6-v2, which embeds a text once and counts what it was asked for."""

    def __init__(self) -> None:
        self._model = MiniLMEmbedder()
        self._known: dict[str, NDArray[np.float32]] = {}
        self.asked = 0

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """A row per text."""
        self.asked += len(texts)
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing:
            self._known.update(zip(missing, self._model.embed_documents(missing), strict=True))
        return [[float(v) for v in self._known[text]] for text in texts]


def texts_of(folder: Path) -> dict[str, str]:
    """The documents of a folder by file name."""
    return {path.name: read_document(path).text for path in sorted(folder.iterdir())}


def questions_of(path: Path, texts: dict[str, str]) -> list[Question]:
    """The questions about them; line breaks do not matter to a quotation."""
    questions = []
    for raw in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        evidence = []
        for item in raw["evidence"]:
            pattern = r"\s+".join(map(re.escape, item["quote"].split()))
            found = re.search(pattern, texts[item["document"]])
            assert found is not None, f"{item['document']} has no {item['quote']!r}"
            evidence.append((item["document"], Span(*found.span())))
        questions.append(Question(raw["question"], tuple(evidence)))
    return questions


def evidence_recall(question: Question, found: Found) -> float:
    """Share of the evidence's characters that were sent."""
    wanted = {(name, i) for name, span in question.evidence for i in range(*span)}
    sent = {(name, i) for name, span in found for i in range(*span)}
    return len(wanted & sent) / len(wanted)


class LlamaIndexSide:
    """Splitters and retrieval as in LlamaIndex."""

    def __init__(self, texts: dict[str, str], embed: Embedder) -> None:
        from llama_index.core.embeddings import BaseEmbedding

        class Cached(BaseEmbedding):
            def _get_text_embedding(self, text: str) -> list[float]:
                return embed([text])[0]

            def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
                return embed(texts)

            def _get_query_embedding(self, query: str) -> list[float]:
                return embed([query])[0]

            async def _aget_query_embedding(self, query: str) -> list[float]:
                return embed([query])[0]

        self.texts = texts
        self.embed = embed
        self.model = Cached()

    def splitters(self) -> dict[str, Any]:
        """The parsers by what is written in the table."""
        from llama_index.core.node_parser import SemanticSplitterNodeParser, SentenceSplitter

        from sage_llamaindex import SageNodeParser

        return {
            "SentenceSplitter()": SentenceSplitter(),
            "SemanticSplitterNodeParser(...)": SemanticSplitterNodeParser(embed_model=self.model),
            "SageNodeParser()": SageNodeParser(),
        }

    def index(self, parser: Any) -> tuple[Any, dict[str, tuple[str, Span]], int]:
        """An index, where its nodes stand, and the texts embedded to build it."""
        from llama_index.core import Document, VectorStoreIndex

        before = self.embed.asked
        nodes, places = [], {}
        for name, text in self.texts.items():
            made = parser.get_nodes_from_documents([Document(text=text, id_=name)])
            spans = placed(text, [node.get_content() for node in made])
            places.update({node.node_id: (name, span) for node, span in zip(made, spans, strict=True)})
            nodes += made
        index = VectorStoreIndex(nodes, embed_model=self.model)
        return index, places, self.embed.asked - before

    def search(self, index: Any, question: str, k: int) -> list[str]:
        """Ids of the ``k`` best nodes."""
        return [found.node_id for found in index.as_retriever(similarity_top_k=k).retrieve(question)]

    def select(self, index: Any, question: str) -> list[str]:
        """Ids of what our retriever keeps of the candidates."""
        from sage_llamaindex import SageRetriever

        return [node.node_id for node in SageRetriever.from_index(index).retrieve(question)]


class LangChainSide:
    """Splitters and retrieval as in LangChain."""

    def __init__(self, texts: dict[str, str], embed: Embedder) -> None:
        from langchain_core.embeddings import Embeddings

        class Cached(Embeddings):
            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                return embed(texts)

            def embed_query(self, text: str) -> list[float]:
                return embed([text])[0]

        self.texts = texts
        self.embed = embed
        self.model = Cached()

    def splitters(self) -> dict[str, Any]:
        """The splitters by what is written in the table."""
        from langchain_text_splitters import RecursiveCharacterTextSplitter

        from sage_langchain import SageTextSplitter

        found = {
            "RecursiveCharacterTextSplitter(1000, 200)": RecursiveCharacterTextSplitter(
                chunk_size=1000, chunk_overlap=200
            )
        }
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                from langchain_experimental.text_splitter import SemanticChunker
        except ImportError:
            print("left out: SemanticChunker, for which langchain-experimental is needed")
        else:
            found["SemanticChunker(...)"] = SemanticChunker(self.model)
        return {**found, "SageTextSplitter()": SageTextSplitter(add_start_index=True)}

    def index(self, splitter: Any) -> tuple[Any, dict[str, tuple[str, Span]], int]:
        """A store, where its documents stand, and the texts embedded to build it."""
        from langchain_core.documents import Document
        from langchain_core.vectorstores import InMemoryVectorStore

        before = self.embed.asked
        documents, places = [], {}
        for name, text in self.texts.items():
            made = splitter.split_documents([Document(page_content=text, metadata={"source": name})])
            made = [document for document in made if document.page_content.strip()]
            spans = placed(text, [document.page_content for document in made])
            for number, (document, span) in enumerate(zip(made, spans, strict=True)):
                document.id = f"{name} {number}"
                places[document.id] = (name, span)
            documents += made
        store = InMemoryVectorStore(self.model)
        store.add_documents(documents)
        return store, places, self.embed.asked - before

    def search(self, store: Any, question: str, k: int) -> list[str]:
        """Ids of the ``k`` best documents."""
        return [found.id for found in store.similarity_search(question, k=k)]

    def select(self, store: Any, question: str) -> list[str]:
        """Ids of what our retriever keeps of the candidates."""
        from sage_langchain import SageRetriever

        return [found.id for found in SageRetriever.from_vectorstore(store).invoke(question)]


def placed(text: str, chunks: list[str]) -> list[Span]:
    """Where chunks stand, of splitters that overlap, and of those that change white space."""
    try:
        return overlapping(text, chunks)
    except ValueError:
        return spaced(text, chunks)


def rows_of(side: LlamaIndexSide | LangChainSide, questions: list[Question], usual: int) -> list[Row]:
    """The lines of a framework; ``usual`` is its number of results."""
    from llama_index.core.utils import get_tokenizer

    tokenize = get_tokenizer()
    rows: list[Row] = []
    for name, splitter in side.splitters().items():
        index, places, embedded = side.index(splitter)
        tokens = {
            key: len(tokenize(side.texts[document][span.start : span.end]))
            for key, (document, span) in places.items()
        }

        def row(
            retrieval: str,
            find: Callable[[str], list[str]],
            name: str = name,
            places: dict[str, tuple[str, Span]] = places,
            embedded: int = embedded,
            tokens: dict[str, int] = tokens,
        ) -> Row:
            found = [find(question.text) for question in questions]
            return Row(
                name,
                retrieval,
                tuple(tokens.values()),
                embedded,
                tuple(sum(tokens[key] for key in keys) for keys in found),
                tuple(
                    evidence_recall(question, [places[key] for key in keys])
                    for question, keys in zip(questions, found, strict=True)
                ),
            )

        def search(k: int, index: Any = index) -> Callable[[str], list[str]]:
            return lambda question: side.search(index, question, k)

        rows.append(row(f"top {usual}", search(usual)))
        if name.startswith("Sage"):
            budget = mean(rows[0].sent)
            fitting = [usual]
            while mean(row("", search(fitting[-1] + 1)).sent) <= budget:
                fitting.append(fitting[-1] + 1)
            rows.append(row(f"top {fitting[-1]}", search(fitting[-1])))
            rows.append(row("`SageRetriever`", lambda q, index=index: side.select(index, q)))
    return rows


def mean(values: Sequence[float]) -> float:
    """The mean."""
    return sum(values) / len(values)


def table(rows: Sequence[Row], price: float) -> str:
    """Markdown."""
    head = [
        "splitter",
        "retrieval",
        "vectors",
        "tokens: mean, largest",
        "texts embedded",
        "tokens sent",
        "cost",
        "evidence",
    ]
    lines = ["| " + " | ".join(head) + " |", "|---" * 2 + "|---:" * 6 + "|"]
    for row in rows:
        sent = mean(row.sent)
        cells = [
            f"`{row.splitter}`",
            row.retrieval,
            f"{len(row.sizes)}",
            f"{mean(row.sizes):.0f}, {max(row.sizes)}",
            f"{row.embedded}",
            f"{sent:.0f}",
            f"{sent * price / 1000:.2f}",
            f"{mean(row.recall):.0%}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print the tables, or put them into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--price", type=float, default=1.0, help="money for a million tokens sent")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/others.md")
    parser.add_argument(
        "--documents", type=Path, default=ROOT / "demo" / "documents", help="a folder of files"
    )
    island = ROOT / "notebooks" / "island_questions.jsonl"
    parser.add_argument("--questions", type=Path, default=island, help="in the form of the default file")
    options = parser.parse_args()
    texts = texts_of(options.documents)
    questions = questions_of(options.questions, texts)
    embed = Embedder()
    tables = {
        "llamaindex": rows_of(LlamaIndexSide(texts, embed), questions, 2),
        "langchain": rows_of(LangChainSide(texts, embed), questions, 4),
    }
    page = PAGE.read_text(encoding="utf-8")
    for name, rows in tables.items():
        made = table(rows, options.price)
        print(f"{name}, {len(texts)} documents, {len(questions)} questions\n\n{made}\n")
        pattern = rf"(<!-- table: {name} -->\n).*?(<!-- end -->)"
        page = re.sub(pattern, lambda m, made=made: f"{m[1]}{made}\n{m[2]}", page, flags=re.DOTALL)
    if options.write:
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
