"""Runs go on where they stopped, note what fails, and never mix two configurations."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from sage_eval.experiment import Row
from sage_eval.records import Method
from sage_eval.results import read_results
from sage_eval.run_folder import HEADER, RESULTS, RunFolder, read_lines
from sage_eval.runner import MAX_FAILURES_IN_A_ROW, Outcome, Progress, Runner

from reproduction.tests.evaluation_runs import CONFIGURATION, ROWS, ToyMethod, llm_down, score, toy_dataset
from sage_core.errors import InputError, ModelError
from tests.fakes.models import HashEmbedder

ROOT = Path(__file__).parents[2]


def run(folder: Path, *methods: ToyMethod, concurrency: int = 1, pooled: bool = False) -> Outcome:
    made = {m.name: m for m in methods} or {row.name: ToyMethod(row.name) for row in ROWS}
    with RunFolder(folder, CONFIGURATION) as opened:
        runner = Runner(opened, lambda row: made[row.name], score, concurrency=concurrency)
        return runner.run([row for row in ROWS if row.name in made], [toy_dataset(pooled=pooled)])


def answers(folder: Path) -> Counter[tuple[str, str]]:
    return Counter((e["row"], e["question"]) for e in read_lines(folder / RESULTS) if e["kind"] == "answer")


def test_every_method_answers_every_question_once(tmp_path: Path) -> None:
    outcome = run(tmp_path)
    assert outcome == Outcome(answered=24) and outcome.complete
    assert set(answers(tmp_path).values()) == {1} and len(answers(tmp_path)) == 24
    results = read_results(tmp_path)
    assert results.values("toy", "first", "tokens")["q0.0"] == 55
    assert results.values("toy", "first", "calls")["q0.0"] == 2
    seconds = results.answers["toy", "first"]["q0.0"]["seconds"]
    assert (seconds["retrieve"], seconds["generate"]) == (0.25, 0.5)


def test_documents_are_prepared_one_by_one_unless_pooled(tmp_path: Path) -> None:
    alone, together = ToyMethod("first"), ToyMethod("first")
    run(tmp_path / "a", alone)
    run(tmp_path / "b", together, pooled=True)
    assert alone.prepared == [("d0",), ("d1",), ("d2",)]
    assert together.prepared == [("d0", "d1", "d2")]


def test_a_run_killed_half_way_goes_on_where_it_stopped(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "reproduction.tests.evaluation_runs", str(folder), "15"],
        cwd=ROOT,
        capture_output=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    before = answers(folder)
    assert len(before) == 14
    first, second = ToyMethod("first"), ToyMethod("second")
    outcome = run(folder, first, second)
    assert (outcome.kept, outcome.answered) == (14, 10)
    assert first.asked == [] and len(second.asked) == 10
    # A document whose questions are all answered is not prepared again.
    assert first.prepared == [] and second.prepared == [("d0",), ("d1",), ("d2",)]
    assert len(answers(folder)) == 24 and set(answers(folder).values()) == {1}


@pytest.mark.parametrize("cut", [1, 5, 60])
def test_a_torn_last_line_is_dropped_and_its_question_asked_again(tmp_path: Path, cut: int) -> None:
    run(tmp_path)
    path = tmp_path / RESULTS
    raw = path.read_bytes()
    path.write_bytes(raw[:-cut])
    assert run(tmp_path).answered == 1
    assert len(answers(tmp_path)) == 24 and set(answers(tmp_path).values()) == {1}


def test_a_damaged_line_within_is_an_error_with_its_number(tmp_path: Path) -> None:
    run(tmp_path)
    path = tmp_path / RESULTS
    lines = path.read_text().split("\n")
    lines[3] = lines[3][:20]
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"line 4 is damaged"):
        run(tmp_path)


def test_failures_are_noted_counted_and_asked_again(tmp_path: Path) -> None:
    def odd(question: object) -> Exception | None:
        return llm_down(question) if question.id.endswith("1") else None  # type: ignore[arg-type, attr-defined]

    outcome = run(tmp_path, ToyMethod("first", fails=odd))
    assert (outcome.answered, outcome.failed, outcome.complete) == (9, 3, False)
    assert read_results(tmp_path).failed["toy", "first"]["q1.1"] == "the LLM is down"
    again = ToyMethod("first")
    outcome = run(tmp_path, again)
    assert sorted(again.asked) == ["q0.1", "q1.1", "q2.1"]
    assert (outcome.kept, outcome.answered) == (9, 3) and outcome.complete
    assert read_results(tmp_path).failed["toy", "first"] == {}


def test_an_unexpected_error_is_a_failure_with_its_kind(tmp_path: Path) -> None:
    def bug(question: object) -> Exception | None:
        return ZeroDivisionError("oops") if question.id == "q0.0" else None  # type: ignore[attr-defined]

    assert run(tmp_path, ToyMethod("first", fails=bug)).failed == 1
    assert read_results(tmp_path).failed["toy", "first"] == {"q0.0": "ZeroDivisionError: oops"}


def test_a_method_that_only_fails_is_given_up_for_this_time(tmp_path: Path) -> None:
    broken = ToyMethod("first", fails=llm_down)
    outcome = run(tmp_path, broken, ToyMethod("second"))
    assert outcome.failed == MAX_FAILURES_IN_A_ROW and outcome.unasked == 12 - MAX_FAILURES_IN_A_ROW
    assert outcome.answered == 12


def test_a_row_that_cannot_be_made_is_left_out_and_made_next_time(tmp_path: Path) -> None:
    def make(row: Row) -> Method:
        if row.name == "first":
            raise ModelError("no such model here")
        return ToyMethod(row.name)

    with RunFolder(tmp_path, CONFIGURATION) as opened:
        outcome = Runner(opened, make, score).run(ROWS, [toy_dataset()])
    assert outcome.left_out == {"first": "no such model here"} and outcome.answered == 12
    assert read_results(tmp_path).left_out == {"first": "no such model here"}
    assert run(tmp_path).answered == 12
    assert read_results(tmp_path).left_out == {}


def test_a_model_missing_only_when_it_is_needed_leaves_the_row_out(tmp_path: Path) -> None:
    class Late(ToyMethod):
        def prepare(self, documents: object) -> dict[str, object]:  # type: ignore[override]
            raise ModelError("cannot load the model")

    outcome = run(tmp_path, Late("first"), ToyMethod("second"))
    assert outcome.left_out == {"first": "cannot load the model"}
    assert (outcome.failed, outcome.answered) == (0, 12)


def test_another_configuration_is_refused_and_named(tmp_path: Path) -> None:
    run(tmp_path)
    with (
        pytest.raises(InputError, match=r"another configuration \(changed: seed\).*--output.*--fresh"),
        RunFolder(tmp_path, {**CONFIGURATION, "seed": 1}),
    ):
        pass
    assert len(answers(tmp_path)) == 24


def test_changed_settings_of_a_method_are_refused(tmp_path: Path) -> None:
    run(tmp_path, ToyMethod("first", fails=llm_down))
    with pytest.raises(InputError, match="settings of 'first'"):
        run(tmp_path, ToyMethod("first", size=30))


def test_fresh_throws_the_old_results_away(tmp_path: Path) -> None:
    run(tmp_path)
    with RunFolder(tmp_path, {**CONFIGURATION, "seed": 1}, fresh=True) as opened:
        assert opened.lines() == []
    assert json.loads((tmp_path / HEADER).read_text())["configuration"]["seed"] == 1


def test_two_runs_cannot_write_to_one_folder(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    with (
        RunFolder(tmp_path, CONFIGURATION),
        pytest.raises(InputError, match="another run"),
        RunFolder(tmp_path, CONFIGURATION),
    ):
        pass


def test_results_without_a_header_are_not_taken_over(tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / HEADER).unlink()
    with pytest.raises(InputError, match=r"without a header"):
        run(tmp_path)


def test_the_header_names_no_host_and_no_path(tmp_path: Path) -> None:
    import platform

    run(tmp_path)
    header = (tmp_path / HEADER).read_text()
    assert platform.node() not in header and str(tmp_path) not in header and str(ROOT) not in header
    assert {"cores", "memory_gb", "python"} <= json.loads(header)["machine"].keys()
    assert "numpy" in json.loads(header)["packages"]


def test_questions_run_side_by_side(tmp_path: Path) -> None:
    import threading

    meeting = threading.Barrier(4, timeout=10)
    outcome = run(
        tmp_path,
        ToyMethod("first", before=lambda q: meeting.wait() and None),  # passes only if four are there at once
        concurrency=4,
        pooled=True,
    )
    assert outcome.answered == 12
    with pytest.raises(InputError, match="concurrency"):
        run(tmp_path, concurrency=0)


def test_progress_reaches_the_end(tmp_path: Path) -> None:
    told: list[Progress] = []
    with RunFolder(tmp_path, CONFIGURATION) as opened:
        Runner(opened, lambda row: ToyMethod(row.name), score, progress=told.append).run(
            ROWS, [toy_dataset()]
        )
    assert (told[-1].done, told[-1].total, told[-1].failed) == (24, 24, 0)
    assert {t.stage for t in told} == {"preparing", "answering"}


def test_the_public_names_load_and_run_an_experiment(tmp_path: Path) -> None:
    import sage_eval as public

    assert all(getattr(public, name) is not None for name in public.__all__)
    with pytest.raises(AttributeError):
        _ = public.nothing
    public.save_dataset(toy_dataset(), tmp_path / "facts")
    rows = [{"row": "words", "method": "naive", "index": "bm25"}]
    experiment = {"title": "T", "datasets": ["squad"], "metrics": ["evidence_recall"], "rows": rows}
    (tmp_path / "own.json").write_text(json.dumps(experiment))
    options = public.RunOptions(data=str(tmp_path / "facts"), output=tmp_path / "out", questions=3)
    results = public.run_experiment(str(tmp_path / "own.json"), embedder=HashEmbedder(), options=options)
    assert len(results.answers["facts", "words"]) == 3 and (tmp_path / "out" / "report.md").exists()
