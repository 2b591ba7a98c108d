"""Arguments of the wrong kind, and of `RetryQueryEngine`: each error says what to give instead."""

from typing import Any

import pytest

from sage_core.errors import InputError
from sage_llamaindex import SageNodeParser, SageNodePostprocessor, SageQueryEngine
from sage_llamaindex.query_engine import OPTIONS, refuse_unknown


def test_a_name_is_no_index() -> None:
    with pytest.raises(InputError, match="'x'"):
        SageQueryEngine.from_index("x")  # type: ignore[arg-type]


@pytest.mark.asyncio
async def test_texts_are_no_documents() -> None:
    with pytest.raises(InputError, match="Document"):
        SageNodeParser().get_nodes_from_documents(["text"])  # type: ignore[list-item]
    with pytest.raises(InputError, match="Document"):
        await SageNodeParser().aget_nodes_from_documents(["text"])  # type: ignore[list-item]


@pytest.mark.parametrize(("name", "ours"), [("max_retries", "max_rounds"), ("evaluator", "critic")])
def test_names_of_the_retry_engine_are_translated(name: str, ours: str) -> None:
    with pytest.raises(TypeError, match=f"{name!r}.*{ours}"):
        refuse_unknown({name: 1}, OPTIONS, "from_args")


def test_errors_of_fields_are_one_line() -> None:
    def told(make: Any, **given: Any) -> str:
        with pytest.raises(InputError) as caught:
            make(**given)
        assert "pydantic" not in str(caught.value) and "\n" not in str(caught.value)
        return str(caught.value)

    assert told(SageNodePostprocessor, minimum_k=3).endswith("no argument 'minimum_k'; did you mean 'min_k'?")
    assert told(SageNodeParser, max_tokens="many") == (
        "max_tokens of SageNodeParser should be a valid integer, not 'many'"
    )
    size = told(SageNodeParser, target_tokens="sentense")
    assert "a valid integer or 'sentence', 'passage', 'section' or 'topic', not 'sentense'" in size
    assert told(SageNodePostprocessor().model_copy, update={"max_k": 0}).startswith(
        "max_k must be at least 1"
    )
    with pytest.raises(InputError, match="max_k"):
        SageNodePostprocessor().max_k = 0
