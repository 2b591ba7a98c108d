"""`sage-rag mcp`: a store as tools of a Model Context Protocol server, over pipes or HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
from dataclasses import dataclass, fields
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sage_app.cli import options as cli
from sage_app.cli.options import HOST, listen_locally
from sage_app.pipeline.opening import DEFAULT_TIMEOUT, asks_llm, open_sage
from sage_core.errors import InputError, MissingExtraError, SageError
from sage_core.paths import as_path
from sage_core.selection.cut import fitting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sage_app.pipeline.ingest import IngestProgress
    from sage_app.pipeline.results import Candidate, Retrieval
    from sage_app.pipeline.sage import Sage

logger = logging.getLogger(__name__)

EXAMPLES = """
\b
Examples:
  sage-rag mcp --store .sage
  sage-rag mcp --store .sage --settings sage-settings.json
  sage-rag mcp --store .sage --allow-ingest --root docs/
  sage-rag mcp --store .sage --http 8000
\b
For a desktop client:
  {"mcpServers": {"docs": {"command": "sage-rag", "args": ["mcp", "--store", "/path/to/.sage"]}}}
"""

INSTRUCTIONS = (
    "Searches a collection of documents. `search` returns passages, best first, each an exact slice of its "
    "source with character offsets; if `low_confidence`, they hardly bear on the question. `names` says "
    "which other documents of the collection a passage names: what they say of the question was searched "
    "with it. `ask` returns an answer with the passages it rests on; where `abstained` is true, the "
    "documents do not say. Quote sources by their path and offsets."
)


# The docstrings of the replies are in the schemas that the assistant reads.


@dataclass(frozen=True)
class PassageItem:
    """A passage: characters ``start`` to ``end`` of the document ``source``.

    ``names`` are names in it of other documents that are there, each with its path; ``page`` is of a PDF,
    from 1; ``score`` is the reranker's, None if it gave none.
    """

    source: str
    start: int
    end: int
    text: str
    score: float | None
    page: int | None
    names: dict[str, str]


@dataclass(frozen=True)
class SearchReply:
    """The passages selected of ``considered`` candidates, best first, and why no more: ``cut``.

    ``low_confidence``: they hardly bear on the question.
    """

    question: str
    low_confidence: bool
    passages: list[PassageItem]
    considered: int
    cut: str


@dataclass(frozen=True)
class AskReply:
    """An answer, the passages it was made from, and its grade from 1 to 10, None if it has none.

    ``abstained`` where it says that the documents do not answer; ``stop_reason`` is why the rounds of answer
    and grade ended.
    """

    answer: str
    abstained: bool
    answered_by: str
    stop_reason: str
    grade: float | None
    passages: list[PassageItem]


@dataclass(frozen=True)
class SourceItem:
    """A document: its path, the title it gives itself, and the number of its chunks."""

    source: str
    title: str | None
    chunks: int


@dataclass(frozen=True)
class IngestReply:
    """What an ingest did; each list holds paths."""

    added: list[str]
    changed: list[str]
    unchanged: int
    removed: list[str]
    skipped: list[str]


def mcp(
    store: cli.StoreOption = ".sage",
    allow_ingest: Annotated[
        bool, typer.Option("--allow-ingest", help="Also offer a tool that reads files into the store.")
    ] = False,
    root: Annotated[
        list[Path] | None,
        cli.option(
            "A folder that may be ingested from; repeat it. Anything outside is refused.",
            "DIR",
            parser=cli.path_argument,
        ),
    ] = None,
    http: Annotated[
        int | None,
        cli.option(
            "Serve over HTTP on this port of this machine instead; 0 for any that is free.",
            "PORT",
            False,
            min=0,
            max=65535,
        ),
    ] = None,
    settings: cli.SettingsOption = None,
    model: cli.ModelOption = None,
    base_url: cli.BaseUrlOption = None,
    offline: cli.OfflineOption = False,
    timeout: cli.TimeoutOption = DEFAULT_TIMEOUT,
    embedder: cli.EmbedderOption = cli.DEFAULT_EMBEDDER,
) -> None:
    """Serve a store to an assistant that speaks the Model Context Protocol.

    Offers the tools search, ask and list_sources; they read only. With --allow-ingest, ingest too,
    for files below the folders named by --root. Over standard input and output; log lines go to standard
    error. With --http, at http://127.0.0.1:PORT/mcp, for programs on this machine: whoever can run one can
    read the store. Pages of other sites are refused.
    """
    if allow_ingest and not root:
        raise InputError("--allow-ingest needs at least one --root: the folder that may be read from")
    if root and not allow_ingest:
        raise InputError("--root only matters together with --allow-ingest")
    cli.require_packages(embedder, llm=asks_llm(model, base_url, offline), store=store)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    with open_sage(
        store,
        settings=settings,
        embedder=embedder,
        model=model,
        base_url=base_url,
        offline=offline,
        timeout=timeout,
    ) as sage:
        server = make_server(sage, ingest_roots=root or ())
        if not sage.store.exists:
            logger.warning("there is no store at %s yet: `sage-rag ingest` makes one", sage.store.location)
        if http is not None:
            _serve_http(server, http)
            return
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            # The thread that reads standard input cannot be canceled: an orderly end would wait for its next
            # line. A store stands the end of a process.
            signal.signal(signal.SIGINT, lambda *_: os._exit(130))
        asyncio.run(server.run_stdio_async())


def _serve_http(server: Any, port: int) -> None:
    """Serve until Ctrl-C. The library checks the headers Host and Origin, for it knows a local host."""
    import uvicorn

    # No tool remembers anything: a session would be memory that nobody gives back.
    app = server.streamable_http_app(**({} if _is_mcp_1() else {"stateless_http": True}))
    with listen_locally(port) as listening:
        # With its sockets open, uvicorn would otherwise log an error and end the process.
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=2,
        )
        address = f"http://{HOST}:{listening.getsockname()[1]}/mcp"
        cli.console(stderr=True).print(f"MCP server: {address} (Ctrl-C stops it)", soft_wrap=True)
        with contextlib.suppress(KeyboardInterrupt):  # raised again by uvicorn, once it has stopped
            uvicorn.Server(config).run(sockets=[listening])


def make_server(sage: Sage, *, ingest_roots: Sequence[Path] = ()) -> Any:
    """The server, not yet running: ``mcp.server.MCPServer``, or ``FastMCP`` with mcp 1.

    Without ``ingest_roots`` it has no tool ``ingest``.

    Raises:
        InputError: Where a root is not a folder.
        MissingExtraError: Where the package ``mcp`` is not installed.
    """
    from sage_core import __version__

    # The adapters of LangChain and LlamaIndex want mcp 1, which calls the same class by another name.
    try:
        import_module("mcp")
        types = import_module("mcp.types" if _is_mcp_1() else "mcp_types")
    except ImportError as error:
        raise MissingExtraError("sage-rag mcp", "mcp") from error
    described: dict[str, Any] = {"instructions": INSTRUCTIONS, "log_level": "WARNING"}
    server: Any
    if _is_mcp_1():
        server = _module("").FastMCP("sage-rag", stateless_http=True, **described)
    else:
        server = import_module("mcp.server").MCPServer("sage-rag", version=__version__, **described)
    _describe_parameters()
    tools = _Tools(sage, tuple(_resolved_folder(root) for root in ingest_roots))
    read_only = types.ToolAnnotations(readOnlyHint=True, openWorldHint=False)
    for function in (tools.search, tools.ask, tools.list_sources):
        server.tool(annotations=read_only, structured_output=True)(function)
    if ingest_roots:
        writes = types.ToolAnnotations(
            readOnlyHint=False, destructiveHint=False, idempotentHint=True, openWorldHint=False
        )
        server.tool(annotations=writes, structured_output=True)(tools.ingest)
    return server


def _is_mcp_1() -> bool:
    return version("mcp").startswith("1.")


def _describe_parameters() -> None:
    """Put descriptions and bounds into the tools' schemas; pydantic comes with mcp, not with this package."""
    from pydantic import Field

    question = Annotated[
        str,
        Field(description="A full question or statement works better than single keywords.", min_length=1),
    ]
    limit = Field(description="The most tokens to return, in whole passages and at least one.", ge=1)
    _Tools.search.__annotations__.update(question=question, max_tokens=Annotated[int | None, limit])
    _Tools.ask.__annotations__["question"] = question
    _Tools.ingest.__annotations__["context"] = _module("").Context
    paths = Field(description="Absolute paths, or paths below the first allowed folder.", min_length=1)
    _Tools.ingest.__annotations__["paths"] = Annotated[list[str], paths]


