"""An ingest is killed at random moments while another process searches: nothing is lost, nothing doubled."""

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.stores import contents, fill, raw_count, run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.soak,
    pytest.mark.skipif(sys.platform == "win32", reason="kills by a signal"),
]

ROOT = Path(__file__).parents[3]
DOCUMENTS = 40

# Waits for a line on standard input, so that the moment of the kill is one of the ingest and not of the imports.
WRITER = """
import sys
from pathlib import Path
import sage_core.pipeline.ingest, sage_core.store.folder
from sage_core.store.folder import FolderStore
from tests.fakes.stores import run
commit = FolderStore._commit_change
FolderStore._commit_change = lambda *a, **k: (print("a change", flush=True), commit(*a, **k))[1]
sage_core.pipeline.ingest._BATCH_CHARACTERS = 150  # some fifteen changes
sage_core.store.folder._LEAST_DEAD = 5  # compacted often
print("ready", flush=True)
sys.stdin.readline()
run(Path(sys.argv[1]), Path(sys.argv[2]))
"""

READER = """
import json, sys, threading
from collections import Counter
from pathlib import Path
from sage_core.store.folder import FolderStore
from tests.fakes.models import HashEmbedder

stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
searches, states = 0, set()
with FolderStore(Path(sys.argv[1])) as store:
    while not stop.is_set() or not searches:
        found = store.search(HashEmbedder().embed_query("page"), 1000)
        searches += 1
        pages, editions = Counter(), {}
        for hit in found:
            page, edition = hit.chunk.text.rstrip(".").split()[1::2]
            pages[page] += 1
            # Both chunks of a page are of one edition.
            assert editions.setdefault(page, edition) == edition, hit.chunk.text
        assert set(pages.values()) == {2} and len(pages) == int(sys.argv[2]), pages
        states.add(tuple(sorted(editions.items())))
print(json.dumps({"searches": searches, "states": len(states)}))
"""


def pages(edition: int) -> dict[str, str]:
    return {
        f"{i:02}.txt": f"Page {i} edition {edition}.\n\nBack {i} edition {edition}." for i in range(DOCUMENTS)
    }


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, text=True, **pipes)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("kills", [4])
def test_killed_at_random_moments_with_a_reader_beside_it(tmp_path: Path, kills: int) -> None:
    chance = random.Random(kills)
    store, folder = tmp_path / "store", tmp_path / "docs"
    fill(folder, pages(0))
    run(store, folder)
    reader = start(READER, store, DOCUMENTS)
    killed = 0
    try:
        for edition in range(1, kills + 1):
            fill(folder, pages(edition))
            writer = start(WRITER, store, folder)
            assert writer.stdout is not None and writer.stdin is not None
            assert writer.stdout.readline() == "ready\n"
            writer.stdin.write("go\n")
            writer.stdin.flush()
            for _ in range(chance.randrange(1, 12)):
                writer.stdout.readline()
            writer.send_signal(signal.SIGKILL)
            _, error = writer.communicate()
            assert writer.returncode in (0, -signal.SIGKILL), error
            killed += writer.returncode != 0
            found = contents(store)
            assert len(found) == 2 * DOCUMENTS, "every page has both its chunks, once"
            assert len({(source, text.split()[0]) for _, source, text in found}) == 2 * DOCUMENTS
        out, error = reader.communicate("stop\n", timeout=60)
    finally:
        reader.kill()
    assert reader.returncode == 0, error
    assert json.loads(out)["searches"] > kills and killed > kills / 2
    run(store, folder)
    run(tmp_path / "clean", folder)
    assert contents(store) == contents(tmp_path / "clean")
    assert raw_count(store) == 2 * DOCUMENTS
