"""The rooms of the plugin and of the application: what may import what, and how large they may grow."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.core.test_offline import BLOCKER, LANGCHAIN, LLAMAINDEX

ROOT = Path(__file__).parents[2]
CORE, APP = "sage_core", "sage_app"
ADAPTERS = ("sage_llamaindex", "sage_langchain")

# Bottom up; rooms on one line do not import each other.
LAYERS = (
    (
        "sage_core.errors",
        "sage_core._checks",
        "sage_core._display",
        "sage_core._lazy",
        "sage_core._version",
        "sage_core.paths",
    ),
    ("sage_core.text",),
    ("sage_core.selection", "sage_core.llm"),
    ("sage_core.embedding", "sage_core.feedback"),
    ("sage_core.segmentation", "sage_core.word_index"),
    ("sage_core.passages",),
    ("sage_core.ranking", "sage_core.verify"),
    ("sage_core.inspecting", "sage_core.question"),
    ("sage_app.documents", "sage_app.models"),
    ("sage_app.store", "sage_app.answers"),
    ("sage_app.pipeline",),
    ("sage_app.calibrate",),
    ("sage_app.rendering",),
    ("sage_app.ray",),
    ("sage_app.cli",),
    ("sage_app.playground",),
    ("sage_app.cli.main",),
)
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
# What importing a whole package may reach: it re-exports.
TOP = {CORE: LEVEL["sage_core.inspecting"], APP: LEVEL["sage_app.pipeline"]}

# Arrows that the layers would allow, but that would tie together what is used apart.
FORBIDDEN = {("sage_app.store", "sage_core.ranking"), ("sage_core.verify", "sage_core.segmentation")}


LOADERS = {"import_module", "__import__", "find_spec"}


def module_files(root: Path) -> dict[str, Path]:
    found = {}
    for path in (path for package in (CORE, APP) for path in (root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(module: str, path: Path, known: dict[str, Path]) -> Iterator[tuple[int, str]]:
    """Line and module of every import of these packages: at the top, in functions, under TYPE_CHECKING, by name."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            within = [f"{base}.{alias.name}" for alias in node.names]
            names = [name if name in known else base for name in within]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in LOADERS:
            names = [a.value for a in node.args if isinstance(a, ast.Constant) and a.value in known]
        else:
            continue
        for name in names:
            if name.split(".")[0] in (CORE, APP):
                yield node.lineno, name


def import_graph(root: Path = ROOT) -> dict[str, dict[str, int]]:
    """Per module, what it imports and in which line."""
    known = module_files(root)
    return {
        module: {target: line for line, target in imported(module, path, known) if target != module}
        for module, path in known.items()
    }


def room_of(module: str) -> str:
    """The package and the room: `sage_core.text`; the package alone for its `__init__`."""
    # The command line is put together on top of everything that has a command.
    return module if module in LEVEL else ".".join(module.split(".")[:2])


def arrows_upwards(graph: dict[str, dict[str, int]]) -> list[str]:
    wrong = []
    for module, targets in graph.items():
        mine = room_of(module)
        if mine in TOP:  # the package itself re-exports
            continue
        for target, line in targets.items():
            theirs = room_of(target)
            if mine == theirs:
                continue
            level = TOP[theirs] if theirs in TOP else LEVEL[theirs]
            # The lowest line holds single modules, which may use each other.
            above = level >= LEVEL[mine] and (LEVEL[mine] or level)
            if above or (mine, theirs) in FORBIDDEN:
                wrong.append(f"{module}:{line} imports {target}")
    return wrong


def cycles(graph: dict[str, dict[str, int]]) -> list[list[str]]:
    """Groups of modules that import each other in a circle."""
    remaining = {module: set(targets) & set(graph) for module, targets in graph.items()}
    while True:  # peel off what imports nothing that is left, then what nothing left imports
        ends = {m for m, targets in remaining.items() if not targets}
        aimed_at = set().union(*remaining.values()) if remaining else set()
        ends |= {m for m in remaining if m not in aimed_at}
        if not ends:
            return [sorted(remaining)] if remaining else []
        remaining = {m: targets - ends for m, targets in remaining.items() if m not in ends}


def test_every_room_has_its_layer():
    rooms = {room_of(module) for module in module_files(ROOT)} - set(TOP)
    assert rooms == set(LEVEL)


@pytest.mark.slow
def test_no_import_goes_upwards_or_in_a_circle():
    graph = import_graph()
    assert not arrows_upwards(graph)
    assert not cycles(graph)


