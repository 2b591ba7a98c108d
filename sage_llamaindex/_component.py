"""What our pydantic components share: errors in a line, pickles without loss, one way to count tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import llama_index.core
from llama_index.core.schema import BaseComponent
from pydantic import ValidationError

from sage_core._checks import refused
from sage_core.errors import InputError
from sage_core.text.tokens import CallableCounter, TokenCounter, TokenizerCounter, function_name, get_counter


class SageComponent(BaseComponent):
    """Base of our components: their pickles hold every field, where LlamaIndex's drop some, or fail."""

    if not TYPE_CHECKING:  # type checkers make the signature from the fields

        def __init__(self, **fields: Any) -> None:
            fields.pop("class_name", None)  # `to_dict` and `to_json` write it, and pydantic hands it back
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise refused(type(self).__name__, error.errors(), type(self).model_fields) from None

    def __getstate__(self) -> dict[str, Any]:
        # The callback manager belongs to the process.
        return {name: value for name, value in self.__dict__.items() if name != "callback_manager"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Through `__init__`, so that private parts are made anew.
        self.__init__(**state)  # type: ignore[misc]


def _encoded_length(encode: Callable[[str], Sequence[Any]], text: str) -> int:
    return len(encode(text))


def chosen_tokenizer() -> Any:
    """``Settings.tokenizer`` if the user has set one, else None."""
    encode = llama_index.core.global_tokenizer
    # LlamaIndex puts one of its own there the first time any part asks for one; that is no choice.
    return None if getattr(encode, "keywords", None) == {"allowed_special": "all"} else encode


def text_counter() -> TokenCounter:
    """What sizes nodes: `chosen_tokenizer`, or ``"bert"``."""
    encode = chosen_tokenizer()
    if encode is None:
        return get_counter("bert")
    try:
        return TokenizerCounter(getattr(encode, "__self__", encode))
    except InputError:  # a plain function
        return CallableCounter(partial(_encoded_length, encode), f"len:{function_name(encode)}")
