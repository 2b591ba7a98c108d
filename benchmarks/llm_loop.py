"""The loop with a real model: does grading and trying again answer better, and what does it cost?

    python benchmarks/llm_loop.py --cache loop.jsonl
    python benchmarks/llm_loop.py --cache loop.jsonl --base-url http://127.0.0.1:8000/v1 --model NAME

Engines of LlamaIndex over the same files, answered and graded by the same model: stock (1,024 tokens, top 2);
ours with one round; and with a critic, the local judge first (`auto`) or the model alone (`llm`).
Questions and sets as in `llm_answers.py`; "unanswerable" are ClapNQ's questions whose article does not
answer them, searched in its other documents.

An answer is right where it contains a gold answer or has an F1 of words of at least .6 with one, "nothing"
where it says that the documents do not say. "Wrong accepted" are answers that the engine returned as accepted
and that are not right; of stock and of one round, what `sage_core.verify.check` accepts, which calls no LLM.
Calls and tokens are counted at the model. Intervals: 95%, bootstrap over documents, 2,000 resamples, paired.
``--cache`` keeps every answer; what is there is not asked again.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import doors
import numpy as np
from board import titled
from development_sets import Corpus, Question, _corpus, _read
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.llms import CustomLLM
from llama_index.core.node_parser import SentenceSplitter
from llm_answers import Floats, Lines, interval, likeness, questions, resampled, summed
from local_llm import LocalLLM, missing

from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.feedback.critic import CRITIC_USER
from sage_core.verify import abstains, check
from sage_llamaindex import SageNodeParser, SageQueryEngine, feedback_of

SETS = ("fairytaleqa", "hotpot_pool", "squad2_dev16", "unanswerable")
REPLY_TOKENS = 64
"""Most, of an answer or of a grade."""
GRADED = CRITIC_USER.rpartition("\n")[2]
"""What only a prompt for a grade has."""
GRADE_FORM = '{"reason": "", "passage": 1, "score": '
STOCK, ONCE = "stock engine", "one round"
ROWS: dict[str, dict[str, Any] | None] = {
    STOCK: None,
    ONCE: {"critic": "off"},
    "critic auto": {"critic": "auto"},
    "critic llm": {},
}
BESIDES: dict[str, dict[str, dict[str, Any]]] = {
    "unanswerable": {"one round, empty_below=None": {"critic": "off"}},
}
"""Rows of one set only."""


@dataclass
class Meter:
    """Asks a model, and counts."""

    model: str | None
    base_url: str | None
    grade_tokens: int = REPLY_TOKENS
    likely_grade: bool = False
    calls: int = 0
    tokens: int = 0
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self._local = None if self.base_url else LocalLLM(self.model)
        self.name = self._local.name if self._local else self.model or "default"

    def ask(self, prompt: str) -> str:
        """The greedy answer, or the grade."""
        messages = [{"role": "user", "content": prompt}]
        self.calls += 1
        graded = GRADED in prompt
        most = self.grade_tokens if graded else REPLY_TOKENS
        if self._local:
            ids = self._local.prompt(messages)
            if graded and self.likely_grade:
                text = self._likeliest(ids)
            else:
                text = self._local.greedy(self._local.read([ids]), most)[0]
            self.tokens += len(ids) + len(self._local.encode(text))
            return text
        from openai import OpenAI

        client = OpenAI(base_url=self.base_url, api_key="none")
        reply = client.chat.completions.create(
            model=self.name,
            messages=messages,  # type: ignore[arg-type]
            temperature=0,
            max_tokens=most,
        )
        assert reply.usage is not None, "the server counts no tokens"
        self.tokens += reply.usage.total_tokens
        return reply.choices[0].message.content or ""

    def _likeliest(self, ids: list[int]) -> str:
        """The form of a grade, filled in with the grade that the model finds likeliest."""
        assert self._local
        ends = [f"{grade}," for grade in range(1, 11)]
        read = self._local.read([ids + self._local.encode(GRADE_FORM)])
        scores = self._local.score(read, [self._local.encode(end) for end in ends])
        return GRADE_FORM + ends[int(np.argmax([sum(s) for s in scores]))] + ' "adjust": 0}'


class Model(CustomLLM):
    """The model as LlamaIndex asks it."""

    meter: Any

    @property
    def metadata(self) -> LLMMetadata:
        """A context of 8,192 tokens, which SmolLM2 was trained for."""
        return LLMMetadata(context_window=8192, num_output=REPLY_TOKENS)

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Ask."""
        return CompletionResponse(text=self.meter.ask(prompt))

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Iterator[Any]:  # type: ignore[override]
        """In one piece."""
        yield self.complete(prompt)


