"""Cross-references in docstrings lead to something."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("sage_core", "sage_app", "sage_llamaindex", "sage_langchain")
REFERENCE = re.compile(rf"`~?((?:{'|'.join(PACKAGES)})(?:\.\w+)+)(?:\(\))?`")


def references(package: str) -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                for name in REFERENCE.findall(node.value.value):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", name


def resolves(name: str) -> bool:
    *parents, last = name.split(".")
    try:
        importlib.import_module(name)
        return True
    except ImportError:
        pass
    if len(parents) == 0:
        return False
    owner: Any = None
    for end in range(len(parents), 0, -1):
        try:
            owner = importlib.import_module(".".join(parents[:end]))
            break
        except ImportError:
            continue
    for part in [*parents[end:], last]:
        if hasattr(owner, part):
            owner = getattr(owner, part)
        else:  # a field without a default is only annotated
            return part == last and part in getattr(owner, "__annotations__", {})
    return owner is not None


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_references_resolve(package: str) -> None:
    found = list(references(package))
    assert found or package not in ("sage_core", "sage_app")
    assert [f"{place} names {name}" for place, name in found if not resolves(name)] == []


def test_a_dead_reference_is_seen() -> None:
    assert resolves("sage_core.errors.InputError") and resolves("sage_core.selection.select")
    assert not resolves("sage_core.errors.NoSuchError") and not resolves("sage_core.no_such.name")
