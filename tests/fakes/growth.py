"""Does the time of a function grow with its input, or with the square of it?"""

import time
from collections.abc import Callable

# Other processes slow a measurement down, never up: what is linear passes one of these.
_TRIES = 6


def assert_linear(run: Callable[[int], object], *, size: int, times: int = 8) -> None:
    """Processor time at ``times`` the size is nearer to ``times`` than to its square.

    Args:
        run: Works on an input of a size.
        size: The smaller size; what it takes should be some milliseconds.
        times: The larger size is this many times the smaller one.
    """

    def seconds(size: int) -> float:
        began = time.process_time()
        run(size)
        return time.process_time() - began

    seconds(size)  # what is loaded at first use
    limit = times * times / 2
    small, large = float("inf"), float("inf")
    for _ in range(_TRIES):
        small, large = min(small, seconds(size)), min(large, seconds(size * times))
        if large < limit * max(small, 0.002):
            return
    raise AssertionError(f"{large:.3f} s at {times} times the size, {small:.3f} s before")
