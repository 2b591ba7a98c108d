"""Passages, taken apart once for all checks."""

import pytest
from langchain_core.documents import Document

from sage_core.errors import InputError
from sage_core.verify import check


def test_documents_in_place_of_texts_are_told_how_to_be_passed() -> None:
    documents = [Document("The ferry leaves at seven.")]
    with pytest.raises(InputError, match=r"passages are texts, not Document: .*\[d.page_content for d in"):
        check("When does the ferry leave?", documents, "At seven.")  # type: ignore[arg-type]
