import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.errors import InputError
from sage_core.selection import (
    SCALES,
    Gradient,
    guess_scale,
    rank_order,
    select,
    to_ratio_scale,
)
from sage_core.selection.rules import FixedK, RelativeToTop, Threshold
from sage_core.selection.scales import read_scores
from tests.fakes.paper_figures import FIGURE_8, FIGURE_9
from tests.fakes.scores import ANY_SCORE, on_scale

finite = st.floats(-1e6, 1e6, allow_nan=False)


def gradient_cut(scores, **limits):
    """Algorithm 2 over scores on a ratio scale."""
    return select(scores, rule="gradient", scale="unbounded", **limits).cut


@pytest.mark.parametrize("min_k", range(1, 10))
def test_figure_8_keeps_nine_for_every_min_k(min_k):
    assert gradient_cut(FIGURE_8, min_k=min_k) == 9
    chosen = select(FIGURE_8, scale="unbounded", min_k=min_k)
    assert chosen.indices == tuple(range(9))
    assert "rank 10 falls to 0.30 of rank 9" in chosen.reason


@given(st.lists(ANY_SCORE, max_size=40), st.integers(1, 39), st.sampled_from(["auto", "gradient"]))
def test_raising_the_floor_by_one_adds_at_most_one(scores, min_k, rule):
    for scale in SCALES:
        given_scores = on_scale(scores, scale)
        low = select(given_scores, scale=scale, rule=rule, min_k=min_k).cut
        high = select(given_scores, scale=scale, rule=rule, min_k=min_k + 1).cut
        assert low <= high <= low + 1


@pytest.mark.parametrize("min_k", [1, 2, 3, 5, 7])
def test_figure_9_is_smooth_and_is_kept_whole(min_k):
    assert gradient_cut(FIGURE_9, min_k=min_k) == 9


def test_predecessor_is_updated_at_every_step():
    # Against the first score alone, the third (0.25 of it) would be cut.
    assert gradient_cut([8.0, 4.0, 2.0, 1.0], min_k=1) == 4
    assert gradient_cut([8.0, 4.0, 1.2, 1.0], min_k=1) == 2  # exactly 0.3 is a cliff


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([], 0),
        ([5.0], 1),
        ([3.0, 2.0], 2),
        ([1.0] * 12, 12),  # all equal: no cliff
        ([0.0] * 12, 7),  # nothing is evidence
        ([-1.0, -1.2, -1.5, -3.0, -8.0, -9.0, -9.5, -10.0], 7),
        ([None] * 9, 7),
        ([math.nan] * 3, 3),
        ([math.inf] * 9, 9),
        ([1.0] * 7 + [None, math.nan, -math.inf], 7),
    ],
)
def test_edges(scores, expected):
    assert gradient_cut(scores) == expected
    assert select(scores, scale="unbounded").cut == expected


def test_max_k_wins_over_the_rule():
    chosen = select(FIGURE_8, scale="unbounded", min_k=2, max_k=4)
    assert chosen.cut == 4
    assert chosen.reason == "max_k=4 reached before a cliff"


def test_unsorted_input_gives_the_callers_positions_best_first():
    chosen = select([0.1, None, 0.9, math.nan, 0.8], scale="probability", rule="gradient", min_k=1)
    assert chosen.indices == (2, 4)
    assert chosen.scores == (0.9, 0.8)
    assert rank_order([0.1, None, 0.9, math.nan, 0.8]) == [2, 4, 0, 1, 3]


def test_ties_keep_their_order():
    assert select([0.5, 0.9, 0.5, 0.5], scale="probability", min_k=1).indices == (1, 0, 2, 3)


def test_logit_cliff_is_a_fixed_drop():
    drop = -math.log(0.3)
    assert select([4.0, 4.0 - drop + 0.01, 0.0], scale="logit", min_k=1).cut == 2
    assert select([4.0, 4.0 - drop - 0.01, 0.0], scale="logit", min_k=1).cut == 1