class _CanceledError(SageError):
    """Ends the thread of an ingest that nobody waits for."""


class _Tools:
    """The tools' functions: their names, signatures and docstrings are what the assistant reads."""

    def __init__(self, sage: Sage, roots: tuple[Path, ...]) -> None:
        self._sage = sage
        self._roots = roots
        # Two ingests at once would wait for the store's lock and time out.
        self._ingesting = asyncio.Lock()

    async def search(self, question: str, max_tokens: int | None = None) -> SearchReply:
        """Find the passages that bear on a question, best first; to read them yourself."""
        with _tool_errors():
            retrieval = await self._sage.aretrieve(question)
        hits, chosen = retrieval.hits, retrieval.selection
        most = None if max_tokens is None else fitting([hit.tokens for hit in hits], max_tokens)
        passages = [_passage(hit, retrieval) for hit in hits[:most]]
        return SearchReply(
            question, chosen.low_confidence, passages, len(retrieval.candidates), chosen.reason
        )

    async def ask(self, question: str) -> AskReply:
        """Answer a question from the documents, with the passages it rests on; takes longer than search."""
        from sage_core.verify import abstains

        with _tool_errors():
            answer = await self._sage.aask(question)
        return AskReply(
            answer.text,
            abstains(answer.text),
            answer.answerer,
            answer.feedback.stop_reason,
            answer.score,
            [_passage(candidate, answer.retrieval) for candidate in answer.sources],
        )

    async def list_sources(self) -> list[SourceItem]:
        """The documents in the store; to see what may be asked about."""
        with _tool_errors():
            documents = await asyncio.to_thread(self._sage.store.documents)
        return [SourceItem(d.source, d.title, d.chunks) for d in documents]

    async def ingest(self, paths: list[str], context: Any) -> IngestReply:
        """Read files or folders into the store; unchanged files are skipped."""
        loop, canceled, shown = asyncio.get_running_loop(), threading.Event(), 0.0

        def progress(state: IngestProgress) -> None:
            nonlocal shown
            if canceled.is_set():
                raise _CanceledError("the ingest was canceled; the next one goes on with it")
            percent = 100 * state.done / max(state.total, 1)
            if percent - shown >= 1:
                shown = percent
                note = context.report_progress(percent, 100, f"{state.files} files, {state.chunks} chunks")
                asyncio.run_coroutine_threadsafe(note, loop)

        work = partial(self._sage.ingest, roots=self._roots, progress=progress)
        with _tool_errors():
            allowed = [self._allowed(path) for path in paths]
            try:
                async with self._ingesting:
                    report = await asyncio.to_thread(work, allowed)
            except asyncio.CancelledError:
                canceled.set()  # the thread has it from here
                raise
        return IngestReply(
            list(report.added),
            list(report.changed),
            len(report.unchanged),
            list(report.removed),
            [f"{skipped.source}: {skipped.reason}" for skipped in report.skipped],
        )

    def _allowed(self, path: str) -> Path:
        # Resolved before it is compared, so that neither ".." nor a link leads out of the roots.
        resolved = (self._roots[0] / as_path(path)).resolve()
        if not any(resolved.is_relative_to(root) for root in self._roots):
            allowed = ", ".join(map(str, self._roots))
            raise InputError(f"{path!r} is outside the folders that may be ingested from: {allowed}")
        return resolved


def _resolved_folder(root: Path) -> Path:
    resolved = root.expanduser().resolve()
    if not resolved.is_dir():
        raise InputError(f"--root {root} is not a folder")
    return resolved


def _passage(candidate: Candidate, retrieval: Retrieval) -> PassageItem:
    form: dict[str, Any] = {**candidate.to_dict(), "names": retrieval.names_in(candidate)}
    return PassageItem(**{field.name: form[field.name] for field in fields(PassageItem)})


@contextlib.contextmanager
def _tool_errors() -> Iterator[None]:
    """Errors in the form that reaches the assistant as the tool's result."""
    try:
        yield
    except SageError as error:
        raise _module("exceptions").ToolError(str(error)) from error


def _module(name: str) -> Any:
    """A module of the server's package, which mcp 1 calls by another name."""
    package = "fastmcp" if _is_mcp_1() else "mcpserver"
    return import_module(f"mcp.server.{package}{name and '.'}{name}")
