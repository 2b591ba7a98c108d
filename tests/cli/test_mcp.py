"""The Model Context Protocol server, asked by the SDK's own client: in memory, and over a real process's pipes."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp_types", reason="needs the client of mcp 2")

from mcp import Client, StdioServerParameters, stdio_client

from sage_core import Sage, SageSettings, SelectionConfig
from sage_core.cli.main import run
from sage_core.cli.mcp import make_server
from sage_core.errors import InputError
from sage_core.selection import FixedK
from tests.cli.support import DEMO, QUESTION, TANK

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mcp") / "store"
    with Sage(folder) as sage:
        sage.ingest([DEMO / "water-works.txt", DEMO / "lighthouse-history.txt"])
    return folder


async def call(server, tool, arguments):
    async with Client(server) as client:
        return await client.call_tool(tool, arguments)


async def tool_names(server):
    async with Client(server) as client:
        return {tool.name: tool for tool in (await client.list_tools()).tools}


async def test_without_ingest_every_tool_only_reads(store):
    with Sage(store) as sage:
        tools = await tool_names(make_server(sage))
    assert set(tools) == {"search", "ask", "segment", "list_sources"}
    assert all(tool.annotations.read_only_hint for tool in tools.values())
    assert all(tool.output_schema for tool in tools.values())


async def test_search_returns_exact_slices(store):
    with Sage(store) as sage:
        reply = await call(make_server(sage), "search", {"question": QUESTION, "max_passages": 3})
    assert not reply.is_error
    found = reply.structured_content
    assert 1 <= len(found["passages"]) <= 3
    for passage in found["passages"]:
        text = Path(passage["source"]).read_text(encoding="utf-8")
        assert text[passage["start"] : passage["end"]] == passage["text"]
    scores = [p["score"] for p in found["passages"]]
    assert scores == sorted(scores, reverse=True)


async def test_a_passage_says_which_documents_it_names(tmp_path):
    holt = tmp_path / "holt.md"
    holt.write_text("# Mara Holt\n\nShe was born near Ulm in 1820 and raised goats.\n")
    (tmp_path / "petrel.md").write_text("# Petrel\n\nThe Petrel was a boat that Mara Holt owned.\n")
    with Sage(tmp_path / "store") as sage:
        sage.ingest(tmp_path)
        reply = await call(make_server(sage), "search", {"question": "Who owned the Petrel?"})
    names = [p["names"] for p in reply.structured_content["passages"] if "owned" in p["text"]]
    assert names == [{"Mara Holt": str(holt)}]


async def test_ask_answers_with_its_passages(store):
    with Sage(store) as sage:
        reply = await call(make_server(sage), "ask", {"question": QUESTION})
    answer = reply.structured_content
    assert answer["answer"]
    assert answer["passages"]
    assert answer["stop_reason"]


async def test_segment_loses_nothing(store):
    text = "Ferries leave at nine.  They carry cars.\n\nThe mill is older. It grinds oats. 🌾"
    with Sage(store) as sage:
        reply = await call(make_server(sage), "segment", {"text": text})
    chunks = reply.structured_content["result"]
    assert all(text[c["start"] : c["end"]] == c["text"] for c in chunks)
    covered = {i for c in chunks for i in range(c["start"], c["end"])}
    assert all(i in covered for i, character in enumerate(text) if not character.isspace())


@pytest.mark.parametrize(
    ("tool", "arguments", "word"),
    [
        ("search", {"question": "   "}, "question"),
        ("search", {"question": "when?", "max_passages": 0}, "max_passages"),
    ],
)
async def test_bad_arguments_are_errors_of_the_tool(store, tool, arguments, word):
    with Sage(store) as sage:
        reply = await call(make_server(sage), tool, arguments)
    assert reply.is_error
    assert word in reply.content[0].text


class TestIngest:
    async def test_reads_below_a_root_and_nowhere_else(self, tmp_path):
        root, outside = tmp_path / "docs", tmp_path / "secret.txt"
        root.mkdir()
        (root / "tides.txt").write_text("High tide at the pier is at noon on Sundays.", encoding="utf-8")
        outside.write_text("The password is swordfish.", encoding="utf-8")
        (root / "link.txt").symlink_to(outside)
        with Sage(tmp_path / "store") as sage:
            server = make_server(sage, ingest_roots=[root])
            done = await call(server, "ingest", {"paths": ["tides.txt"]})
            assert [Path(p).name for p in done.structured_content["added"]] == ["tides.txt"]
            for path in (str(outside), "../secret.txt", "link.txt", "/etc/hostname"):
                refused = await call(server, "ingest", {"paths": [path]})
                assert refused.is_error, path
                assert "outside" in refused.content[0].text
            sources = await call(server, "list_sources", {})
        assert [Path(s["source"]).name for s in sources.structured_content["result"]] == ["tides.txt"]

    def test_a_root_that_is_no_folder_is_refused(self, store, tmp_path):
        with Sage(store) as sage, pytest.raises(InputError, match="root"):
            make_server(sage, ingest_roots=[tmp_path / "missing"])

    def test_ingest_without_a_root_is_refused(self, store, capsys):
        assert run(["mcp", "--store", str(store), "--allow-ingest"]) == 2
        assert "--root" in capsys.readouterr().err


async def test_over_pipes_with_the_settings_of_a_file(store, tmp_path):
    settings = SageSettings(candidates=2, selection=SelectionConfig(rule=FixedK(1))).save(tmp_path / "s.json")
    command = [sys.executable, "-m", "sage_core.cli.main", "mcp", "--store", str(store), "--offline"]
    command += ["--settings", str(settings)]
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    async with asyncio.timeout(120):
        async with Client(stdio_client(parameters)) as client:
            reply = await client.call_tool("search", {"question": TANK})
    assert len(reply.structured_content["passages"]) == 1


def test_standard_output_carries_only_the_protocol(store):
    command = [sys.executable, "-m", "sage_core.cli.main", "mcp", "--store", str(store), "--offline"]
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "0"},
        },
    }
    done = subprocess.run(
        command, input=json.dumps(request) + "\n", capture_output=True, text=True, timeout=120
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines
    assert all(line["jsonrpc"] == "2.0" for line in lines)
