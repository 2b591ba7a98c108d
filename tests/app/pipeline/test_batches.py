"""Micro-batching: threads share batches, errors stay with their caller, nobody waits for ever."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_app.pipeline.batches import MicroBatcher


class Recorder:
    """Doubles numbers; 13 is an error. The first batch blocks until ``release`` is set."""

    def __init__(self, block=False):
        self.batches, self.started, self.release = [], threading.Event(), threading.Event()
        if not block:
            self.release.set()

    def __call__(self, items):
        self.batches.append(list(items))
        self.started.set()
        assert self.release.wait(10)
        if 13 in items:
            raise ValueError("thirteen")
        return [2 * i for i in items]


def queue(batcher, call, items, pool):
    """Submit calls one after the other; each waits before the next comes."""
    futures = []
    for item in items:
        futures.append(pool.submit(call, item))
        while len(batcher._waiting) < len(futures):
            threading.Event().wait(0.001)
    return futures


def queue_behind_a_running_batch(batcher, recorder, items, pool):
    """Submit ``items`` while the batch of 0 runs; returns their futures once all of them wait."""
    first = pool.submit(batcher, 0)
    assert recorder.started.wait(10)
    futures = queue(batcher, batcher, items, pool)
    recorder.release.set()
    assert first.result(10) == 0
    return futures


def test_what_arrives_meanwhile_is_one_batch():
    recorder = Recorder(block=True)
    batcher = MicroBatcher(recorder)
    with ThreadPoolExecutor(8) as pool:
        futures = queue_behind_a_running_batch(batcher, recorder, range(1, 6), pool)
        assert [f.result(10) for f in futures] == [2, 4, 6, 8, 10]
    assert recorder.batches == [[0], [1, 2, 3, 4, 5]]


def test_an_error_reaches_only_its_own_caller():
    recorder = Recorder(block=True)
    batcher = MicroBatcher(recorder)
    with ThreadPoolExecutor(8) as pool:
        futures = queue_behind_a_running_batch(batcher, recorder, [1, 13, 2], pool)
        assert futures[0].result(10) == 2
        assert futures[2].result(10) == 4
        with pytest.raises(ValueError, match="thirteen"):
            futures[1].result(10)
    assert batcher(3) == 6


def test_an_interrupted_thread_leaves_the_others_their_turn():
    recorder = Recorder(block=True)
    interrupted = []

    def run(items):
        results = recorder(items)
        if len(items) > 1 and not interrupted:
            interrupted.append(items)
            raise KeyboardInterrupt
        return results

    batcher = MicroBatcher(run)
    outcomes = []

    def call(item):
        try:
            outcomes.append(batcher(item))
        except KeyboardInterrupt:
            outcomes.append("interrupted")

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(call, 0)
        assert recorder.started.wait(10)
        others = queue(batcher, call, (1, 2, 3), pool)
        recorder.release.set()
        for future in (first, *others):
            future.result(10)
    assert outcomes.count("interrupted") == 1
    assert len(outcomes) == 4
    assert not batcher._waiting


@given(st.lists(st.integers(0, 12), max_size=40), st.integers(1, 8))
def test_every_caller_gets_its_own_result(items, threads):
    recorder = Recorder()
    batcher = MicroBatcher(recorder, limit=3)
    with ThreadPoolExecutor(threads) as pool:
        assert list(pool.map(batcher, items)) == [2 * i for i in items]
    assert sorted(i for b in recorder.batches for i in b) == sorted(items)
    assert all(len(b) <= 3 for b in recorder.batches)
