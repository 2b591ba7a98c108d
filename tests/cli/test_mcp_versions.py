"""The server's tools as a client lists and calls them, with mcp 1 and with mcp 2."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from sage_core import Sage
from tests.cli.support import DEMO, TANK

pytestmark = pytest.mark.slow


START = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def _conversation(
    store: Path, root: Path, *calls: tuple[str, dict[str, object]], notes: list[dict] | None = None
) -> list[dict]:
    """The server's replies over pipes: to ``tools/list``, and to each call; the protocol of both versions.

    ``notes`` takes the notifications.
    """
    requests: list[dict] = [
        {"id": 0, "method": "initialize", "params": START},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/list"},
    ]
    requests += [
        {
            "id": i,
            "method": "tools/call",
            "params": {"name": name, "arguments": arguments, "_meta": {"progressToken": i}},
        }
        for i, (name, arguments) in enumerate(calls, 2)
    ]
    command = [sys.executable, "-m", "sage_core.cli.main", "mcp", "--store", str(store), "--offline"]
    process = subprocess.Popen(
        [*command, "--allow-ingest", "--root", str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    replies = []
    with process:
        assert process.stdin is not None and process.stdout is not None
        for request in requests:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **request}).encode() + b"\n")
            process.stdin.flush()
            if "id" in request:
                while "id" not in (reply := json.loads(process.stdout.readline())):
                    if notes is not None:
                        notes.append(reply)
                replies.append(reply["result"])
        process.stdin.close()
    return replies[1:]


def test_tools_are_described_bounded_and_confined_to_the_roots(tmp_path: Path) -> None:
    store, root = tmp_path / "store", tmp_path / "root"
    with Sage(store) as sage:
        sage.ingest(DEMO / "water-works.txt")
    root.mkdir()
    (root / "a.txt").write_text("The ferry leaves at seven.")
    (tmp_path / "secret.txt").write_text("The code of the vault is 4711.")
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")
    notes: list[dict] = []
    listed, found, other, none, long, empty, ingested, answered = _conversation(
        store,
        root,
        ("search", {"question": TANK, "max_passages": 1}),
        ("search", {"question": "Who coached the curling team of Norway in 1974?"}),
        ("search", {"question": TANK, "max_passages": 0}),
        ("segment", {"text": "a. " * 100_000}),
        ("ingest", {"paths": [""]}),
        ("ingest", {"paths": ["."]}),
        ("ask", {"question": "Who coached the curling team of Norway in 1974?"}),
        notes=notes,
    )
    progress = [note["params"] for note in notes if note["method"] == "notifications/progress"]
    assert progress and progress[-1]["progress"] == progress[-1]["total"] == 100
    assert answered["structuredContent"]["abstained"] is True
    tools = {tool["name"]: tool for tool in listed["tools"]}
    for tool in tools.values():
        assert all(p.get("description") for p in tool["inputSchema"].get("properties", {}).values())
    assert tools["ingest"]["annotations"]["destructiveHint"] is False
    assert len(found["structuredContent"]["passages"]) == 1 and found["structuredContent"]["relevant"] is True
    assert other["structuredContent"]["passages"] == [] and other["structuredContent"]["relevant"] is False
    assert none["isError"] and long["isError"] and empty["isError"]
    assert [Path(p).name for p in ingested["structuredContent"]["added"]] == ["a.txt"]
    assert "link.txt" in ingested["structuredContent"]["skipped"][0]


@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
def test_one_ctrl_c_ends_it_while_the_client_waits(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sage_core.cli.main", "mcp", "--store", str(tmp_path / "store"), "--offline"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # Whoever runs the tests in the background may have switched Ctrl-C off for all that it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdin is not None and process.stdout is not None
    request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": START}
    process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.flush()
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    try:
        assert process.wait(timeout=60) == 130
    finally:
        process.kill()
        process.communicate()


def _status(address: str, **headers: str) -> int:
    body = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": START}).encode()
    accepted = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(address, body, {**accepted, **headers})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            assert b"sage-rag" in response.read()
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
def test_http_is_for_this_machine_and_refuses_other_sites(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sage_core.cli.main", "mcp", "--store", str(tmp_path / "store")]
    process = subprocess.Popen(
        [*command, "--offline", "--http", "0"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stderr is not None
    line = next(line for line in process.stderr if "http://127.0.0.1:" in line)
    address = line.split("MCP server: ")[1].split()[0]
    try:
        assert _status(address) == 200
        assert _status(address, Origin="http://evil.example") == 403
        assert _status(address, Host="evil.example") == 421
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.communicate()


async def test_a_canceled_ingest_stops(tmp_path: Path) -> None:
    from sage_core.cli.mcp import _Tools
    from sage_core.pipeline.ingest import IngestProgress

    begun, ended = threading.Event(), threading.Event()

    class Endless:
        def ingest(self, paths, *, roots, progress):
            try:
                while True:
                    progress(IngestProgress(0, 1, 0, 0, ""))
                    begun.set()
            finally:
                ended.set()

    task = asyncio.create_task(_Tools(Endless(), (tmp_path,)).ingest(["."], None))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(ended.wait, 60)
