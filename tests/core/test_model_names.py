"""Names that are no names: wherever a model is named, an error of our own says so."""

from collections.abc import Callable
from typing import Any

import pytest

from sage_app.models import named_embedder
from sage_app.store import open_store
from sage_core.errors import InputError, ModelError
from sage_core.segmentation import Segmenter
from sage_core.text.tokens import get_counter

pytest.importorskip("sentence_transformers")  # loads one of the names

LOADERS: list[Callable[[Any], Any]] = [
    lambda name: named_embedder(name).embed_documents(["One sentence."]),
    get_counter,
    lambda name: Segmenter(name).segment("One sentence. Another one."),
]


@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.parametrize("name", ["x" * 300, "\u00e9" * 200, "/" + "y/" * 3000, "nul\0", "~nobody-here/x", 5])
def test_what_can_be_no_name_is_an_error_of_our_own(load: Callable[[Any], Any], name: object) -> None:
    with pytest.raises((InputError, ModelError)):
        load(name)


@pytest.mark.parametrize("address", ["http://[::1", "http://h:99999/c", "http://h:x/c", "store \ud800"])
def test_an_address_that_no_server_can_have_is_an_input_error(address: str) -> None:
    with pytest.raises(InputError):
        open_store(address)
