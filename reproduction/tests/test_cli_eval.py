"""`sage-rag eval` as a user meets it."""

from __future__ import annotations

import gzip
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sage_eval.datasets import load_dataset, save_dataset
from sage_eval.records import Dataset, EvalQuestion
from sage_eval.results import Results, read_results

from reproduction.tests.evaluation_runs import toy_dataset
from sage_app.cli.main import run
from tests.fakes.llm_server import LLMServer, Reply, Request

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
OWN: dict[str, object] = {
    "title": "Two ways to look things up",
    "about": "BM25 with few and with many pieces",
    "datasets": ["squad"],
    "metrics": ["f1", "judge_score", "recall@1", "evidence_recall"],
    "rows": [
        {
            "row": "one",
            "method": "naive",
            "index": "bm25",
            "chunks": {"kind": "fixed", "tokens": 12},
            "top_k": 1,
        },
        {
            "row": "two",
            "method": "naive",
            "index": "bm25",
            "chunks": {"kind": "fixed", "tokens": 12},
            "top_k": 2,
        },
    ],
    "baseline": "one",
}


@pytest.fixture(autouse=True)
def no_llm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "SAGE_LLM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def own(tmp_path: Path) -> list[str]:
    """Arguments of an experiment and a data set of one's own."""
    (tmp_path / "own.json").write_text(json.dumps(OWN))
    save_dataset(toy_dataset(), tmp_path / "facts")
    cache = ["--cache", str(tmp_path / "cache")]
    return ["eval", "run", str(tmp_path / "own.json"), "--data", str(tmp_path / "facts"), "-o", "out", *cache]


