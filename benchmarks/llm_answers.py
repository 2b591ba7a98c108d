"""Answers by a real LLM: how much of what the evidence alone would bring does a retriever bring it?

    python benchmarks/llm_answers.py --cache answers
    python benchmarks/llm_answers.py --cache answers --budgets 256 1024
    python benchmarks/llm_answers.py --cache answers --model Qwen/Qwen3-4B
    python benchmarks/llm_answers.py --cache answers --base-url http://127.0.0.1:8000/v1 --model NAME

Every arm sends the very same number of tokens of context for a question (those of the reader), best passage
first, the last one cut where they end: no arm gains by the size of its chunks. What is shown of a passage is
what its framework shows: its text, and over chunks of ours their title and headings, within the budget.
"Stock" is the framework's own splitter and store; the rows below add one part to that index. All embed by
all-MiniLM-L6-v2.

The measure is the log-likelihood of the gold answer, in nats a token. Small readers lose gains in free text
(they miss most of what they did not know even with the passage before them), and no parser stands between.
Its scale is the reader's own: 0 is no passage, 100 the evidence alone; a set on which the evidence brings
nothing, by its interval, says nothing about arms. Greedy answers of at most 32 tokens stand beside: whether
the gold answer is contained, F1 of words, F1 of character 3-grams.

Sets: fairytaleqa (answers printed in the tale; each tale searched alone), hotpot_pool (evidence in several
documents; without yes and no), squad2_dev16 with its names and numbers exchanged for others of their kind
(what the reader knows by heart is wrong), clapnq_dev (long answers). Intervals: 95%, bootstrap over documents
(hotpot_pool: over questions), 2,000 resamples, paired.

``--cache`` is a folder: ``passages.jsonl`` holds what each arm found, ``scores.jsonl`` what the reader made
of it. What is there is not run again; ``--again ARM ...`` searches again, and reads what changed. A server
needs ``/completions`` with ``echo`` and ``logprobs``, as vLLM has it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import string
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import doors
import numpy as np
from board import titled
from development_sets import Corpus, Question, _corpus
from local_llm import LocalLLM, Prefix, missing
from numpy.typing import NDArray

from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.segmentation import Segmenter
from sage_core.text.header import with_header
from sage_core.text.outline import header_of
from sage_core.text.spans import Span

SETS = {
    "fairytaleqa": (23, 60_000, True),
    "hotpot_pool": (1000, 10_000, False),
    "squad2_dev16": (16, 100_000, False),
    "clapnq_dev": (600, 10_000, False),
}
"""Documents, the longest in characters, whether each is searched by itself."""
MOST_TOKENS = 1100
"""Of the reader, kept of what an arm found: more than the largest budget."""
RESAMPLES = 2000
ANSWER_TOKENS = 32
TURN = 25
"""Questions of a set that are read before those of the next one."""
Read = tuple[float, int, str | None]
"""Log-likelihood of the gold answer in nats, its tokens, and the greedy answer where it was asked for."""

SYSTEM = "Answer the question from the passages, in as few words as possible."
EXAMPLES = (
    ("Tom sold his boat in May and bought a red bicycle.", "What did Tom buy?", "a red bicycle"),
    ("The mill on the river Wend was built by two brothers in 1820.", "Who built the mill?", "two brothers"),
)
NOTHING, ORACLE, FILLED = "nothing", "evidence alone", "evidence, filled up with others"
FUSION = "LlamaIndex: 256 tokens, with BM25"
Floats = NDArray[np.float64]


# What is asked.


def questions(name: str, count: int, seed: int) -> Corpus:
    """A set with ``count`` questions whose answers are short (clapnq_dev: any), spread over its documents."""
    documents, longest, separate = SETS[name]
    corpus = doors.without_copies(titled(_corpus(name, documents, 10_000, longest, separate, seed)))
    if name == "squad2_dev16":
        corpus = exchanged(corpus, seed)
    fit = [q for q in corpus.questions if _fits(name, q)]
    by_document: dict[int, list[Question]] = {}
    for q in fit:
        by_document.setdefault(q.document, []).append(q)
    turns = sorted(
        ((turn, d, q) for d, mine in by_document.items() for turn, q in enumerate(mine)), key=lambda t: t[:2]
    )
    return replace(corpus, questions=[q for _, _, q in turns][:count])


def _fits(name: str, question: Question) -> bool:
    answer = question.row["answers"][0]
    if name == "clapnq_dev":
        return True
    if name == "fairytaleqa" and not question.row["explicit"]:
        return False
    return len(answer.split()) <= 10 and answer.lower() not in ("yes", "no")


_PLACE = r"where\b|(in )?(what|which) (city|country|state|town)\b"


def _kind(question: str, answer: str) -> str | None:
    """What an answer is, where its form and its question say it."""
    if re.fullmatch(r"(1\d|20)\d\d", answer):
        return "year"
    if re.fullmatch(r"\d[\d,.]*\d", answer):
        return "number"
    parts = answer.split()
    if len(parts) > 3 or not all(re.fullmatch(r"[A-Z][\w'’-]*", part) for part in parts):
        return None
    if re.match(_PLACE, question, re.IGNORECASE):
        return "place"
    return "person" if len(parts) > 1 and re.match(r"who\b", question, re.IGNORECASE) else None


def exchanged(corpus: Corpus, seed: int) -> Corpus:
    """Names and numbers that are answers, each for one of its kind everywhere; questions about those."""
    kinds: dict[str, str] = {}
    for q in corpus.questions:
        answer = q.row["answers"][0]
        if (kind := _kind(q.text, answer)) is not None:
            kinds.setdefault(answer, kind)
    rng, to = random.Random(seed), {}
    for kind in sorted(set(kinds.values())):
        mine = sorted(a for a, k in kinds.items() if k == kind)
        rng.shuffle(mine)
        to.update(zip(mine, mine[1:] + mine[:1], strict=True))
    longest_first = sorted(to, key=len, reverse=True)
    # Numbers inside longer ones and names inside longer words stay.
    pattern = re.compile(r"(?<![\w.,])(" + "|".join(map(re.escape, longest_first)) + r")(?![\w]|[.,]\d)")

    def put(text: str) -> tuple[str, Callable[[int], int]]:
        moves = [(m.end(), len(to[m[1]]) - len(m[1])) for m in pattern.finditer(text)]
        new = pattern.sub(lambda m: to[m[1]], text)
        return new, lambda at: at + sum(by for end, by in moves if end <= at)

    texts = [put(text) for text in corpus.texts]
    made = []
    for q in corpus.questions:
        answer = q.row["answers"][0]
        if answer in to and answer not in q.text:
            at = texts[q.document][1]
            evidence = [Span(at(e.start), at(e.end)) for e in q.evidence]
            row = {**q.row, "answers": [to[answer]], "original": answer}
            made.append(replace(q, text=put(q.text)[0], evidence=evidence, row=row))
    # An exchange may have moved the answer out of its evidence (a longer name that contains it): not asked.
    made = [q for q in made if any(q.row["answers"][0] in e.of(texts[q.document][0]) for e in q.evidence)]
    return replace(corpus, texts=[text for text, _ in texts], questions=made)


# What is found.


ARMS: dict[str, Any] = {
    doors.LLAMAINDEX: doors.llamaindex_stock,
    FUSION: doors.llamaindex_fusion,
    "+ SageRetriever": doors.llamaindex_retriever,
    "LlamaIndex, README": doors.llamaindex_snippet,
    doors.LANGCHAIN: doors.langchain_stock,
    "+ SageRetriever, LangChain": doors.langchain_retriever,
    "LangChain, README": doors.langchain_snippet,
    "Sage": doors.open_sage,
}
OURS = tuple(arm for arm in ARMS if "stock" not in arm and arm != FUSION)
STOCK = {
    doors.LLAMAINDEX: "stock LlamaIndex",
    FUSION: "LlamaIndex with BM25",
    doors.LANGCHAIN: "stock LangChain",
}
EVERY = (NOTHING, *ARMS, ORACLE, FILLED)


def shown(found: Any) -> str:
    """What its framework shows an LLM of a result: text, and metadata such as the title; no file's name."""
    if hasattr(found, "node"):
        from llama_index.core.schema import MetadataMode

        files = [key for key in found.node.metadata if key.startswith("file_")]
        hidden = [*found.node.excluded_llm_metadata_keys, *files]
        node = found.node.model_copy(update={"excluded_llm_metadata_keys": hidden})
        return str(node.get_content(MetadataMode.LLM))
    if hasattr(found, "chunk"):
        return with_header(found.chunk.header, found.chunk.text)
    header = header_of(found.page_content, found.metadata)
    return with_header(header, found.page_content)


