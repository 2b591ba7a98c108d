"""Many questions against a server with random faults; nothing lost, mixed up, left open or leaked."""

import asyncio
import gc
import json
import os
import random
import re
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sage_app.answers import LLMAnswerer
from sage_app.models import OpenAIChat, served
from sage_app.pipeline.sage import Sage
from sage_core.errors import LLMError
from tests.fakes.llm_server import LLMServer, Reply, Request
from tests.fakes.sages import small_sage
from tests.fakes.stores import fill, run

pytest.importorskip("openai")

ASKS = 100
PLACES = 20
KEY = "sk-secret-0123456789abcdef"

FAULTS: dict[str, Callable[[], Reply]] = {
    "429": lambda: Reply(status=429, headers={"retry-after-ms": "1"}),
    "500": lambda: Reply(status=500, headers={"retry-after-ms": "1"}),
    "reset": lambda: Reply(drop=True),
    "reset in the middle": lambda: Reply("a reply that breaks off", half=True),
    "half JSON": lambda: Reply(raw='{"choices": [{"message"'),
    "empty choices": lambda: Reply(raw='{"choices": []}'),
    "null content": lambda: Reply(text=None),
    "forbidden": lambda: Reply(status=403),
}


class Faulty:
    """Answers with the question's own mark; one reply in four is a fault, which is never repeated thrice."""

    def __init__(self) -> None:
        self.chance = random.Random(17)
        self.seen: Counter[str] = Counter()
        self.in_a_row: Counter[str] = Counter()

    def __call__(self, request: Request) -> Reply:
        marks = set(re.findall(r"mark-\d+", request.user))
        assert len(marks) == 1, f"a request that mixes questions: {marks}"
        mark = marks.pop()
        call = f"{mark} {request.is_critic}"
        if self.chance.random() < 0.25 and self.in_a_row[call] < 2:
            self.in_a_row[call] += 1
            fault = self.chance.choice(list(FAULTS))
            self.seen[fault] += 1
            return FAULTS[fault]()
        self.in_a_row[call] = 0
        if request.is_critic:
            return Reply(json.dumps({"reason": mark, "score": 9, "adjust": 0, "passage": 1}))
        negative = self.chance.random() < 0.2
        return Reply(f"the answer to {mark}", usage=(-5, 3) if negative else (100, 10))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("places")
    texts = {f"{i}.txt": f"Place {i} has a lighthouse.\n\nPlace {i} has a pier.\n" for i in range(PLACES)}
    run(folder / "store", fill(folder / "docs", texts))
    return folder / "store"


def chat_with(url: str, **settings: object) -> OpenAIChat:
    given = {"api_key": KEY, **settings}
    return OpenAIChat("test", base_url=url, **given)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("awaited", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_a_hundred_asks_against_a_faulty_server(store: Path, awaited: bool) -> None:
    def check(number: int, found: object) -> str:
        if isinstance(found, LLMError):
            assert found.chunks, "retrieval is not lost"
            return "told"
        assert found.text == f"the answer to mark-{number}"  # type: ignore[attr-defined]
        assert found.feedback.usage.calls >= 1 and found.feedback.usage.total >= 0  # type: ignore[attr-defined]
        return "answered"

    def question(number: int) -> str:
        return f"Which place of mark-{number} has a lighthouse?"

    script = Faulty()
    with LLMServer(script) as server, asking(store, server.base_url) as sage:
        if awaited:

            async def all_of_them() -> list[object]:
                asks = (sage.aask(question(i)) for i in range(ASKS))
                return await asyncio.gather(*asks, return_exceptions=True)

            results = asyncio.run(all_of_them())
        else:

            def ask(number: int) -> object:
                try:
                    return sage.ask(question(number))
                except LLMError as error:
                    return error

            with ThreadPoolExecutor(50) as pool:
                results = list(pool.map(ask, range(ASKS)))
    outcomes = Counter(check(i, found) for i, found in enumerate(results))
    assert sum(outcomes.values()) == ASKS and outcomes["answered"] > ASKS * 0.7
    assert set(script.seen) == set(FAULTS), "every kind of fault was met"


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def open_names() -> Counter[str]:
    """What is open, by the names of files and the kinds of other things."""
    links = (os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd"))
    return Counter(link.rpartition("/")[2].partition(":")[0] for link in links)


def resident_kib() -> int:
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1])  # type: ignore[index]


