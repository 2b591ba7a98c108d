"""The Model Context Protocol server, asked by the SDK's own client: in memory, and over a real process's pipes."""

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("mcp_types", reason="needs the client of mcp 2")

from mcp import Client, StdioServerParameters, stdio_client

from sage_app import Sage, SageSettings
from sage_app.cli.main import run
from sage_app.cli.mcp import make_server
from sage_core import SelectionConfig
from sage_core.errors import InputError
from sage_core.selection import FixedK
from sage_core.text.tokens import get_counter
from tests.app.cli.support import COMMAND, DEMO, QUESTION, TANK

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


async def test_without_ingest_every_tool_only_reads(store):
    with Sage(store) as sage:
        async with Client(make_server(sage)) as client:
            tools = (await client.list_tools()).tools
    assert {tool.name for tool in tools} == {"search", "ask", "list_sources"}
    assert all(tool.annotations.read_only_hint and tool.output_schema for tool in tools)


async def test_search_returns_exact_slices(store):
    with Sage(store) as sage:
        reply = await call(make_server(sage), "search", {"question": QUESTION, "max_tokens": 120})
    assert not reply.is_error
    found = reply.structured_content
    sizes = get_counter("bert").count_many([p["text"] for p in found["passages"]])
    assert len(sizes) > 1 and 60 < sum(sizes) <= 120
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


def test_ingest_needs_a_root_that_is_a_folder(store, tmp_path, capsys):
    with Sage(store) as sage, pytest.raises(InputError, match="root"):
        make_server(sage, ingest_roots=[tmp_path / "missing"])
    assert run(["mcp", "--store", str(store), "--allow-ingest"]) == 2
    assert "--root" in capsys.readouterr().err


async def test_over_pipes_with_the_settings_of_a_file(store, tmp_path):
    settings = SageSettings(candidates=2, selection=SelectionConfig(rule=FixedK(1))).save(tmp_path / "s.json")
    command = [*COMMAND, "mcp", "--store", str(store), "--offline", "--settings", str(settings)]
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    async with asyncio.timeout(120), Client(stdio_client(parameters)) as client:
        reply = await client.call_tool("search", {"question": TANK})
    assert len(reply.structured_content["passages"]) == 1