Found = dict[str, tuple[list[str], float]]
"""By question, passages best first and the processor's seconds for them."""


def search(arm: str, corpus: Corpus, embed: doors.Memory, folder: Path, seed: int, enough: int) -> Found:
    """Passages of ``enough`` characters at least, where there are so many."""
    if arm in (ORACLE, FILLED):
        return {
            q.row["qid"]: (_oracle(corpus, q, arm == FILLED, seed, enough), 0.0) for q in corpus.questions
        }
    found: Found = {}
    groups = [[d] for d in range(len(corpus.texts))] if corpus.separate else [list(range(len(corpus.texts)))]
    for group in groups:
        mine = [q for q in corpus.questions if q.document in group]
        if not mine:
            continue
        files = folder / str(group[0]) / "files"
        files.mkdir(parents=True, exist_ok=True)
        for d in group:
            Path(files, f"{d}.md").write_text(corpus.texts[d], encoding="utf-8", newline="")
        ask, _ = ARMS[arm](files, embed)
        ask(mine[0].text)  # whatever is made with the first question
        for q in mine:
            begin = time.process_time()
            ranked = ask(q.text)[0]
            found[q.row["qid"]] = (_enough(map(shown, ranked), enough), time.process_time() - begin)
    return found


def _enough(passages: Iterable[str], characters: int) -> list[str]:
    taken, size = [], 0
    for passage in passages:
        taken.append(passage)
        size += len(passage)
        if size >= characters:
            break
    return taken


