"""What our pydantic components share: pickling without loss, saved functions, errors in a line."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar

from llama_index.core.node_parser.node_utils import default_id_func
from llama_index.core.schema import BaseComponent
from pydantic import (
    BeforeValidator,
    GetPydanticSchema,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import core_schema
from typing_extensions import Self

from sage_core._checks import checked_copy, refused
from sage_core.errors import InputError
from sage_core.selection import SelectionConfig

logger = logging.getLogger(__name__)


class SageComponent(BaseComponent):
    """Base of our components.

    LlamaIndex's own `BaseComponent` deletes what cannot be pickled, from the live object too, and drops
    unknown arguments in silence. Here a pickle holds every field or fails, and an unknown argument is an
    error.
    """

    # Never written: the callback manager belongs to the process.
    _process_fields: ClassVar[frozenset[str]] = frozenset({"callback_manager"})
    # Names that appear in `to_dict` but are no arguments.
    _derived: ClassVar[frozenset[str]] = frozenset({"class_name"})

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise refused(type(self).__name__, error.errors(), type(self).model_fields) from None

    @model_validator(mode="before")
    @classmethod
    def _without_derived(cls, data: Any) -> Any:
        """Drop what `to_dict` adds."""
        if not isinstance(data, dict):  # assignment to a field: pydantic passes the object
            return data
        return {name: value for name, value in data.items() if name not in cls._derived}

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields changed, which are checked and take effect, as in the constructor."""
        return checked_copy(self, update or {}, deep)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field; one that is refused leaves the object as it was, which pydantic does not see to."""
        before = dict(self.__dict__)
        try:
            super().__setattr__(name, value)
        except ValueError as error:
            self.__dict__.clear()
            self.__dict__.update(before)
            if isinstance(error, ValidationError):
                raise refused(type(self).__name__, error.errors(), type(self).model_fields) from None
            raise

    def __getstate__(self) -> dict[str, Any]:
        fields = {k: v for k, v in self.__dict__.items() if k not in self._process_fields}
        return {"fields": fields, "fields_set": set(self.model_fields_set) - self._process_fields}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Through `__init__`, so that private parts are made anew; then the record of what was given.
        self.__init__(**state["fields"])  # type: ignore[misc]
        object.__setattr__(self, "__pydantic_fields_set__", set(state["fields_set"]))


def cache_token(function: Callable[..., Any], what: str) -> str:
    """What stands for a function in the key of an ingestion cache.

    That is its text attribute ``fingerprint``. A function without one gets another token each time: nothing
    cached is ever found for it, which is logged once.

    Args:
        function: The function.
        what: What it is, for the warning.
    """
    own = getattr(function, "fingerprint", None)
    if isinstance(own, str) and own:
        return own
    # Once a process: pipelines ask for the key of every transformation of every run.
    if what not in _reported:
        _reported.add(what)
        logger.warning(
            "what %s makes is never taken from an ingestion cache: give it a text attribute `fingerprint` "
            "that says when it makes the same",
            what,
        )
    return uuid.uuid4().hex


_reported: set[str] = set()


def function_name(function: Any) -> str:
    """A name for any callable, without memory addresses."""
    if isinstance(function, partial):
        return f"partial({function_name(function.func)})"
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{getattr(function, '__module__', None) or type(function).__module__}.{name}"


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
    if function is default_id_func:
        return {"id_func_name": default_id_func.__name__, "title": "id_func"}
    name = function_name(function)
    return {"id_func_name": name, "title": "id_func", "token": cache_token(function, f"id_func {name}")}


def _read_selection(value: Any) -> SelectionConfig:
    if isinstance(value, Mapping):  # saved by `to_dict`
        return SelectionConfig.from_dict(value)
    if not isinstance(value, SelectionConfig | None):
        raise InputError(f"selection is a SelectionConfig, not {value!r}")
    return value or SelectionConfig()


# pydantic would make a schema of the dataclass, and cannot tell what a rule is.
Selecting = Annotated[
    SelectionConfig,
    GetPydanticSchema(
        lambda _, __: core_schema.no_info_plain_validator_function(
            _read_selection,
            serialization=core_schema.plain_serializer_function_ser_schema(SelectionConfig.to_dict),
        )
    ),
    WithJsonSchema({"type": "object"}),
]

IdFunc = Annotated[
    Callable[..., Any],
    BeforeValidator(read_id_func),
    PlainSerializer(write_id_func),
    WithJsonSchema({"type": "string"}, mode="serialization"),
    WithJsonSchema({"type": "string"}, mode="validation"),
]
