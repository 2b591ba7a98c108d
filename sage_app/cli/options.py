"""Options that several commands share, and what they stand for."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sage_app.models.embedders import OPENAI
from sage_app.pipeline.opening import DEFAULT_MODEL
from sage_app.pipeline.opening import DEFAULT_TIMEOUT as DEFAULT_TIMEOUT
from sage_app.pipeline.opening import make_answerer as make_answerer
from sage_core.errors import InputError, MissingExtraError
from sage_core.text.sanitize import terminal_safe

if TYPE_CHECKING:
    from rich.console import Console

    from sage_app.pipeline.settings import SageSettings
    from sage_core.segmentation import Segmenter

DEFAULT_EMBEDDER = "all-MiniLM-L6-v2"
HOST = "127.0.0.1"  # of servers for this machine alone


def path_argument(value: str | Path) -> Path:
    """A path from the command line. An empty one, say of an unset variable, is not the current folder."""
    if not str(value).strip():
        raise typer.BadParameter("an empty path; name a file or a folder, . for the current one")
    try:
        if "\0" in os.fsencode(value).decode("latin-1"):
            raise ValueError("a NUL character")
    except ValueError as error:  # also half a character, which no file system takes
        raise typer.BadParameter(f"no file can have this name: {error}") from None
    return Path(value)


def store_argument(value: str | Path) -> str:
    """A store from the command line: what `sage_app.store.open_store` takes."""
    if not str(value).strip():
        raise typer.BadParameter("an empty store; name a folder, . for the current one")
    return str(value)


def option(words: str, metavar: str | None = None, shown: bool | str = True, **more: Any) -> Any:
    """`typer.Option` with what most options say, by place: help, value, and the default as it is shown."""
    return typer.Option(help=words, metavar=metavar, show_default=shown, **more)


QuestionsArgument = Annotated[
    Path,
    typer.Argument(
        metavar="QUESTIONS",
        help="Questions, a JSON object a line: question, and quote, what answers it as it stands in the "
        "document.",
        parser=path_argument,
    ),
]
StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        "-s",
        envvar="SAGE_STORE",
        help="Folder of the store, or http://host:8000/collection of a Chroma server.",
        metavar="STORE",
        parser=store_argument,
    ),
]
EmbedderOption = Annotated[
    str,
    option(
        "Embedding model: a sentence-transformers name or folder, or openai:MODEL for a server's.", "NAME"
    ),
]
EncodingOption = Annotated[
    str | None, option("Encoding of text files that are not UTF-8, for instance cp1252.", "NAME")
]
SegmenterOption = Annotated[
    str,
    typer.Option("--segmenter", help="Boundary model: a bundled name or a trained folder.", metavar="NAME"),
]
TargetTokensOption = Annotated[
    str | None,
    option(
        "Mean tokens of a chunk: a number, sentence (35), passage (80), section (250), or topic: "
        "as the text has it. Default: at most half of --max-tokens.",
        "N",
        False,
    ),
]
MaxTokensOption = Annotated[
    int | None, option("Most tokens of a chunk (default: 130, or twice --target-tokens).", "N", False)
]
MinTokensOption = Annotated[
    int | None, option("Chunks below this are avoided (default: a quarter of the size aimed at).", "N", False)
]
StrategyOption = Annotated[
    str, option("How to cut: optimal (length-aware) or threshold (the paper's).", "NAME")
]
ThresholdOption = Annotated[float, option("Keep sentences together where P(same) is at least this.")]
NoContextOption = Annotated[
    bool,
    typer.Option(
        "--no-context",
        help="Each chunk by its own text alone: no titles, headings, neighbors or keyword search.",
    ),
]


def _apply_settings(context: typer.Context, path: str | None) -> str | None:
    """Make the values of a settings file the defaults of the other options, which override them."""
    if path is None:
        return None
    from sage_app.pipeline.settings import SageSettings

    loaded = SageSettings.load(path_argument(path))
    segmenter = {**loaded.segmenter}
    if "model" in segmenter:
        segmenter["segmenter"] = segmenter.pop("model")
    if segmenter.pop("coarse_tokens", None) is not None:
        raise InputError(f"{path} sets coarse_tokens, which the command line does not have: use Python")
    context.default_map = {
        **(context.default_map or {}),
        **{name: value for name, value in segmenter.items() if value is not None},
        "embedder": loaded.embedder,
        "candidates": loaded.candidates,
        "no_context": not loaded.context,
    }
    return path


SettingsOption = Annotated[
    str | None,
    typer.Option(
        "--settings",
        help="A settings file, such as `sage-rag calibrate` writes; other options override it.",
        metavar="FILE",
        show_default=False,
        is_eager=True,
        callback=_apply_settings,
    ),
]


def _check_page(path: Path | None) -> Path | None:
    """Refuse a page that cannot be written, before any work is done."""
    if path is None:
        return None
    from sage_app.rendering.html.page import check_page_path

    return check_page_path(path)


HtmlOption = Annotated[
    Path | None,
    typer.Option(
        "--html",
        help="Also write it all to one HTML page, which is readable offline.",
        metavar="FILE",
        show_default="no page",
        parser=path_argument,
        callback=_check_page,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on standard output instead.")]
ModelOption = Annotated[
    str | None,
    option(
        f"Name of the LLM that answers and grades (default with a key or a server: {DEFAULT_MODEL}).",
        "NAME",
        False,
        envvar="SAGE_LLM",
    ),
]
BaseUrlOption = Annotated[
    str | None,
    option("Address of an OpenAI-compatible server, up to /v1.", "URL", False, envvar="OPENAI_BASE_URL"),
]
OfflineOption = Annotated[
    bool, typer.Option("--offline", help="Quote sentences instead of asking an LLM, even where a key is set.")
]


TimeoutOption = Annotated[float, option("Seconds that one attempt to reach the LLM may take.", "SECONDS")]


def require_packages(embedder: str = DEFAULT_EMBEDDER, *, llm: bool = False, store: str = "") -> None:
    """Find out before any work which packages a store and its models need, all at once.

    Raises:
        MissingExtraError: Where one is not installed; one pip command brings all of them.
    """
    hosted = embedder.startswith(OPENAI)
    required = (
        ("chroma", "chromadb", store.startswith(("http://", "https://"))),
        ("models", "sentence_transformers", not hosted and embedder != DEFAULT_EMBEDDER),
        ("openai", "openai", llm or hosted),
    )
    missing = [extra for extra, module, needed in required if needed and find_spec(module) is None]
    if missing:
        raise MissingExtraError("this command", ",".join(missing))


def load_settings(path: str | None, embedder: str) -> SageSettings:
    """The settings of a file, or the defaults where there is none, with this embedding model."""
    from sage_app.pipeline.settings import SageSettings

    return replace(SageSettings() if path is None else SageSettings.load(path), embedder=embedder)


def make_segmenter(
    model: str,
    target_tokens: str | None,
    max_tokens: int | None,
    min_tokens: int | None,
    strategy: str,
    threshold: float,
) -> Segmenter:
    """The segmenter that the options describe; its model is loaded, so that a wrong name is found out now."""
    from typing import cast

    from sage_core.segmentation import Segmenter
    from sage_core.segmentation.limits import Size, Strategy

    target = int(target_tokens) if target_tokens is not None and target_tokens.isdecimal() else target_tokens
    segmenter = Segmenter(
        model,
        target_tokens=cast("int | Size | None", target),
        max_tokens=max_tokens,
        min_tokens=min_tokens,
        coarse_tokens=max(400, max_tokens or 0) if strategy == "threshold" else None,
        strategy=cast("Strategy", strategy),
        threshold=threshold,
    )
    _ = segmenter.model
    return segmenter


def console(*, stderr: bool = False) -> Console:
    """A rich console; colors and width as the terminal has them. Texts that it prints cannot steer it."""
    from rich.console import Console

    class SafeConsole(Console):
        def print(self, *objects: Any, **how: Any) -> None:
            super().print(*(terminal_safe(o) if isinstance(o, str) else o for o in objects), **how)

    return SafeConsole(stderr=stderr, highlight=False, markup=False)


def say(text: str, style: str | None = None, *, err: bool = False) -> None:
    """Print a line as it is, however long, so that paths and commands in it can be copied."""
    console(stderr=err).print(text, style=style, soft_wrap=True)


def complain(text: str, style: str = "yellow") -> None:
    """`say` on standard error."""
    say(text, style, err=True)


def print_json(value: object) -> None:
    """JSON on standard output, with one line break after it; what could steer a terminal is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
    sys.stdout.write(
        re.sub("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]", lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"
    )


def listen_locally(port: int) -> socket.socket:
    """A socket that listens on the loopback device; 0 for any port that is free.

    Raises:
        InputError: Where the port cannot be used.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()  # now, for two sockets may be bound to one port until one of them listens
    except OSError as error:
        listening.close()
        raise InputError(
            f"port {port} of {HOST} cannot be used ({error.strerror}): name another, or 0"
        ) from None
    return listening
