"""All of these tests skip where `llama_index.core` or `langchain_core` are not installed."""

import pytest

pytest.importorskip("llama_index.core")
pytest.importorskip("langchain_core")