def _oracle(corpus: Corpus, question: Question, filled: bool, seed: int, enough: int) -> list[str]:
    """The evidence, a passage a document under its title; then others at random, of what is searched."""
    pieces: dict[int, list[str]] = {}
    for piece, d in zip(question.evidence, question.documents, strict=True):
        pieces.setdefault(d, []).append(piece.of(corpus.texts[d]).strip())
    passages = ["\n".join([corpus.titles[d], *texts]).strip() for d, texts in pieces.items()]
    if not filled:
        return passages
    rng = random.Random(f"{seed} {question.row['qid']}")
    order = (
        [question.document]
        if corpus.separate
        else rng.sample(range(len(corpus.texts)), min(40, len(corpus.texts)))
    )
    others = [
        span.of(corpus.texts[d])
        for d in order
        for span in _chunks(corpus.texts[d])
        if not any(
            d == owner and span.start < e.end and e.start < span.end
            for e, owner in zip(question.evidence, question.documents, strict=True)
        )
    ]
    rng.shuffle(others)
    return _enough([*passages, *others], enough)


_CHUNKS: dict[str, list[Span]] = {}


def _chunks(text: str) -> list[Span]:
    if text not in _CHUNKS:
        _CHUNKS[text] = Segmenter().segment(text)
    return _CHUNKS[text]


# What the reader makes of it.


@dataclass(frozen=True)
class Prompt:
    """A prompt in three parts, so that the middle one can be cut to a number of tokens."""

    head: str
    context: str
    tail: str


