"""Shared test set-up: no model hub, no wandering threads, and where the development data lies."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("ANONYMIZED_TELEMETRY", "False")

# CI draws the same examples every time; anywhere else they are new, which finds more.
# SAGE_TEST_EXAMPLES=200 searches longer.
settings.register_profile(
    "sage",
    deadline=None,
    max_examples=int(os.environ.get("SAGE_TEST_EXAMPLES", "25")),
    derandomize="CI" in os.environ,
)
settings.load_profile("sage")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file whose tests are all left out is not even imported: Ray, servers and models take seconds."""
    left_out = [name for name in ("slow", "soak", "docs") if f"not {name}" in config.option.markexpr]
    if not left_out or collection_path.suffix != ".py":
        return None
    marks = rf"^pytestmark = (\[[^]]*)?pytest\.mark\.({'|'.join(left_out)})\b"
    return True if re.search(marks, collection_path.read_text(encoding="utf-8"), re.MULTILINE) else None


@pytest.fixture(scope="session")
def sage_data() -> Path:
    """The folder of training and development data; tests that need it skip where it is not there."""
    folder = Path(os.environ.get("SAGE_DATA", "../shared/data"))
    if not folder.is_dir():
        pytest.skip(
            f"no development data at {folder}: set SAGE_DATA to the folder that holds dev/ and train/"
        )
    return folder
