"""Check the types of the Python blocks of README and docs, as an editor does (basedpyright, basic mode).

    python scripts/check_types.py

The blocks of a page that run together are one file. Names that their scene brings are not looked for.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.markdown import stories  # noqa: E402

CONFIG = {
    "typeCheckingMode": "basic",
    "reportUndefinedVariable": False,
    "reportMissingImports": False,
    "reportRedeclaration": False,
    "extraPaths": [str(ROOT)],
}


def main() -> int:
    """Print every error with its page and line; the number of them is the exit code, 1 at most."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    with tempfile.TemporaryDirectory() as made:
        folder, lines = Path(made), dict[str, list[str]]()
        for name, story in stories(pages).items():
            blocks = [block for block in story if block.language == "python"]
            file = folder / f"{name.replace('/', '_')}.py"
            file.write_text("\n".join(block.code for block in blocks), "utf-8")
            places = [
                f"{b.path.relative_to(ROOT)}:{b.line + i}"
                for b in blocks
                for i in range(b.code.count("\n") + 1)
            ]
            lines[file.name] = places
        (folder / "pyrightconfig.json").write_text(json.dumps(CONFIG), "utf-8")
        command = [sys.executable, "-m", "basedpyright", "--project", made, "--outputjson"]
        done = subprocess.run(
            [*command, "--pythonpath", sys.executable], capture_output=True, text=True, check=False
        )
        found = json.loads(done.stdout)
    errors = [item for item in found["generalDiagnostics"] if item["severity"] == "error"]
    for item in errors:
        place = lines[Path(item["file"]).name][item["range"]["start"]["line"]]
        print(f"{place}: {item['message'].splitlines()[0]} [{item.get('rule')}]")
    print(f"{len(errors)} errors in the blocks of {len(lines)} pages and scenes")
    return min(len(errors), 1)


if __name__ == "__main__":
    sys.exit(main())