class Reader(Protocol):
    """Something that says how likely an answer is, and answers."""

    name: str

    def cut(self, text: str, tokens: int) -> str:
        """The text up to so many tokens."""

    def frame(self, question: str) -> tuple[str, str]:
        """What stands before the passages and what after them."""

    def answer(self, prompts: Sequence[Prompt], gold: str, write: bool) -> list[Read]:
        """For each prompt; ``write``: with greedy answers."""


def _turns(question: str) -> list[dict[str, str]]:
    turns = [{"role": "system", "content": SYSTEM}]
    for passage, asked, said in EXAMPLES:
        turns += [
            {"role": "user", "content": f"Passages:\n\n{passage}\n\nQuestion: {asked}"},
            {"role": "assistant", "content": said},
        ]
    return [*turns, {"role": "user", "content": f"Passages:\n\n\0\n\nQuestion: {question}"}]


class Local:
    """A model that transformers loads; prompts of one length are read at once."""

    def __init__(self, model: str | None) -> None:
        self.llm = LocalLLM(model)
        self.name = self.llm.name
        self._heads: dict[str, Prefix] = {}

    def cut(self, text: str, tokens: int) -> str:
        """The text up to so many tokens."""
        ids = self.llm.encode(text)
        return text if len(ids) <= tokens else str(self.llm.tokenizer.decode(ids[:tokens]))

    def frame(self, question: str) -> tuple[str, str]:
        """The chat template around the passages."""
        text = self.llm.tokenizer.apply_chat_template(
            _turns(question), tokenize=False, add_generation_prompt=True
        )
        head, _, tail = text.partition("\0")
        return head, tail

    def answer(self, prompts: Sequence[Prompt], gold: str, write: bool) -> list[Read]:
        """See `Reader`."""
        head = self._head(prompts[0].head)
        rows = [self.llm.encode(p.context) + self.llm.encode(p.tail) for p in prompts]
        ids = self.llm.encode(gold)
        made: list[Read] = [(0.0, 0, None)] * len(prompts)
        for length in {len(row) for row in rows}:
            same = [i for i, row in enumerate(rows) if len(row) == length]
            read = self.llm.read([rows[i] for i in same], head)
            scores = self.llm.score(read, [ids] * len(same))
            written = self.llm.greedy(read, ANSWER_TOKENS) if write else [None] * len(same)
            for i, score, text in zip(same, scores, written, strict=True):
                made[i] = (float(sum(score)), len(ids), text)
        return made

    def _head(self, text: str) -> Prefix:
        if text not in self._heads:
            self._heads = {text: self.llm.read([self.llm.encode(text)])}
        return self._heads[text]


class Server:
    """An OpenAI-compatible server; tokens of the budget are those of the bundled model's tokenizer."""

    def __init__(self, base_url: str, model: str, key: str = "none") -> None:
        from local_llm import bundled
        from openai import OpenAI
        from transformers import AutoTokenizer

        place = bundled()
        self.name = model
        self._client = OpenAI(base_url=base_url, api_key=key)
        self._tokenizer: Any = AutoTokenizer.from_pretrained(str(place.parent), gguf_file=place.name)

    def cut(self, text: str, tokens: int) -> str:
        """The text up to so many tokens."""
        ids = self._tokenizer.encode(text, add_special_tokens=False)
        return text if len(ids) <= tokens else str(self._tokenizer.decode(ids[:tokens]))

    def frame(self, question: str) -> tuple[str, str]:
        """Plain text: a server for completions applies no template."""
        turns = _turns(question)
        said = [f"{t['content']}\nAnswer: " if t["role"] == "user" else f"{t['content']}\n\n" for t in turns]
        head, _, tail = "".join(said).partition("\0")
        return head, tail.rstrip(" ")

    def answer(self, prompts: Sequence[Prompt], gold: str, write: bool) -> list[Read]:
        """See `Reader`."""
        made: list[Read] = []
        for prompt in prompts:
            text = prompt.head + prompt.context + prompt.tail
            sure = self._client.completions.create(
                model=self.name, prompt=f"{text} {gold}", echo=True, logprobs=1, max_tokens=1, temperature=0
            )
            given = sure.choices[0].logprobs
            assert given is not None and given.text_offset and given.token_logprobs, "no log-probabilities"
            end = len(text) + 1 + len(gold)
            of_gold = [
                p
                for at, p in zip(given.text_offset, given.token_logprobs, strict=True)
                if len(text) <= at < end
            ]
            reply = None
            if write:
                reply = (
                    self._client.completions.create(
                        model=self.name, prompt=text, max_tokens=ANSWER_TOKENS, temperature=0, stop=["\n"]
                    )
                    .choices[0]
                    .text.strip()
                )
            made.append((float(sum(of_gold)), len(of_gold), reply))
        return made


