"""What the search by words earns at the doors, over one index of the documents of many sets.

    python benchmarks/words.py --questions 30

The documents of eight development sets are one collection of some 1,300, so that sixty chunks of a vector
search are no longer most of it. Asked are the questions of the sets that are searched as a whole, and
questions for codes, numbers and names that stand in one or two sentences of one document ("Tell me about
10.1.6."): their evidence are these sentences. Rows: stock index and our retriever, of each framework; once
with the search by words, once without. A cell: evidence within 250 / 500 / 1,000 tokens; what is sent, and
its tokens; milliseconds of the processor.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from development_sets import Corpus, Question, corpora
from doors import (
    Embedder,
    _recursive_splitter,
    _sentence_splitter,
    document_place,
    langchain_store,
    llamaindex_index,
    node_place,
    run,
    titled,
    without_copies,
)

from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.text.sentences import split_sentences
from sage_core.text.spans import Span

TOGETHER = ("squad2_dev16", "clapnq_dev", "onestopqa", "hotpot_pool", "2wiki_pool", "covidqa")
BESIDE = ("cuad_leval", "fairytaleqa")
"""Sets whose documents are searched too; their questions do not say which document they ask about."""
ASKING = (
    "What is said about {}?",
    "Where does {} come up, and in what connection?",
    "Tell me about {}.",
    "What do the documents know of {}?",
    "Why does {} matter?",
)
_TOKEN = re.compile(r"[A-Za-z0-9][\w./-]*\w")
_CODE = re.compile(r"(?=.*\d)(?=.*[A-Za-z]).{4,}(?<!st)(?<!nd)(?<!rd)(?<!th)(?<!m)")
_NUMBER = re.compile(r"\d{5,}|(?=.{5})\d+[./-]\d+[./-]?\d*")
_NAME = re.compile(r"[A-Z][a-z]{4,}")


def together(seed: int, n: int) -> Corpus:
    """All documents, and ``n`` questions of each set."""
    texts: list[str] = []
    titles: list[str] = []
    questions: list[Question] = []
    for name, corpus in corpora(seed, (*TOGETHER, *BESIDE)).items():
        corpus, first = without_copies(titled(corpus)), len(texts)
        texts += corpus.texts
        titles += corpus.titles
        questions += [
            replace(q, document=q.document + first, others=tuple(d + first for d in q.others))
            for q in corpus.questions[: n if name in TOGETHER else 0]
        ]
    return Corpus(texts, titles, questions, separate=False)


def rare(corpus: Corpus, n: int, seed: int) -> list[Question]:
    """``n`` questions each for codes, numbers and names that few sentences have."""
    places: dict[str, list[tuple[int, Span]]] = defaultdict(list)
    lower = Counter(word for text in corpus.texts for word in set(re.findall("[a-z]+", text)))
    for document, text in enumerate(corpus.texts):
        for sentence in split_sentences(text):
            if 40 <= sentence.end - sentence.start <= 400:
                for token in {*_TOKEN.findall(sentence.of(text))}:
                    places[token].append((document, sentence))

    def is_rare(token: str) -> bool:
        documents = {document for document, _ in places[token]}
        return len(documents) == 1 and corpus.texts[documents.pop()].count(token) <= 2

    def is_name(token: str) -> bool:
        document, sentence = places[token][0]
        begins = sentence.of(corpus.texts[document]).startswith(token)
        return not (lower[token.lower()] or begins or token.lower() in corpus.titles[document].lower())

    rng, made = random.Random(seed), []
    kinds: tuple[tuple[re.Pattern[str], Callable[[str], bool]], ...]
    kinds = ((_CODE, lambda _: True), (_NUMBER, lambda _: True), (_NAME, is_name))
    for form, fits in kinds:
        tokens = sorted(token for token in places if form.fullmatch(token) and is_rare(token) and fits(token))
        for i, token in enumerate(rng.sample(tokens, n)):
            question = ASKING[i % len(ASKING)].format(token)
            made.append(Question(question, places[token][0][0], [span for _, span in places[token]]))
    return made


def llamaindex(splitter: Callable[[], Any]) -> Callable[..., Any]:
    """Our retriever over an index of LlamaIndex."""

    def opened(files: Path, embed: Embedder, words: Any) -> Any:
        from llama_index.core.schema import QueryBundle

        from sage_llamaindex import SageRetriever

        retriever = SageRetriever.from_index(llamaindex_index(files, embed, splitter()), words=words)
        candidates, sage = retriever.unselected(), retriever.postprocessor

        def search(question: str) -> tuple[Any, Any]:
            ranking = sage.rerank(candidates.retrieve(question), QueryBundle(question))
            return ranking.best_first, sage.cut(ranking)

        return search, node_place

    return opened


def langchain(splitter: Callable[[], Any]) -> Callable[..., Any]:
    """Our retriever over a store of LangChain."""

    def opened(files: Path, embed: Embedder, words: Any) -> Any:
        from sage_langchain import SageRetriever

        retriever = SageRetriever.from_vectorstore(langchain_store(files, embed, splitter()), words=words)
        compressor: Any = retriever.base_compressor

        def search(question: str) -> tuple[Any, Any]:
            ranked = retriever.invoke(question, select=False)
            return ranked, compressor.keep(ranked)

        return search, document_place

    return opened


def ours() -> Any:
    """Our splitter."""
    from sage_langchain import SageTextSplitter

    return SageTextSplitter(add_start_index=True)


ROWS = {
    "LlamaIndex, SentenceSplitter(1024, 200)": llamaindex(_sentence_splitter),
    "LangChain, RecursiveCharacterTextSplitter(1000, 200)": langchain(_recursive_splitter),
    "LangChain, our splitter": langchain(ours),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each door, with words and without."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=30, help="so many of each set")
    parser.add_argument("--rare", type=int, default=20, help="so many of each kind of rare word")
    parser.add_argument("--only", default="", help="rows whose names contain this")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    corpus, embed = together(options.seed, options.questions), Embedder(MiniLMEmbedder())
    asked = {"sets": corpus.questions, "rare": rare(corpus, options.rare, options.seed)}
    print(f"{len(corpus.texts)} documents\n\n| index | words | questions | |\n|---|---|---|---|")
    for row, opened in ROWS.items():
        for words in ("auto", "off") if options.only in row else ():
            for name, questions in asked.items():

                def door(files: Path, embed: Embedder, opened: Any = opened, words: str = words) -> Any:
                    return opened(files, embed, words)

                with tempfile.TemporaryDirectory() as folder:
                    some = replace(corpus, questions=questions)
                    mean = run(door, some, embed, Path(folder), None).mean(0)
                shares = " / ".join(f"{100 * share:.1f}" for share in mean[:3])
                sent = f"{shares}; {100 * mean[3]:.1f} in {mean[4]:.0f}; {mean[5]:.0f} ms"
                print(f"| {row} | {words} | {len(questions)}, {name} | {sent} |", flush=True)


if __name__ == "__main__":
    main()
