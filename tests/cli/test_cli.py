"""The command line as a user meets it: output, exit codes, one clear line for every mistake."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sage_core.cli import run
from sage_core.embedding import SentenceTransformerEmbedder
from tests.llm_server import LLMServer, Reply, Request

DEMO = Path(__file__).parents[2] / "demo" / "documents"
QUESTION = "What does it cost to leave a boat overnight at the visitor pontoon?"


@pytest.fixture(scope="module", autouse=True)
def load_once() -> Iterator[None]:
    """Every command loads the embedding model; here they share one."""
    load, loaded = SentenceTransformerEmbedder._loaded, {}

    def once(self: SentenceTransformerEmbedder) -> object:
        self._model = loaded.get(self.name)
        loaded[self.name] = load(self)
        return loaded[self.name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SentenceTransformerEmbedder, "_loaded", once)
        yield


@pytest.fixture(autouse=True)
def no_llm(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "SAGE_LLM", "SAGE_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of one real document, made by the command."""
    made = tmp_path_factory.mktemp("cli") / "store"
    assert run(["ingest", str(DEMO / "harbour-rules.pdf"), "--store", str(made)]) == 0
    return made


def mistake(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Exit code and standard error of a command that must fail with one line and print nothing else."""
    code = run([str(a) for a in arguments])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1 and captured.err.startswith("sage-rag: ")
    return code, captured.err


# -- what works -------------------------------------------------------------------------------------------


def test_ingest_then_skip_then_replace_then_remove(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docs, store = tmp_path / "docs", tmp_path / "store"
    docs.mkdir()
    (docs / "a.md").write_text("# One\n\nThe ferry sails at seven.")
    (docs / "b.txt").write_text("The mill spins wool.")

    def ingest() -> dict[str, object]:
        assert run(["ingest", str(docs), "--store", str(store), "--json"]) == 0
        report: dict[str, object] = json.loads(capsys.readouterr().out)
        return report

    assert len(ingest()["added"]) == 2  # type: ignore[arg-type]
    assert len(ingest()["unchanged"]) == 2  # type: ignore[arg-type]
    (docs / "a.md").write_text("# One\n\nThe ferry sails at eight.")
    (docs / "b.txt").unlink()
    report = ingest()
    assert report["changed"] == [str(docs / "a.md")] and report["removed"] == [str(docs / "b.txt")]
    assert report["store"]["documents"] == 1  # type: ignore[index]


def test_ask_shows_every_step(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ask", QUESTION, "--store", str(store)]) == 0
    out = capsys.readouterr().out
    assert "2.60 pounds for each metre" in out
    assert "extractive, no LLM" in out
    assert re.search(r"^ *1 +0\.\d{3} .*harbour-rules\.pdf:p\. \d", out, re.MULTILINE)
    assert re.search(r"kept +\d+ of \d+ chunks: ", out)
    assert re.search(r"tokens +[\d,]+ sent; plain top-10 would send [\d,]+ \([+-]\d+%\)", out)
    assert re.search(r"grade +\d+ of 10 by a heuristic", out)
    assert re.search(r"rounds +\d", out) and re.search(r"stopped +\w+: ", out)


def test_ask_as_json(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ask", QUESTION, "--store", str(store), "--json", "--min-k", "2", "--max-k", "3"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["answerer"] == "extractive, no LLM"
    assert 2 <= answer["retrieval"]["selection"]["cut"] <= 3
    assert answer["retrieval"]["tokens"]["selected"] > 0
    chunk = answer["retrieval"]["candidates"][0]
    assert chunk["source"].endswith("harbour-rules.pdf") and chunk["page"] in (1, 2)


def test_an_llm_answers_over_base_url(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def script(request: Request) -> str:
        assert request.body["model"] == "some-model"
        return '{"score": 9, "adjust": 0}' if request.is_critic else "2.60 pounds a metre."

    with LLMServer(script) as server:
        arguments = ["--store", str(store), "--base-url", server.base_url, "--model", "some-model"]
        assert run(["ask", QUESTION, *arguments]) == 0
    out = capsys.readouterr().out
    assert "2.60 pounds a metre." in out and "some-model" in out
    assert "9 of 10 by the critic" in out
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
    from sage_core.documents import read_document

    assert run(["segment", str(DEMO / name), "--json", "--max-tokens", "80"]) == 0
    result = json.loads(capsys.readouterr().out)
    text = read_document(DEMO / name).text
    assert "".join("".join(c["text"] for c in result["chunks"]).split()) == "".join(text.split())
    assert all(text[c["start"] : c["end"]] == c["text"] for c in result["chunks"])
    assert all(0 < c["tokens"] <= 80 for c in result["chunks"])
    assert all(0 <= b["probability"] <= 1 for b in result["boundaries"])


def test_segment_reads_standard_input() -> None:
    command = [sys.executable, "-m", "sage_core.cli", "segment", "-", "--json"]
    text = "The ferry sails at seven. It returns at noon."
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=True)
    assert json.loads(done.stdout)["chunks"][0]["text"] == text


def test_train_makes_a_model_that_segments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for i, path in enumerate(sorted(DEMO.glob("*.[tm][xd]*")) * 4):
        (corpus / f"{i}.txt").write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    arguments = ["--output", str(tmp_path / "model"), "--epochs", "0.5", "--batch-size", "256", "--seed", "3"]
    assert (
        run(["train", str(corpus), *arguments, "--kind", "pair", "--start", "random", "--threads", "1"]) == 0
    )
    out = capsys.readouterr().out
    assert "auc" in out and "sage-rag segment FILE --segmenter" in out
    assert (tmp_path / "model" / "model.safetensors").is_file()
    assert (
        run(["segment", str(DEMO / "water-works.txt"), "--segmenter", str(tmp_path / "model"), "--json"]) == 0
    )
    assert len(json.loads(capsys.readouterr().out)["chunks"]) > 3


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def script(request: Request) -> str:
        return '{"score": 9, "adjust": 0}' if request.is_critic else "An answer."

    with LLMServer(script) as server:
        assert run(["demo", "--store", str(tmp_path / "store"), "--base-url", server.base_url]) == 0
    out = capsys.readouterr().out
    assert "8 added" in out and "P(same)" in out
    for kind in ("answered in one place", "needs several chunks", "not in the documents"):
        assert out.count(kind) == 2  # the heading and the summary
    assert out.count("An answer.") == 4


@pytest.mark.parametrize("command", [[], ["ingest"], ["ask"], ["segment"], ["train"], ["demo"]])
def test_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "sage-rag" in out and "Traceback" not in out
    assert "Examples:" in out or not command


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert re.fullmatch(r"sage-rag \d+\.\d+\.\d+\S*\n", capsys.readouterr().out)


# -- what goes wrong --------------------------------------------------------------------------------------


def test_no_such_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = mistake(capsys, "ingest", tmp_path / "none", "--store", tmp_path / "store")
    assert code == 2 and "no such file or folder" in error and "none" in error
    assert mistake(capsys, "segment", tmp_path / "none.txt")[0] == 2
    assert mistake(capsys, "train", tmp_path / "none", "--output", tmp_path / "model")[0] == 2
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs").mkdir()
    code, error = mistake(capsys, "ingest", tmp_path / "docs", "--store", tmp_path / "store")
    assert code == 2 and "no documents found" in error and ".md" in error


def test_a_binary_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\x00")
    for command in (["ingest", path, "--store", tmp_path / "store"], ["segment", path]):
        code, error = mistake(capsys, *command)
        assert code == 2 and "is a binary file" in error


def test_files_that_cannot_be_read_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("Some text.")
    (tmp_path / "b.txt").write_bytes(b"\x00\x01")
    assert run(["ingest", str(tmp_path), "--store", str(tmp_path / "store")]) == 0
    captured = capsys.readouterr()
    assert "1 added" in captured.out
    assert re.search(r"skipped: .*b\.txt is a binary file", captured.err.replace("\n", ""))


def test_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = mistake(capsys, "ask", "Anything?", "--store", tmp_path / "none")
    assert code == 1 and "no store at" in error and "sage-rag ingest" in error


def test_a_store_made_with_another_model(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = mistake(capsys, "ask", QUESTION, "--store", store, "--embedder", "another-model")
    assert code == 1 and "'all-MiniLM-L6-v2', not with 'another-model'" in error and "--rebuild" in error
    code, error = mistake(capsys, "ingest", DEMO, "--store", store, "--max-tokens", "50")
    assert code == 1 and "was made with segmenter" in error


def test_an_llm_without_a_key(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = mistake(capsys, "ask", QUESTION, "--store", store, "--model", "gpt-4o-mini")
    assert code == 2 and "OPENAI_API_KEY" in error and "--base-url" in error


def test_an_unreachable_llm_shows_the_chunks(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["ask", QUESTION, "--store", str(store), "--base-url", "http://127.0.0.1:9/v1"]
    assert run(arguments) == 3
    captured = capsys.readouterr()
    assert "harbour-rules.pdf" in captured.out and "kept" in captured.out
    assert captured.err.count("\n") == 1 and "127.0.0.1:9" in captured.err
    assert run([*arguments, "--json"]) == 3
    result = json.loads(capsys.readouterr().out)
    assert result["error"] and len(result["retrieval"]["candidates"]) > 5


def test_a_refused_key_is_not_shown(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-0123456789")
    refusal = Reply(status=401, error={"message": "Incorrect API key provided: sk-very-secret-0123456789"})
    with LLMServer([refusal]) as server:
        assert run(["ask", QUESTION, "--store", str(store), "--base-url", server.base_url]) == 3
    captured = capsys.readouterr()
    assert "secret" not in captured.out + captured.err


def test_a_blank_question(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = mistake(capsys, "ask", "  ", "--store", store)
    assert code == 2 and "blank" in error


@pytest.mark.parametrize(
    "arguments",
    [
        ["ask", QUESTION, "--min-k", "0"],
        ["ask", QUESTION, "--gradient", "7"],
        ["ask", QUESTION, "--candidates", "0"],
        ["segment", str(DEMO / "water-works.txt"), "--strategy", "other"],
        ["segment", str(DEMO / "water-works.txt"), "--threshold", "7"],
        ["segment", str(DEMO / "water-works.txt"), "--max-tokens", "0"],
        ["segment", str(DEMO / "water-works.txt"), "--encoding", "no-such"],
    ],
)
def test_settings_out_of_range(arguments: list[str], store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    extra = ["--store", str(store)] if arguments[0] == "ask" else []
    assert mistake(capsys, *arguments, *extra)[0] == 2


def test_a_model_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    code, error = mistake(capsys, "segment", DEMO / "water-works.txt", "--segmenter", "no-such-model")
    assert code == 1 and "no-such-model" in error


@pytest.mark.parametrize(
    "arguments", [["no-such-command"], ["ask"], ["ask", "a", "--no-such-option"], ["ask", "a", "b"]]
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err and captured.err


def test_ctrl_c_leaves_a_store_that_the_next_run_finishes(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    text = (DEMO / "water-works.txt").read_text(encoding="utf-8")
    for i in range(12):
        (docs / f"{i:02}.txt").write_text(f"Document {i}.\n\n{text}", encoding="utf-8")
    store = tmp_path / "store"
    command = [sys.executable, "-m", "sage_core.cli", "ingest", str(docs), "--store", str(store)]
    # Whoever runs the tests in the background may have switched Ctrl-C off for all that it starts.
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not store.exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate()
    assert process.returncode == 130, error
    assert "interrupted" in error and "Traceback" not in error
    for path in sorted(docs.iterdir())[2:]:
        path.unlink()
    assert run(["ingest", str(docs), "--store", str(store), "--json"]) == 0


def test_output_cut_off_by_a_reader_is_no_crash() -> None:
    command = f"{sys.executable} -m sage_core.cli segment {DEMO / 'water-works.txt'} --json | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout == "{\n"
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr


def test_a_terminal_without_unicode() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "sage_core.cli", "segment", str(DEMO / "water-works.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "chunk 1" in done.stdout


def test_commands_import_only_what_they_need() -> None:
    code = """
import sys
from sage_core.cli import run
from sage_core.embedding import SentenceTransformerEmbedder
assert run(["segment", sys.argv[1], "--json"]) == 0
heavy = {"torch", "transformers", "sentence_transformers", "chromadb", "openai", "bs4", "pypdf"} & set(sys.modules)
sys.exit(f"loaded {heavy}" if heavy else 0)
"""
    command = [sys.executable, "-c", code, str(DEMO / "water-works.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("module", "arguments", "extra"),
    [
        ("bs4", ["segment", str(DEMO / "energy-report.html")], "files"),
        ("pypdf", ["segment", str(DEMO / "harbour-rules.pdf")], "files"),
        ("chromadb", ["ingest", str(DEMO / "water-works.txt")], "chroma"),
        ("sentence_transformers", ["ingest", str(DEMO / "water-works.txt")], "models"),
    ],
)
def test_a_missing_extra_is_one_line_with_the_pip_command(
    module: str, arguments: list[str], extra: str, tmp_path: Path
) -> None:
    code = "import sys; sys.modules[sys.argv.pop(1)] = None; from sage_core.cli import run; sys.exit(run(sys.argv[1:]))"
    command = [sys.executable, "-c", code, module, *arguments]
    if arguments[0] == "ingest":
        command += ["--store", str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and f'pip install "sage-rag[{extra}' in done.stderr


def test_prices_show_what_an_answer_cost(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = tmp_path / "prices.json"
    prices.write_text('{"m": {"prompt": 1000, "completion": 2000}}')
    replies = [
        Reply("2.60 pounds a metre.", usage=(100, 10)),
        Reply('{"score": 9, "adjust": 0}', usage=(200, 20)),
    ]
    with LLMServer(replies) as server:
        ask = ["ask", QUESTION, "--store", str(store), "--base-url", server.base_url, "--model", "m"]
        assert run([*ask, "--prices", str(prices), "--json"]) == 0
    cost = json.loads(capsys.readouterr().out)["cost"]
    assert cost["money"] == {"generate": pytest.approx(0.12), "judge": pytest.approx(0.24)}
    with LLMServer(replies) as server:
        ask[5] = server.base_url
        assert run([*ask, "--prices", str(prices)]) == 0
    assert "total: 2 calls, 300 + 30 tokens, 0.360000" in capsys.readouterr().out


def test_a_bad_price_file_says_what_it_should_hold(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = tmp_path / "prices.json"
    prices.write_text("free")
    code, said = mistake(capsys, "ask", QUESTION, "--store", store, "--prices", prices)
    assert code == 2
    assert "money for a million tokens" in said
