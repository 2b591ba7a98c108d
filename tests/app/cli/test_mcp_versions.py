"""The server's tools as a client lists and calls them, with mcp 1 and with mcp 2."""

import asyncio
import json
import os
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from sage_app import Sage
from tests.app.cli.support import DEMO, TANK, started

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
    arguments = ["mcp", "--store", store, "--offline", "--allow-ingest", "--root", root]
    replies = []
    with started(*arguments, stdin=subprocess.PIPE) as process:
        for request in requests:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **request}) + "\n")
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
    listed, found, other, none, empty, nul, outside, ingested, answered = _conversation(
        store,
        root,
        ("search", {"question": TANK, "max_tokens": 1}),
        ("search", {"question": "Who coached the curling team of Norway in 1974?"}),
        ("search", {"question": TANK, "max_tokens": 0}),
        ("ingest", {"paths": [""]}),
        ("ingest", {"paths": ["a\0b"]}),
        ("ingest", {"paths": ["../secret.txt"]}),
        ("ingest", {"paths": ["."]}),
        ("ask", {"question": "Who coached the curling team of Norway in 1974?"}),
        notes=notes,
    )
    progress = [note["params"] for note in notes if note["method"] == "notifications/progress"]
    assert progress and progress[-1]["progress"] == progress[-1]["total"] == 100
    assert answered["structuredContent"]["passages"], "something is always sent"
    tools = {tool["name"]: tool for tool in listed["tools"]}
    for tool in tools.values():
        assert all(p.get("description") for p in tool["inputSchema"].get("properties", {}).values())
    assert tools["ingest"]["annotations"]["destructiveHint"] is False
    assert (
        len(found["structuredContent"]["passages"]) == 1 and not found["structuredContent"]["low_confidence"]
    )
    assert other["structuredContent"]["passages"] and other["structuredContent"]["low_confidence"]
    assert none["isError"] and empty["isError"] and "no path" in nul["content"][0]["text"]
    assert outside["isError"] and "outside" in outside["content"][0]["text"]
    assert [Path(p).name for p in ingested["structuredContent"]["added"]] == ["a.txt"]
    assert "link.txt" in ingested["structuredContent"]["skipped"][0]


def _status(address: str, **headers: str) -> int:
    body = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": START}).encode()
    accepted = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(address, body, {**accepted, **headers})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            assert b"sage-rag" in response.read()
            assert "mcp-session-id" not in response.headers  # nothing is kept between requests
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
def test_http_is_for_this_machine_and_refuses_other_sites(tmp_path: Path) -> None:
    arguments = ["mcp", "--store", tmp_path / "store", "--offline", "--http", "0"]
    process = started(*arguments, stderr=subprocess.PIPE)
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
    from sage_app.cli.mcp import _Tools
    from sage_app.pipeline.ingest import IngestProgress

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
