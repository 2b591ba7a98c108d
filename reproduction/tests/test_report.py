"""Reports say what was measured, how sure it is, and what it cannot be compared with."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from sage_eval.experiment import Experiment, load_experiment, parse_experiment
from sage_eval.prices import Price, PriceList
from sage_eval.report import (
    choices_table,
    difference_table,
    efficiency_table,
    effort_table,
    markdown_table,
    quality_table,
    render,
    write_report,
)
from sage_eval.results import Results, gather
from sage_eval.run_folder import Line

from sage_core.errors import InputError

DATASET = {
    "name": "quality",
    "documents": 4,
    "questions": 40,
    "pooled": False,
    "chance": 0.25,
    "digest": "ab" * 32,
}


def header(experiment: str = "table12", kind: str = "llm", data: str = "published") -> dict[str, object]:
    found = load_experiment(experiment)
    return {
        "schema": 1,
        "digest": "cd" * 32,
        "configuration": {
            "experiment": experiment,
            "rows": {row.name: dict(row.method) for row in found.rows},
            "datasets": [DATASET],
            "metrics": list(found.metrics),
            "reader": {"kind": kind, "label": "tiny", "server": "given"},
            "data": data,
            "questions": 40,
            "seed": 7,
        },
        "experiment": dict(found.raw),
        "packages": {"numpy": "2.0"},
        "machine": {
            "cores": 2,
            "memory_gb": 8.0,
            "gpu": None,
            "system": "X",
            "processor": "y",
            "python": "3.11",
        },
    }


def answer(row: str, number: int, *, right: bool, tokens: int = 100, **changes: object) -> Line:
    usage = {"prompt": tokens, "completion": 5, "calls": 1, "estimated": False}
    line: Line = {
        "kind": "answer",
        "dataset": "quality",
        "row": row,
        "question": f"q{number}",
        "document": f"d{number // 2 % 4}",
        "scores": {"accuracy": float(right)},
        "answer": "A",
        "choice": 0,
        "grade": None,
        "rounds": 1,
        "stop_reason": "",
        "selected": 3 + number % 3,
        "found": 10,
        "context_tokens": tokens,
        "usage": {"answer": usage},
        "seconds": {"retrieve": 0.1, "generate": 0.2, "total": 0.3},
    }
    return {**line, **changes}


def lines() -> list[Line]:
    """BM25 is right on 20 of 40 with 100 tokens, SAGE on 30 with 60, among them all of BM25's."""
    bm25 = [answer("BM25", i, right=i % 2 == 0) for i in range(40)]
    sage = [answer("SAGE", i, right=i % 2 == 0 or i < 20, tokens=60) for i in range(40)]
    left_out = {"kind": "left_out", "row": "DPR", "reason": "no such | model"}
    return [*bm25, *sage, left_out]


def results(**changes: object) -> Results:
    return gather({**header(), **changes}, lines())