def names_in(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of what a file imports, or names as `import_module` would take it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def named(pattern: str, *packages: str, root: Path = ROOT) -> list[str]:
    """Places in packages that import a module whose name begins with a pattern, or name it in a string."""
    wanted = re.compile(rf"({pattern})\w*(\.[\w.]*)?")
    files = [path for package in packages for path in sorted((root / package).rglob("*.py"))]
    return [
        f"{path.name}:{line} {name}"
        for path in files
        for line, name in names_in(path)
        if wanted.fullmatch(name)
    ]


def test_the_plugin_never_imports_the_application():
    assert named("sage_app", CORE, *ADAPTERS) == []


def test_adapters_never_import_each_other():
    assert named("sage_langchain", "sage_llamaindex") == named("sage_llamaindex", "sage_langchain") == []


FRAMEWORKS = "llama_index|langchain|langgraph|sage_llamaindex|sage_langchain|sage_eval|sage_train"


@pytest.mark.slow
def test_core_and_application_name_no_framework(tmp_path: Path):
    assert named(FRAMEWORKS, CORE, APP) == []
    (tmp_path / CORE).mkdir()
    for text in ('import_module("llama_index.core")', "import langchain_core", 'check("", "sage_eval")'):
        (tmp_path / CORE / "a.py").write_text(text)
        assert len(named(FRAMEWORKS, CORE, root=tmp_path)) == 1, text


def test_the_root_holds_nothing_else():
    files = {path.name for path in (ROOT / CORE).iterdir() if path.suffix == ".py"}
    assert files == {
        "__init__.py",
        "errors.py",
        "_checks.py",
        "_display.py",
        "_lazy.py",
        "_version.py",
        "passages.py",
        "paths.py",
        "question.py",
    }


TOY = {
    "sage_core/__init__.py": "from sage_core.text.spans import Span\n",
    "sage_core/text/spans.py": "",
    "sage_core/text/sentences.py": "from sage_core.text.spans import Span\n",
    "sage_app/store/chunks.py": "",
    "sage_app/pipeline/sage.py": "from sage_app.store.chunks import Chunk\nfrom sage_core.text.spans import Span\n",
    "sage_app/cli/main.py": "import sage_app.pipeline.sage\n",
}


@pytest.mark.parametrize(
    ("text", "upwards", "circle"),
    [
        ("from sage_app.store.chunks import Chunk\n", True, False),
        ("def late():\n    import sage_app.pipeline.sage\n", True, True),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from sage_app.cli import main\n",
            True,
            True,
        ),
        ("from sage_core import Span\n", True, True),
        ('from importlib import import_module\nimport_module("sage_app.cli.main")\n', True, True),
        ("from .sentences import split_sentences\n", False, True),
        ("import json\n", False, False),
    ],
)
def test_the_check_finds_what_is_wrong(tmp_path: Path, text: str, upwards: bool, circle: bool):
    for name, content in TOY.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if name == "sage_core/text/spans.py" else content, encoding="utf-8")
    graph = import_graph(tmp_path)
    assert bool([line for line in arrows_upwards(graph) if "text.spans" in line]) == upwards
    assert any("sage_core.text.spans" in group for group in cycles(graph)) == circle


ON_TORCH = "sage_core.segmentation.models.transformer"
"""The one room of the plugin that needs torch: it is entered for a model that holds a transformer."""


def run_alone(tmp_path: Path, packages: tuple[str, ...], code: str) -> None:
    """Run code with nothing of the project but these packages, and no entry points."""
    for package in packages:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    code = f"""
import importlib, pkgutil, sys
sys.path[:] = [path for path in sys.path if path != {str(ROOT)!r}]
import importlib.metadata as metadata
found = metadata.entry_points
metadata.entry_points = lambda **by: () if by.get("group", "").startswith("sage_rag") else found(**by)
for package in {packages!r}:
    top = importlib.import_module(package)
    for name in top.__all__:
        getattr(top, name)
    for module in pkgutil.walk_packages(top.__path__, package + "."):
        if module.name != {ON_TORCH!r}:
            importlib.import_module(module.name)
loaded = {{name.split(".")[0] for name in sys.modules}}
{code}
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_core_works_alone(tmp_path: Path):
    run_alone(
        tmp_path,
        (CORE,),
        'assert not loaded & {"sage_app", "sage_eval", "sage_train", *' + repr(ADAPTERS) + "}",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("adapter", "other", "use"),
    [("sage_llamaindex", "langchain_core", LLAMAINDEX), ("sage_langchain", "llama_index", LANGCHAIN)],
)
def test_an_adapter_works_without_torch_and_the_application(
    tmp_path: Path, adapter: str, other: str, use: str
):
    heavy = {"sage_app", "torch", "transformers", "sentence_transformers", "chromadb", other}
    loads = f"assert not loaded & {heavy}, loaded & {heavy}\n"
    run_alone(tmp_path, (CORE, adapter), loads + BLOCKER + use)


@pytest.mark.slow
def test_the_application_works_without_adapters_and_experiments(tmp_path: Path):
    run_alone(
        tmp_path,
        (CORE, APP),
        """
assert not loaded & {"sage_eval", "sage_train", "sage_llamaindex", "sage_langchain"}
from sage_app.cli.main import run
assert run(["segment", "--help"]) == 0
assert run(["eval", "list"]) == 2
assert run(["train", "corpus"]) == 2
""",
    )


# Lines of Python, blank ones and docstrings too, as they are today. A change may only lower them: what needs room
# takes it from something that leaves in the same change.
BUDGET = {
    (CORE, *ADAPTERS): 22_992,
    ("sage_core/verify",): 2_254,
    (APP,): 13_423,
}
SLACK = 100


@pytest.mark.parametrize(("packages", "budget"), BUDGET.items(), ids=lambda value: str(value))
def test_no_package_grows_and_the_budget_follows_what_leaves(packages: tuple[str, ...], budget: int):
    files = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
    assert budget - SLACK <= lines <= budget
