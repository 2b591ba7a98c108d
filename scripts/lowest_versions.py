"""Run the tests on the lowest declared version of every direct dependency.

    python scripts/lowest_versions.py                    # the base and EXTRAS
    python scripts/lowest_versions.py --extras openai    # other extras
    python scripts/lowest_versions.py -- -k selection    # what follows -- is for pytest

The environment lies below ``.matrix`` and has no torch: tests of models skip. Indirect dependencies are as
new as pip allows. The floors are read from pyproject.toml, so a floor that does not hold fails here.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("llamaindex", "langchain", "chroma", "openai", "files", "tiktoken")
TOOLS = ("pytest>=8", "pytest-asyncio>=0.24", "hypothesis>=6.100")
# Not LangChain's standard tests, which want a newer numpy, nor tests/cli, most of which need a model.
TESTS = ("tests/core", "tests/llamaindex", "tests/langchain", "tests/parity")
LEFT_OUT = ("--ignore=tests/langchain/test_retriever.py",)
COMMANDS = (("--help",), ("ask", "--help"), ("segment", "README.md", "--json"))


def requirements(section: str, name: str) -> list[str]:
    """The strings of the list ``name`` in a section of pyproject.toml (Python 3.10 has no tomllib)."""
    body = (
        (ROOT / "pyproject.toml").read_text(encoding="utf-8").split(f"[{section}]", 1)[1].split("\n[", 1)[0]
    )
    found = re.search(rf"^{name} = \[(.*?)\]$", body, re.MULTILINE | re.DOTALL)
    assert found, f"no {name} in [{section}]"
    return re.findall(r"\"([^\"]+)\"", found[1])


def floors(extras: list[str]) -> list[str]:
    """A constraint ``name==lowest`` for every direct dependency that declares a lowest version."""
    declared = requirements("project", "dependencies")
    for extra in extras:
        declared += requirements("project.optional-dependencies", extra)
    return sorted({f"{m[1]}=={m[2]}" for d in declared if (m := re.match(r"([\w.-]+)>=([\w.]+)", d))})


def main() -> int:
    """Make the environment and run pytest in it; its exit status."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--extras", nargs="*", default=list(EXTRAS), help="extras of pyproject.toml")
    parser.add_argument("pytest", nargs="*", help="arguments for pytest, after --")
    chosen = parser.parse_args()
    folder = ROOT / ".matrix" / f"floors-{sys.version_info.major}.{sys.version_info.minor}"
    folder.parent.mkdir(exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    constraints = folder / "floors.txt"
    constraints.write_text("\n".join(floors(chosen.extras)) + "\n", encoding="utf-8")
    print(constraints.read_text(encoding="utf-8"), flush=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--upgrade", "pip"], check=True)
    subprocess.run([*pip, "--constraint", constraints, "--editable", ROOT, *TOOLS], check=True)
    for extra in chosen.extras:  # one by one: together pip goes back and forth between them for minutes
        subprocess.run([*pip, "--constraint", constraints, "--editable", f"{ROOT}[{extra}]"], check=True)
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    for command in COMMANDS:
        program = [str(python.with_name("sage-rag")), *command]
        subprocess.run(program, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    tests = [python, "-m", "pytest", "-p", "no:cacheprovider", *TESTS, *LEFT_OUT, *chosen.pytest]
    return subprocess.run([str(part) for part in tests], cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
