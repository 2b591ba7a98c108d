"""Run the README's quick start as a newcomer would: a new environment, the printed extras, the printed code.

Usage: python scripts/check_readme.py DIST_FOLDER

Makes a virtual environment outside the source tree, installs the newest wheel of the folder there with the
extras that the quick start needs. Runs every block marked ``<!-- run: quickstart -->`` in its own process,
and the demo. No model hub and no key is at hand.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^<!-- run: quickstart -->\n```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXTRA = re.compile(r'"(?:sage-rag|\.)\[([\w,]+)\]"')
EXTRAS = ("llamaindex", "langchain", "files")


def main() -> None:
    """Install, then run each block; stop at the first that fails."""
    wheel = max(Path(sys.argv[1]).glob("sage_rag-*.whl"), key=lambda path: path.stat().st_mtime).resolve()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = {extra for line in EXTRA.findall(readme) for extra in line.split(",")}
    assert set(EXTRAS) <= named, f"README names the extras {', '.join(EXTRAS)}"
    blocks = BLOCK.findall(readme)
    assert len(blocks) >= 2, "README has a block for each framework"
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        venv.create(home / "venv", with_pip=True)
        binaries = home / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "OPENAI_API_KEY")}
        environment |= {"HF_HUB_OFFLINE": "1", "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
        shutil.copytree(ROOT / "demo", home / "demo")
        shutil.copy(ROOT / "README.md", home)

        def run(*command: str) -> None:
            subprocess.run(command, check=True, cwd=home, env=environment, stdout=sys.stderr)

        pip = [str(binaries / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        run(*pip, f"{wheel}[{','.join(EXTRAS)}]")
        # Everything on the first page runs without torch.
        run(str(binaries / "python"), "-c", "import importlib.util as u; assert u.find_spec('torch') is None")
        for code in blocks:
            run(str(binaries / "python"), "-W", "ignore", "-c", code)
        run(str(binaries / "sage-rag"), "demo")
    print(f"README: {len(blocks)} blocks ran as printed")


if __name__ == "__main__":
    main()
