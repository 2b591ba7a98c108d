"""Tokens a second of the segmenter, of its parts and of other splitters, all in one run on one text.

    python benchmarks/segmentation_speed.py [--text FILE] [--rounds 5] [--stream-mb 100]

Without ``--text`` the text is made of the development documents (``SAGE_DATA``). Tokens are those of the
bundled WordPiece vocabulary for every row. Rounds are interleaved, and the median is given, so that a busy
machine slows all rows alike. Splitters that embed are timed on the first ``--slow-tokens`` tokens: their time
is linear in them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
from sage_core.segmentation import Segmenter
from sage_core.segmentation.models.load import load_model
from sage_core.text.sentences import split_sentences
from sage_core.text.tokens import get_counter
from sage_core.text.wordpiece import TOKENIZER_FILE

MINILM = os.environ.get("SAGE_MINILM", "sentence-transformers/all-MiniLM-L6-v2")
"""The original all-MiniLM-L6-v2: a folder, or a name to download."""

Job = Callable[[], object]
SETS = ("seg_wikipedia_valid", "seg_openstax_philosophy")


def main() -> None:
    """Measure and print Markdown tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", type=Path, help="a text file of at least 300,000 tokens")
    parser.add_argument("--model", default="default", help="boundary model: a bundled name or a folder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=320_000, help="how much of the text is used")
    parser.add_argument("--slow-tokens", type=int, default=6_000, help="for splitters that embed")
    parser.add_argument("--stream-mb", type=int, default=0, help="also stream so many megabytes, for memory")
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()

    counter = get_counter("bert")
    text = cut_to(options.text.read_text("utf-8") if options.text else development_text(), options.tokens)
    tokens = counter.count(text)
    segmenter = Segmenter(options.model)
    segmenter.segment(text[:2000])
    machine = platform.processor() or platform.machine()
    print(f"{machine}, {os.cpu_count()} cores, Python {platform.python_version()}, {segmenter!r}")
    print(f"text: {len(text):,} characters, {tokens:,} tokens; median of {options.rounds} rounds\n")
    if options.stream_mb:
        stream(segmenter, text, options.stream_mb)
    jobs: dict[str, Job] = {"Segmenter": lambda: segmenter.segment(text)}
    jobs |= parts(options.model, text)
    if not options.no_peers:
        jobs |= fast_peers(text)
    report(jobs, tokens, options.rounds)
    linearity(segmenter, text)
    if not options.no_peers:
        sample = cut_to(text, options.slow_tokens)
        print(f"\nThe first {counter.count(sample):,} tokens, for splitters that embed:\n")
        report(
            {"Segmenter": lambda: segmenter.segment(sample), **slow_peers(sample)},
            counter.count(sample),
            min(3, options.rounds),
        )


def parts(model_name: str, text: str) -> dict[str, Job]:
    """The stages of the segmenter, and the floor: tokenizing alone with the tokenizers library."""
    from tokenizers import Tokenizer

    from sage_core.segmentation.models import encoder

    model: Any = load_model(model_name)
    network = getattr(model, "network", model)  # the context model keeps its encoder there
    sentences = [span.of(text) for span in split_sentences(text)]
    tokenizer = Tokenizer.from_file(str(TOKENIZER_FILE))
    most = network.encoder.config.max_tokens
    tokens = encoder.tokenize(sentences, most)
    return {
        "- sentences": lambda: split_sentences(text),
        "- tokenizing (and surface features)": lambda: encoder.tokenize(sentences, most),
        "- encoding": lambda: network.encoder.encode_tokens(tokens),
        "- tokenizing, encoding, scoring": lambda: model.probabilities([sentences]),
        "tokenizing alone (tokenizers library, batch)": lambda: tokenizer.encode_batch_fast(
            sentences, add_special_tokens=False
        ),
    }


def fast_peers(text: str) -> dict[str, Job]:
    """Splitters that do not embed; those not installed are named and left out."""
    jobs: dict[str, Job] = {}
    if installed("llama_index.core", "llama-index-core"):
        from llama_index.core.node_parser import SentenceSplitter

        splitter = SentenceSplitter(chunk_size=200, chunk_overlap=0)
        jobs["LlamaIndex SentenceSplitter(200)"] = lambda: splitter.split_text(text)
    if installed("langchain_text_splitters", "langchain-text-splitters"):
        from langchain_text_splitters import RecursiveCharacterTextSplitter

        count = get_counter("bert").count
        recursive = RecursiveCharacterTextSplitter(chunk_size=200, chunk_overlap=0, length_function=count)
        jobs["LangChain RecursiveCharacterTextSplitter(200, our counter)"] = lambda: recursive.split_text(
            text
        )
    if installed("semchunk", "semchunk"):
        import semchunk

        chunker = semchunk.chunkerify(get_counter("bert").count, 200, memoize=False)
        jobs["semchunk(200, our counter)"] = lambda: chunker(text)
    return jobs


def slow_peers(text: str) -> dict[str, Job]:
    """Splitters that embed every sentence, with all-MiniLM-L6-v2 on this machine."""
    jobs: dict[str, Job] = {}
    if not installed("sentence_transformers", "sentence-transformers"):
        return jobs
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(MINILM)
    sentences = [span.of(text) for span in split_sentences(text)]
    jobs["one pass of all-MiniLM over the sentences"] = lambda: model.encode(sentences, batch_size=64)
    if installed("llama_index.core", "llama-index-core"):
        from llama_index.core.node_parser import SemanticSplitterNodeParser
        from llama_index.core.schema import Document

        parser = SemanticSplitterNodeParser(embed_model=llama_index_embedding(model))
        jobs["LlamaIndex SemanticSplitter"] = lambda: parser.get_nodes_from_documents([Document(text=text)])
    if installed("langchain_experimental", "langchain-experimental"):
        from langchain_core.embeddings import Embeddings
        from langchain_experimental.text_splitter import SemanticChunker

        class MiniLM(Embeddings):
            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                return [[float(x) for x in row] for row in model.encode(texts, batch_size=64)]

            def embed_query(self, text: str) -> list[float]:
                return self.embed_documents([text])[0]

        chunker = SemanticChunker(MiniLM())
        jobs["LangChain SemanticChunker"] = lambda: chunker.split_text(text)
    if installed("chonkie", "chonkie"):
        from chonkie import SemanticChunker as ChonkieSemantic

        chonkie = ChonkieSemantic(embedding_model=MINILM)
        jobs["chonkie SemanticChunker"] = lambda: chonkie.chunk(text)
    return jobs


def llama_index_embedding(model: Any) -> Any:
    """all-MiniLM as LlamaIndex asks for it, 64 texts a batch."""
    from llama_index.core.embeddings import BaseEmbedding

    class MiniLM(BaseEmbedding):
        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return [[float(x) for x in row] for row in model.encode(texts, batch_size=64)]

        def _get_text_embedding(self, text: str) -> list[float]:
            return self._get_text_embeddings([text])[0]

        def _get_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    return MiniLM(embed_batch_size=64)


def report(jobs: dict[str, Job], tokens: int, rounds: int) -> None:
    """Time the jobs in turn and print a table: by the clock, and by the processor time of all threads."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    cpu: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            start, start_cpu = time.perf_counter(), time.process_time()
            job()
            seconds[name].append(time.perf_counter() - start)
            cpu[name].append(time.process_time() - start_cpu)
    ours, ours_cpu = median(seconds["Segmenter"]), median(cpu["Segmenter"])
    print(
        "| what | tokens/s | seconds | time / ours | tokens/CPU s | CPU / ours |\n|---|---|---|---|---|---|"
    )
    for name, times in seconds.items():
        spread = f"{median(times):.3f} ({min(times):.3f} to {max(times):.3f})"
        busy = median(cpu[name])
        print(
            f"| {name} | {tokens / median(times):,.0f} | {spread} | {median(times) / ours:.2f} "
            f"| {tokens / busy:,.0f} | {busy / ours_cpu:.2f} |"
        )


def linearity(segmenter: Segmenter, text: str) -> None:
    """Microseconds a character for one text of growing length."""
    print("\n| characters in one text | µs a character |\n|---|---|")
    for times in (0.25, 1, 4):
        long = text[: int(len(text) * times)] if times <= 1 else "\n\n".join([text] * int(times))
        start = time.perf_counter()
        segmenter.segment(long)
        print(f"| {len(long):,} | {(time.perf_counter() - start) / len(long) * 1e6:.3f} |")


def stream(segmenter: Segmenter, text: str, megabytes: int) -> None:
    """Peak memory while many texts stream through ``segment_iter``."""

    def texts() -> Iterator[str]:
        size = 20_000
        for done in range(0, megabytes * 1_000_000, size):
            start = done % max(1, len(text) - size)
            yield text[start : start + size]

    list(segmenter.segment_many([text[:20_000]] * 100))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    chunks = sum(map(len, segmenter.segment_iter(texts())))
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"stream: {megabytes} MB in {seconds:.1f} s, {chunks:,} chunks; peak memory {before / 1024:.0f} MB")
    print(f"after 2 MB, {after / 1024:.0f} MB after all\n")


def cut_to(text: str, tokens: int) -> str:
    """The beginning of ``text`` with about so many tokens."""
    return text[: int(len(text) * min(1.0, tokens / get_counter("bert").count(text)))]


def development_text() -> str:
    """Sections of the development documents, with their headings."""
    folder = Path(os.environ.get("SAGE_DATA", "../shared/data")) / "dev"
    blocks: list[str] = []
    for name in SETS:
        path = folder / f"{name}.jsonl.gz"
        if not path.is_file():
            sys.exit(f"no {path}: set SAGE_DATA, or give a text with --text")
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                for section in json.loads(line)["sections"]:
                    blocks += [section["heading"] or "", *section["paragraphs"]]
    return "\n\n".join(block for block in blocks if block)


def installed(module: str, distribution: str) -> bool:
    """Whether a peer can be imported; says so where not."""
    try:
        found = find_spec(module) is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        print(f"(not installed, left out: {distribution})")
    return found


if __name__ == "__main__":
    main()
