"""The functions that give chunks their ids, as a pydantic field that can be saved and read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from llama_index.core.node_parser.node_utils import default_id_func
from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from sage_core.errors import InputError
from sage_llamaindex._component import function_name


def read_id_func(value: Any) -> Any:
    """`to_dict` writes the name of a function only, and code is never looked up by a name in a file."""
    if value is None:
        return default_id_func
    if isinstance(value, Mapping):
        name = value.get("id_func_name")
        if name == default_id_func.__name__:
            return default_id_func
        raise InputError(
            f"the parser was saved with its own id_func ({name}): pass the function again, "
            "SageNodeParser.from_dict(data, id_func=...)"
        )
    return value


def write_id_func(function: Callable[..., str]) -> dict[str, str]:
    name = default_id_func.__name__ if function is default_id_func else function_name(function)
    return {"id_func_name": name, "title": "id_func"}


IdFunc = Annotated[
    Callable[..., Any],
    BeforeValidator(read_id_func),
    PlainSerializer(write_id_func),
    WithJsonSchema({"type": "string"}, mode="serialization"),
    WithJsonSchema({"type": "string"}, mode="validation"),
]
