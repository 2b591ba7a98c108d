"""The paper's table of parts with a real model: naive chunks, + segmentation, + selection, + feedback.

    python benchmarks/llm_parts.py --cache parts.jsonl
    python benchmarks/llm_parts.py --cache parts.jsonl --sets fairytaleqa --feedback

Methods of `sage_eval`, each at the paper's settings and at ours, over all-MiniLM-L6-v2; each sends what it
selects. The model, its template and the likelihoods are those of `llm_answers.py`: fairytaleqa's short
answers in nats a token, 0% no passage and 100% the evidence alone; QuALITY's options by their nats a token,
right where that of the right one is highest. With ``--feedback`` the rows with a loop, too: the same model
answers and grades, and the context of the answer that it graded best is measured. Intervals: 95%, bootstrap
over stories, 2,000 resamples, paired. ``--cache`` keeps what is done.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from development_sets import Corpus, Question, _read
from llm_answers import NOTHING, ORACLE, Floats, Lines, Local, interval, questions, resampled, summed
from local_llm import missing
from sage_eval.methods.factory import SharedWork, make_method
from sage_eval.records import EvalDocument, EvalQuestion

from sage_app.answers import LLMAnswerer
from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.llm import Completion, Message
from sage_core.llm.usage import TokenUsage

REPLY_TOKENS = 64
NAIVE = "naive: 10 chunks of 200 tokens"
PARTS: dict[str, dict[str, Any]] = {
    NAIVE: {"method": "naive"},
    "+ segmentation": {"method": "naive+segmentation"},
    "+ segmentation, paper": {"method": "naive+segmentation", "paper": True},
    "+ selection": {"method": "naive+selection"},
    "+ selection, paper": {"method": "naive+selection", "paper": True},
    "+ both": {"method": "sage-feedback"},
    "+ both, paper": {"method": "sage-feedback", "paper": True},
}
LOOPS: dict[str, dict[str, Any]] = {
    "+ feedback": {"method": "naive+feedback"},
    "all three": {"method": "sage"},
    "all three, paper": {"method": "sage-paper"},
}


class Chat:
    """The model behind `sage_core.llm.ChatModel`; asked nothing where a row has no loop."""

    def __init__(self, local: Local, asked: bool) -> None:
        self.name = local.name
        self._llm, self._asked = local.llm, asked

    def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, object] | None = None
    ) -> Completion:
        """The greedy reply."""
        if not self._asked:
            return Completion("-")
        ids = self._llm.prompt([{"role": m.role, "content": m.content} for m in messages])
        text = self._llm.greedy(self._llm.read([ids]), REPLY_TOKENS)[0]
        return Completion(text, TokenUsage(len(ids), len(self._llm.encode(text)), 1))

    async def acomplete(
        self, messages: Sequence[Message], *, schema: Mapping[str, object] | None = None
    ) -> Completion:
        """As `complete`."""
        return self.complete(messages, schema=schema)


def quality(seed: int) -> Corpus:
    """QuALITY's stories, and questions spread over them."""
    documents = _read("quality_leval_docs")
    index = {d["doc_id"]: i for i, d in enumerate(documents)}
    rows = _read("quality_leval_questions")
    random.Random(seed).shuffle(rows)
    turns: dict[str, int] = {}
    for row in rows:
        row["turn"] = turns[row["doc_id"]] = turns.get(row["doc_id"], -1) + 1
    rows.sort(key=lambda row: row["turn"])
    made = [Question(row["question"], index[row["doc_id"]], [], row=row) for row in rows]
    return Corpus([d["text"] for d in documents], [d.get("title") or "" for d in documents], made, True)


def contexts(name: str, corpus: Corpus, parts: Mapping[str, Any], local: Local, kept: Lines) -> None:
    """What each method sends for each question."""
    embedder, shared = MiniLMEmbedder(), SharedWork()
    for document in sorted({q.document for q in corpus.questions}):
        mine = [q for q in corpus.questions if q.document == document]
        for row, spec in parts.items():
            if all(f"{name}/{row}/{q.row['qid']}" in kept.rows for q in mine):
                continue
            reader = LLMAnswerer(Chat(local, asked=row in LOOPS))
            method = make_method({**spec, "index": "dense"}, reader=reader, embedder=embedder, shared=shared)
            method.prepare([EvalDocument(str(document), corpus.texts[document], corpus.titles[document])])
            for q in mine:
                options = tuple(q.row.get("options") or ())
                found = method.answer(EvalQuestion(q.row["qid"], str(document), q.text, options=options))
                calls = sum(usage.calls for usage in found.usage.values())
                texts = "\n\n".join(piece.text for piece in found.context)
                kept.add(f"{name}/{row}/{q.row['qid']}", [texts, found.rounds, calls])


