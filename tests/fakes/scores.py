"""Lists of scores of any kind, as properties draw them."""

import math
from collections.abc import Sequence

from hypothesis import strategies as st

ANY_SCORE = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True))


def on_scale(scores: Sequence[float | None], scale: str) -> list[float | None]:
    """The scores, or where they are to be probabilities what lies between 0 and 1."""
    if scale != "probability":
        return list(scores)
    return [
        s if s is None or math.isnan(s) or s == -math.inf else math.atan(s) / math.pi + 0.5 for s in scores
    ]