def leaves_nothing_open(some: Callable[[int], None], calls: int) -> None:
    """Neither files nor threads nor memory grow by more calls of the kind."""

    def pool() -> int:
        return sum(thread.name.startswith("sage-retrieve") for thread in threading.enumerate())

    some(100)
    gc.collect()
    files, threads, memory, pooled = open_files(), other_threads(), resident_kib(), pool()
    some(calls)
    for _ in range(200):  # sockets are closed by threads of their own
        gc.collect()
        # Each thread of the pool has a connection of its own to the store: a database and its log.
        allowed = files + 8 + 3 * (pool() - pooled)
        if open_files() <= allowed and other_threads() <= threads:
            break
        time.sleep(0.05)
    assert open_files() <= allowed, f"sockets and the store's files are closed: {open_names()}"
    assert other_threads() <= threads
    grown = resident_kib() - memory
    assert grown < 20_000, f"memory grew by {grown} KiB"


@pytest.mark.soak
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files through /proc")
@pytest.mark.parametrize("asks", [200])
def test_asks_leave_nothing_open(store: Path, asks: int) -> None:
    script = Faulty()

    def some(n: int) -> None:
        for i in range(n):
            question = f"Which place of mark-{i} has a lighthouse?"
            try:
                if i % 20 == 0:  # an event loop of its own, as a notebook has
                    answer = asyncio.run(sage.aask(question))
                elif i % 20 == 1:  # dropped without `close`
                    answer = asking(store, server.base_url).ask(question)
                else:
                    answer = sage.ask(question)
            except LLMError:
                continue
            assert answer.text == f"the answer to mark-{i}"
            if i % 100 == 99:
                # What the server notes is the test's own, and would count as growth. What waits for the
                # collector, such as the HTTP client's errors, is no leak: that is what it leaves behind.
                server.requests.clear()
                script.in_a_row.clear()
                gc.collect()

    with LLMServer(script) as server, asking(store, server.base_url) as sage:
        leaves_nothing_open(some, asks)


@pytest.mark.slow
def test_a_sage_that_is_dropped_closes_its_files_at_once(store: Path) -> None:
    replies = [
        "On the cape.",
        '{"reason": "r", "score": 9, "adjust": 0, "passage": 1}',
        FAULTS["forbidden"](),
    ]
    with LLMServer(replies) as server:
        gc.collect()
        gc.disable()
        try:
            sage = asking(store, server.base_url)
            sage.ask("Which place has a lighthouse?")
            with pytest.raises(LLMError, match="403"):
                sage.ask("Which place has a pier?")
            parts = [weakref.ref(part) for part in (sage, sage.store, sage.answerer, sage.embedder)]
            del sage
            assert [part() for part in parts] == [None] * 4, "no reference cycle keeps them"
        finally:
            gc.enable()


def other_threads() -> int:
    """Threads but those of the pool that an open `Sage` may fill as it goes, and of the scripted server."""
    names = [thread.name for thread in threading.enumerate()]
    return sum(not name.startswith("sage-retrieve") and "process_request" not in name for name in names)


def asking(store: Path, url: str) -> Sage:
    return small_sage(store, answerer=LLMAnswerer(chat_with(url)), candidates=10, min_k=2)


def test_cancelling_an_ask_leaves_the_others(store: Path) -> None:
    def script(request: Request) -> Reply:
        if request.is_critic:
            return Reply('{"reason": "r", "score": 9, "adjust": 0, "passage": 1}')
        return Reply("late", delay=30) if "slow" in request.user else Reply("quick")

    async def ask(sage: Sage) -> list[str]:
        slow = [asyncio.ensure_future(sage.aask(f"Is the slow place {i} there?")) for i in range(3)]
        quick = [asyncio.ensure_future(sage.aask(f"Which place is {i}?")) for i in range(5)]
        found = [(await task).text for task in quick]
        for task in slow:
            task.cancel()
        ended = await asyncio.gather(*slow, return_exceptions=True)
        assert all(isinstance(error, asyncio.CancelledError) for error in ended)
        return [*found, (await sage.aask("Which place is next?")).text]

    others = set(threading.enumerate())
    with LLMServer(script) as server, asking(store, server.base_url) as sage:
        began = time.monotonic()
        assert asyncio.run(ask(sage)) == ["quick"] * 6
        while calls := asyncio.all_tasks(
            served._calls._loop
        ):  # which the server would answer in half a minute
            assert time.monotonic() - began < 15, calls
            time.sleep(0.05)
    # The event loop of all calls and its workers belong to the process, not to one `Sage`.
    left = [t for t in threading.enumerate() if t not in others and t.name.startswith("sage-retrieve")]
    for thread in left:
        thread.join(10)  # closing does not wait for them
    assert not any(thread.is_alive() for thread in left), left
