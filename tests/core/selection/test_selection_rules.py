import pytest

from sage_core.errors import InputError
from sage_core.selection import select
from sage_core.selection.rules import Earliest, FixedK, RelativeToTop, Threshold
from tests.fakes.paper_figures import FIGURE_8, FIGURE_9


def keep(scores, rule, scale="unbounded", **bounds):
    return select(scores, scale=scale, rule=rule, **{"min_k": 1, **bounds}).cut


@pytest.mark.parametrize(
    ("rule", "on_8", "on_9"),
    [
        (FixedK(4), 4, 4),
        (Threshold(5.0), 8, 1),
        (RelativeToTop(0.5), 7, 3),
    ],
)
def test_on_the_papers_lists(rule, on_8, on_9):
    assert keep(FIGURE_8, rule) == on_8
    assert keep(FIGURE_9, rule) == on_9


def test_earliest_is_the_smallest_cut_and_its_reason():
    rule = Earliest((FixedK(6), RelativeToTop(0.5), Threshold(0.1)))
    chosen = select(FIGURE_8, scale="unbounded", rule=rule, min_k=1)
    assert chosen.cut == 6 and chosen.reason.startswith("the 6 best")
    with pytest.raises(InputError):
        Earliest(())


def test_bounds_overrule_any_rule_and_say_so():
    chosen = select(FIGURE_9, scale="unbounded", rule=FixedK(3), min_k=5)
    assert chosen.cut == 5
    assert chosen.reason == "min_k=5 kept, though the rule would have kept 3"
    assert keep(FIGURE_8, FixedK(12), max_k=6) == 6
