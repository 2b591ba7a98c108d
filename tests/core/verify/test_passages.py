"""Passages, taken apart once for all checks."""

import itertools

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
