"""What a release must agree on: versions, the change log, the actions of the workflow."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
VERSION = re.compile(r'^version = "([^"]+)"$', re.MULTILINE)


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def released() -> str:
    """The version of this tree."""
    match = VERSION.search(read("pyproject.toml"))
    assert match is not None
    return match[1]


def test_every_distribution_and_the_citation_have_one_version():
    projects = [ROOT / "pyproject.toml", *ROOT.glob("*/pyproject.toml")]
    assert len(projects) == 3
    versions = {VERSION.findall(path.read_text(encoding="utf-8"))[0] for path in projects}
    assert versions == {released()}
    assert str(yaml.safe_load(read("CITATION.cff"))["version"]) == released()


def test_the_change_log_has_this_version_in_forty_lines():
    sections = re.split(r"^## ", read("CHANGELOG.md"), flags=re.MULTILINE)[1:]
    assert sections[0].startswith("[Unreleased]")
    newest = sections[1].splitlines()
    assert newest[0].startswith(f"[{released()}]")
    assert len([line for line in newest[1:] if line.strip()]) <= 40
    headings = re.findall(r"^### (.+)$", sections[1], re.MULTILINE)
    assert headings[0] == "Breaking", "what breaks stands first"


def test_actions_are_pinned_to_commits():
    used = re.findall(r"uses: (\S+)", read(".github/workflows/ci.yml"))
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)] == []
