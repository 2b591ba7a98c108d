"""Embedding models that give something else than arrays."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sage_core.errors import InputError
from tests.fakes.models import HashEmbedder
from tests.fakes.sages import small_sage
from tests.fakes.stores import fill

DOCUMENTS = {"ferry.txt": "The ferry leaves at seven.", "mill.txt": "The mill grinds oats."}


class Odd:
    """Gives its vectors another form."""

    name = "odd"

    def __init__(self, query: Any, documents: Any) -> None:
        self._own, self._query, self._documents = HashEmbedder(), query, documents

    def embed_query(self, text: str) -> Any:
        return self._query(self._own.embed_query(text))

    def embed_documents(self, texts: list[str]) -> Any:
        return self._documents(self._own.embed_documents(texts))


def same(values: Any) -> Any:
    return values


def test_lists_of_numbers_will_do(tmp_path: Path) -> None:
    embedder: Any = Odd(np.ndarray.tolist, np.ndarray.tolist)
    with small_sage(tmp_path / "store", embedder=embedder) as sage:
        sage.ingest(fill(tmp_path / "docs", DOCUMENTS))
        assert sage.retrieve("When does the ferry leave?").candidates[0].chunk.text == DOCUMENTS["ferry.txt"]


@pytest.mark.parametrize("given", [None, "text", ["a"], [[1.0], [1.0, 2.0]], 1 + 1j, 3.0], ids=repr)
@pytest.mark.parametrize("part", ["query", "documents"])
def test_what_is_no_vector_is_told(tmp_path: Path, part: str, given: object) -> None:
    parts = {"query": same, "documents": same, part: lambda values: given}
    embedder: Any = Odd(**parts)
    with (
        small_sage(tmp_path / "store", embedder=embedder) as sage,
        pytest.raises(InputError, match="the embedding model 'odd' gave"),
    ):
        sage.ingest(fill(tmp_path / "docs", DOCUMENTS))


def test_a_question_whose_vector_is_none_is_told(tmp_path: Path) -> None:
    embedder: Any = Odd(same, same)
    with small_sage(tmp_path / "store", embedder=embedder) as sage:
        sage.ingest(fill(tmp_path / "docs", DOCUMENTS))
        sage.retrieve("When does the ferry leave?")
        embedder._query = lambda values: None
        with pytest.raises(InputError, match="the embedding model 'odd' gave None, not a vector"):
            sage.retrieve("What does the mill grind?")
