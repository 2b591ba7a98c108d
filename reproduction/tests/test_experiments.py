"""Every bundled experiment is well formed, names what exists, and prints what the papers print."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from sage_eval.datasets import dataset_names
from sage_eval.experiment import (
    QUESTIONS,
    Experiment,
    experiment_names,
    load_experiment,
    parse_experiment,
)
from sage_eval.measurements import MEASUREMENTS
from sage_eval.methods import method_names
from sage_eval.metrics.registry import check_metrics

from sage_core.errors import InputError

NAMES = experiment_names()
SEGMENTATION_SETS = {"seg_wikipedia_valid", "seg_openstax_philosophy"}


@pytest.fixture(params=NAMES)
def experiment(request: pytest.FixtureRequest) -> Experiment:
    return load_experiment(request.param)


def test_all_tables_are_there() -> None:
    sage = [*(f"table{i}" for i in range(2, 13)), "fig7", "exp11", "scalability"]
    assert set(NAMES) == {*sage, *(f"chronicles-table{i}" for i in range(1, 10)), "chronicles-fig2"}


def test_kinds_methods_data_and_metrics_exist(experiment: Experiment) -> None:
    assert experiment.kind == QUESTIONS or experiment.kind in MEASUREMENTS
    known = set(method_names())
    assert {row.method["method"] for row in experiment.rows} <= known
    assert set(experiment.datasets) <= dataset_names().keys()
    assert set(experiment.development) <= dataset_names().keys() | SEGMENTATION_SETS
    check_metrics(experiment.metrics)
    for column in experiment.paper.columns if experiment.paper else ():
        check_metrics([column.metric] if column.metric else [])
        assert not column.dataset or column.dataset in experiment.datasets


def test_each_published_set_has_a_development_set(experiment: Experiment) -> None:
    if experiment.kind == QUESTIONS:
        assert len(experiment.development) == len(experiment.datasets)


def test_every_row_of_the_paper_is_run(experiment: Experiment) -> None:
    """No row is named after what it is not: `paper` says what it stands for. One embedding is only quoted."""
    if experiment.paper is None or experiment.kind != QUESTIONS:
        return
    quoted = set(experiment.paper.rows) - {row.printed_as for row in experiment.rows}
    assert all("Custom ADA-002" in row for row in quoted)
    for row in experiment.rows:
        assert not row.paper or row.paper in experiment.paper.rows
        assert not re.search(r"BERT\b(?<!SBERT)|GPT|UnifiedQA|BiDAF|CoLISA|Longformer", row.name), row.name


SAGE_TABLES = [f"table{number}" for number in (2, 3, 4, 5, 6, 7, 8, 9, 11, 12)]


@pytest.mark.parametrize("name", SAGE_TABLES)
def test_the_papers_own_sage_stands_beside_ours(name: str) -> None:
    rows = load_experiment(name).rows
    ours = [row for row in rows if row.method["method"] == "sage"]
    theirs = [row for row in rows if row.method["method"] == "sage-paper"]
    assert len(ours) == len(theirs) >= 1
    assert {row.printed_as for row in ours} == {row.printed_as for row in theirs}


def test_table_nine_is_not_table_eight() -> None:
    eight, nine = load_experiment("table8"), load_experiment("table9")
    assert eight.options["latency"] != nine.options["latency"] and eight.reader != nine.reader


MINIMAL = {
    "title": "T",
    "about": "a",
    "datasets": ["squad"],
    "metrics": ["f1"],
    "rows": [{"row": "r", "method": "naive"}],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"color": 1}, "unknown settings color"),
        ({"rows": [{"row": "r", "method": "a"}, {"row": "r", "method": "b"}]}, "same name"),
        ({"rows": [{"method": "a"}]}, "row"),
        ({"baseline": "s"}, "no row 's'"),
        ({"metrics": "f1"}, "metrics must be a list"),
        ({"metrics": []}, "needs rows, metrics and datasets"),
        ({"only": "pictures"}, "evidence, answers or options"),
        (
            {"paper": {"source": "s", "columns": [{"label": "x"}], "rows": {"r": [1, 2]}}},
            "2 figures, not 1",
        ),
    ],
)
def test_a_malformed_experiment_says_what_is_wrong(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=f"experiment mine.*{message}"):
        parse_experiment(json.dumps({**MINIMAL, **change}), where="mine", name="mine")


def test_about_is_optional_and_the_title_is_not() -> None:
    short = {name: value for name, value in MINIMAL.items() if name != "about"}
    assert parse_experiment(json.dumps(short), where="mine", name="mine").about == ""
    del short["title"]
    with pytest.raises(InputError, match="experiment mine: title missing"):
        parse_experiment(json.dumps(short), where="mine", name="mine")


def test_the_example_of_the_documentation_is_an_experiment() -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(\{\n  \"title\".*?)```", text, re.DOTALL)
    found = parse_experiment(example, where="documentation", name="mine")
    assert found.comparisons() and not found.needs_reader and found.pooled
    assert {row.method["method"] for row in found.rows} <= set(method_names())
    check_metrics(found.metrics)


def test_the_ablation_has_its_baseline_without_a_key() -> None:
    table4 = load_experiment("table4")
    shared = [row for row in table4.rows if row.method["method"] != "sage-shipped"]
    assert all(row.method.get("offline_index") == "dense" for row in shared)


def test_both_experiments_over_a_fixed_number_of_chunks_have_a_name() -> None:
    found = load_experiment("exp12")
    assert found.name == load_experiment("exp11").name == "exp11"
    assert [row.name for row in found.rows][:15] == [f"K = {k}" for k in range(1, 16)]


def test_experiments_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(MINIMAL))
    found = load_experiment(str(path))
    assert found.name == "mine" and found.rows[0].method == {"method": "naive"}
    with pytest.raises(InputError, match="cannot read"):
        load_experiment(str(tmp_path / "other.json"))
    with pytest.raises(InputError, match=r"no experiment 'table1'.*eval list"):
        load_experiment("table1")
    path.write_text("[]")
    with pytest.raises(InputError, match="one JSON object"):
        load_experiment(str(path))
    path.write_text("{")
    with pytest.raises(InputError, match="not well formed"):
        load_experiment(str(path))


def test_only_and_comparisons() -> None:
    found = load_experiment("table4")
    assert found.comparisons()[0] == ("Naive RAG with Segmentation", "Naive RAG")
    assert len(found.comparisons()) == 6


def test_every_row_can_be_made(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    from sage_eval.execute import _chosen
    from sage_eval.plan import EmbeddingAccess, MethodMaker, RunOptions
    from sage_eval.readers import NO_ANSWERER, NoReader, Reader

    from sage_core.embedding.minilm import MiniLMEmbedder

    readers = {row.name: "a-model" for row in experiment.rows if "reader" in row.method}
    options = RunOptions(row_readers=readers)
    make = MethodMaker(Reader(NO_ANSWERER, NoReader()), MiniLMEmbedder(), options)
    for key in ("", "sk-test"):  # with a key, OpenAI's embeddings are configured; nothing is asked here
        monkeypatch.setenv("OPENAI_API_KEY", key)
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
        for row in _chosen(experiment, (), EmbeddingAccess()).rows:
            try:
                method = make(row)
            except InputError as error:
                assert "need OPENAI_API_KEY" in str(error) and not key, f"{row.name}: {error}"
                continue
            assert method.name == row.name
            assert json.dumps(method.settings())
            assert ("a-model" in str(method.settings()["reader"])) == ("reader" in row.method)


def test_rows_say_what_they_lack() -> None:
    from sage_eval.plan import MethodMaker
    from sage_eval.readers import NO_ANSWERER, NoReader, Reader

    from sage_core.embedding.minilm import MiniLMEmbedder

    make = MethodMaker(Reader(NO_ANSWERER, NoReader()), MiniLMEmbedder())
    rows = {row.name: row for name in ("table6", "chronicles-table6") for row in load_experiment(name).rows}
    with pytest.raises(InputError, match="--row-reader 'Extractive reader over BM25=MODEL'"):
        make(rows["Extractive reader over BM25"])