def test_flat_cosines_are_not_cut():
    assert select([0.71, 0.71 + 1e-9, 0.71], scale="cosine", min_k=1).cut == 3


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_numpy_scores_become_python_floats(dtype):
    chosen = select(np.array([0.9, 0.8, 0.01], dtype=dtype), scale="probability", min_k=1)
    assert chosen.cut == 2
    assert all(type(s) is float for s in chosen.scores)


@given(
    st.lists(ANY_SCORE, max_size=40),
    st.sampled_from(SCALES),
    st.integers(1, 12),
    st.integers(0, 12),
    st.sampled_from(["auto", "gradient", FixedK(3), Threshold(0.5), RelativeToTop()]),
)
def test_selection_is_a_bounded_prefix_of_the_order(scores, scale, min_k, extra, rule):
    scores = on_scale(scores, scale)
    chosen = select(scores, scale=scale, rule=rule, min_k=min_k, max_k=min_k + extra)
    assert min(min_k, len(scores)) <= chosen.cut <= min(min_k + extra, len(scores))
    assert list(chosen.indices) == rank_order(scores)[: chosen.cut]
    assert chosen.cut == len(chosen.indices) == len(chosen.scores)
    assert chosen.reason


@given(st.lists(finite, min_size=1, max_size=30, unique=True), st.sampled_from(SCALES), st.randoms())
def test_order_of_the_input_does_not_matter(scores, scale, random):
    scores = on_scale(scores, scale)
    shuffled = scores[:]
    random.shuffle(shuffled)
    first = select(scores, scale=scale, min_k=2)
    second = select(shuffled, scale=scale, min_k=2)
    assert first.scores == second.scores
    assert first.reason == second.reason


@given(st.lists(st.integers(-40, 40), min_size=1, max_size=30), st.integers(-100, 100))
def test_adding_a_constant_to_logits_changes_nothing(logits, constant):
    moved = [float(x + constant) for x in logits]
    assert (
        select([float(x) for x in logits], scale="logit", min_k=1).indices
        == select(moved, scale="logit", min_k=1).indices
    )


@given(
    st.lists(st.integers(0, 64), min_size=1, max_size=30),
    st.sampled_from([0.25, 0.5, 2.0, 8.0]),
    st.sampled_from([-4.0, 0.0, 4.0]),
)
def test_cosine_is_affine_invariant_and_unbounded_scale_invariant(values, factor, shift):
    scores = [v / 64 for v in values]
    moved = [s * factor + shift for s in scores]
    scaled = [s * factor for s in scores]
    assert select(scores, scale="cosine", min_k=1).indices == select(moved, scale="cosine", min_k=1).indices
    assert (
        select(scores, scale="unbounded", min_k=1).indices
        == select(scaled, scale="unbounded", min_k=1).indices
    )


@given(st.lists(finite, min_size=1, max_size=30), st.sampled_from(SCALES))
def test_ratio_scale_is_nonnegative_and_keeps_the_order(scores, scale):
    mapped = to_ratio_scale(scores, scale)
    assert all(m >= 0 for m in mapped)
    ranked = [m for _, m in sorted(zip(scores, mapped, strict=True), reverse=True)]
    assert all(a >= b for a, b in itertools.pairwise(ranked))


@given(st.lists(st.floats(0, 100), max_size=30), st.integers(1, 10), st.floats(0, 1))
def test_a_stricter_gradient_never_keeps_more(scores, min_k, gradient):
    loose = gradient_cut(scores, min_k=min_k, gradient=gradient / 2)
    strict = gradient_cut(scores, min_k=min_k, gradient=gradient)
    assert strict <= loose


def test_auto_is_the_papers_rule_where_scores_have_cliffs():
    for scale in SCALES:
        assert select([0.9, 0.85, 0.8, 0.1, 0.05], scale=scale, min_k=1).cut == (5 if scale == "logit" else 3)
    for scale in ("logit", "unbounded"):
        assert select(FIGURE_8, scale=scale, min_k=2) == select(
            FIGURE_8, scale=scale, rule="gradient", min_k=2
        )