def asked(name: str, count: int, seed: int) -> Corpus:
    """A set."""
    if name != "unanswerable":
        return questions(name, count, seed)
    corpus = doors.without_copies(titled(_corpus("clapnq_dev", 200, 10_000, 10_000, False, seed)))
    rows = _read("clapnq_unanswerable")[:count]
    # Each of another article: every one is a cluster of its own.
    made = [
        Question(row["question"], i, [], row={"qid": str(row["qid"]), "answers": []})
        for i, row in enumerate(rows)
    ]
    return replace(corpus, questions=made)


def answered(engine: Any, options: dict[str, Any] | None, question: Question, meter: Meter) -> dict[str, Any]:
    """What an engine makes of a question."""
    calls, tokens, began = meter.calls, meter.tokens, time.process_time()
    response = engine.query(question.text)
    text, feedback = str(response).strip(), feedback_of(response)
    if feedback is None or feedback.verdict is None:
        passages = [node.node.get_content() for node in response.source_nodes]
        accepted = bool(passages) and check(question.text, passages, text).accepted
    else:
        accepted = feedback.verdict.accepted
    return {
        "answer": text,
        "accepted": accepted,
        "calls": meter.calls - calls,
        "tokens": meter.tokens - tokens,
        "seconds": time.process_time() - began,
        "rounds": len(feedback.rounds) if feedback else 1,
        "stop": feedback.stop_reason if feedback else "",
    }


def run(name: str, corpus: Corpus, meter: Meter, kept: Lines) -> None:
    """Ask every engine what it has not been asked."""
    embed, llm = doors.Embedder(MiniLMEmbedder()), Model(meter=meter)
    rows = {**ROWS, **BESIDES.get(name, {})}
    groups = [[d] for d in range(len(corpus.texts))] if corpus.separate else [list(range(len(corpus.texts)))]
    with tempfile.TemporaryDirectory() as folder:
        for group in groups:
            mine = (
                corpus.questions
                if not corpus.separate
                else [q for q in corpus.questions if q.document in group]
            )
            if all(_key(meter, name, row, q) in kept.rows for row in rows for q in mine):
                continue
            files = Path(folder, str(group[0]))
            files.mkdir()
            for d in group:
                Path(files, f"{d}.md").write_text(corpus.texts[d], encoding="utf-8", newline="")
            stock = doors.llamaindex_index(files, embed, SentenceSplitter(chunk_size=1024, chunk_overlap=200))
            ours = doors.llamaindex_index(files, embed, SageNodeParser())
            engines = {
                row: stock.as_query_engine(llm=llm)
                if options is None
                else SageQueryEngine.from_index(ours, llm=llm, **options)
                for row, options in rows.items()
            }
            for question in mine:
                for row, engine in engines.items():
                    key = _key(meter, name, row, question)
                    if key not in kept.rows:
                        kept.add(key, answered(engine, rows[row], question, meter))


def _key(meter: Meter, name: str, row: str, question: Question) -> str:
    return f"{meter.name}/{name}/{row}/{question.row['qid']}"


