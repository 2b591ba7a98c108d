"""Prove the built wheel: its contents, and that the base install alone segments text and cuts scores.

A source distribution beside it is looked into as well.

Usage: python scripts/check_wheel.py DIST_FOLDER

Makes a virtual environment without any extra, installs the newest wheel of the folder there and runs
`BASE_INSTALL` in it, away from the source tree.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

MEGABYTE = 1_000_000
WHEEL_LIMIT = 38 * MEGABYTE  # Weights: two boundary models, embedder, reader, entailment.
SOURCE_LIMIT = 60 * MEGABYTE
FORBIDDEN = (
    "torch",
    "transformers",
    "sentence_transformers",
    "llama_index",
    "langchain_core",
    "chromadb",
    "openai",
)

BASE_INSTALL = f"""
import importlib.util, pathlib, sys
import sage_core
import sage_core.selection
assert "site-packages" in sage_core.__file__, sage_core.__file__
present = [name for name in {FORBIDDEN!r} if importlib.util.find_spec(name)]
assert not present, f"the base install must not bring {{present}}"
text = pathlib.Path("sample.txt").read_text(encoding="utf-8")
chunks = sage_core.Segmenter(max_tokens=60).segment(text)
assert len(chunks) > 1, chunks
assert "".join(text.split()) == "".join("".join(text[c.start:c.end] for c in chunks).split())
assert "<div" in sage_core.Segmenter().explain(text)._repr_html_()
scores = [13.79, 13.58, 11.91, 11.55, 10.94, 7.815, 7.665, 5.49, 4.416, 1.304, 0.8]
assert sage_core.select(scores, rule="gradient", scale="unbounded").cut == 9
try:
    import sage_app
    sage_app.OpenAIChat("m", base_url="http://127.0.0.1:1").complete([])
except ImportError as error:
    assert "sage-rag[openai]" in str(error), error
else:
    raise AssertionError("a missing extra must be named")
for adapter, extra in (("sage_llamaindex", "llamaindex"), ("sage_langchain", "langchain")):
    try:
        module = __import__(adapter)
        getattr(module, module.__all__[0])
    except ImportError as error:
        assert f"sage-rag[{{extra}}]" in str(error), error
    else:
        raise AssertionError(f"{{adapter}} without its framework must name the extra")
print(f"base install: {{len(chunks)}} chunks, cut at 9")
"""


def check_contents(wheel: Path) -> None:
    """Fail unless the wheel holds the weights, the type markers and nothing large or foreign."""
    with zipfile.ZipFile(wheel) as archive:
        sizes = {item.filename: item.file_size for item in archive.infolist()}
    for package in ("sage_core", "sage_llamaindex", "sage_langchain", "sage_app"):
        assert f"{package}/py.typed" in sizes, f"{package}/py.typed is not in {wheel.name}"
    weights = {name: size for name, size in sizes.items() if "/weights/" in name}
    assert any(name.endswith(".safetensors") for name in weights), "the bundled weights are not in the wheel"
    assert wheel.stat().st_size < WHEEL_LIMIT, f"{wheel.name} has {wheel.stat().st_size:,} bytes"
    foreign = [name for name in sizes if not name.startswith(("sage_", "sage_rag-"))]
    assert not foreign, f"not for the wheel: {foreign[:5]}"
    size = wheel.stat().st_size / MEGABYTE
    print(
        f"{wheel.name}: {size:.1f} MB, {len(sizes)} files, weights {sum(weights.values()) / MEGABYTE:.1f} MB"
    )


def check_source(archive: Path) -> None:
    """Fail where the source distribution carries pictures, the site or notebooks, or has grown large."""
    with tarfile.open(archive) as source:
        names = [name.partition("/")[2] for name in source.getnames()]
    foreign = [name for name in names if name.startswith(("docs/", "notebooks/", "site/", "."))]
    foreign = [name for name in foreign if name != ".gitignore"]
    assert not foreign, f"not for the source distribution: {foreign[:5]}"
    assert archive.stat().st_size <= SOURCE_LIMIT, f"{archive.name} takes {archive.stat().st_size:,} bytes"
    print(f"{archive.name}: {len(names)} files, {archive.stat().st_size / MEGABYTE:.1f} MB")


def check_base_install(wheel: Path) -> None:
    """Install the wheel alone in a new environment and run `BASE_INSTALL` and the command there."""
    sample = Path(__file__).parent.parent / "README.md"
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        venv.create(home / "venv", with_pip=True)
        binaries = home / "venv" / ("Scripts" if sys.platform == "win32" else "bin")

        def run(*command: object) -> None:
            subprocess.run([str(part) for part in command], check=True, cwd=home, stdout=sys.stderr)

        run(binaries / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel.resolve())
        (home / "sample.txt").write_text(sample.read_text(encoding="utf-8"), encoding="utf-8")
        run(binaries / "python", "-c", BASE_INSTALL)
        run(binaries / "sage-rag", "--help")
        run(binaries / "sage-rag", "segment", "sample.txt", "--json")
        run(binaries / "sage-rag", "ingest", "sample.txt", "--store", "store")
        run(binaries / "sage-rag", "ask", "What does the base install do?", "--store", "store")


def main() -> None:
    """Check the newest wheel in the folder given."""
    wheels = sorted(Path(sys.argv[1]).glob("sage_rag-*.whl"), key=lambda path: path.stat().st_mtime)
    assert wheels, f"no wheel in {sys.argv[1]}: run `make build`"
    check_contents(wheels[-1])
    for archive in sorted(Path(sys.argv[1]).glob("sage_rag-*.tar.gz"))[-1:]:
        check_source(archive)
    check_base_install(wheels[-1])


if __name__ == "__main__":
    main()
