"""Several hops: is all evidence found within 1,000 tokens of context, and what does it cost?

    python benchmarks/multihop.py --sets 2wiki_pool --questions 70 --documents 520
    python benchmarks/multihop.py                     # both pools, 1,600 documents each
    python benchmarks/multihop.py --no-links          # the same without following names
    python benchmarks/multihop.py --sets clapnq_dev squad2_dev16 --questions 70 --knows --errs 0.3

`Sage` as it is by default, and a budget of 1,000 tokens of context. The LLM is scripted: its critic accepts
where at least half of every piece of evidence is shown. Else it asks for more, and in a share of the
questions it knows the decomposition: it names a missing document whose title stands in the question or in a
passage it was shown (nobody can name another) with those words of the question that the rest of the evidence
does not explain. In the other questions it names nothing, and the library searches for a name in the passages
("names": in all of them). With ``--errs``, the critic turns the first answer down in that share of the
questions although all evidence is shown: what a needless search costs where evidence stands in one place.
"Full" is one round filled up to the budget in the order of the scores. Calls and tokens (thousands, answers
and grades) are means a question. Intervals: paired bootstrap over questions of the difference to "full",
2,000 resamples, seed 0. Documents: all that hold evidence, and others drawn with seed 1.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sage_eval.datasets.load import dev_folder

from sage_app import Sage, SageConfig
from sage_app.pipeline.results import Candidate
from sage_core import TokenUsage, Verdict
from sage_core.feedback import FeedbackConfig
from sage_core.selection import SelectionConfig, select
from sage_core.selection.cut import fitting
from sage_core.text.keywords import index_terms
from sage_core.text.tokens import get_counter

BUDGET = 1000
WITHIN_BUDGET = SelectionConfig(max_context_tokens=BUDGET)
COUNT = get_counter("bert").count


@dataclass(frozen=True)
class Question:
    """A question, its evidence by document (spans in the file), and the titles and texts of those."""

    text: str
    evidence: Mapping[str, Sequence[tuple[int, int]]]
    titles: Mapping[str, str]
    texts: Mapping[str, str]

    def sub_question(self, document: str) -> str:
        """The title of a document, and the words of the question that no other evidence explains."""
        rest = " ".join([self.titles[document], *(t for d, t in self.texts.items() if d != document)])
        explained = {*index_terms(rest)}
        words = [w for w in re.findall(r"[\w'-]+", self.text) if {*index_terms(w)} - explained]
        return " ".join([self.titles[document], *words])


class Scripted:
    """Answers and grades for one question after the other; see the module."""

    label = "scripted"

    def __init__(self, knows: float, *, names: bool = False, errs: float = 0.0) -> None:
        self._knows = knows
        self._names = names
        self._errs = errs
        self._chance = random.Random(3)
        self.question: Question | None = None
        self._informed = False
        self._wrong = False

    def about(self, question: Question) -> None:
        """The next question."""
        self.question, self._informed = question, self._chance.random() < self._knows
        self._wrong = self._chance.random() < self._errs

    def generate(self, question: str, context: Sequence[str], **_: Any) -> tuple[str, TokenUsage]:
        """An answer, which nobody reads."""
        return "an answer", TokenUsage(sum(map(COUNT, context)) + 150, 20, 1)

    def judge(
        self, question: str, context: Sequence[str], answer: str, **_: Any
    ) -> tuple[Verdict, TokenUsage]:
        """Accepted where all evidence is shown; else more, and what is missing where that is known."""
        assert self.question is not None
        shown = "\n".join(context)
        usage = TokenUsage(sum(map(COUNT, context)) + 400, 30, 1)
        missing = [d for d, text in self.question.texts.items() if not _mostly_in(text, shown)]
        if not missing and not self._wrong:
            return Verdict(10), usage
        self._wrong = False
        if self._names:
            return Verdict(4, 1), usage
        named = f"{self.question.text}\n{shown}".casefold()
        known = [d for d in missing if _plain(self.question.titles[d]) in named] if self._informed else []
        sub = self.question.sub_question(known[0]) if known else ""
        return Verdict(4, 1, missing=sub), usage

    async def agenerate(self, *given: Any, **named: Any) -> tuple[str, TokenUsage]:
        """`generate`."""
        return self.generate(*given, **named)

    async def ajudge(self, *given: Any, **named: Any) -> tuple[Verdict, TokenUsage]:
        """`judge`."""
        return self.judge(*given, **named)


def _plain(title: str) -> str:
    """A title without what stands in brackets after it: "Get Low (song)"."""
    return re.sub(r"\s*\(.*\)$", "", title).casefold()


def _mostly_in(evidence: str, shown: str) -> bool:
    half = len(evidence) // 2
    return evidence[:half] in shown or evidence[half:] in shown


def complete(question: Question, candidates: Sequence[Candidate]) -> bool:
    """Whether at least half of every piece of evidence is among the chunks."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for candidate in candidates:
        chunk = candidate.chunk
        spans.setdefault(Path(chunk.source).stem, []).append((chunk.start, chunk.end))
    return all(
        2 * sum(max(0, min(end, b) - max(start, a)) for a, b in spans.get(document, ())) >= end - start
        for document, pieces in question.evidence.items()
        for start, end in pieces
    )


