"""A place where a text may be cut."""

from __future__ import annotations

from typing import NamedTuple


class Boundary(NamedTuple):
    """A place where the segmenter may cut.

    Attributes:
        position: Index of the first character of the later sentence.
        probability: P(same): how likely the sentences before and after belong together.
    """

    position: int
    probability: float