def cells(table: str, first: str) -> list[str]:
    """Cells of the line of a Markdown table that begins with ``first``."""
    (found,) = [line for line in table.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_accuracy_has_wilson_s_interval_and_n() -> None:
    table = quality_table(results(), "quality", ["accuracy"])
    assert cells(table, "SAGE")[1:] == ["0.750 [0.598, 0.858]", "40", "0"]
    assert "DPR" not in table


def test_answers_that_name_no_option_are_counted_apart() -> None:
    silent = [answer("SAGE", i, right=i < 10, choice=0 if i < 15 else None) for i in range(40)]
    found = gather(header(), silent)
    assert cells(choices_table(found, "quality"), "SAGE")[1:] == ["10", "5", "25", "0.667 [0.417, 0.848]"]
    assert "names no option" in render(load_experiment("table12"), found)


def test_empty_answers_are_counted() -> None:
    mute = [answer("SAGE", i, right=False, answer=" " if i < 3 else "A") for i in range(40)]
    table12 = load_experiment("table12")
    text = render(table12, gather(header(), [*lines()[:40], *mute]))
    assert "Empty answers count as answered and are in every mean: SAGE 3 of 40." in text
    assert "Empty answers" not in render(table12, results())
    assert "Empty answers" not in render(table12, gather(header(kind="none"), mute))


def test_other_metrics_are_bootstrapped_over_documents() -> None:
    same = [answer("SAGE", i, right=True, scores={"accuracy": 0.1 * (i // 2 % 4)}) for i in range(40)]
    interval = gather(header(), same).estimate("quality", "SAGE", "accuracy")
    assert interval is not None
    # Within a document all questions are alike, so the interval is that of 4 documents, not of 40 questions.
    assert interval.high - interval.low > 0.15


def test_a_number_that_is_one_throughout_is_no_share() -> None:
    lines = [answer("SAGE", i, right=True, scores={"rounds": 1.0, "accuracy": 1.0}) for i in range(40)]
    found = gather(header(), lines)
    rounds, accuracy = (found.estimate("quality", "SAGE", name) for name in ("rounds", "accuracy"))
    assert rounds is not None and (rounds.low, rounds.high) == (1.0, 1.0)
    assert accuracy is not None and accuracy.low < 0.95


def test_differences_are_paired_and_those_clear_of_zero_bold() -> None:
    table = difference_table(results(), "quality", [("SAGE", "BM25")], ["accuracy"])
    first, tokens = table.splitlines()[2:]
    assert re.search(r"\*\*0\.250 \[0\.\d+, 0\.\d+\]\*\* \| \+50\.0 % \| (0\.\d{3}|< 0\.001) \| 40", first)
    # All four documents agree, yet of 16 ways to flip their signs 2 are as extreme: no bold from that.
    assert "| -40 [-40, -40] | -40.0 % | 0.125 | 40 |" in tokens
    only_half = [answer("SAGE", i, right=True) for i in range(20)]
    half = gather(header(), [*lines()[:40], *only_half])
    assert difference_table(half, "quality", [("SAGE", "BM25")], ["accuracy"]).count("| 20 |") == 2


def test_few_discordant_questions_are_not_bold() -> None:
    """5 of 16 questions over 6 documents, all to one side: the bootstrap's interval alone would claim it."""
    better = {0, 1, 2, 3, 4}
    bm25 = [answer("BM25", i, right=i == 15, document=f"d{i % 6}") for i in range(16)]
    sage = [answer("SAGE", i, right=i == 15 or i in better, document=f"d{i % 6}") for i in range(16)]
    found = gather(header(), [*bm25, *sage])
    difference = found.difference("quality", "SAGE", "BM25", "accuracy")
    assert difference is not None and difference.low > 0
    assert difference.p == pytest.approx(2 / 2**5) and not difference.clear
    assert "**" not in difference_table(found, "quality", [("SAGE", "BM25")], ["accuracy"])
    text = render(load_experiment("table12"), found)
    assert "Intervals are too narrow where fewer than 10 documents are asked about: quality (6)." in text


def test_enough_documents_need_no_warning_and_are_bold() -> None:
    bm25 = [answer("BM25", i, right=False, document=f"d{i}") for i in range(16)]
    sage = [answer("SAGE", i, right=True, tokens=60, document=f"d{i}") for i in range(16)]
    found = gather(header(), [*bm25, *sage])
    table = difference_table(found, "quality", [("SAGE", "BM25")], ["accuracy"])
    assert "**1.000 [1.000, 1.000]** | - | < 0.001" in table and "**-40 [-40, -40]**" in table
    assert "too narrow" not in render(load_experiment("table12"), found)


def test_cost_efficiency_counts_every_call() -> None:
    table = efficiency_table(results(), "quality", "accuracy", "SAGE")
    bm25 = cells(table, "BM25")
    assert bm25[2] == "4,200" and float(bm25[3]) == pytest.approx((0.5 / 4200) / (0.75 / 2600), abs=1e-3)
    assert float(bm25[5]) == pytest.approx((0.5 / 4000) / (0.75 / 2400), abs=1e-3)
    assert cells(table, "SAGE")[3] == "1.000"


def test_ours_stands_beside_the_papers_in_its_unit() -> None:
    text = render(load_experiment("table12"), results())
    row = next(line for line in text.splitlines() if line.startswith("| SAGE | 64.5 |"))
    assert [c.strip() for c in row.strip("|").split("|")] == ["SAGE", "64.5", "77.1", "75"]


def test_what_the_figures_are_is_said_first() -> None:
    experiment = load_experiment("table12")
    for kind, words in (("extractive", "No LLM answered"), ("scripted", "quality is that of chance")):
        text = render(experiment, gather(header(kind=kind, data="dev"), lines()))
        assert text.index(words) < text.index("## quality")
        assert text.index("no figure here compares") < text.index("## quality")
    text = render(experiment, results())
    assert "No LLM" not in text and "published sets" in text and "seed 7" in text
    assert "guessing is right 25 % of the time" in text


def test_failures_and_rows_left_out_are_reported() -> None:
    failed = {"kind": "failed", "dataset": "quality", "row": "SAGE", "question": "q99", "error": "down | out"}
    text = render(load_experiment("table12"), gather(header(), [*lines(), failed]))
    assert "1 questions failed" in text and "down \\| out" in text
    assert "| DPR | no such \\| model |" in text


def test_figures_of_one_measured_row_come_together() -> None:
    raw = {**header("fig7"), "configuration": {**header()["configuration"], "datasets": []}}  # type: ignore[dict-item]
    found = gather(
        raw,
        [
            {"kind": "measured", "row": "quality", "figures": {"time saved": 99.9}, "note": "first."},
            {"kind": "measured", "row": "quality", "figures": {"tokens/s": 5.0}, "note": "second."},
        ],
    )
    text = render(load_experiment("fig7"), found)
    assert "| quality | 99.9 | 5 | first. second. |" in text
    assert "| quality | 90.71 | 99.69 | 99.9 |" in text


def test_a_report_is_made_from_the_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "header.json").write_text(json.dumps(header()))
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines()))
    report = write_report(tmp_path).read_text()
    assert "0.750 [0.598, 0.858]" in report and write_report(tmp_path).read_text() == report


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "cannot be read"), ("{}", "cannot be read"), ('{"schema": 9}', "another version")],
)
def test_a_header_that_cannot_be_read(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "header.json").write_text(content)
    with pytest.raises(InputError, match=message):
        write_report(tmp_path)


