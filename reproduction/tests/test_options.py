"""The option that a reply to a multiple-choice question names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sage_eval.options import chosen_option

OPTIONS = ["Paris", "Paris, Texas", "A quiet harbour", "Rome"]


@pytest.mark.parametrize(
    ("reply", "option"),
    [
        ("B", 1),
        ("b", 1),
        ("(b)", 1),
        ("**D**. Rome", 3),
        ("D) Rome", 3),
        ("The answer is B.", 1),
        ("Option C", 2),
        ("Answer: A", 0),
        ("Paris", 0),
        ("It is Paris, Texas.", 1),
        ("A quiet harbour", 2),
        ("a quiet harbour", 2),
        ("I think Rome is right", 3),
        ("rome or paris", None),
        ("none of them", None),
        ("E", None),
        ("", None),
        ("I cannot say.", None),
    ],
)
def test_the_option_a_reply_names(reply: str, option: int | None) -> None:
    assert chosen_option(reply, OPTIONS) == option


@pytest.mark.slow
@given(st.text(), st.lists(st.text(), max_size=30))
def test_naming_an_option_never_fails(reply: str, options: list[str]) -> None:
    found = chosen_option(reply, options)
    assert found is None or 0 <= found < len(options)
