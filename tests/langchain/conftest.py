"""All of these tests skip where `langchain_core` is not installed."""

import pytest

pytest.importorskip("langchain_core")
