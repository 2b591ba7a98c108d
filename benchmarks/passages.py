"""What it costs to cut what was retrieved, beside what the frameworks have for it, in one run.

    python benchmarks/passages.py --questions 20

A stock index of LlamaIndex (1,024 tokens, 200 overlap) over six articles. Cold: nothing of a node is known;
warm: the same questions again. Beside it, over the same 15 nodes and with the same encoder: LangChain's
splitter (300 characters) with `EmbeddingsFilter`, if langchain-community is there, and LlamaIndex's
`SentenceEmbeddingOptimizer`, which embed everything with every question. Milliseconds of the processor for a
question, and the ratio to ours, warm. Whole nodes: ``passages="off"``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from development_sets import corpora
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor import SentenceEmbeddingOptimizer
from llama_index.core.schema import QueryBundle

from sage_langchain import MiniLMEmbeddings
from sage_llamaindex import MiniLMEmbedding, SageNodePostprocessor, SageRetriever

CUT = 15


def langchain_filter(embedding: Any) -> Callable[[Sequence[Any], str], Any] | None:
    """LangChain's pipeline over nodes; None if its package is not there."""
    try:
        from langchain_classic.retrievers.document_compressors import (
            DocumentCompressorPipeline,
            EmbeddingsFilter,
        )

        cut = EmbeddingsFilter(embeddings=embedding, k=10)  # looks for langchain-community
    except ImportError:
        return None
    from langchain_core.documents import Document as LangChainDocument
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    splitter = RecursiveCharacterTextSplitter(chunk_size=300, chunk_overlap=0)
    pipeline = DocumentCompressorPipeline(transformers=[splitter, cut])
    return lambda nodes, question: pipeline.compress_documents(
        [LangChainDocument(n.node.text) for n in nodes], question
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=20)
    options = parser.parse_args(arguments)
    [corpus] = corpora(0, ["squad2_dev16"]).values()
    questions = [q.text for q in corpus.questions[: options.questions]]
    index = VectorStoreIndex.from_documents(
        [Document(text=text) for text in corpus.texts],
        transformations=[SentenceSplitter(chunk_size=1024, chunk_overlap=200)],
        embed_model=MiniLMEmbedding(),
    )
    search = SageRetriever.from_index(index).unselected()
    found = {question: search.retrieve(question) for question in questions}
    ours, whole = SageNodePostprocessor(), SageNodePostprocessor(passages="off")
    optimizer = SentenceEmbeddingOptimizer(embed_model=MiniLMEmbedding(), percentile_cutoff=0.5)
    rows: dict[str, Callable[[Sequence[Any], str], Any]] = {
        "passages, cold": lambda nodes, q: ours.postprocess_nodes([*nodes], query_str=q),
        "passages, warm": lambda nodes, q: ours.postprocess_nodes([*nodes], query_str=q),
        "whole nodes": lambda nodes, q: whole.postprocess_nodes([*nodes], query_str=q),
        "LlamaIndex: SentenceEmbeddingOptimizer": lambda nodes, q: optimizer.postprocess_nodes(
            [n.model_copy(deep=True) for n in nodes[:CUT]], QueryBundle(q)
        ),
    }
    if (filtered := langchain_filter(MiniLMEmbeddings())) is not None:
        rows["LangChain: splitter, EmbeddingsFilter"] = lambda nodes, q: filtered(nodes[:CUT], q)
    spent: dict[str, float] = {}
    for row, ask in rows.items():
        times = []
        for question in questions:
            begin = time.process_time()
            ask(found[question], question)
            times.append(time.process_time() - begin)
        spent[row] = 1000 * float(np.mean(times))
    print(f"{len(questions)} questions\n\n| | ms | ratio |\n|---|---:|---:|")
    for row, ms in spent.items():
        print(f"| {row} | {ms:.0f} | {ms / spent['passages, warm']:.1f} |")


if __name__ == "__main__":
    main()