def read(name: str, questions: int, documents: int, folder: Path) -> list[Question]:
    """Write the pool's documents as files, and return its questions."""

    def rows(kind: str) -> list[dict[str, Any]]:
        with gzip.open(dev_folder() / f"{name}_{kind}.jsonl.gz", "rt", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    asked, pool = rows("questions"), {d["doc_id"]: d for d in rows("docs")}
    random.Random(0).shuffle(asked)
    asked = [q for q in asked if q["evidence"]][:questions]
    needed = {e.get("doc_id") or q["doc_id"] for q in asked for e in q["evidence"]}
    others = [d for d in pool if d not in needed]
    random.Random(1).shuffle(others)
    found = []
    for doc_id in [*sorted(needed), *others[: max(documents - len(needed), 0)]]:
        document = pool[doc_id]
        text = f"# {document['title']}\n\n{document['text']}\n"
        (folder / f"{_file(doc_id)}.md").write_text(text, encoding="utf-8")
    for question in asked:
        spans: dict[str, list[tuple[int, int]]] = {}
        texts: dict[str, str] = {}
        titles: dict[str, str] = {}
        for e in question["evidence"]:
            doc_id = e.get("doc_id") or question["doc_id"]
            document, title = _file(doc_id), pool[doc_id]["title"]
            before = len(f"# {title}\n\n")
            spans.setdefault(document, []).append((e["start"] + before, e["end"] + before))
            titles[document], texts[document] = title, pool[doc_id]["text"][e["start"] : e["end"]]
        found.append(Question(question["question"], spans, titles, texts))
    return found


def _file(doc_id: str) -> str:
    """A document's name as a file."""
    return re.sub(r"\W+", "-", doc_id.split(":", 1)[-1])


def run(
    sage: Sage, questions: Sequence[Question], knows: float, feedback: FeedbackConfig, **critic: Any
) -> np.ndarray:
    """By question: all evidence in the answer's context, calls, thousands of tokens, tokens of context."""
    answerer = Scripted(knows, **critic)
    sage.answerer = answerer
    sage.config = replace(sage.config, feedback=replace(feedback, selection=WITHIN_BUDGET))
    rows = []
    for question in questions:
        answerer.about(question)
        answer = sage.ask(question.text)
        chosen = answer.retrieval.chosen(answer.feedback.selection)
        usage = answer.feedback.usage
        tokens = sum(candidate.tokens for candidate in chosen)
        rows.append([complete(question, chosen), usage.calls, usage.total / 1000, tokens])
    return np.array(rows, dtype=float)


def full(sage: Sage, questions: Sequence[Question]) -> np.ndarray:
    """One round with as much as the budget holds."""
    sage.config = replace(sage.config, feedback=FeedbackConfig(selection=WITHIN_BUDGET))
    rows = []
    for question in questions:
        found = sage.retrieve(question.text)
        most = fitting([c.tokens_in_prompt for c in found.candidates], BUDGET)
        scores = [c.score for c in found.candidates]
        chosen = found.chosen(select(scores, scale=found.scale, min_k=most, max_k=most))
        tokens = sum(candidate.tokens for candidate in chosen)
        rows.append([complete(question, chosen), 1, (tokens + 170) / 1000, tokens])
    return np.array(rows, dtype=float)


def report(name: str, rows: Mapping[str, np.ndarray]) -> None:
    """A table of means."""
    n = len(next(iter(rows.values())))
    print(f"\n### {name}: {n} questions\n")
    print("| | all evidence | against full | calls | thousands of tokens | tokens of context |")
    print("|---|---:|---:|---:|---:|---:|")
    picks = np.random.default_rng(0).integers(0, n, (2000, n))
    base = rows["full"][:, 0]
    for label, values in rows.items():
        delta = 100 * (values[:, 0] - base)
        low, high = np.percentile(delta[picks].mean(axis=1), [2.5, 97.5])
        found, calls, tokens, context = values.mean(axis=0)
        against = f"{delta.mean():+.1f} [{low:+.1f}, {high:+.1f}]"
        print(
            f"| {label} | {found:.3f} | {against} | {calls:.1f} | {tokens:.2f} | {context:.0f} |", flush=True
        )


def main() -> None:
    """Measure and print Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=["hotpot_pool", "2wiki_pool"], metavar="SET")
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--documents", type=int, default=1600)
    parser.add_argument("--knows", nargs="*", type=float, default=[1.0, 0.5], metavar="SHARE")
    parser.add_argument("--errs", nargs="*", type=float, default=[], metavar="SHARE")
    parser.add_argument("--hops", type=int, default=2)
    parser.add_argument("--no-links", action="store_true", help="do not follow names (SageConfig.links)")
    parser.add_argument("--store", type=Path, help="folder to keep stores in; a temporary one where left out")
    arguments = parser.parse_args()
    links = not arguments.no_links
    with tempfile.TemporaryDirectory() as place:
        for name in arguments.sets:
            home = (arguments.store or Path(place)) / f"{name}-{arguments.questions}-{arguments.documents}"
            (home / "documents").mkdir(parents=True, exist_ok=True)
            questions = read(name, arguments.questions, arguments.documents, home / "documents")
            with Sage(home / "store", config=SageConfig(links=links)) as sage:
                sage.ingest(home / "documents", progress=True)
                rows = {"full": full(sage, questions)}
                rows["one round"] = run(sage, questions, 0, FeedbackConfig(max_rounds=1))
                rows["feedback, no hops"] = run(sage, questions, 0, FeedbackConfig())
                hops = FeedbackConfig(hops=arguments.hops)
                rows[f"hops={arguments.hops}, names"] = run(sage, questions, 0, hops, names=True)
                for knows in arguments.knows:
                    label = f"hops={arguments.hops}, knows {knows:.0%}"
                    rows[label] = run(sage, questions, knows, hops)
                for errs in arguments.errs:
                    label = f"critic errs {errs:.0%}"
                    rows[f"no hops, {label}"] = run(sage, questions, 0, FeedbackConfig(), errs=errs)
                    rows[f"hops={arguments.hops}, names, {label}"] = run(
                        sage, questions, 0, hops, names=True, errs=errs
                    )
            report(name, rows)


if __name__ == "__main__":
    main()
