"""The server of docs/deploy.md: several processes answer from one store while another changes it."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sage_app import Sage
from tests.markdown import ROOT, blocks

for package in ("starlette", "uvicorn"):
    pytest.importorskip(package)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.soak,
    pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="the documentation is not here"),
]


def post(port: int, body: object) -> tuple[int, dict[str, object]]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/ask", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_workers_answer_while_documents_change(tmp_path: Path) -> None:
    [code] = [b.code for b in blocks(ROOT / "docs" / "deploy.md") if "app = Starlette" in b.code]
    (tmp_path / "serve.py").write_text(code)
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "ferry.txt").write_text("The ferry leaves the north pier at nine.\n")
    (docs / "mill.txt").write_text("The mill spins wool from brown sheep.\n")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    store = tmp_path / ".sage"
    with Sage(store) as sage:
        sage.ingest(docs)
        command = [sys.executable, "-m", "uvicorn", "serve:app", "--workers", "2", "--port", str(port)]
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        server = subprocess.Popen(
            command,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path, "SAGE_STORE": str(store)},
            stderr=subprocess.DEVNULL,
        )
        try:
            until = time.monotonic() + 120
            while True:
                try:
                    assert post(port, {})[0] == 400
                    break
                except OSError:
                    assert time.monotonic() < until and server.poll() is None, "the server does not start"
                    time.sleep(0.2)
            assert post(port, {"question": " "})[0] == 400
            question = {"question": "When does the ferry leave?"}
            with ThreadPoolExecutor(8) as pool:
                answers = [a for _, a in pool.map(lambda _: post(port, question), range(16))]
                assert all("at nine" in str(a) for a in answers), answers
                (docs / "ferry.txt").write_text("The ferry leaves the south pier at six.\n")
                sage.ingest(docs)
                answers = [a for _, a in pool.map(lambda _: post(port, question), range(16))]
                assert all("at six" in str(a) and "at nine" not in str(a) for a in answers), answers
        finally:
            server.terminate()
            server.wait(30)