def test_auto_ends_a_smooth_tail_by_the_guard_of_the_scale():
    smooth = [0.9 * 0.8**i for i in range(30)]
    for scale, share in (("probability", 0.07), ("cosine", 0.4)):
        chosen = select(smooth, scale=scale, min_k=1)
        assert chosen == select(smooth, scale=scale, rule=RelativeToTop(share), min_k=1)
    logits = [3 - 0.3 * i for i in range(30)]
    chosen = select(logits, scale="logit", min_k=1)
    assert chosen == select(logits, scale="logit", rule=RelativeToTop(0.1), min_k=1)
    assert chosen.cut == 8  # 2.3 below the best


@pytest.mark.parametrize("scale", SCALES)
def test_auto_ends_where_nothing_stands_out(scale):
    flat = [0.6 - 0.0001 * i for i in range(60)] if scale != "cosine" else [0.5] * 60
    chosen = select(flat, scale=scale)
    assert chosen.cut == 15 and chosen.reason == "the 15 best"
    assert select(flat, scale=scale, min_k=20).cut == 20
    assert select(flat, scale=scale, max_k=9).cut == 9
    assert select(flat[:10], scale=scale).cut == 10


def test_numbers_said_to_be_probabilities_must_be_some():
    for wrong in ([5.0, 3.0], [0.5, -0.1], [0.5, math.inf]):
        with pytest.raises(InputError, match="scale"):
            select(wrong)
    assert select([1.0000001, -1e-9, None, math.nan, -math.inf], min_k=1).cut == 1


def test_a_gradient_asks_for_the_gradient_rule():
    smooth = [0.9 * 0.7**i for i in range(30)]
    assert select(smooth, gradient=0.3) == select(smooth, rule="gradient")
    by_name = select(FIGURE_8, scale="unbounded", gradient=0.5, min_k=1)
    assert by_name == select(FIGURE_8, scale="unbounded", rule=Gradient(0.5), min_k=1)


def test_distances_count_by_their_negatives():
    assert read_scores([0.4, None, 0.6], "distance").scores == [-0.4, None, -0.6]


@pytest.mark.parametrize("digits", [400, 5000])
def test_a_number_beyond_floats_is_an_input_error(digits: int) -> None:
    with pytest.raises(InputError, match="score 1"):
        select([0.5, 10**digits])


@pytest.mark.parametrize(
    ("scores", "scale"),
    [
        ([0.83, 0.81, 0.8], "cosine"),  # an embedding model in a vector store
        ([1.0000002, 0.4], "cosine"),  # rounding of unit vectors
        ([-0.1, 0.2], "cosine"),
        ([1 / 60, 1 / 61, 1 / 62], "unbounded"),  # reciprocal rank fusion
        ([1.0, 0.5, 0.0], "cosine"),  # relative score fusion
        ([12.4, 3.1, 0.0], "unbounded"),  # BM25
        ([9.0, 8.0, 2.0], "unbounded"),  # an LLM's grades
        ([4.2, -1.0, -9.3], "logit"),  # a cross-encoder without activation
        ([-3.0, -9.3], "logit"),
        ([None, None], "cosine"),
    ],
)
def test_the_scale_is_told_by_the_range(scores, scale):
    assert guess_scale(scores) == scale


@pytest.mark.parametrize(
    "tokens", [5, "ab", [math.nan, 2], [-1, 2], [1.5, 2], ["a", 2], {1, 2}, [None, 2], [True, 2]]
)
def test_lengths_that_are_none_are_input_errors(tokens: object) -> None:
    with pytest.raises(InputError, match="tokens"):
        select([0.9, 0.5], tokens=tokens, min_context_tokens=10)  # type: ignore[arg-type]


def test_a_single_number_is_no_list_of_scores() -> None:
    with pytest.raises(InputError, match="scores"):
        select(np.array(0.5))  # type: ignore[arg-type]
    assert len(select(np.array([0.9, 0.5]), tokens=np.array([3, 4]), min_context_tokens=7).indices) == 2