def scored(name: str, row: str, corpus: Corpus, question: Question, local: Local, kept: Lines) -> list[float]:
    """Nats a token of each of the options, or of the gold answer."""
    key = f"{name}/{row}/{question.row['qid']}/nats"
    if key not in kept.rows:
        if row == NOTHING:
            context = "(none)"
        elif row == ORACLE:
            context = "\n".join(e.of(corpus.texts[question.document]).strip() for e in question.evidence)
        else:
            context = kept.rows[f"{name}/{row}/{question.row['qid']}"][0]
        head, tail = local.frame(question.text)
        answers = [local.llm.encode(a) for a in question.row.get("options") or question.row["answers"][:1]]
        read = local.llm.read([local.llm.encode(head + context + tail)])
        nats = [float(np.mean(s)) for s in local.llm.score(read, answers)]
        kept.add(key, [nats, len(local.llm.encode(context)) if row != NOTHING else 0])
    return list(kept.rows[key][0])


def report(name: str, corpus: Corpus, rows: Sequence[str], local: Local, kept: Lines, seed: int) -> None:
    """Score what has no score yet, and print a table."""
    by_option = name == "quality"
    values: dict[str, Floats] = {}
    for row in [NOTHING, *rows, *([] if by_option else [ORACLE])]:
        nats = [scored(name, row, corpus, q, local, kept) for q in corpus.questions]
        values[row] = np.array(
            [
                100.0 * (int(np.argmax(n)) == q.row["gold"]) if by_option else n[0]
                for n, q in zip(nats, corpus.questions, strict=True)
            ]
        )
    clusters = [q.document for q in corpus.questions]
    picks = resampled(clusters, seed)
    counts = picks @ summed(np.ones(len(clusters)), clusters)
    drawn = {row: picks @ summed(v, clusters) / counts for row, v in values.items()}
    print(f"\n{name}: {len(clusters)} questions in {len(set(clusters))} stories")
    zero, scale, drawn_zero, drawn_scale = 0.0, 1.0, np.zeros(len(picks)), np.ones(len(picks))
    if not by_option:
        zero, drawn_zero = values[NOTHING].mean(), drawn[NOTHING]
        scale, drawn_scale = (values[ORACLE].mean() - zero) / 100, (drawn[ORACLE] - drawn_zero) / 100
        in_nats = interval(100 * drawn_scale, 2)
        print(f"The evidence alone over nothing: {100 * scale:+.2f} nats a token {in_nats}")
    head = "right, %" if by_option else "% of the evidence's gain"
    print(f"\n| | tokens | calls | {head} | points over naive |\n|---|---|---|---|---|")
    for row, mine in values.items():
        of = [f"{name}/{row}/{q.row['qid']}" for q in corpus.questions]
        tokens = np.mean([kept.rows[f"{key}/nats"][1] for key in of])
        calls = np.mean([kept.rows[key][2] for key in of]) if row in LOOPS else 1
        share, shares = (mine.mean() - zero) / scale, (drawn[row] - drawn_zero) / drawn_scale
        ahead, aheads = (mine - values[NAIVE]).mean() / scale, (drawn[row] - drawn[NAIVE]) / drawn_scale
        cells = [f"{tokens:.0f}", f"{calls:.1f}", f"{share:.0f} {interval(shares)}"]
        print(f"| {row} | {' | '.join(cells)} | {ahead:+.0f} {interval(aheads)} |")


def main() -> None:
    """Find, read, and print Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, required=True, help="JSON lines")
    parser.add_argument("--sets", nargs="+", default=["fairytaleqa", "quality"], metavar="SET")
    parser.add_argument("--questions", type=int, default=40, help="of each set")
    parser.add_argument("--stories", type=int, default=8, help="of each set")
    parser.add_argument("--feedback", action="store_true", help="the rows with a loop, too")
    parser.add_argument("--model", help="a .gguf file, a folder or a name")
    parser.add_argument("--seed", type=int, default=0, help="of the samples and of the bootstrap")
    options = parser.parse_args()
    if missing() and not options.model:
        raise SystemExit(missing())
    local, kept = Local(options.model), Lines(options.cache)
    parts = {**PARTS, **(LOOPS if options.feedback else {})}
    print(f"{local.name}, seed {options.seed}")
    for name in options.sets:
        every = quality(options.seed) if name == "quality" else questions(name, 10_000, options.seed)
        first = sorted({q.document for q in every.questions})[: options.stories]
        mine = [q for q in every.questions if q.document in first][: options.questions]
        corpus = replace(every, questions=mine)
        contexts(name, corpus, parts, local, kept)
        report(name, corpus, list(parts), local, kept, options.seed)


if __name__ == "__main__":
    main()
