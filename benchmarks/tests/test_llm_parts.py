"""What the table of parts prints, from likelihoods that are given."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

pytest.importorskip("sage_eval")

import llm_parts
from development_sets import Corpus, Question
from llm_answers import Lines

from sage_core.text.spans import Span


@pytest.fixture
def kept(tmp_path):
    lines = Lines(tmp_path / "parts.jsonl")
    for i, values in enumerate([(-4, -3, -2.5, -2), (-4, -3, -2, -2)]):
        rows = (llm_parts.NOTHING, llm_parts.NAIVE, "+ selection", llm_parts.ORACLE)
        for row, value in zip(rows, values, strict=True):
            lines.add(f"toy/{row}/{i}/nats", [[value], 100])
    return lines


def test_shares_of_the_evidence_and_points_over_naive(kept, capsys):
    asked = [Question("?", d, [Span(0, 1)], row={"qid": str(d), "answers": ["a"]}) for d in (0, 1)]
    llm_parts.report(
        "toy", Corpus(["x"] * 2, [""] * 2, asked, True), [llm_parts.NAIVE, "+ selection"], None, kept, 0
    )
    text = capsys.readouterr().out
    assert "over nothing: +2.00 nats a token [+2.00, +2.00]" in text
    assert f"| {llm_parts.NAIVE} | 100 | 1.0 | 50 [+50, +50] | +0 [+0, +0] |" in text
    assert "| + selection | 100 | 1.0 | 88 [+75, +100] | +38 [+25, +50] |" in text


def test_an_option_is_right_where_its_likelihood_is_highest(kept, capsys):
    for row in (llm_parts.NOTHING, llm_parts.NAIVE):
        kept.add(f"quality/{row}/0/nats", [[-3.0, -1.0], 100])
        kept.add(f"quality/{row}/1/nats", [[-1.0, -3.0], 100])
    asked = [Question("?", d, [], row={"qid": str(d), "options": ["a", "b"], "gold": 1}) for d in (0, 1)]
    llm_parts.report("quality", Corpus(["x"] * 2, [""] * 2, asked, True), [llm_parts.NAIVE], None, kept, 0)
    assert f"| {llm_parts.NAIVE} | 100 | 1.0 | 50 [+0, +100] | +0 [+0, +0] |" in capsys.readouterr().out