# The run.


class Lines:
    """JSON lines, appended and kept by key."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.rows: dict[str, Any] = {}
        if file.is_file():
            for line in file.read_text("utf-8").splitlines():
                key, value = json.loads(line)
                self.rows[key] = value

    def add(self, key: str, value: Any) -> None:
        """Keep a value."""
        self.rows[key] = value
        with self._file.open("a", encoding="utf-8") as out:
            out.write(json.dumps([key, value], ensure_ascii=False) + "\n")


def prompt_key(reader: str, prompt: Prompt, gold: str) -> str:
    """What a score depends on."""
    return hashlib.sha256("\0".join([reader, *vars(prompt).values(), gold]).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Run:
    """What one run shares."""

    reader: Reader
    passages: Lines
    scores: Lines
    seed: int

    def find(self, name: str, corpus: Corpus, arms: Sequence[str], again: Sequence[str]) -> None:
        """Search with the arms that have not searched these questions."""
        embed = doors.Embedder(MiniLMEmbedder())
        with tempfile.TemporaryDirectory() as folder:
            for arm in arms:
                keys = {q.row["qid"]: _key(name, arm, q) for q in corpus.questions}
                if arm == NOTHING or (
                    arm not in again and all(key in self.passages.rows for key in keys.values())
                ):
                    continue
                began = time.perf_counter()
                found = search(arm, corpus, embed, Path(folder), self.seed, 7 * MOST_TOKENS)
                for qid, (texts, seconds) in found.items():
                    kept = self.reader.cut("\n\n".join(texts), MOST_TOKENS)
                    self.passages.add(keys[qid], [kept, seconds])
                print(f"{name}: {arm}: searched in {time.perf_counter() - began:.0f} s", flush=True)

    def prompt(self, name: str, arm: str, question: Question, budget: int) -> Prompt:
        """The prompt of an arm for a question."""
        head, tail = self.reader.frame(question.text)
        context = "(none)" if arm == NOTHING else self.passages.rows[_key(name, arm, question)][0]
        return Prompt(head, self.reader.cut(context, budget), tail)

    def read(
        self, name: str, questions: Sequence[Question], arms: Sequence[str], budget: int, write: bool
    ) -> None:
        """Score what has no score yet."""
        began = time.perf_counter()
        for question in questions:
            gold = question.row["answers"][0]
            prompts = [self.prompt(name, arm, question, budget) for arm in arms]
            keys = [prompt_key(self.reader.name, p, gold) for p in prompts]
            had = self.scores.rows
            read = {k for k in keys if k in had and not (write and had[k][2] is None)}
            new = {k: p for k, p in zip(keys, prompts, strict=True) if k not in read}
            if new:
                made = self.reader.answer(list(new.values()), gold, write)
                for key, value in zip(new, made, strict=True):
                    self.scores.add(key, value)
        spent = time.perf_counter() - began
        print(f"{name} at {budget}: {len(questions)} questions in {spent:.0f} s", flush=True)

    def figures(
        self, name: str, corpus: Corpus, arms: Sequence[str], budget: int
    ) -> tuple[Corpus, dict[str, Floats]]:
        """The questions that all arms have read; by arm a row for each.

        Columns: nats a token; contained, F1, F1 of 3-grams (NaN without an answer); seconds of the search.
        """
        made: dict[str, list[list[float]]] = {arm: [] for arm in arms}
        read = []
        for q in corpus.questions:
            keys = [self.key(name, arm, q, budget) for arm in arms]
            if not all(key in self.scores.rows for key in keys):
                continue
            read.append(q)
            for arm, key in zip(arms, keys, strict=True):
                total, count, text = self.scores.rows[key]
                seconds = 0.0 if arm == NOTHING else self.passages.rows[_key(name, arm, q)][1]
                said = [np.nan] * 3 if text is None else likeness(text, q.row["answers"])
                made[arm].append([total / count, *said, seconds])
        return replace(corpus, questions=read), {arm: np.array(rows) for arm, rows in made.items()}

    def key(self, name: str, arm: str, question: Question, budget: int) -> str | None:
        """Of an arm's score for a question; None where it has not searched."""
        if arm != NOTHING and _key(name, arm, question) not in self.passages.rows:
            return None
        prompt = self.prompt(name, arm, question, budget)
        return prompt_key(self.reader.name, prompt, question.row["answers"][0])


