"""The command line as a user meets it: what it does and shows."""

import io
import json
import re
from pathlib import Path

import pytest

from sage_app.cli.main import run
from tests.app.cli.support import DEMO, QUESTION, TANK, as_json, shown
from tests.fakes.llm_server import LLMServer, Request
from tests.fakes.stores import fill

pytestmark = pytest.mark.slow


def test_ingest_then_skip_then_replace_then_remove(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = fill(tmp_path / "docs", {"a.md": "# One\n\nAt seven.", "b.txt": "The mill spins wool."})
    ingest = ("ingest", docs, "--store", tmp_path / "store")
    assert len(as_json(capsys, *ingest)["added"]) == len(as_json(capsys, *ingest)["unchanged"]) == 2
    (docs / "a.md").write_text("# One\n\nThe ferry sails at eight.")
    (docs / "b.txt").unlink()
    report = as_json(capsys, *ingest)
    assert report["changed"] == [str(docs / "a.md")] and report["removed"] == [str(docs / "b.txt")]
    assert report["store"]["documents"] == 1


def test_ask_stays_open_for_more_questions(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{TANK}\n  \nnever asked\n"))
    assert run(["ask", QUESTION, "--store", str(store), "--chat", "--json"]) == 0
    out, answers = capsys.readouterr().out, []
    while out := out.strip():
        answer, end = json.JSONDecoder().raw_decode(out)
        answers.append(answer["question"])
        out = out[end:]
    assert answers == [QUESTION, TANK]


def test_ask_shows_every_step(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, "ask", QUESTION, "--store", store, "--details")
    assert "2.60 pounds for each metre" in out
    for line in (
        r"^ *1 +0\.\d{3} .*harbour-rules\.pdf:p\. \d",
        r"kept +\d+ of \d+ chunks: ",
        r"tokens +[\d,]+ sent; all \d+ candidates [\d,]+",
        r"context +\d+ of \d+ passages, [\d,]+ tokens",
    ):
        assert re.search(line, out, re.MULTILINE), line


def test_ask_says_where_little_bears_on_the_question(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for question, said in ((QUESTION, False), ("Who won the cup in cricket?", True)):
        assert run(["ask", question, "--store", str(store), "--offline"]) == 0
        assert ("little here bears on the question" in capsys.readouterr().err) is said


def test_ask_with_the_local_judge(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["ask", QUESTION, "--store", str(store)]
    chosen = ["--critic", "local", "--max-context-tokens", "150", "--max-rounds", "1"]
    answer = as_json(capsys, *ask, *chosen)
    [only] = answer["feedback"]["rounds"]
    assert 0 < answer["retrieval"]["tokens"]["selected"] <= 150
    assert only["verdict"]["source"] in ("local judge", "no answer")
    assert answer["feedback"]["usage"]["total"]["calls"] == 0
    assert run([*ask, "--critic", "loca"]) != 0
    assert "unknown critic" in capsys.readouterr().err


def test_ask_as_json(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = as_json(capsys, "ask", QUESTION, "--store", store, "--max-context-tokens", "200")
    assert answer["answerer"] == "extractive, no LLM"
    assert 0 < answer["retrieval"]["tokens"]["selected"] <= 200
    chunk = answer["retrieval"]["candidates"][0]
    assert chunk["source"].endswith("harbour-rules.pdf") and chunk["page"] in (1, 2)
    assert "".join(mark["text"] for mark in answer["marks"]) == answer["answer"]
    assert "2.60 pounds" in answer["answer"]


def test_an_llm_answers_over_base_url(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def script(request: Request) -> str:
        assert request.body["model"] == "some-model"
        return '{"score": 9, "adjust": 0, "passage": 1}' if request.is_critic else "2.60 pounds a metre."

    with LLMServer(script) as server:
        ask = ["ask", QUESTION, "--store", store, "--base-url", server.base_url, "--model", "some-model"]
        out = shown(capsys, *ask)
        assert not any(request.streamed for request in server.requests)
        assert "2.60 pounds a metre." in shown(capsys, *ask, "--stream")
        assert [r.streamed for r in server.requests[-2:]] == [True, False]
    assert "2.60 pounds a metre." in out and "some-model" in out and "9 of 10 by the critic" in out
    assert "2 LLM calls, 200 tokens sent and 20 received" in out


def test_offline_wins_over_a_key(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    assert run(["ask", QUESTION, "--store", str(store), "--offline"]) == 0
    assert "extractive, no LLM" in capsys.readouterr().out


def test_segment_shows_chunks_and_probabilities(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["segment", str(DEMO / "water-works.txt")]) == 0
    out = capsys.readouterr().out
    assert "chunk 1  0–" in out and re.search(r"P\(same\) 0\.\d\d", out) and re.search(r"┆[01]\.\d\d┆", out)


@pytest.mark.parametrize(
    "name", ["water-works.txt", "energy-report.html", "harbour-rules.pdf", "seabird-survey.md"]
)
def test_segment_as_json_slices_the_text_as_read(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from sage_app.documents.reader import read_document

    assert run(["segment", str(DEMO / name), "--json", "--max-tokens", "80"]) == 0
    result = json.loads(capsys.readouterr().out)
    text = read_document(DEMO / name).text
    assert "".join("".join(c["text"] for c in result["chunks"]).split()) == "".join(text.split())
    assert all(text[c["start"] : c["end"]] == c["text"] for c in result["chunks"])
    assert all(0 < c["tokens"] <= 80 for c in result["chunks"])
    assert all(0 <= b["probability"] <= 1 for b in result["boundaries"])


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def script(request: Request) -> str:
        return '{"score": 9, "adjust": 0, "passage": 1}' if request.is_critic else "An answer."

    with LLMServer(script) as server:
        assert run(["demo", "--store", str(tmp_path / "store"), "--base-url", server.base_url]) == 0
    out = capsys.readouterr().out
    assert "18 added" in out and "P(same)" in out
    for kind in ("answered in one place", "answered in a table", "not in the documents"):
        assert out.count(kind) == 1
    assert out.count("An answer.") == 4
    reports = tmp_path / "store" / "reports"
    assert f"pages for a browser: {reports}" in out
    pages = [f"question-{n}.html" for n in (1, 2, 3, 4)]
    assert sorted(p.name for p in reports.iterdir()) == ["how-a-text-is-cut.html", *pages]


def test_a_key_in_the_environment_does_not_make_the_demo_ask_an_llm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LLMServer([]) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-program")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        assert run(["demo", "--store", str(tmp_path / "store")]) == 0
    assert server.requests == []


@pytest.mark.parametrize("command", [[], ["ingest"], ["ask"], ["segment"], ["demo"]])
def test_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "sage-rag" in out and "Traceback" not in out
    assert "Examples:" in out or not command


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert re.fullmatch(r"sage-rag \d+\.\d+\.\d+\S*\n", capsys.readouterr().out)


@pytest.mark.parametrize("name", ["a\0b.html", "a\ud800b.html"])
def test_a_path_that_no_file_can_have_is_a_usage_error(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ask", "When?", "--html", name]) == 2
    assert "--html" in capsys.readouterr().err
