"""Build every distribution in packages/, install it beside the current environment, and run its tests.

Usage: python scripts/check_packages.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # comes with build, which `make build` needs anyway

ROOT = Path(__file__).resolve().parent.parent


def project(pyproject: Path) -> dict[str, Any]:
    """What a project says of itself."""
    found: dict[str, Any] = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    return found


def minor_version(version: str) -> str:
    """The first two numbers of a version."""
    return ".".join(version.split(".")[:2])


def main() -> None:
    """Check every package; stop at the first that fails."""
    root = project(ROOT / "pyproject.toml")
    ours = minor_version(root["version"])
    frameworks = {d for name in ("langchain", "llamaindex") for d in root["optional-dependencies"][name]}
    for path in sorted(ROOT.glob("*/pyproject.toml")):
        version = project(path)["version"]
        assert version == root["version"], f"{path.parent.name} is {version} and sage-rag {root['version']}"
        typed = list(path.parent.glob("*/py.typed"))
        assert typed and (path.parent / "LICENSE").exists(), f"{path.parent.name} lacks py.typed or LICENSE"
    folders = sorted(path.parent for path in (ROOT / "packages").glob("*/pyproject.toml"))
    for folder in folders:
        own = project(folder / "pyproject.toml")
        given = minor_version(own["version"])
        assert given == ours, f"{folder.name} is {given}.x and sage-rag {ours}.x: release them together"
        floors = {d for d in own["dependencies"] if not d.startswith("sage-rag[")}
        known = floors <= frameworks and (floors or not own["dependencies"])
        assert known, f"{folder.name} asks for {floors}, sage-rag for {frameworks}"
        with tempfile.TemporaryDirectory() as target:
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "--no-deps", "--target", target, str(folder)], check=True)
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join([target, str(ROOT)])}
            installed = {path.name for path in Path(target).rglob("*")}
            assert {"py.typed", "LICENSE"} <= installed, f"{folder.name} lacks py.typed or LICENSE"
            # Its own configuration, and none of the repository's conftest files.
            pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
            pytest += ["-p", "no:langsmith_plugin"]
            pytest += ["--import-mode=importlib", "-c", str(folder / "pyproject.toml"), str(folder / "tests")]
            subprocess.run(pytest, check=True, env=environment, cwd=target)
        print(f"{folder.name}: built, installed and tested")


if __name__ == "__main__":
    main()
