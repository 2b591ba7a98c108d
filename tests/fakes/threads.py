"""Calls at the same time."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def together(calls: Iterable[Callable[[], T]]) -> list[T]:
    """The results of calls, each in a thread of its own; the first error is raised."""
    waiting = list(calls)
    with ThreadPoolExecutor(len(waiting)) as pool:
        return [future.result() for future in [pool.submit(call) for call in waiting]]
