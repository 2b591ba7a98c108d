"""Passages, taken apart once for all checks."""

import itertools

import pytest
from langchain_core.documents import Document

from sage_core.errors import InputError
from sage_core.verify import check
from sage_core.verify.passages import parse_passages


def test_shares_do_not_depend_on_the_order_of_words() -> None:
    # Sets of strings are in another order in each process; ties between sentences must not be decided by it.
    passages = parse_passages(
        ("The lamp is blue. The lamp of the pier is red. A red ferry waits at the pier.",)
    )
    words = ["lamp", "blue", "pier", "red", "ferry", "wait"]
    shares = {passages.share(order, {"lamp", "red", "wait"}) for order in itertools.permutations(words)}
    assert len(shares) == 1 and 0 < shares.pop() < 1
    assert passages.share([], {"lamp"}) == 0
    assert passages.weight("unheard") == passages.rarest == max(passages.weights.values())


def test_documents_in_place_of_texts_are_told_how_to_be_passed() -> None:
    documents = [Document("The ferry leaves at seven.")]
    with pytest.raises(InputError, match=r"passages are texts, not Document: .*\[d.page_content for d in"):
        check("When does the ferry leave?", documents, "At seven.")  # type: ignore[arg-type]