def report(found: dict[str, dict[str, Any]], clusters: list[int], gold: list[list[str]], seed: int) -> None:
    """Print a table; ``found``: by row and question, in the order of the others."""
    right = {
        row: np.array(
            [
                any(likeness(r["answer"], g)[i] >= at for i, at in ((0, 1.0), (1, 0.6)))
                for r, g in zip(rows, gold, strict=True)
            ],
            float,
        )
        for row, rows in found.items()
    }
    silent = {
        row: np.array([not r["calls"] or not r["answer"] or abstains(r["answer"]) for r in rows])
        for row, rows in found.items()
    }
    picks = resampled(clusters, seed)
    counts = picks @ summed(np.ones(len(clusters)), clusters)

    def difference(values: Floats) -> str:
        draws = 100 * (picks @ summed(values, clusters)) / counts
        return f"{100 * values.mean():+.1f} {interval(draws, 1)}"

    heads = [
        "right",
        f"points over {ONCE}",
        "nothing",
        "accepted, right",
        "accepted, wrong",
        "rounds",
        "calls",
        "tokens",
        "right per 1,000 tokens",
        "s",
    ]
    print(f"\n| {len(clusters)} questions | {' | '.join(heads)} |\n" + "|---" * (len(heads) + 1) + "|")
    for row, rows in found.items():
        accepted = np.array([r["accepted"] for r in rows]) & ~silent[row]
        mean = {k: np.mean([r[k] for r in rows]) for k in ("rounds", "calls", "tokens", "seconds")}
        cells = [
            f"{100 * right[row].mean():.0f}%",
            "" if row == ONCE else difference(right[row] - right[ONCE]),
            f"{silent[row].sum()}",
            f"{int((accepted & (right[row] > 0)).sum())} of {int(right[row].sum())}",
            f"{int((accepted & (right[row] == 0)).sum())} of {int(((right[row] == 0) & ~silent[row]).sum())}",
            f"{mean['rounds']:.2f}",
            f"{mean['calls']:.2f}",
            f"{mean['tokens']:.0f}",
            f"{1000 * right[row].sum() / sum(r['tokens'] for r in rows):.2f}" if mean["tokens"] else "",
            f"{mean['seconds']:.1f}",
        ]
        print(f"| {row} | {' | '.join(cells)} |")


def main() -> None:
    """Ask, and print Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, required=True, help="JSON lines, an answer each")
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS, metavar="SET")
    parser.add_argument("--questions", type=int, default=20, help="of each set")
    parser.add_argument("--model", help="a .gguf file, a folder or a name; of a server its model's name")
    parser.add_argument("--base-url", help="an OpenAI-compatible server")
    parser.add_argument(
        "--grade-tokens", type=int, default=REPLY_TOKENS, help="most of a grade; takes a cache of its own"
    )
    parser.add_argument(
        "--likely-grade", action="store_true", help="no reply is read but the likeliest grade; likewise"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the samples and of the bootstrap")
    options = parser.parse_args()
    if missing() and not options.model:
        raise SystemExit(missing())
    if options.likely_grade and options.base_url:
        parser.error("--likely-grade reads a local model")
    meter = Meter(options.model, options.base_url, options.grade_tokens, options.likely_grade)
    kept = Lines(options.cache)
    pooled: tuple[dict[str, list[Any]], list[int], list[list[str]]] = ({row: [] for row in ROWS}, [], [])
    print(f"{meter.name}, seed {options.seed}")
    for at, name in enumerate(options.sets):
        corpus = asked(name, options.questions, options.seed)
        run(name, corpus, meter, kept)
        rows = [*ROWS, *BESIDES.get(name, {})]
        found = {row: [kept.rows[_key(meter, name, row, q)] for q in corpus.questions] for row in rows}
        clusters = [i if q.others else q.document for i, q in enumerate(corpus.questions)]
        gold = [q.row["answers"] for q in corpus.questions]
        print(f"\n{name}", flush=True)
        report(found, clusters, gold, options.seed)
        if name != "unanswerable":
            for row, mine in pooled[0].items():
                mine += found[row]
            pooled[1].extend(100_000 * at + c for c in clusters)
            pooled[2].extend(gold)
    if pooled[1]:
        print("\nall answerable")
        report(*pooled, options.seed)


if __name__ == "__main__":
    main()
