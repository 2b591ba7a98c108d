"""What the benchmark of the loop counts, on answers small enough to check by hand."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

pytest.importorskip("llama_index.core")

import llm_loop

from sage_core.feedback.critic import critic_messages
from sage_core.feedback.parsing import parse_verdict


class Local:
    """A model that finds 7 the likeliest grade, and writes its limit."""

    name = "toy"

    def prompt(self, messages):
        return [1]

    def encode(self, text):
        return [len(text)] if not text[0].isdigit() else [int(text[:-1])]

    def read(self, rows, after=None):
        return rows

    def score(self, read, answers):
        return [[-abs(a[0] - 7)] for a in answers]

    def greedy(self, read, most):
        return [str(most)]


def test_a_grade_has_a_limit_of_its_own_or_is_the_likeliest(monkeypatch):
    monkeypatch.setattr(llm_loop, "LocalLLM", lambda model: Local())
    grade = f"user: {critic_messages('Who?', ['Tom came.'], 'Tom')[-1].content}\nassistant: "
    meter = llm_loop.Meter(None, None, grade_tokens=256)
    assert [meter.ask("Who?"), meter.ask(grade)] == ["64", "256"]
    likely = llm_loop.Meter(None, None, likely_grade=True)
    assert likely.ask("Who?") == "64" and parse_verdict(likely.ask(grade)).score == 7
    assert likely.calls == 2


def test_right_silent_and_accepted_are_counted_and_compared_with_one_round(capsys):
    def said(answer, accepted, tokens=500):
        return {
            "answer": answer,
            "accepted": accepted,
            "calls": 2,
            "tokens": tokens,
            "seconds": 1,
            "rounds": 1,
        }

    found = {
        llm_loop.ONCE: [said("a mirror", True), said("the stick", False)],
        "critic llm": [said("It was a stick.", True, 1000), said("The documents do not say.", False, 1000)],
    }
    llm_loop.report(found, [0, 1], [["a stick"], ["a stick"]], 0)
    rows = capsys.readouterr().out.splitlines()[3:]
    assert rows[0] == f"| {llm_loop.ONCE} | 50% |  | 0 | 0 of 1 | 1 of 1 | 1.00 | 2.00 | 500 | 1.00 | 1.0 |"
    assert rows[1].startswith("| critic llm | 50% | +0.0 [-100.0, +100.0] | 1 | 1 of 1 | 0 of 0 |")
    assert rows[1].endswith(" | 1000 | 0.50 | 1.0 |")
