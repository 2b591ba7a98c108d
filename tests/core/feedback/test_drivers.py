"""Generators with their two drivers."""

import asyncio
import contextlib
import gc
import weakref

import pytest

from sage_core.feedback.drivers import Call, Compute, Steps, adrive, as_many, drive


class Counting:
    def double(self, value: int) -> int:
        return 2 * value

    async def adouble(self, value: int) -> int:
        return 2 * value


def calls(fails: bool = False) -> Steps[list[object]]:
    counting = Counting()
    results: list[object] = [(yield from Call(counting.double, counting.adouble, 2))]
    try:
        results.append((yield from Compute(int, "x" if fails else "3")))
    except ValueError as error:
        results.append(type(error))
    return results


@pytest.mark.parametrize("fails", [False, True])
def test_both_drivers_send_the_generator_results_and_errors(fails: bool):
    expected = [4, ValueError if fails else 3]
    assert drive(calls(fails)) == asyncio.run(adrive(calls(fails))) == expected


def test_an_error_that_the_generator_does_not_handle_leaves_no_cycle():
    class Data:
        pass

    def failing(data: Data) -> Steps[None]:
        yield from Compute(int, "x")

    data = Data()
    gone = weakref.ref(data)
    gc.disable()
    try:
        with contextlib.suppress(ValueError):
            drive(failing(data))
        del data
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("holds", [0, 1, 3, 9])
def test_a_store_that_fails_for_too_many_gives_all_that_it_holds(holds: int):
    def search(k: int) -> int:
        if k > holds:
            raise ValueError(f"{k} of {holds}")
        return k

    def asked() -> int:
        return drive(as_many(lambda k: Compute(search, k), 9))

    if holds:
        assert asked() == holds
    else:
        with pytest.raises(ValueError, match="1 of 0"):
            asked()
