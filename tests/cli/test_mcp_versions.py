"""The server's tools as a client lists and calls them, with mcp 1 and with mcp 2."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from sage_core import Sage
from tests.cli.support import DEMO, TANK

pytestmark = pytest.mark.slow


START = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def _conversation(store: Path, root: Path, *calls: tuple[str, dict[str, object]]) -> list[dict]:
    """The server's replies over pipes: to ``tools/list``, and to each call; the protocol of both versions."""
    requests: list[dict] = [
        {"id": 0, "method": "initialize", "params": START},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/list"},
    ]
    requests += [
        {"id": i, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
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
                    pass
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
    listed, found, other, none, long, empty, ingested = _conversation(
        store,
        root,
        ("search", {"question": TANK, "max_passages": 1}),
        ("search", {"question": "Who coached the curling team of Norway in 1974?"}),
        ("search", {"question": TANK, "max_passages": 0}),
        ("segment", {"text": "a. " * 100_000}),
        ("ingest", {"paths": [""]}),
        ("ingest", {"paths": ["."]}),
    )
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
