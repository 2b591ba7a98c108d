"""Run the LangChain tests against the lowest and the newest LangChain that this library supports.

    python scripts/langchain_matrix.py            # both
    python scripts/langchain_matrix.py lowest

Each run has an environment of its own below ``.matrix``, without PyTorch; it is kept and brought up to date.
The lowest versions are those of the ``langchain`` extra in pyproject.toml; a test compares the two.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Lower bounds of the extra, and contemporaries of theirs for the tests.
LOWEST = {
    "langchain-core": "==1.2.20",
    "langchain-text-splitters": "==1.0.0",
    "langchain-classic": "==1.0.0",
    "langchain-tests": "==1.1.5",
    "langchain-chroma": "==1.1.0",
    "langchain": "<1.3",
    "langgraph": "<1.2",
}
ENVIRONMENTS = {"lowest": LOWEST, "newest": dict.fromkeys(LOWEST, "")}
TOOLS = ["pytest>=8", "pytest-asyncio>=0.24", "hypothesis>=6.100", "tiktoken>=0.7"]


def run(name: str, arguments: list[str]) -> int:
    """Bring the environment ``name`` up to date and run the tests in it; pytest's exit status."""
    folder = ROOT / ".matrix" / f"{name}-{sys.version_info.major}.{sys.version_info.minor}"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
    subprocess.run([*pip, "pip"], check=True)
    wanted = [package + version for package, version in ENVIRONMENTS[name].items()]
    subprocess.run([*pip, "--editable", f"{ROOT}[langchain]", *wanted, *TOOLS], check=True)
    show = (
        "import sys, importlib.metadata as m; print(*(f'{p} {m.version(p)}' for p in sys.argv[1:]), sep=', ')"
    )
    subprocess.run([python, "-c", show, *LOWEST], check=True)
    tests = [python, "-m", "pytest", "-p", "no:cacheprovider", "tests/langchain", *arguments]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "ANONYMIZED_TELEMETRY": "False"}
    return subprocess.run(tests, cwd=ROOT, env=environment).returncode


def main() -> int:
    """Run what was asked for; 0 where all passed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "environments", nargs="*", default=[], help="lowest, newest, or both where none is named"
    )
    names, arguments = parser.parse_known_args()
    chosen = names.environments or list(ENVIRONMENTS)
    unknown = set(chosen) - set(ENVIRONMENTS)
    if unknown:
        parser.error(f"no environment {', '.join(sorted(unknown))}: lowest or newest")
    return max(run(name, arguments) for name in chosen)


if __name__ == "__main__":
    sys.exit(main())