def _key(name: str, arm: str, question: Question) -> str:
    return f"{name}/{arm}/{question.row['qid']}"


def words(text: str) -> list[str]:
    """Lower case, without punctuation and articles, as SQuAD's evaluation has it."""
    bare = text.lower().translate(str.maketrans("", "", string.punctuation))
    return [w for w in bare.split() if w not in ("a", "an", "the")]


def likeness(text: str, answers: Sequence[str]) -> list[float]:
    """Whether an answer is contained, F1 of words, F1 of character 3-grams; of the best gold answer."""
    said = words(text)
    best = [0.0, 0.0, 0.0]
    for answer in answers:
        gold = words(answer)
        contained = float(bool(gold) and f" {' '.join(gold)} " in f" {' '.join(said)} ")
        grams = [_f1(_grams(said), _grams(gold))]
        best = [max(a, b) for a, b in zip(best, [contained, _f1(said, gold), *grams], strict=True)]
    return best


def _grams(tokens: Sequence[str]) -> list[str]:
    text = " ".join(tokens)
    return [text[i : i + 3] for i in range(max(1, len(text) - 2))]


def _f1(said: Sequence[str], gold: Sequence[str]) -> float:
    same = sum((Counter(said) & Counter(gold)).values())
    return 2 * same / (len(said) + len(gold)) if same else 0.0


# The report.


def resampled(clusters: Sequence[int], seed: int) -> NDArray[np.intp]:
    """(resamples, clusters): how often each cluster is drawn."""
    count = len(set(clusters))
    rng = np.random.default_rng(seed)
    return np.stack([np.bincount(rng.integers(0, count, count), minlength=count) for _ in range(RESAMPLES)])


def summed(values: Floats, clusters: Sequence[int]) -> Floats:
    """Sums within clusters."""
    order = {c: i for i, c in enumerate(dict.fromkeys(clusters))}
    out = np.zeros(len(order))
    np.add.at(out, [order[c] for c in clusters], values)
    return out


def interval(draws: Floats, digits: int = 0) -> str:
    """The middle 95%."""
    low, high = np.percentile(draws, [2.5, 97.5])
    return f"[{low:+.{digits}f}, {high:+.{digits}f}]"


