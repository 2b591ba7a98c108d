"""``--html``: the page holds what was shown, and a place that cannot be written is told before the work."""

import io
import json
import os
import re
import sys
from pathlib import Path

import pytest

from sage_app.cli.main import run
from tests.app.cli.support import DEMO, QUESTION, mistake, shown
from tests.fakes.llm_server import LLMServer, Reply

pytestmark = pytest.mark.slow


def test_ask_writes_a_page_and_names_it(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    page.write_text("an older one")
    assert f"page    {page}" in shown(
        capsys, "ask", QUESTION, "--store", store, "--html", page, "--min-context-tokens", "300"
    )
    html = page.read_text(encoding="utf-8")
    expected = (
        QUESTION,
        "2.60 pounds for each metre",
        "harbour-rules.pdf:p. ",
        "extractive, no LLM",
        "hybrid",
    )
    assert [part for part in expected if part not in html] == []
    assert os.listdir(tmp_path) == ["report.html"]


def test_an_llm_that_fails_leaves_a_page_of_the_chunks(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    refusal = Reply(status=400, error={"message": "the \x1b[31mmodel <i>is</i> away"})
    with LLMServer([refusal]) as server:
        arguments = ["--base-url", server.base_url, "--model", "some-model"]
        assert run(["ask", QUESTION, "--store", str(store), "--html", str(page), *arguments]) == 3
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err
    html = page.read_text(encoding="utf-8")
    assert (
        "No answer: " in html and "model &lt;i&gt;is&lt;/i&gt; away" in html and "harbour-rules.pdf" in html
    )


def test_a_place_that_cannot_be_written_costs_no_call(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LLMServer(["never asked"]) as server:
        ask = ["ask", QUESTION, "--store", store, "--base-url", server.base_url, "--model", "m"]
        for command in (ask, ["segment", DEMO / "water-works.txt"]):
            code, error = mistake(capsys, *command, "--html", tmp_path / "no" / "report.html")
            assert code == 2 and "cannot be written" in error
        code, error = mistake(capsys, *ask, "--html", tmp_path)
        assert code == 2 and "cannot be written" in error and server.requests == []


def test_segment_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, text = tmp_path / "cuts.html", DEMO / "lighthouse-history.txt"
    assert f"page: {page}" in shown(capsys, "segment", text, "--html", page, "--max-tokens", "60")
    html = page.read_text(encoding="utf-8")
    assert "lighthouse-history.txt" in html and "P(same)" in html and 'class="chunk c1"' in html
    assert re.search(r"<dt>max tokens</dt><dd><span[^>]*>60<", html)


def test_segment_of_standard_input_prints_no_escape(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "The \x1b]0;pwned\x07 ferry <script>x</script> sails. \x9b2J It is late. [/red] Bring a coat.".encode()
    for extra in ([], ["--json"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        assert run(["segment", "-", "--html", str(tmp_path / "page.html"), *extra]) == 0
        out = capsys.readouterr().out
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", out)
    assert "\x9b2J It is late." in json.loads(out)["chunks"][0]["text"]
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "standard input" in html and "<script" not in html
