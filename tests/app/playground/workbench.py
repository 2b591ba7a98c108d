"""The playground over a small store, and a real server for a real browser."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sage_app import FolderStore, Sage
from sage_app.cli.options import HOST, listen_locally
from sage_app.pipeline.settings import SageSettings
from sage_app.playground import serve
from tests.fakes.models import HashEmbedder

FERRY = (
    "# The ferry\n\nThe ferry leaves Skerrin at seven in the morning. It returns at noon. "
    "On Sundays there is no early sailing.\n\n## Fares\n\nA single fare is nine pounds. Children pay half. "
    "Dogs travel free of charge on the open deck.\n"
)
BEES = "Bees need flowers all summer. A hive holds forty thousand of them. Honey is taken in August."


def make_store(folder: Path) -> Path:
    """A store of two documents, embedded without a model."""
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "ferry.md").write_text(FERRY)
    (folder / "docs" / "bees.txt").write_text(BEES)
    settings = SageSettings(segmenter={"target_tokens": 20, "min_tokens": 0})
    with Sage.from_settings(settings, folder / "store", embedder=HashEmbedder()) as sage:
        sage.ingest(folder / "docs")
    return folder / "store"


def make_workbench(store: Path, settings: SageSettings | None = None) -> serve.Workbench:
    return serve.Workbench(FolderStore(store), HashEmbedder(), settings)


@contextmanager
def served(workbench: serve.Workbench, token: str = "secret") -> Iterator[str]:
    """The address of the page, served by uvicorn from a thread."""
    import uvicorn

    listening = listen_locally(0)
    port = listening.getsockname()[1]
    app = serve.make_app(workbench, token, port)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.02)
    try:
        yield f"http://{HOST}:{port}/{token}/"
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        listening.close()