def report(name: str, budget: int, corpus: Corpus, found: dict[str, Floats], seed: int) -> None:
    """Print a set at a budget."""
    if not corpus.questions:
        return
    clusters = [i if q.others else q.document for i, q in enumerate(corpus.questions)]
    picks = resampled(clusters, seed)
    counts = picks @ summed(np.ones(len(clusters)), clusters)
    nats = {arm: f[:, 0] for arm, f in found.items()}
    gain = {arm: nats[arm] - nats[NOTHING] for arm in found}
    drawn = {arm: picks @ summed(g, clusters) for arm, g in gain.items()}
    oracle = drawn[ORACLE] / counts
    print(
        f"\n{name}, {budget} tokens, {len(clusters)} questions in {len(set(clusters))} clusters: "
        f"nothing {nats[NOTHING].mean():.2f} nats a token, "
        f"the evidence {gain[ORACLE].mean():+.2f} {interval(oracle, 2)}"
        + ("" if np.percentile(oracle, 2.5) > 0 else ": this reader cannot measure here")
    )
    if np.percentile(oracle, 2.5) <= 0:
        return
    heads = ["nats", "% of the evidence's gain", *(f"points over {s}" for s in STOCK.values())]
    both = ~np.isnan([rows[:, 1] for rows in found.values()]).any(0)
    written = bool(both.any())
    if written:
        print(f"Greedy answers to {both.sum()} of them.")
    heads += ["contained", "F1", "3-grams"] * written + ["ms of search"]
    print(f"\n| | {' | '.join(heads)} |\n" + "|---" * (len(heads) + 1) + "|")
    share = {arm: 100 * gain[arm].mean() / gain[ORACLE].mean() for arm in found}
    for arm, rows in found.items():
        shares = 100 * drawn[arm] / drawn[ORACLE]
        cells = [f"{nats[arm].mean():.2f}", f"{share[arm]:.0f} {interval(shares)}"]
        for stock in STOCK:
            if arm in OURS and stock in found:
                ahead = 100 * (drawn[arm] - drawn[stock]) / drawn[ORACLE]
                cells.append(f"{share[arm] - share[stock]:+.0f} {interval(ahead)}")
            else:
                cells.append("")
        if written:
            cells += [f"{v:.2f}" for v in rows[both, 1:4].mean(0)]
        cells.append(f"{1000 * rows[:, 4].mean():.0f}")
        print(f"| {arm} | {' | '.join(cells)} |")


def main() -> None:
    """Search, read, and print Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, required=True, help="a folder for what was found and read")
    parser.add_argument("--sets", nargs="+", default=[*SETS][:3], choices=SETS, metavar="SET")
    parser.add_argument("--budgets", nargs="+", type=int, default=[512], metavar="TOKENS")
    parser.add_argument("--questions", type=int, default=100, help="of each set")
    parser.add_argument("--arms", nargs="+", help="arms whose names contain one of these, beside the scale")
    parser.add_argument("--again", nargs="+", default=[], help="search again: these arms, or `ours`")
    parser.add_argument("--texts", type=int, default=50, help="questions of each set answered in words, too")
    parser.add_argument("--report", action="store_true", help="only print what the cache has")
    parser.add_argument("--model", help="a .gguf file, a folder or a name; of a server its model's name")
    parser.add_argument("--base-url", help="an OpenAI-compatible server with log-probabilities")
    parser.add_argument("--seed", type=int, default=0, help="of the samples and of the bootstrap")
    options = parser.parse_args()
    if missing() and not options.model:
        raise SystemExit(missing())
    reader: Reader = (
        Server(options.base_url, options.model or "default") if options.base_url else Local(options.model)
    )
    options.cache.mkdir(parents=True, exist_ok=True)
    run = Run(
        reader, Lines(options.cache / "passages.jsonl"), Lines(options.cache / "scores.jsonl"), options.seed
    )
    scale = (NOTHING, ORACLE)
    arms = [a for a in EVERY if not options.arms or a in scale or any(part in a for part in options.arms)]
    again = [a for a in arms if (a in OURS and "ours" in options.again) or a in options.again]
    corpora = {name: questions(name, options.questions, options.seed) for name in options.sets}
    if not options.report:
        for name, corpus in corpora.items():
            run.find(name, corpus, arms, again)
        # By turns, so that a run that is cut short has something of every set.
        for first in range(0, options.questions, TURN):
            for budget in options.budgets:
                for name, corpus in corpora.items():
                    part = corpus.questions[first : first + TURN]
                    run.read(name, part, arms, budget, first < options.texts)
    print(f"{reader.name}, seed {options.seed}")
    for budget in options.budgets:
        for name, corpus in corpora.items():
            report(name, budget, *run.figures(name, corpus, arms, budget), options.seed)


if __name__ == "__main__":
    main()
