"""`sage-rag serve`: what its page is given, and everything that it refuses."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the serve extra is not installed")
pytest.importorskip("httpx", reason="httpx, which starlette's test client needs, is not installed")

import httpx
from starlette.testclient import TestClient

from sage_app import Sage, SageConfig
from sage_app.cli.main import run
from sage_app.cli.options import listen_locally
from sage_app.pipeline.settings import SageSettings
from sage_app.playground import serve
from sage_core import FeedbackConfig, SelectionConfig
from sage_core.errors import InputError
from sage_core.selection import FixedK
from tests.app.cli.support import mistake
from tests.app.playground.workbench import BEES, FERRY, make_store, make_workbench
from tests.fakes.commands import add_commands
from tests.fakes.models import HashEmbedder

add_commands()
PROGRAM = """
from sage_app.cli.main import main
from tests.fakes.commands import add_commands
add_commands()
main()
"""
PORT, TOKEN = 8123, "secret"
HOSTILE = '<script>window.hacked = 1</script><img src=x onerror="window.hacked = 1"> </textarea>&amp; \u202e\x1b[31m.'


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("serve"))


@pytest.fixture(scope="module")
def workbench(store: Path) -> serve.Workbench:
    return make_workbench(store)


def client_of(workbench: Any, **settings: Any) -> TestClient:
    app = serve.make_app(workbench, TOKEN, PORT, **settings)
    return TestClient(app, base_url=f"http://127.0.0.1:{PORT}", raise_server_exceptions=False)


@pytest.fixture
def client(workbench: serve.Workbench) -> TestClient:
    return client_of(workbench)


def asked(client: TestClient, name: str, data: object, status: int = 200) -> Any:
    response = client.post(f"/{TOKEN}/api/{name}", json=data)
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    return response.json()


# -- what it refuses --------------------------------------------------------------------------------------


def test_the_page_asks_for_nothing_from_elsewhere_and_holds_no_inline_script(client: TestClient) -> None:
    page = client.get(f"/{TOKEN}/")
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|\sstyle=|javascript:", page.text)
    assert set(re.findall(r'(?:src|href)="([^"#]+)"', page.text)) == {"app.js", "app.css", "icon.svg"}
    for name in ("", "app.js", "app.css", "icon.svg", "api/info", "nothing"):
        response = client.get(f"/{TOKEN}/{name}")
        policy = response.headers["content-security-policy"]
        assert (
            "default-src 'none'" in policy
            and "script-src 'self';" in policy
            and "frame-ancestors 'none'" in policy
        )
        for header, value in serve.HEADERS.items():
            assert response.headers[header] == value
        if name.startswith("app"):
            assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(", response.text)
            assert "eval(" not in response.text


@pytest.mark.parametrize(
    "path", ["/", "/api/info", "/wrong/", "/wrong/api/info", "/secre/", "/secrets/", "//secret/"]
)
def test_without_the_token_there_is_nothing(client: TestClient, path: str) -> None:
    for response in (client.get(path), client.post(path, json={})):
        assert response.status_code == 403 and "ferry" not in response.text
        assert response.headers["content-security-policy"] == serve.POLICY


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": f"evil.example:{PORT}"}, 421),
        ({"host": "127.0.0.1"}, 421),
        ({"host": f"127.0.0.1:{PORT + 1}"}, 421),
        ({"host": ""}, 421),
        ({"host": f"127.0.0.1:{PORT}.evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": f"http://127.0.0.1:{PORT + 1}"}, 403),
        ({"origin": f"https://127.0.0.1:{PORT}"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 403),
        ({"host": f"localhost:{PORT}", "origin": f"http://localhost:{PORT}"}, 200),
        ({"origin": f"http://127.0.0.1:{PORT}", "sec-fetch-site": "same-origin"}, 200),
        ({}, 200),
    ],
)
def test_another_site_cannot_ask(client: TestClient, headers: dict[str, str], status: int) -> None:
    response = client.post(f"/{TOKEN}/api/info", json={}, headers=headers)
    assert response.status_code == status
    assert ("documents" in response.text) == (status == 200)


def test_a_page_elsewhere_may_link_here_but_not_load_from_here(client: TestClient) -> None:
    cross = {"sec-fetch-site": "cross-site"}
    assert client.get(f"/{TOKEN}/", headers={**cross, "sec-fetch-mode": "navigate"}).status_code == 200
    assert client.get(f"/{TOKEN}/app.js", headers={**cross, "sec-fetch-mode": "no-cors"}).status_code == 403


def test_methods_types_and_sizes(client: TestClient) -> None:
    address = f"/{TOKEN}/api/segment"
    assert client.put(address, json={}).status_code == 405
    assert client.options(address).status_code == 405
    assert client.get(address).status_code == 405
    assert client.post(address, content="{}", headers={"content-type": "text/plain"}).status_code == 415
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert client.post(address, content="text=a", headers=form).status_code == 415
    kind = {"content-type": "application/json; charset=utf-8"}
    for content in ("", "{", "[1]", "1", "[" * 200_000, b"\xff\xfe"):
        assert client.post(address, content=content, headers=kind).status_code == 400, content[:10]
    large = serve._JSON_BYTES + 1
    assert client.post(address, content=b" " * large, headers=kind).status_code == 413
    parts = (b" " * 100_000 for _ in range(large // 100_000 + 1))  # without a length
    assert client.post(address, content=parts, headers=kind).status_code == 413
    assert "characters" in asked(client, "segment", {"text": "a" * (serve.MOST_CHARACTERS + 1)}, 422)["error"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("segment", {}, "'text' is a text"),
        ("segment", {"txt": "a"}, "no field 'txt'; did you mean 'text'?"),
        ("segment", {"text": "A b.", "settings": {"treshold": 1}}, "did you mean 'threshold'?"),
        ("segment", {"text": "A b.", "settings": {"threshold": 2}}, "threshold must be between 0 and 1"),
        ("segment", {"text": "A b.", "settings": {"max_tokens": 10_001}}, "at most 10,000"),
        ("segment", {"text": "A b.", "settings": {"model": "/etc"}}, "no model '/etc' here"),
        ("segment", {"text": "A b.", "settings": [1]}, "an object"),
        ("document", {"id": "../../etc/passwd"}, "no such document"),
        ("search", {"question": "  "}, "blank"),
        ("search", {"question": "a" * 3000}, "at most 2,000"),
        ("search", {"question": "Why?", "settings": {"candidates": 10**9}}, "from 1 to 500"),
        ("search", {"question": "Why?", "settings": {"rule": "steep"}}, "unknown rule 'steep'"),
        (
            "search",
            {"question": "Why?", "settings": {"rule": {"rule": "FixedK", "k": -1}}},
            "k must be at least 1",
        ),
        ("search", {"question": "Why?", "settings": {"rule": {"rule": "os.system"}}}, "is not one of"),
        ("search", {"question": "Why?", "settings": {"rule": 5}}, "its rule a name"),
        ("info", {"x": 1}, "no field 'x'"),
    ],
)
def test_a_mistake_is_told_in_words(client: TestClient, name: str, data: object, message: str) -> None:
    assert message in asked(client, name, data, 422)["error"]


def test_work_is_bounded_in_time_and_number() -> None:
    going, release = threading.Event(), threading.Event()

    class Slow:
        def info(self, data: dict[str, Any]) -> dict[str, Any]:
            going.set()
            release.wait(20)
            return {}

        def document(self, data: dict[str, Any]) -> dict[str, Any]:
            raise RuntimeError("a path that nobody should see: /home/somebody")

        segment = search = document

    with client_of(Slow(), seconds=0.3, workers=1) as client:
        assert "0.3 seconds" in asked(client, "info", {}, 504)["error"]
        assert going.is_set()
        assert "busy" in asked(client, "info", {}, 503)["error"]
        release.set()
        assert "somebody" not in asked(client, "document", {"id": "x"}, 500)["error"]
        assert asked(client, "info", {}) == {}


# -- what it gives ----------------------------------------------------------------------------------------


def test_it_says_what_there_is(client: TestClient) -> None:
    found = asked(client, "info", {})
    assert found["store"]["documents"] == 2 and found["problem"] == ""
    assert [d["name"] for d in found["documents"]] == ["bees.txt", "ferry.md"]
    assert found["settings"]["threshold"] == 0.55 and found["settings"]["selection"] == {"rule": "auto"}
    text = asked(client, "document", {"id": found["documents"][1]["id"]})
    assert text == {"name": "ferry.md", "text": FERRY}


def test_a_text_is_cut_as_the_segmenter_does_and_the_settings_say_how(client: TestClient) -> None:
    for settings in (
        {},
        {"target_tokens": 20, "min_tokens": 0},
        {"threshold": 0.7, "max_tokens": 60, "target_tokens": None},
        {"strategy": "threshold", "max_tokens": 450, "target_tokens": 60, "model": "pair"},
    ):
        found = asked(client, "segment", {"text": FERRY, "settings": settings})
        chunks = SageSettings.from_dict(json.loads(found["code"])).make_segmenter().segment(FERRY)
        assert found["summary"].startswith(f"{len(chunks)} chunk")
        assert f"chunk {len(chunks)}<" in found["html"] and f"chunk {len(chunks) + 1}<" not in found["html"]


@pytest.mark.parametrize(
    "text", ["", " \n ", HOSTILE, "\ud800 lone.", "a" * 100_000, "مرحبا. שלום.", "\r\n\r\n# A\r\nB."]
)
def test_any_text_can_be_cut(client: TestClient, text: str) -> None:
    body = json.dumps({"text": text})  # escapes what is no UTF-8
    response = client.post(
        f"/{TOKEN}/api/segment", content=body, headers={"content-type": "application/json"}
    )
    assert response.status_code == 200
    shown = response.json()["html"]
    assert "\x1b" not in shown and "\u202e" not in shown and "<script" not in shown and "<img" not in shown
    assert not text.strip() or 'class="chunk' in shown


def test_a_question_shows_scores_and_the_cut(client: TestClient, store: Path) -> None:
    question = "When does the ferry leave Skerrin?"
    settings = {"rule": {"rule": "FixedK", "k": 2}, "candidates": 20}
    found = asked(client, "search", {"question": question, "settings": settings})
    config = SageConfig(20, feedback=FeedbackConfig(selection=SelectionConfig(rule=FixedK(2))))
    with Sage(store, embedder=HashEmbedder(), config=config) as sage:
        retrieval = sage.retrieve(question)
    assert found["summary"].startswith(f"2 of {len(retrieval.candidates)} kept: ")
    for candidate in retrieval.candidates:
        assert candidate.chunk.text.split(".")[0].split("\n")[-1] in found["html"]
    shown = SageSettings.from_dict(json.loads(found["code"]))
    assert shown.candidates == 20 and shown.selection == SelectionConfig(rule=FixedK(2))


def test_without_a_store_texts_can_be_cut_all_the_same(tmp_path: Path) -> None:
    client = client_of(make_workbench(tmp_path / "none"))
    assert "There is no store" in asked(client, "info", {})["problem"]
    assert "Honey" in asked(client, "segment", {"text": BEES})["html"]
    assert "store" in asked(client, "search", {"question": "Why?"}, 422)["error"]


# -- as a process -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_prints_its_address_serves_and_stops_on_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, "serve", "--store", str(tmp_path / "none")]
    process = subprocess.Popen(
        [*command, "--no-browser", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stdout is not None
        address = re.search(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", process.stdout.readline())
        assert address is not None
        problem = process.stdout.readline()
        assert "There is no store at" in problem and "sage-rag ingest PATH" in problem
        for _ in range(200):
            try:
                page = httpx.get(address[0], trust_env=False)
                break
            except httpx.ConnectError:
                threading.Event().wait(0.1)
        assert page.status_code == 200 and "server" not in page.headers
        other = address[0].replace("127.0.0.1", "localhost")
        found = httpx.post(f"{other}api/segment", json={"text": BEES}, trust_env=False, timeout=60)
        assert found.status_code == 200 and found.json()["html"]
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0 and "stopped" in out and "Traceback" not in error


def test_a_port_in_use_and_a_missing_extra(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Taken from the start: two servers started together must not both print the address.
    with listen_locally(0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} of 127.0.0.1 cannot be used"):
            listen_locally(port)
        assert taken.getsockname()[0] == "127.0.0.1"
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, message = mistake(capsys, "serve", "--store", tmp_path / "none")
    assert code == 1 and 'pip install "sage-rag[serve]"' in message
    assert run(["serve", "--port", "70000"]) == 2
