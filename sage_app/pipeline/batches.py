"""Simultaneous calls share batches: what arrives while a batch runs goes into the next one."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Generic, TypeVar

BATCH_WINDOW_SECONDS = 0.002
"""How long a batch of questions waits for others: little beside a forward pass."""

T = TypeVar("T")
R = TypeVar("R")


class _Job(Generic[T, R]):
    """One caller's item, and what came of it."""

    __slots__ = ("done", "error", "item", "result")

    def __init__(self, item: T) -> None:
        self.item = item
        self.result: list[R] = []  # One element once there is a result.
        self.error: Exception | None = None
        self.done = False


class MicroBatcher(Generic[T, R]):
    """Calls ``run`` with the items of all threads that wait, one batch at a time.

    There is no thread of its own to start or stop: the caller who comes first runs the batch for the others.
    A caller alone waits for nobody.

    Args:
        run: Takes items, gives as many results in their order. Called by one thread at a time. A method's
            object, which has the batcher, is not kept alive by it: dropped, it frees its models at once.
        limit: Most items of a batch.
        delay: Seconds that a batch waits for more items before it starts, if the batch before held several.
    """

    def __init__(
        self,
        run: Callable[[Sequence[T]], Sequence[R]],
        *,
        limit: int = 256,
        delay: float = 0.0,
    ) -> None:
        self._run: Callable[[], Callable[[Sequence[T]], Sequence[R]] | None] = (
            weakref.WeakMethod(run) if isinstance(run, MethodType) else lambda: run
        )
        self._limit = limit
        self._delay = delay
        self._waiting: deque[_Job[T, R]] = deque()
        # Guards `_waiting` and `_busy`; told whenever a batch ends. `_shared` is the leader's own.
        self._changed = threading.Condition()
        self._busy = False
        self._shared = False

    def __call__(self, item: T) -> R:
        """The result for ``item``; an error that it causes is raised here, and in no other thread."""
        job: _Job[T, R] = _Job(item)
        with self._changed:
            self._waiting.append(job)
        try:
            while self._must_lead(job):
                self._run_batch()
        finally:
            if not job.done:  # Interrupted: nobody waits for the result any more.
                with self._changed:
                    if job in self._waiting:
                        self._waiting.remove(job)
        try:
            if job.error is not None:
                raise job.error
            return job.result[0]
        finally:
            del job  # an error has this frame in its traceback: they would keep each other

    def _must_lead(self, job: _Job[T, R]) -> bool:
        """Wait until ``job`` is done (False), or until no batch runs and its caller must run one (True)."""
        with self._changed:
            self._changed.wait_for(lambda: job.done or not self._busy)
            if job.done:
                return False
            self._busy = True
            return True

    def _run_batch(self) -> None:
        """Run the next batch. Where the thread is interrupted, what was not done waits again."""
        batch: list[_Job[T, R]] = []
        try:
            if self._delay and self._shared:
                time.sleep(self._delay)
            batch = self._take()
            self._shared = len(batch) > 1
            self._finish(batch)
        finally:
            with self._changed:
                self._waiting.extendleft(job for job in reversed(batch) if not job.done)
                self._busy = False
                self._changed.notify_all()

    def _take(self) -> list[_Job[T, R]]:
        """The jobs that waited longest, up to the limit; at least one."""
        with self._changed:
            return [self._waiting.popleft() for _ in range(min(self._limit, len(self._waiting)))]

    def _finish(self, batch: list[_Job[T, R]]) -> None:
        """Run jobs together; if that fails, one by one, so that only the culprit's caller sees the error."""
        run = self._run()
        assert run is not None  # its object's own methods call this
        try:
            results = run([job.item for job in batch])
        except Exception as error:  # any: it is handed to the callers, whose threads wait
            if len(batch) > 1:
                for job in batch:
                    self._finish([job])
                return
            batch[0].error = error
            batch[0].done = True
            return
        for job, result in zip(batch, results, strict=True):
            job.result.append(result)
            job.done = True
