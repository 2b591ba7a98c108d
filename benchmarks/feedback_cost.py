"""What the feedback loop buys and what it costs, with an LLM that is right exactly when it can be.

    python benchmarks/feedback_cost.py                      # table, well under a minute
    python benchmarks/feedback_cost.py --critic-errors 0.1  # a critic that is wrong one time in ten

The scripted LLM answers right exactly when all gold evidence of the question is in its context; otherwise it
says "The documents do not say." (``--abstains`` of the time) or something wrong. With ``--wrong`` it is wrong
that often although the evidence is there. The critic accepts right answers and asks for more context
otherwise; with ``--critic-errors`` it errs that often and then asks for more or less at random. A wrong
answer is let through where the loop ends with it as accepted. Prompts are the library's own, tokens are
estimated from them as for a server that does not count (four bytes a token).

The first selection keeps 90% of the probability and at least 3 chunks. (`--rule gradient --min-k 7`, the
paper's, keeps 27 of 30 on these smooth scores, and then no loop has anything to add.) An LLM that more
context never misleads favors wide selections; a real one may be misled, so the gain is an upper bound.

Candidates are the best 30 chunks by BM25, scored by a logistic model of BM25 fitted on questions that are not
measured. Chunks are runs of whole sentences of about 100 tokens. All randomness is seeded per question, and
the same for every arm. Intervals are 95% bootstraps over questions.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from ranking_data import Chunk, chunk_document, read_jsonl

from sage_core.feedback import (
    Check,
    FeedbackConfig,
    FeedbackLoop,
    Verdict,
    critic_messages,
    parse_verdict,
    run_loop,
)
from sage_core.llm.prompting import NO_ANSWER
from sage_core.llm.prompts import answer_messages
from sage_core.llm.usage import TokenUsage, estimate_usage
from sage_core.selection import Selection, SelectionConfig, rank_order
from sage_core.selection.rules import RankedScores
from sage_core.text.keywords import words
from sage_core.text.spans import Span
from sage_core.verify import LocalCritic

CANDIDATES = 30
NOISES = {
    "none": (0.0, 0.0),
    "wrong 10%, critic errs 10%": (0.1, 0.1),
    "wrong 20%, critic errs 10%": (0.2, 0.1),
}
POOLED = {"squad2_dev16": 1400, "clapnq_dev": 300, "hotpot_sample": 100}


@dataclass(frozen=True, slots=True)
class TopP:
    """Keep the fewest scores that together hold a share of the sum: the figures were made with it."""

    p: float = 0.9
    default_min_k: ClassVar[int] = 1

    def cut(self, scores: RankedScores, min_k: int) -> tuple[int, str]:
        """As many as hold share ``p`` of the sum."""
        held = np.cumsum(scores.ratio)
        return int((held < self.p * held[-1]).sum()) + 1, f"share {self.p:g} of all scores"


@dataclass(frozen=True)
class Case:
    """A question, its candidates and their calibrated scores."""

    qid: str
    question: str
    answer: str
    doc_id: str
    evidence: tuple[Span, ...]
    chunks: tuple[Chunk, ...]
    bm25: NDArray[np.float64]
    scores: tuple[float, ...] = ()
    pool: str = ""

    def evidence_in(self, indices: Sequence[int]) -> bool:
        """Whether the chunks at ``indices`` hold every character of the evidence that is not white space."""
        spans = [self.chunks[i].span for i in indices if self.chunks[i].doc_id == self.doc_id]
        return all(_covered(piece, spans) for piece in self.evidence)


def _covered(piece: Span, spans: Sequence[Span]) -> bool:
    position = piece.start
    for span in sorted(spans):
        if span.start > position + 2:  # White space between two chunks may go missing.
            break
        position = max(position, span.end)
    return position >= piece.end


@dataclass
class Tally:
    """What one arm did, question by question."""

    right: list[bool] = field(default_factory=list)
    first_right: list[bool] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    graded: list[int] = field(default_factory=list)
    let_through: list[bool] = field(default_factory=list)
    repeated: int = 0


def load(data: Path, name: str, limit: int, seed: int) -> list[Case]:
    """Cases of one development set, with BM25 candidates out of the whole set."""
    import bm25s

    documents = list(read_jsonl(data / "dev" / f"{name}_docs.jsonl.gz"))
    rows = [q for q in read_jsonl(data / "dev" / f"{name}_questions.jsonl.gz") if q["evidence"]]
    rows = sorted(random.Random(seed).sample(rows, min(limit, len(rows))), key=lambda q: q["qid"])
    chunks = [c for d in documents for c in chunk_document(d["doc_id"], d["text"])]
    index = bm25s.BM25(method="lucene")
    index.index([words(c.text) for c in chunks], show_progress=False)
    found, scores = index.retrieve([words(q["question"]) for q in rows], k=CANDIDATES, show_progress=False)
    return [
        Case(
            q["qid"],
            q["question"],
            str(q["answers"][0]) if q["answers"] else "see the documents",
            q["doc_id"],
            tuple(Span(e["start"], e["end"]) for e in q["evidence"]),
            tuple(chunks[i] for i in row),
            np.asarray(values, dtype=float),
        )
        for q, row, values in zip(rows, found, scores, strict=True)
    ]


def features(case: Case) -> NDArray[np.float64]:
    """Per candidate: BM25, its gap to the best, and 1, for a logistic model."""
    top = max(float(case.bm25.max()), 1e-9)
    return np.column_stack(
        [case.bm25 / 10, (top - case.bm25) / 10, np.log(case.bm25 / top + 1e-3), np.ones(len(case.bm25))]
    )


def calibrate(cases: Sequence[Case]) -> NDArray[np.float64]:
    """Coefficients of a logistic model for "holds evidence", by Newton steps with a light ridge."""
    x = np.vstack([features(c) for c in cases])
    y = np.array([_touches(c, i) for c in cases for i in range(len(c.chunks))], dtype=float)
    weights = np.zeros(x.shape[1])
    for _ in range(25):
        p = 1 / (1 + np.exp(-x @ weights))
        hessian = x.T @ (x * (p * (1 - p))[:, None]) + 1e-2 * np.eye(x.shape[1])
        weights += np.linalg.solve(hessian, x.T @ (y - p) - 1e-2 * weights)
    return weights


def _touches(case: Case, i: int) -> bool:
    chunk = case.chunks[i]
    return chunk.doc_id == case.doc_id and any(
        min(e.end, chunk.span.end) - max(e.start, chunk.span.start) > (e.end - e.start) / 2
        for e in case.evidence
    )


def _plausible(passage: str, dice: random.Random, answer: str) -> str:
    """A wrong answer as a model would give it: a name or a number from the best passage."""
    found = [w for w in re.findall(r"\b(?:[A-Z]\w+(?: [A-Z]\w+)*|\d[\d,.]*\d)", passage) if w != answer]
    return dice.choice(found) if found else "Nobody."


@dataclass(frozen=True)
class Oracle:
    """The scripted LLM; the same question and context always get the same reply."""

    abstains: float
    critic_errors: float
    seed: int
    wrong: float = 0.0

    def _dice(self, case: Case, what: str, indices: Sequence[int]) -> random.Random:
        return random.Random(f"{self.seed} {case.qid} {what} {sorted(indices)}")

    def answer(self, case: Case, selection: Selection) -> tuple[str, TokenUsage]:
        """Right where all evidence is there; else it abstains or is wrong."""
        context = [case.chunks[i].text for i in selection.indices]
        slips = self._dice(case, "slip", selection.indices).random() < self.wrong
        if case.evidence_in(selection.indices) and not slips:
            text = case.answer
        elif slips and case.evidence_in(selection.indices):
            text = _plausible(context[0], self._dice(case, "wrong", selection.indices), case.answer)
        elif self._dice(case, "abstain", selection.indices).random() < self.abstains:
            text = NO_ANSWER
        else:
            text = _plausible(context[0], self._dice(case, "wrong", selection.indices), case.answer)
        return text, estimate_usage((m.content for m in answer_messages(case.question, context)), text)

    def grade(self, case: Case, selection: Selection, answer: str) -> tuple[Verdict, TokenUsage]:
        """9 where the answer is right, else 3 and more context; the other way round where it errs."""
        dice = self._dice(case, "critic", selection.indices)
        right = answer == case.answer
        score, adjust = (9, 0) if right else (3, 1)
        if dice.random() < self.critic_errors:
            score, adjust = (3, dice.choice((-1, 1))) if right else (9, 0)
        reply = json.dumps(
            {"reason": "One short sentence of twelve words or so.", "score": score, "adjust": adjust}
        )
        context = [case.chunks[i].text for i in selection.indices]
        messages = critic_messages(case.question, context, answer)
        return parse_verdict(reply), estimate_usage((m.content for m in messages), reply)


@dataclass(frozen=True)
class Arm:
    """One way of running the loop."""

    name: str
    config: FeedbackConfig
    less: float | None = None  # chance of asking for less, whatever the context (figure 6: 60%)
    check: Callable[[Case], Check] | None = None


def arms(ours: FeedbackConfig) -> list[Arm]:
    """The arms compared, all with the same first selection."""
    paper = replace(ours, policy="paper")

    def judging(alone: bool) -> Callable[[Case], Check]:
        def check(case: Case) -> Check:
            texts = [c.text for c in case.chunks]
            return LocalCritic(case.question, lambda s: [texts[i] for i in s.indices], alone=alone)

        return check

    return [
        Arm("no feedback", replace(ours, max_calls=1)),
        Arm("paper, literal ±1", paper),
        Arm("paper, its coin (60% less)", paper, less=0.6),
        Arm("random ±1", paper, less=0.5),
        Arm("ours", ours),
        Arm("ours, every answer graded", replace(ours, no_answer=())),
        Arm("ours, two rounds", replace(ours, max_rounds=2)),
        Arm("ours, critic auto", replace(ours, critic="auto"), check=judging(False)),
        Arm("ours, critic local", replace(ours, critic="local"), check=judging(True)),
    ]


def run_arm(arm: Arm, cases: Sequence[Case], oracle: Oracle) -> Tally:
    """Every case through one arm."""
    tally = Tally()
    for case in cases:
        coin = random.Random(f"{oracle.seed} {case.qid} coin")
        loop = FeedbackLoop(case.scores, "probability", arm.config, sizes=[c.tokens for c in case.chunks])

        def judge(
            selection: Selection, answer: str, case: Case = case, coin: random.Random = coin
        ) -> tuple[Verdict, TokenUsage]:
            verdict, usage = oracle.grade(case, selection, answer)
            if arm.less is not None:
                verdict = replace(verdict, adjust=-1 if coin.random() < arm.less else 1)
            return verdict, usage

        result = run_loop(
            loop,
            lambda selection, case=case: oracle.answer(case, selection),
            judge,
            check=arm.check(case) if arm.check is not None else None,
        )
        tally.right.append(result.answer == case.answer)
        tally.first_right.append(result.rounds[0].answer == case.answer)
        tally.calls.append(result.usage.calls)
        tally.graded.append(result.usage_by_role["judge"].calls)
        accepted = result.stop_reason == "accepted"
        tally.let_through.append(accepted and result.answer not in (case.answer, NO_ANSWER))
        tally.tokens.append(result.usage.total)
        tally.rounds.append(len(result.rounds))
        shown = [r.selection.indices for r in result.rounds]
        tally.repeated += len(shown) - len(set(shown))
    return tally


def interval(values: Sequence[float], seed: int) -> tuple[float, float]:
    """95% bootstrap interval of a mean."""
    rng = np.random.default_rng(seed)
    sample = np.asarray(values, dtype=float)
    means = sample[rng.integers(0, len(sample), (2000, len(sample)))].mean(axis=1)
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def table(tallies: dict[str, Tally], seed: int) -> str:
    """One line an arm, as Markdown."""
    base = next(iter(tallies.values()))
    lines = [
        "| loop | right | gain over no feedback | lost after round 1 | wrong let through "
        "| calls | judge calls | tokens | rounds | repeats |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, t in tallies.items():
        low, high = interval(t.right, seed)
        gain = np.asarray(t.right, dtype=float) - np.asarray(base.right, dtype=float)
        gain_low, gain_high = interval(gain, seed)
        lost = sum(f and not r for f, r in zip(t.first_right, t.right, strict=True))
        lines.append(
            f"| {name} | {np.mean(t.right):.1%} ({low:.1%} to {high:.1%}) "
            f"| {gain.mean():+.1%} ({gain_low:+.1%} to {gain_high:+.1%}) | {lost} "
            f"| {np.mean(t.let_through):.1%} | {np.mean(t.calls):.2f} | {np.mean(t.graded):.2f} "
            f"| {np.mean(t.tokens):.0f} | {np.mean(t.rounds):.2f} | {t.repeated} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SAGE_DATA", "../shared/data")))
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--abstains", type=float, default=0.5, help="share of unsupported answers that abstain"
    )
    parser.add_argument("--critic-errors", type=float, default=0.0)
    parser.add_argument(
        "--wrong", type=float, default=0.0, help="share of wrong answers although the evidence is there"
    )
    parser.add_argument("--limit", type=int, help="only so many questions")
    parser.add_argument(
        "--rule", choices=("gradient", "top_p"), default="top_p", help="rule of the first selection"
    )
    parser.add_argument("--min-k", type=int, default=3)
    parser.add_argument("--gradient", type=float, default=0.3)
    parser.add_argument("--json", type=Path, help="write the figures there too")
    args = parser.parse_args()
    if not args.data.is_dir():
        print(f"no development data at {args.data}: set SAGE_DATA", file=sys.stderr)
        return 2
    measured: list[Case] = []
    for name, limit in POOLED.items():
        cases = load(args.data, name, limit, args.seed)
        fitted = calibrate(cases[::2])
        for case in cases[1::2]:
            scores = 1 / (1 + np.exp(-features(case) @ fitted))
            measured.append(replace(case, scores=tuple(float(s) for s in scores), pool=name))
    if args.limit is not None:
        measured = random.Random(args.seed).sample(measured, min(args.limit, len(measured)))
    oracle = Oracle(args.abstains, args.critic_errors, args.seed, args.wrong)
    rule: TopP | Literal["gradient"] = TopP(0.9) if args.rule == "top_p" else "gradient"
    config = FeedbackConfig(selection=SelectionConfig(rule=rule, min_k=args.min_k))
    if args.rule == "gradient":
        config = replace(config, gradient=args.gradient)
    tallies = {arm.name: run_arm(arm, measured, oracle) for arm in arms(config)}
    reach = np.mean([c.evidence_in(rank_order(c.scores)) for c in measured])
    print(f"n = {len(measured)} questions ({', '.join(POOLED)}), seed {args.seed}.")
    print(f"First selection: {args.rule}, min_k {args.min_k}. Critic errors {args.critic_errors:.0%};")
    print(f"{args.abstains:.0%} of unsupported answers say that the documents do not say.")
    print(f"All evidence is among the {CANDIDATES} candidates for {reach:.1%}.\n")
    print(table(tallies, args.seed))
    if args.json is not None:
        figures = {
            n: {
                "right": float(np.mean(t.right)),
                "calls": float(np.mean(t.calls)),
                "tokens": float(np.mean(t.tokens)),
            }
            for n, t in tallies.items()
        }
        args.json.write_text(
            json.dumps({"n": len(measured), "seed": args.seed, "arms": figures}, indent=2) + "\n"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
