"""Build every distribution in packages/, install it beside the current environment, and import it.

Usage: python scripts/check_packages.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # comes with build, which `make build` needs anyway

ROOT = Path(__file__).resolve().parent.parent
CHECKS = {
    "langchain-sage-rag": (
        "import langchain_sage_rag, sage_langchain;"
        "assert langchain_sage_rag.__all__ == sage_langchain.__all__;"
        "assert langchain_sage_rag.SageTextSplitter is sage_langchain.SageTextSplitter"
    ),
    "llama-index-node-parser-sage": (
        "from llama_index.node_parser.sage import SageNodeParser; import sage_llamaindex;"
        "assert SageNodeParser is sage_llamaindex.SageNodeParser; import llama_index.core"
    ),
    "llama-index-postprocessor-sage": (
        "from llama_index.postprocessor.sage import SageNodePostprocessor; import sage_llamaindex;"
        "assert SageNodePostprocessor is sage_llamaindex.SageNodePostprocessor; import llama_index.core"
    ),
}


def minor_version(pyproject: Path) -> str:
    """The first two numbers of a project's version."""
    version: str = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["version"]
    return ".".join(version.split(".")[:2])


def main() -> None:
    """Check every package; stop at the first that fails."""
    ours = minor_version(ROOT / "pyproject.toml")
    folders = sorted(path.parent for path in (ROOT / "packages").glob("*/pyproject.toml"))
    assert [folder.name for folder in folders] == sorted(CHECKS), (
        "every package needs a check, and the reverse"
    )
    for folder in folders:
        given = minor_version(folder / "pyproject.toml")
        assert given == ours, f"{folder.name} is {given}.x and sage-rag {ours}.x: release them together"
        with tempfile.TemporaryDirectory() as target:
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "--no-deps", "--target", target, str(folder)], check=True)
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join([target, str(ROOT)])}
            subprocess.run([sys.executable, "-c", CHECKS[folder.name]], check=True, env=environment)
        print(f"{folder.name}: built and imported")


if __name__ == "__main__":
    main()