def mistake(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Standard error of a command that must fail as wrong input, in one line."""
    capsys.readouterr()
    assert run(list(arguments)) == 2
    found = capsys.readouterr().err
    assert found.count("\n") == 1 and found.startswith("sage-rag: ")
    return found


def results(folder: str = "out") -> Results:
    return read_results(Path(folder))


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "list"]) == 0
    out = capsys.readouterr().out
    assert out.index("table2 ") < out.index("table10 ") < out.index("chronicles-table1 ")
    assert "dev/quality_leval" in out and "naive+segmentation" in out and "gold-context" in out
    assert run(["eval", "list", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["experiments"]) == 24


def test_retrieval_without_a_reader(own: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*own, "--reader", "none"]) == 0
    out = capsys.readouterr().out
    assert "nobody, retrieval only" in out and "24 results new, 0 from before" in out
    found = results()
    assert found.configuration["metrics"] == ["recall@1", "evidence_recall"]
    assert found.configuration["data"] == "own"
    recall = found.values("facts", "one", "recall@1")
    assert len(recall) == 12 and set(recall.values()) == {1.0}
    assert set(found.values("facts", "two", "selected").values()) == {2.0}
    report = Path("out/report.md").read_text()
    assert "retrieval alone" in report and "not the paper's" in report


def test_run_again_keeps_results_and_makes_the_report_again(
    own: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*own, "--reader", "none", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["answered"] == 24
    first = Path("out/report.md").read_text()
    assert run([*own, "--reader", "none", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["answered"], again["kept"]) == (0, 24)
    Path("out/report.md").unlink()
    assert run(["eval", "report", "out"]) == 0
    assert Path("out/report.md").read_text() == first


def test_changed_settings_need_another_folder_or_fresh(
    own: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*own, "--reader", "none", "--questions", "5"]) == 0
    said = mistake(capsys, *own, "--reader", "none", "--questions", "6", "--seed", "1")
    assert "questions" in said and "seed" in said and "--fresh" in said
    assert run([*own, "--reader", "none", "--questions", "6", "--fresh"]) == 0
    assert len(results().values("facts", "one", "recall@1")) == 6


def test_without_an_output_every_configuration_has_a_folder(own: list[str]) -> None:
    own.remove("-o")
    own.remove("out")
    for seed in ("0", "1"):
        assert run([*own, "--reader", "none", "--seed", seed, "--methods", "two"]) == 0
    folders = sorted(p.name for p in Path("sage-eval").glob("own-*"))
    assert len(folders) == 2
    assert results(f"sage-eval/{folders[0]}").rows == ["two"]


def test_an_llm_answers_grades_and_judges(own: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    def script(request: Request) -> object:
        if "compare an answer" in request.system:
            return '{"score": 7}'
        if "fact 1.1" in request.user:
            return Reply(status=400)
        return "here"

    with LLMServer(script) as server:  # type: ignore[arg-type]
        code = run([*own, "--base-url", server.base_url, "--model", "tiny", "--concurrency", "3"])
    assert code == 1
    out = capsys.readouterr().out
    assert "2 questions failed" in out and "run it again" in out
    assert "failed: model 'tiny'" in out
    found = results()
    assert found.header["configuration"]["reader"] == {"kind": "llm", "label": "tiny", "server": "given"}
    assert "127.0.0.1" not in Path("out/header.json").read_text()
    assert set(found.values("facts", "one", "judge_score").values()) == {7.0}
    assert set(found.values("facts", "one", "f1").values()) == {1.0}
    assert list(found.failed["facts", "one"]) == ["q1.1"]
    assert "1 |" in Path("out/report.md").read_text() and "## Failures" in Path("out/report.md").read_text()
    with LLMServer(lambda r: '{"score": 5}' if "compare" in r.system else "there") as server:
        assert run([*own, "--base-url", server.base_url, "--model", "tiny"]) == 0
    assert results().values("facts", "one", "judge_score")["q1.1"] == 5.0
    assert results().values("facts", "one", "judge_score")["q1.2"] == 7.0


def test_multiple_choice_with_the_scripted_server_is_chance(tmp_path: Path) -> None:
    plain = toy_dataset(documents=2, questions=30)
    options = ("here", "there", "up", "down")
    questions = tuple(
        EvalQuestion(q.id, q.document, q.text, options=options, gold=i % 4)
        for i, q in enumerate(plain.questions)
    )
    save_dataset(Dataset("choice", plain.documents, questions), tmp_path / "choice")
    experiment = {**OWN, "metrics": ["accuracy"], "rows": [OWN["rows"][1]], "baseline": ""}  # type: ignore[index]
    experiment["options"] = {"latency": {"answer": 0, "critic": 0}}
    (tmp_path / "choice.json").write_text(json.dumps(experiment))
    arguments = ["eval", "run", "choice.json", "--data", "choice", "-o", "out", "--reader", "scripted"]
    assert run([*arguments, "--cache", "cache"]) == 0
    found = results()
    accuracy = found.estimate("choice", "two", "accuracy")
    assert accuracy is not None and accuracy.n == 60
    assert (
        abs(accuracy.value - 0.25) < 0.18
    )  # three standard errors: the draw depends on the words of the prompt
    assert all(line["choice"] in range(4) for line in found.answers["choice", "two"].values())
    report = Path("out/report.md").read_text()
    assert "guessing is right 25 % of the time" in report and "No LLM answered" in report
    assert found.configuration["reader"]["server"] == "scripted"


def test_a_killed_command_goes_on(own: list[str]) -> None:
    arguments = [*own, "--methods", "one", "--model", "tiny"]
    with LLMServer(lambda r: '{"score": 7}' if "compare" in r.system else "here", latency=0.15) as server:
        command = [sys.executable, "-m", "sage_app.cli.main", *arguments, "--base-url", server.base_url]
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        file, until = Path("out/results.jsonl"), time.monotonic() + 60
        while not (file.exists() and file.read_text().count('"kind": "answer"') >= 2):
            assert time.monotonic() < until and running.poll() is None
            time.sleep(0.05)
        running.send_signal(signal.SIGKILL)
        running.wait()
        there = len(results().answers["facts", "one"])
        assert 2 <= there < 12
        assert run([*arguments, "--base-url", server.base_url]) == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    asked = [line["question"] for line in lines if line["kind"] == "answer"]
    assert len(asked) == len(set(asked)) == 12


def test_files_of_a_user_are_not_called_published(tmp_path: Path, own: list[str]) -> None:
    (tmp_path / "own.json").write_text(json.dumps({**OWN, "datasets": ["facts"]}))
    assert run([*own, "--reader", "none"]) == 0
    assert results().configuration["data"] == "own"
    assert "files given by the user" in Path("out/report.md").read_text()


def test_rows_without_their_key_are_left_out(
    tmp_path: Path, own: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [OWN["rows"][0], {"row": "openai", "method": "naive", "index": "openai"}]  # type: ignore[index]
    (tmp_path / "own.json").write_text(json.dumps({**OWN, "rows": rows}))
    assert run([*own, "--reader", "none"]) == 0
    assert "left out: openai: OpenAI's embeddings need OPENAI_API_KEY" in capsys.readouterr().out
    assert "## Rows left out" in Path("out/report.md").read_text()


def test_the_local_stand_in_for_openai_embeddings_is_on_record(
    tmp_path: Path, own: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {**OWN["rows"][0], "index": "openai", "offline_index": "bm25"}  # type: ignore[index]
    (tmp_path / "own.json").write_text(json.dumps({**OWN, "rows": [row], "baseline": ""}))
    assert run([*own, "--reader", "none"]) == 0
    assert results().configuration["rows"]["one"]["index"] == "bm25"
    assert "all-MiniLM" not in Path("out/report.md").read_text()
    assert "stand in" in Path("out/report.md").read_text()


def test_mistakes_say_what_to_do(own: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "eval list" in mistake(capsys, "eval", "run", "table1")
    assert "no row 'three'" in mistake(capsys, *own, "--methods", "three")
    assert "--reader is one of" in mistake(capsys, *own, "--reader", "oracle")
    assert "at least 1" in mistake(capsys, *own, "--questions", "0")
    assert "concurrency" in mistake(capsys, *own, "--reader", "none", "--concurrency", "0")
    assert "needs OPENAI_API_KEY or --base-url" in mistake(capsys, *own, "--reader", "llm")
    assert "is no run" in mistake(capsys, "eval", "report", str(tmp_path))
    assert "another --reader" in mistake(
        capsys, "eval", "run", "table12", "--data", "dev", "--reader", "none"
    )


def test_published_sets_that_are_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "sets").mkdir()
    said = mistake(capsys, "eval", "run", "table12", "--data", "sets", "--offline")
    assert re.search(
        r"'quality' is not in sets: put the Parquet files of emozilla/quality, from the hub, into sets/quality",
        said,
    )
    assert "--data dev" in said
    assert "no such folder" in mistake(capsys, "eval", "run", "table12", "--data", "nowhere", "--offline")


def test_development_sets(sage_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAGE_DATA", str((ROOT / sage_data).resolve()))
    arguments = ["eval", "run", "chronicles-table4", "--data", "dev", "--questions", "3", "-o", "out"]
    assert run(arguments) == 0
    found = results()
    assert found.datasets == ["dev/squad2_dev16"] and found.configuration["data"] == "dev"
    assert "no figure here compares" in Path("out/report.md").read_text()


def test_speed_of_segmentation(own: list[str]) -> None:
    own[2] = "fig7"
    assert run(own) == 0
    (whole, pair) = results().measured
    assert whole["row"] == "quality" and pair["row"].startswith("quality (pair")
    assert whole["figures"]["tokens/s"] > 0 and whole["figures"]["time saved"] <= 100


def test_scalability(own: list[str], tmp_path: Path) -> None:
    row = {**OWN["rows"][0], "row": "SAGE"}  # type: ignore[index]
    options = {"levels": [1, 3], "questions": 2, "scaled_row": "SAGE", "warm_questions": 2}
    options["latency"] = {"answer": 0.05, "critic": 0.05}  # type: ignore[assignment]
    experiment = {**OWN, "kind": "scalability", "rows": [row], "baseline": "", "options": options}
    (tmp_path / "own.json").write_text(json.dumps(experiment))
    assert run(own) == 0
    one, three = results().measured
    assert (one["row"], three["row"]) == ("SAGE", "SAGE (3x)")
    assert one["figures"]["answering, s"] >= 0.05 and one["figures"]["host memory, GB"] > 0
    # Made-up answers are not scored.
    assert "F1" not in one["figures"] and "3 questions, 0 failed" in three["note"]
    assert run(own) == 0
    assert len(results().measured) == 2


@pytest.fixture
def connections() -> Iterator[list[str]]:
    """Every address that this process tries to reach outside itself, loopback left out."""
    tried: list[str] = []
    listening = True

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if listening and event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
            address = arguments[1] if event == "socket.connect" else arguments[0]
            host = str(address[0] if isinstance(address, tuple) else address)
            if host not in ("127.0.0.1", "localhost", "::1", "None") and not host.startswith("/"):
                tried.append(host)

    sys.addaudithook(hook)  # a hook cannot be taken away again
    yield tried
    listening = False


ALL_INDEXES = [
    {"row": "words", "method": "naive", "index": "bm25"},
    {"row": "server", "method": "sage", "index": "openai"},
    {"row": "stand-in", "method": "naive", "index": "openai", "offline_index": "bm25"},
    {"row": "two", "method": "naive", "index": {"kind": "hybrid", "parts": ["bm25", "openai"]}},
    {"row": "hub", "method": "naive", "index": {"kind": "sbert", "model": "nobody/has-this-model"}},
]


def test_offline_reaches_nothing_but_this_machine(
    own: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connections: list[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    (tmp_path / "own.json").write_text(json.dumps({**OWN, "rows": ALL_INDEXES, "baseline": ""}))
    assert run([*own, "--offline", "--reader", "scripted", "--questions", "2"]) == 0
    assert connections == []
    found = results()
    assert {row for _, row in found.answers} == {"words", "stand-in"}
    assert "--offline" in found.left_out["server"] and "--offline" in found.left_out["two"]
    assert "nobody/has-this-model" in found.left_out["hub"]


@pytest.mark.parametrize("through", ["option", "environment"])
def test_a_server_of_ones_own_embeds_and_answers(
    own: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    connections: list[str],
    through: str,
) -> None:
    with (
        LLMServer(["no vectors here"]) as without,
        LLMServer(
            lambda r: '{"score": 9, "adjust": 0}' if r.is_critic else "here",
            embed=lambda text: [len(text), 1.0],
        ) as server,
    ):
        other = {"kind": "openai", "base_url": without.base_url}
        rows = [ALL_INDEXES[1], {**ALL_INDEXES[2], "index": other}]
        (tmp_path / "own.json").write_text(json.dumps({**OWN, "rows": rows, "baseline": ""}))
        arguments = [*own, "--model", "tiny", "--questions", "2"]
        if through == "option":
            arguments += ["--base-url", server.base_url]
        else:
            monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        assert run(arguments) == 0
        assert {r.path.rpartition("/")[2] for r in server.requests} == {"completions", "embeddings"}
    assert connections == []
    found = results()
    assert len(found.answers["facts", "server"]) == 2
    assert found.configuration["rows"]["stand-in"]["index"] == "bm25"


def test_rows_left_out_are_counted_and_strict_makes_them_an_error(
    own: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [OWN["rows"][0], {"row": "openai", "method": "naive", "index": "openai"}]  # type: ignore[index]
    (tmp_path / "own.json").write_text(json.dumps({**OWN, "rows": rows}))
    assert run([*own, "--reader", "none"]) == 0
    assert "1 of 2 rows left out" in capsys.readouterr().out
    assert run([*own, "--reader", "none", "--strict"]) == 1


def test_a_narrow_screen_and_a_pipe_stay_readable(
    own: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert run([*own, "--reader", "none"]) == 0
    shown = capsys.readouterr()
    assert re.search(r"^  one: Recall@1 [01]\.\d{3} \[", shown.out, re.MULTILINE)
    assert max(map(len, shown.out.splitlines()[:8])) <= 40 and "…" not in shown.out
    assert "of 24: one, preparing" in shown.err and "of 24: two, preparing" in shown.err


def test_another_llm_judges(own: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with LLMServer(lambda r: '{"score": 7}' if "compare an answer" in r.system else "here") as server:
        arguments = [*own, "--methods", "one", "--base-url", server.base_url, "--model", "tiny"]
        assert run([*arguments, "--judge", "sober"]) == 0
        by_model = {r.body["model"]: "compare an answer" in r.system for r in server.requests}
    assert by_model == {"tiny": False, "sober": True}
    assert results().configuration["reader"]["judge"] == "sober"
    assert "--judge needs" in mistake(capsys, *own, "--judge", "sober", "--offline")


def test_prices_give_money(own: list[str], tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text('{"tiny": {"prompt": 1, "completion": 2}}')
    with LLMServer(lambda r: '{"score": 7}' if "compare" in r.system else "here") as server:
        arguments = [*own, "--methods", "one", "--base-url", server.base_url, "--model", "tiny"]
        assert run([*arguments, "--prices", "prices.json"]) == 0
    assert "money, 1,000 questions | " in Path("out/report.md").read_text()
    assert results().money("facts", "one")


def test_questions_are_made_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "guide.md").write_text("The ferry leaves at eleven on Sundays. Tickets are sold on board.")
    with LLMServer([{"question": "Where are tickets sold?", "answer": "on board"}]) as server:
        arguments = ["eval", "make-questions", "guide.md", "-o", "made", "--base-url", server.base_url]
        assert run([*arguments, "--model", "tiny"]) == 0
    assert "1 questions (1 made)" in capsys.readouterr().out
    question = json.loads(gzip.decompress(Path("made_questions.jsonl.gz").read_bytes()))
    assert question["evidence"][0]["text"] == "on board"
    assert "OPENAI_API_KEY" in mistake(capsys, "eval", "make-questions", "guide.md", "-o", "made")


def test_a_development_set_by_name(sage_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAGE_DATA", str((ROOT / sage_data).resolve()))
    for name, count in (("hotpot_pool", 143), ("fairytaleqa", 1025), ("clapnq_unanswerable", 300)):
        found = load_dataset(f"dev/{name}")
        assert len(found.questions) == count and all(q.answers for q in found.questions)
    assert all(len(q.evidence) > 1 for q in load_dataset("dev/2wiki_pool").questions[:20])
    arguments = [
        "eval",
        "run",
        "chronicles-table4",
        "--data",
        "dev/hotpot_pool",
        "--questions",
        "3",
        "-o",
        "out",
    ]
    assert run(arguments) == 0
    assert results().datasets == ["dev/hotpot_pool"] and results().configuration["data"] == "dev"


def test_a_table_of_features_needs_pairs(own: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    own[2] = "table10"
    assert run(own) == 2
    assert "give more documents, with several paragraphs" in capsys.readouterr().err
