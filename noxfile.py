"""Tests on other versions of the dependencies, each session in an environment of its own and without torch.

nox -l lists the sessions; what follows -- is for pytest: nox -s floors -- -k selection
"""

from __future__ import annotations

import re
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True

ROOT = Path(__file__).parent
TOOLS = ("pytest>=8", "pytest-asyncio>=0.24", "hypothesis>=6.100")
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "ANONYMIZED_TELEMETRY": "False",
    "OMP_NUM_THREADS": "1",  # threads of small matrix products wait for one another on a busy machine
}
EXTRAS = ("llamaindex", "langchain", "chroma", "openai", "files", "tiktoken")
# Releases of the time of the lowest langchain-core, for what its tests need besides.
LANGCHAIN_PEERS = ("langchain-classic==1.0.0", "langchain-tests==1.1.5", "langchain-chroma==1.1.0")


def declared(section: str, name: str) -> list[str]:
    """The strings of the list ``name`` in a section of pyproject.toml (Python 3.10 has no tomllib)."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    body = text.split(f"[{section}]", 1)[1].split("\n[", 1)[0]
    match = re.search(rf"^{name} = \[(.*?)\]$", body, re.MULTILINE | re.DOTALL)
    assert match, f"no {name} in [{section}]"
    return re.findall(r"\"([^\"]+)\"", match[1])


def floors(*extras: str) -> list[str]:
    """A constraint ``name==lowest`` for every direct dependency that declares a lowest version."""
    requirements = declared("project", "dependencies")
    for extra in extras:
        requirements += declared("project.optional-dependencies", extra)
    return sorted({f"{m[1]}=={m[2]}" for r in requirements if (m := re.match(r"([\w.-]+)>=([\w.]+)", r))})


def constraints(session: nox.Session, versions: list[str]) -> str:
    """A file of constraints in the session's temporary folder."""
    path = Path(session.create_tmp()) / "constraints.txt"
    path.write_text("\n".join(versions) + "\n", encoding="utf-8")
    return str(path)


def run_tests(session: nox.Session, *tests: str) -> None:
    """Run pytest with what was given after ``--``."""
    session.run("python", "-m", "pytest", "-p", "no:cacheprovider", *tests, *session.posargs, env=ENVIRONMENT)


@nox.session(name="floors")
def lowest_versions(session: nox.Session) -> None:
    """All tests on the lowest declared version of every direct dependency."""
    file = constraints(session, floors(*EXTRAS))
    session.install("--constraint", file, "--editable", ".", *TOOLS)
    for extra in EXTRAS:  # one by one: together pip goes back and forth between them for minutes
        session.install("--constraint", file, "--editable", f".[{extra}]")
    for command in (["--help"], ["ask", "--help"], ["segment", "README.md", "--json"]):
        session.run("sage-rag", *command, env=ENVIRONMENT, silent=True)
    left_out = [
        "--ignore=tests/langchain/test_retriever.py",  # LangChain's standard tests want a newer numpy
        "--ignore=tests/parity/test_checks.py",  # its agents want a newer langchain-core
        "--deselect=tests/core/test_layers.py::test_an_adapter_works_without_torch_and_the_application",
        "--ignore=tests/parity/test_splitters.py",  # this LlamaIndex puts pieces of equal text at one place
    ]
    run_tests(session, "tests/core", "tests/llamaindex", "tests/langchain", "tests/parity", *left_out)


@nox.session
@nox.parametrize("version", ["lowest", "newest"])
def llamaindex(session: nox.Session, version: str) -> None:
    """The adapter's tests on the lowest and the newest llama-index-core."""
    pins = (
        ["--constraint", constraints(session, floors("llamaindex"))] if version == "lowest" else ["--upgrade"]
    )
    session.install(*pins, "--editable", ".[llamaindex]", "beautifulsoup4", *TOOLS)
    run_tests(session, "tests/llamaindex")


@nox.session
@nox.parametrize("version", ["lowest", "newest"])
def langchain(session: nox.Session, version: str) -> None:
    """The adapter's tests on the lowest and the newest langchain-core."""
    peers = [peer.partition("==")[0] for peer in LANGCHAIN_PEERS]
    pins = ["--upgrade"]
    if version == "lowest":
        # LangChain's standard tests want a newer numpy; the lowest is tested in "floors".
        lowest = [pin for pin in floors("langchain") if not pin.startswith("numpy==")]
        pins = ["--constraint", constraints(session, [*lowest, *LANGCHAIN_PEERS])]
    session.install(*pins, "--editable", ".[langchain,tiktoken]", *peers, *TOOLS)
    run_tests(session, "tests/langchain")


@nox.session
@nox.parametrize("version", ["lowest", "newest"])
def agents(session: nox.Session, version: str) -> None:
    """The middlewares' tests on the lowest and the newest langchain."""
    pins = ["--constraint", constraints(session, floors("agents"))] if version == "lowest" else ["--upgrade"]
    session.install(*pins, "--editable", ".[agents,langchain]", *TOOLS)
    run_tests(session, "tests/langchain/test_middleware.py")


@nox.session
def stores(session: nox.Session) -> None:
    """Both adapters over real vector stores, PostgreSQL with pgvector among them."""
    group = nox.project.dependency_groups(nox.project.load_toml(ROOT / "pyproject.toml"), "stores")
    session.install("--editable", ".[llamaindex,langchain,chroma]", *group, *TOOLS)
    run_tests(session, "tests/stores", "-m", "stores")


@nox.session
def apps(session: nox.Session) -> None:
    """The applications of the frameworks' own tutorials, with our parts in them."""
    group = nox.project.dependency_groups(nox.project.load_toml(ROOT / "pyproject.toml"), "apps")
    session.install("--editable", ".[llamaindex,langchain,agents,chroma]", *group, *TOOLS)
    run_tests(session, "tests/apps", "-m", "apps")


@nox.session
@nox.parametrize("version", ["1", "2"])
def mcp(session: nox.Session, version: str) -> None:
    """The server's tests on both major versions of mcp, the lowest release of the first."""
    pins = floors("mcp") if version == "1" else ["mcp>=2,<3"]
    session.install("--editable", ".[mcp]", *pins, *TOOLS)
    run_tests(session, "tests/app/cli/test_mcp_versions.py")
