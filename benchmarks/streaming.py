"""Marks of an answer while it is written: how late they come, and what stopping at a wrong sentence saves.

    python benchmarks/streaming.py

Answers of dev/graded_answers and dev/grounding are cut into tokens and streamed by a script at 30 to 60
tokens a second (drawn for each answer), to `sage_core.verify.marked_stream`. The delay of a mark is the
time from the token with a sentence's last character, which includes the wait for the token after it: only
that shows that the sentence has ended. The AUROC is of the lowest mark of an answer.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import numpy as np
from judge import SEED, answers_graded, with_interval

from sage_core.feedback import StopOn
from sage_core.verify import AnswerMark, LocalJudge, StreamMarks, marked_stream, support

RATES = (30.0, 60.0)


def tokens_of(text: str) -> list[str]:
    """Pieces as models write them: a word with the space before it, six letters at most, or a sign."""
    return re.findall(r"\s?\w{1,6}|\s?[^\w\s]|\s+", text)


class Script:
    """Tokens at a rate, and when each of them came.

    Args:
        tokens: What is written.
        rate: Tokens a second; None for as fast as they are read.
    """

    def __init__(self, tokens: list[str], rate: float | None) -> None:
        self._tokens, self._rate = tokens, rate
        self.ends: list[tuple[int, float]] = []

    def __iter__(self) -> Iterator[str]:
        start, length = time.perf_counter(), 0
        for i, token in enumerate(self._tokens):
            if self._rate is not None:
                time.sleep(max(0.0, start + (i + 1) / self._rate - time.perf_counter()))
            length += len(token)
            self.ends.append((length, time.perf_counter()))
            yield token


def delays(answer: str, passages: list[str], rate: float, judge: LocalJudge) -> list[float]:
    """Milliseconds from the last character of each marked part to its mark, but for the last sentence's."""
    script = Script(tokens_of(answer), rate)
    found = []
    for piece in marked_stream(iter(script), StreamMarks(passages, judge=judge)):
        if isinstance(piece, AnswerMark) and piece.support != "nothing claimed":
            came = next(at for length, at in script.ends if length >= piece.span.end)
            found.append(1000 * (time.perf_counter() - came))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SAGE_DATA", "../shared/data")))
    parser.add_argument("--timed", type=int, default=20, help="graded answers that are streamed in real time")
    parser.add_argument("--limit", type=int, default=1000, help="answers of each set")
    arguments = parser.parse_args()
    rng, judge = random.Random(SEED), LocalJudge()
    sets = answers_graded(arguments.data)
    late = []
    for answer, passages, _ in sets["graded answers"][: arguments.timed]:
        late += delays(answer, passages, rng.uniform(*RATES), judge)
    if late:
        print(
            f"from full stop to mark, n = {len(late)} parts of {arguments.timed} answers: "
            f"median {np.median(late):.0f} ms, p95 {np.quantile(late, 0.95):.0f} ms"
        )
    for name, rows in sets.items():
        labels, batch, streamed = [], [], []
        counts: dict[str, Counter[bool]] = {"written": Counter()}
        for answer, passages, label in rows[: arguments.limit]:
            tokens = tokens_of(answer)
            marks = StreamMarks(passages, judge=judge)
            events = list(marked_stream(iter(tokens), marks))
            probabilities = [
                e.probability for e in events if isinstance(e, AnswerMark) and e.probability is not None
            ]
            whole = support(judge.grounding(answer, passages))
            if probabilities and whole is not None:
                labels.append(label)
                streamed.append(min(probabilities))
                batch.append(min(c.probability or 0.0 for c in judge.grounding(answer, passages)))
            counts["written"][label] += len(tokens)
            for stop_on in get_args(StopOn):
                marks = StreamMarks(passages, judge=judge, stop_on=stop_on)
                script = Script(tokens, None)
                for _ in marked_stream(iter(script), marks):
                    pass
                counts.setdefault(f"saved {stop_on}", Counter())[label] += len(tokens) - len(script.ends)
                counts.setdefault(f"stopped {stop_on}", Counter())[label] += marks.stopped
        count = {x: sum(row[2] is x for row in rows[: arguments.limit]) for x in (True, False)}
        print(f"{name}, n = {len(labels)}: AUROC of the lowest mark {with_interval(labels, streamed)}")
        print(f"  in batch {with_interval(labels, batch)}")
        for stop_on in get_args(StopOn):
            stopped, saved = counts[f"stopped {stop_on}"], counts[f"saved {stop_on}"]
            print(
                f"  stop_on={stop_on!r}: {stopped[True]} of {count[True]} right "
                f"({stopped[True] / count[True]:.1%}), {stopped[False]} of {count[False]} wrong "
                f"({stopped[False] / count[False]:.1%}); tokens of wrong answers saved "
                f"{saved[False] / counts['written'][False]:.1%}"
            )


if __name__ == "__main__":
    main()
