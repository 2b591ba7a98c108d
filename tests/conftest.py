"""Shared test set-up: no model hub, no wandering threads, and where the development data lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("ANONYMIZED_TELEMETRY", "False")

# CI draws the same examples every time; anywhere else they are new, which finds more.
settings.register_profile("sage", deadline=None, max_examples=100, derandomize="CI" in os.environ)
settings.load_profile("sage")


@pytest.fixture(scope="session")
def sage_data() -> Path:
    """The folder of training and development data; tests that need it skip where it is not there."""
    folder = Path(os.environ.get("SAGE_DATA", "../shared/data"))
    if not folder.is_dir():
        pytest.skip(
            f"no development data at {folder}: set SAGE_DATA to the folder that holds dev/ and train/"
        )
    return folder
