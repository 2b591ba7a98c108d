"""Who does what to whom."""

import pytest

from sage_core.verify.roles import deeds


@pytest.mark.parametrize(
    ("text", "verb", "agent", "others"),
    [
        ("The baker's son paid her.", "pay", {"bak", "son"}, set()),
        ("The rent was paid by Ann Weber in May.", "pay", {"ann", "web"}, {"rent"}),
        ("A film directed by Ann.", "direct", {"ann"}, {"film"}),
        ("Ben bought the boat from Anna.", "sell", {"boat", "anna"}, {"ben"}),
        ("Tom, hired by Ruth, paid Ann.", "pay", {"tom", "hir", "ruth"}, {"ann"}),
        ("The firm will claim 412 euros from Holm.", "claim", {"firm"}, {"412", "euro", "holm"}),
    ],
)
def test_both_sides_of_a_verb(text: str, verb: str, agent: set[str], others: set[str]) -> None:
    """Of stems."""
    deed = next(d for d in deeds(text) if d.verb == verb)
    assert deed.agent == agent and others <= deed.others


@pytest.mark.parametrize(
    ("one", "other", "exchanged"),
    [
        ("Ann paid Ben.", "Ben paid Ann.", True),
        ("Ann paid Ben.", "Ben was paid by Ann.", False),
        ("Ann sold Ben the boat.", "Ben bought the boat from Ann.", False),
        ("Ann sold Ben the boat.", "Ann bought the boat from Ben.", True),
        ("She paid the baker.", "The baker paid her.", True),
        ("She paid the baker.", "The baker was paid by her.", False),
        ("Ann paid.", "Ann paid Ben.", False),
        ("Ann met Ben.", "Ben met Ann.", False),
    ],
)
def test_exchanged_roles(one: str, other: str, exchanged: bool) -> None:
    assert any(a.exchanges(b) for a in deeds(one) for b in deeds(other) if a.verb == b.verb) is exchanged


@pytest.mark.parametrize(
    "text", ["", "…", "a" * 100_000, "paid " * 20_000, "paid, " * 20_000, "\ud800 paid", "😀 paid 😀."]
)
def test_any_text_has_deeds(text: str) -> None:
    assert isinstance(deeds(text), tuple)
