"""Arguments of the wrong kind, and of `RetryQueryEngine`: each error says what to give instead."""

from __future__ import annotations

import pytest

from sage_core.errors import InputError
from sage_llamaindex import SageNodeParser, SageQueryEngine
from sage_llamaindex.query_engine import OPTIONS, refuse_unknown


def test_a_name_is_no_index() -> None:
    with pytest.raises(InputError, match=r"takes an index.*not 'x'"):
        SageQueryEngine.from_index("x")  # type: ignore[arg-type]


@pytest.mark.asyncio
async def test_texts_are_no_documents() -> None:
    with pytest.raises(InputError, match="Document objects, not texts"):
        SageNodeParser().get_nodes_from_documents(["text"])  # type: ignore[list-item]
    with pytest.raises(InputError, match="Document objects, not texts"):
        await SageNodeParser().aget_nodes_from_documents(["text"])  # type: ignore[list-item]


@pytest.mark.parametrize(("name", "ours"), [("max_retries", "max_rounds"), ("evaluator", "critic")])
def test_names_of_the_retry_engine_are_translated(name: str, ours: str) -> None:
    with pytest.raises(TypeError, match=f"{name!r}: use `{ours}`"):
        refuse_unknown({name: 1}, OPTIONS, "from_args")