def test_a_run_that_has_not_begun_has_a_report() -> None:
    assert "## Made with" in render(load_experiment("table12"), gather(header(), []))


def test_tables_hold_text_as_it_is() -> None:
    assert markdown_table(["a"], [["x|y\nz"]]).splitlines()[2] == "| x\\|y z |"


def test_every_experiment_can_be_reported(experiment: Experiment) -> None:
    raw = {**header(), "experiment": dict(experiment.raw)}
    text = render(parse_experiment(json.dumps(experiment.raw), where="x", name="x"), gather(raw, []))
    assert experiment.title in text
    assert "## Made with" in text


@pytest.fixture(
    params=["table2", "table8", "table10", "scalability", "chronicles-table4", "chronicles-table9"]
)
def experiment(request: pytest.FixtureRequest) -> Experiment:
    return load_experiment(request.param)


def test_degradation_is_against_the_gold_chunk() -> None:
    """Chronicles, table 8: 7.55 for the gold chunk, 6.57 for ADA-002 with nine chunks: -13.0 %."""
    rows = {"gold chunk": 7.55, "ADA-002, 9 chunks": 6.57}
    lines = [
        {**answer(row, i, right=True), "scores": {"judge_score": score, "mrr@10": 0.5}}
        for row, score in rows.items()
        for i in range(3)
    ]
    experiment = load_experiment("chronicles-table8")
    found = gather(header("chronicles-table8"), lines)
    text = render(experiment, found)
    assert "### Degradation" in text and "| ADA-002, 9 chunks | 6.570 | -13.0 % |" in text


def test_figures_stand_by_depth_of_the_answer_and_size_of_the_context() -> None:
    experiment = load_experiment("chronicles-fig2")
    rows = [row.name for row in experiment.rows]
    lines = [
        {**answer(row, 0, right=True), "scores": {"f1": number / 100}} for number, row in enumerate(rows)
    ]
    settings = [
        {
            "kind": "method",
            "row": row.name,
            "key": "k",
            "settings": {n: row.method[n] for n in ("depth", "tokens")},
        }
        for row in experiment.rows
    ]
    found = gather(header("chronicles-fig2"), [*settings, *lines])
    depths = sorted({row.method["depth"] for row in experiment.rows})
    sizes = sorted({row.method["tokens"] for row in experiment.rows})
    table = render(experiment, found).partition("### Depth")[2]
    shown = cells(table, f"{100 * depths[1]:.0f} %")
    place = next(
        i
        for i, row in enumerate(experiment.rows)
        if (row.method["depth"], row.method["tokens"]) == (depths[1], sizes[-1])
    )
    assert len(shown) == 1 + len(sizes) and float(shown[-1]) == place / 100


def test_money_stands_where_prices_are_known() -> None:
    found = results()
    row, dataset = found.rows[0], found.datasets[0]
    assert found.money(dataset, row) == {} and "money" not in effort_table(found, dataset)
    label = str(found.configuration["reader"]["label"])
    found.prices = PriceList({label: Price(1_000_000, 2_000_000)})
    line = next(iter(found.answers[dataset, row].values()))
    spent = sum(u["prompt"] + 2 * u["completion"] for u in line["usage"].values())
    assert next(iter(found.money(dataset, row).values())) == spent > 0
    assert "money, 1,000 questions" in effort_table(found, dataset)


def test_settings_of_every_row_are_printed_and_what_all_share_once() -> None:
    settings = {
        "a": {"index": "bm25", "selection": {"min_k": 7}},
        "b": {"index": "dense", "selection": {"min_k": 7}},
    }
    lines = [{"kind": "method", "row": row, "key": "k", "settings": s} for row, s in settings.items()]
    text = render(load_experiment("table12"), gather(header("table12"), lines))
    assert "All rows: selection.min_k 7." in text and "| a | index bm25 |" in text
