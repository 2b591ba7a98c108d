"""One process replaces everything again and again, and may be killed, while others search the same store."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fakes.stores import contents, fill, raw_count, run

pytestmark = [pytest.mark.slow, pytest.mark.soak]

DOCUMENTS = 30
ROOT = Path(__file__).parents[3]

# Each line on standard input is an edition to write; each of the changes that it makes is a line of output.
WRITER = """
import sys
from pathlib import Path
import sage_app.pipeline.ingest, sage_app.store.folder
from sage_app.store.folder import FolderStore
from tests.app.store.test_store_processes import write
commit = FolderStore._commit_change
FolderStore._commit_change = lambda *a, **k: (print("a change", flush=True), commit(*a, **k))[1]
sage_app.pipeline.ingest._BATCH_CHARACTERS = 150  # some fifteen changes
sage_app.store.folder._LEAST_DEAD = 5  # compacted often
print("ready", flush=True)
for line in sys.stdin:
    write(Path(sys.argv[1]), Path(sys.argv[2]), int(line))
    print("written", flush=True)
"""

READER = """
import json, os, sys
from collections import Counter
from pathlib import Path
from sage_app.store.folder import FolderStore
from tests.fakes.models import HashEmbedder

store, documents, last = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
searches, seen, newest = 0, set(), set()
with FolderStore(store) as opened:
    while newest != {last}:
        pages, editions = Counter(), {}
        for found in opened.search(HashEmbedder().embed_query(f"page {searches % documents}"), 10 * documents):
            page, edition = found.chunk.text.rstrip(".").split()[1::2]
            pages[page] += 1
            # Both chunks of a page are of one edition.
            assert editions.setdefault(page, edition) == edition, found.chunk
        assert set(pages.values()) == {2} and len(pages) == documents, pages
        searches, newest = searches + 1, set(editions.values())
        seen |= newest
        for edition in newest:
            (store.parent / f"seen-{edition}-{os.getpid()}").touch()
print(json.dumps({"searches": searches, "editions": len(seen)}))
"""


def write(store: Path, folder: Path, edition: int) -> None:
    texts = {
        f"{i:02}.txt": f"Page {i} edition {edition}.\n\nBack {i} edition {edition}." for i in range(DOCUMENTS)
    }
    run(store, fill(folder, texts))


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, text=True, **pipes)  # type: ignore[call-overload,no-any-return]


def told(reader: subprocess.Popen[str]) -> dict[str, int]:
    out, error = reader.communicate(timeout=120)
    assert reader.returncode == 0, error
    return json.loads(out)


@pytest.mark.parametrize("rounds", [6])
def test_a_writer_and_three_readers(tmp_path: Path, rounds: int) -> None:
    store, folder = tmp_path / "store", tmp_path / "docs"
    write(store, folder, 0)
    processes = [start(READER, store, DOCUMENTS, rounds) for _ in range(3)]
    writer = start(WRITER, store, folder)
    try:
        for edition in range(1, rounds + 1):
            # The next edition comes when every reader has seen the one before.
            while len([*tmp_path.glob(f"seen-{edition - 1}-*")]) < 3:
                assert all(p.poll() is None for p in (writer, *processes)), "one of them ended"
                time.sleep(0.02)
            print(edition, file=writer.stdin, flush=True)
            while (line := writer.stdout.readline()) != "written\n":
                assert line, writer.communicate()[1]
        for reader in processes:
            found = told(reader)
            assert found["searches"] > rounds and found["editions"] > 2
    finally:
        for process in (writer, *processes):
            process.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="kills by a signal")
@pytest.mark.parametrize("kills", [4])
def test_killed_at_random_moments_with_a_reader_beside_it(tmp_path: Path, kills: int) -> None:
    chance = random.Random(kills)
    store, folder = tmp_path / "store", tmp_path / "docs"
    write(store, folder, 0)
    reader = start(READER, store, DOCUMENTS, kills + 1)
    killed = 0
    try:
        for edition in range(1, kills + 1):
            writer = start(WRITER, store, folder)
            assert writer.stdout.readline() == "ready\n"
            print(edition, file=writer.stdin, flush=True)
            for _ in range(chance.randrange(1, 12)):
                writer.stdout.readline()
            writer.send_signal(signal.SIGKILL)
            _, error = writer.communicate()
            assert writer.returncode in (0, -signal.SIGKILL), error
            killed += writer.returncode != 0
            found = contents(store)
            assert len(found) == 2 * DOCUMENTS, "every page has both its chunks, once"
            assert len({(source, text.split()[0]) for _, source, text in found}) == 2 * DOCUMENTS
        write(store, folder, kills + 1)
        assert told(reader)["searches"] > kills and killed > kills / 2
    finally:
        reader.kill()
    run(tmp_path / "clean", folder)
    assert contents(store) == contents(tmp_path / "clean")
    assert raw_count(store) == 2 * DOCUMENTS
