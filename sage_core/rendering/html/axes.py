"""Where numbers lie on a picture: linear and logarithmic axes with round ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Axis:
    """A mapping of ``low..high`` onto pixels ``start..end``.

    Attributes:
        low: Value at ``start``.
        high: Value at ``end``, above ``low``.
        start: Pixel.
        end: Pixel.
        log: Whether equal ratios are equally far apart; needs ``low`` above 0.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of a value; values beyond the ends lie on the end."""
        value = min(max(value, self.low), self.high)
        if self.log:
            low = math.log(self.low)  # a quotient could overflow
            share = (math.log(value) - low) / (math.log(self.high) - low)
        else:
            share = value / (self.high - self.low) - self.low / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Round values within the axis, ``most`` or a few more of them."""
        if self.log:
            return _decades(self.low, self.high)
        rough = (self.high - self.low) / most
        size = 10.0 ** math.floor(math.log10(rough))
        step = size * next(s for s in _STEPS if s * size >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]


def value_axis(values: Sequence[float], start: float, end: float, *, log: bool, zero: bool) -> Axis:
    """An axis that holds all of ``values``, with room above.

    Args:
        values: Finite numbers; above 0 where ``log``.
        start: Pixel of the lowest.
        end: Pixel of the highest.
        log: See `Axis`.
        zero: Whether a linear axis must show 0.
    """
    low, high = min(values, default=0.0), max(values, default=1.0)
    if log:
        return Axis(low / 1.3, high * 1.3, start, end, log=True)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    room = (high - low) * 0.06
    if not room > abs(high) * 1e-9:  # one value, or all the same
        room = abs(high) * 0.1 or 0.5
    return Axis(low if zero and low == 0 else low - room, high + room, start, end)


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten, and 2 and 5 between them where there are few decades."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if last - first <= 3 else (1,)
    every = max(1, (last - first) // 8)
    found = [f * 10.0**p for p in range(first, last + 1, every) for f in factors]
    return [v for v in found if low <= v <= high]


def tick_text(value: float) -> str:
    """A tick's label."""
    if value == 0:
        return "0"
    return f"{value:.3g}" if 1e-3 <= abs(value) < 1e5 else f"{value:.0e}"
