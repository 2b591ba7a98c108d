"""The rooms of `sage_core`: what may import what."""

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

ROOT = Path(__file__).parents[2]
PACKAGE = "sage_core"

# Bottom up; rooms on one line do not import each other.
LAYERS = (
    ("errors", "_checks", "_microbatch", "_display", "paths"),
    ("text",),
    ("documents", "selection", "llm"),
    ("embedding", "feedback"),
    ("segmentation", "word_index"),
    ("ranking", "answering", "settings"),
    ("store", "inspecting"),
    ("pipeline",),
    ("tuning",),
    ("rendering",),
    ("cli",),
)
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}

# Arrows that the layers would allow, but that would tie together what is used apart.
FORBIDDEN = {("store", "ranking"), ("answering", "segmentation")}


LOADERS = {"import_module", "__import__", "find_spec"}


def module_files(root: Path) -> dict[str, Path]:
    found = {}
    for path in (root / PACKAGE).rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(module: str, path: Path, known: dict[str, Path]) -> Iterator[tuple[int, str]]:
    """Line and module of every import of this package: at the top, in functions, under TYPE_CHECKING, by name."""
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
            if name.split(".")[0] == PACKAGE:
                yield node.lineno, name


def import_graph(root: Path = ROOT) -> dict[str, dict[str, int]]:
    """Per module, what it imports and in which line."""
    known = module_files(root)
    return {
        module: {target: line for line, target in imported(module, path, known) if target != module}
        for module, path in known.items()
    }


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def arrows_upwards(graph: dict[str, dict[str, int]]) -> list[str]:
    wrong = []
    for module, targets in graph.items():
        mine = room_of(module)
        if not mine:  # the package itself re-exports
            continue
        for target, line in targets.items():
            theirs = room_of(target)
            if mine == theirs:
                continue
            # The package itself re-exports everything up to the pipeline.
            above = LEVEL[theirs or "pipeline"] >= LEVEL[mine] and (LEVEL[mine] or LEVEL.get(theirs))
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
    rooms = {room_of(module) for module in module_files(ROOT)} - {""}
    assert rooms == set(LEVEL)


@pytest.mark.slow
def test_no_import_goes_upwards():
    assert not arrows_upwards(import_graph())


@pytest.mark.slow
def test_no_import_goes_in_a_circle():
    assert not cycles(import_graph())


def test_adapters_never_import_each_other():
    for mine, other in [("sage_llamaindex", "sage_langchain"), ("sage_langchain", "sage_llamaindex")]:
        for path in (ROOT / mine).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                assert not any(name.split(".")[0] == other for name in names), path


FRAMEWORK = re.compile(
    r"(llama_index|langchain|langgraph|sage_llamaindex|sage_langchain|sage_eval|sage_train|sage_ray|sage_playground)\w*(\.[\w.]*)?"
)


def named_frameworks(path: Path) -> list[str]:
    """Frameworks, adapters and experiments that a file imports, or names as `import_module` would take them."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
        found += [f"{path.name}:{node.lineno} {name}" for name in names if FRAMEWORK.fullmatch(name)]
    return found


@pytest.mark.slow
def test_the_core_names_no_framework(tmp_path: Path):
    assert [line for path in module_files(ROOT).values() for line in named_frameworks(path)] == []
    for text in ('import_module("llama_index.core")', "import langchain_core", 'check("", "sage_eval")'):
        (tmp_path / "a.py").write_text(text)
        assert len(named_frameworks(tmp_path / "a.py")) == 1, text


def test_the_root_holds_nothing_else():
    files = {path.name for path in (ROOT / PACKAGE).iterdir() if path.suffix == ".py"}
    assert files == {
        "__init__.py",
        "errors.py",
        "_checks.py",
        "_microbatch.py",
        "_display.py",
        "paths.py",
        "settings.py",
    }


TOY = {
    "__init__.py": "from sage_core.text.spans import Span\nfrom sage_core.pipeline.sage import Sage\n",
    "text/spans.py": "",
    "text/sentences.py": "from sage_core.text.spans import Span\n",
    "store/chunks.py": "",
    "pipeline/sage.py": "from sage_core.store.chunks import Chunk\nfrom sage_core.text.spans import Span\n",
    "cli/main.py": "import sage_core.pipeline.sage\n",
}


@pytest.mark.parametrize(
    ("text", "upwards", "circle"),
    [
        ("from sage_core.store.chunks import Chunk\n", True, False),
        ("def late():\n    import sage_core.pipeline.sage\n", True, True),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..cli import main\n", True, True),
        ("from sage_core import Span\n", True, True),
        ('from importlib import import_module\nimport_module("sage_core.cli.main")\n', True, True),
        ("from .sentences import split_sentences\n", False, True),
        ("import json\n", False, False),
    ],
)
def test_the_check_finds_what_is_wrong(tmp_path: Path, text: str, upwards: bool, circle: bool):
    for name, content in TOY.items():
        path = tmp_path / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if name == "text/spans.py" else content, encoding="utf-8")
    graph = import_graph(tmp_path)
    assert bool([line for line in arrows_upwards(graph) if "text.spans" in line]) == upwards
    assert any("sage_core.text.spans" in group for group in cycles(graph)) == circle


@pytest.mark.slow
def test_the_core_works_alone(tmp_path: Path):
    """Without the adapters and the experiments every module imports, and `sage-rag eval` is unknown."""
    shutil.copytree(ROOT / PACKAGE, tmp_path / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    code = """
import importlib, pkgutil, sys
import importlib.metadata as metadata
metadata.entry_points = lambda **_: ()
import sage_core
for name in sage_core.__all__:
    getattr(sage_core, name)
for module in pkgutil.walk_packages(sage_core.__path__, "sage_core."):
    importlib.import_module(module.name)
assert not {name.split(".")[0] for name in sys.modules} & {"sage_eval", "sage_train", "sage_llamaindex", "sage_langchain"}
from sage_core.cli.main import run
assert run(["segment", "--help"]) == 0
assert run(["eval", "list"]) == 2
assert run(["train", "corpus"]) == 2
assert run(["serve"]) == 2
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
