"""The commands of the other distributions of this repository, whether or not they are installed."""

import re
from importlib.metadata import EntryPoint
from pathlib import Path

from sage_app.cli.main import add_command, app

ROOT = Path(__file__).parents[2]
_COMMAND = re.compile(
    r"^\[project\.entry-points\.\"sage_rag\.commands\"\]\n(\w+) = \"([\w.:]+)\"", re.MULTILINE
)


def add_commands() -> None:
    """Add those that the command line has not found: a distribution that is on the path has no metadata."""
    names = {group.name for group in app.registered_groups}
    names |= {c.name or getattr(c.callback, "__name__", None) for c in app.registered_commands}
    for path in sorted(ROOT.glob("*/pyproject.toml")):
        for name, value in _COMMAND.findall(path.read_text("utf-8")):
            if name not in names:
                add_command(EntryPoint(name, value, "sage_rag.commands"))
