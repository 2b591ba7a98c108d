"""One process replaces everything again and again while three others search the same store."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.soak]

DOCUMENTS = 30
ROOT = Path(__file__).parents[3]

WRITER = """
import sys, time
from pathlib import Path
from tests.fakes.stores import fill, run
import sage_core.pipeline.ingest
import sage_core.store.folder

sage_core.pipeline.ingest._BATCH_CHARACTERS = 300  # some ten changes a round
store, folder, documents, rounds = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
sage_core.store.folder._LEAST_DEAD = documents  # compacted in most rounds
for round_ in range(1, rounds + 1):
    fill(folder, {f"{i}.txt": f"Page {i} of edition {round_}.\\n\\nPrinted for page {i} in round {round_}." for i in range(documents)})
    report = run(store, folder)
    assert len(report.changed) + len(report.added) == documents, report
    # The next edition comes when every reader has seen this one; the first has no readers yet.
    while round_ > 1 and len([*store.parent.glob(f"seen-{round_}-*")]) < 3:
        time.sleep(0.01)
"""

READER = """
import json, os, sys
from collections import Counter
from pathlib import Path
from sage_core.store.folder import FolderStore
from tests.fakes.models import HashEmbedder

store, documents, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
embedder = HashEmbedder()
seen, searches = Counter(), 0
with FolderStore(store) as opened:
    while True:
        found = opened.search(embedder.embed_query(f"page {searches % documents} edition"), 10 * documents)
        searches += 1
        pages, last = Counter(), 0
        editions = {}
        for f in found:
            words = f.chunk.text.rstrip(".").split()
            page = int(words[1]) if words[0] == "Page" else int(words[3])
            edition = int(words[-1])
            pages[page] += 1
            # Both chunks of a document are of one edition.
            assert editions.setdefault(page, edition) == edition, f.chunk
        assert pages == {i: 2 for i in range(documents)}, pages
        edition = min(editions.values())
        seen[edition] += 1
        (store.parent / f"seen-{edition}-{os.getpid()}").touch()
        if set(editions.values()) == {rounds}:
            break
print(json.dumps({"searches": searches, "editions": len(seen)}))
"""


def start(script: str, *args: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, args)],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def wait_for(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.02)


@pytest.mark.parametrize("rounds", [6])
def test_a_writer_and_three_readers(tmp_path: Path, rounds: int) -> None:
    store, folder = tmp_path / "store", tmp_path / "docs"
    subprocess.run([sys.executable, "-c", WRITER, store, folder, str(DOCUMENTS), "1"], cwd=ROOT, check=True)
    processes = [start(READER, store, DOCUMENTS, rounds + 1) for _ in range(3)]
    wait_for(lambda: len([*tmp_path.glob("seen-1-*")]) == 3 or any(p.poll() is not None for p in processes))
    writer = start(
        WRITER.replace("range(1, rounds + 1)", "range(2, rounds + 2)"), store, folder, DOCUMENTS, rounds
    )
    try:
        for process in [writer, *processes]:
            out, err = process.communicate(timeout=60 + 10 * rounds)
            assert process.returncode == 0, err
            if process is not writer:
                told = json.loads(out)
                assert told["searches"] > rounds and told["editions"] > 2
    finally:
        for process in [writer, *processes]:
            process.kill()
