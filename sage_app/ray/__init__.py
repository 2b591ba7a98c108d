"""Ingest on a Ray cluster: reading, segmenting and embedding on all its cores, into one store.

Actors hold the models for the whole run and turn portions of the files into documents with chunks and
vectors. If the store takes several writers (a Chroma server), they write to it themselves and no vector
travels; a folder is written by the process that started the run.

Chunks have ids made of path and content: work that is done twice, because a machine was lost, changes
nothing, and a run that was killed goes on if it is started again.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

from sage_app.documents.discovery import Skipped, as_paths
from sage_app.documents.reader import Document
from sage_app.models import SentenceTransformerEmbedder
from sage_app.pipeline.ingest import (
    _BATCH_CHARACTERS,
    DocumentMaker,
    DocumentSegmenter,
    Ingest,
    IngestReport,
    ProgressFunction,
    skipped_by,
)
from sage_app.store.chunks import NewDocument
from sage_app.store.identity import StoreIdentity
from sage_app.store.protocol import Store
from sage_core._checks import check_optional_int
from sage_core.embedding.protocol import Embedder
from sage_core.errors import InputError, MissingExtraError, SageError
from sage_core.paths import PathArgument

# Files handed to an actor at a time.
_FILES_TOGETHER = 16
# How often an actor that died is started again. A file that kills its process must not go on for ever.
_RESTARTS = 4


class _Item(NamedTuple):
    """A file to look at: its name in the store, its path, and `DocumentRecord.digest` and ``stat`` of it."""

    source: str
    path: Path
    digest: str = ""
    stat: str = ""


class _Result(NamedTuple):
    """What became of a file: skipped, unchanged (no number of chunks), or chunks.

    The document is what is still to be written; None if the actor has written it.
    """

    item: _Item
    skipped: Skipped | None = None
    chunks: int | None = None
    document: NewDocument | None = None


def ingest_with_ray(
    store: Store,
    paths: PathArgument | Iterable[PathArgument],
    segmenter: DocumentSegmenter,
    embedder: Embedder,
    *,
    address: str = "local",
    workers: int | None = None,
    encoding: str | None = None,
    rebuild: bool = False,
    progress: ProgressFunction | None = None,
    context: bool = True,
) -> IngestReport:
    """`sage_app.pipeline.ingest.ingest` on a Ray cluster: the store then holds the same chunks.

    Every machine of the cluster needs sage-rag, the same models, and sees the files under the same paths. A
    Ray that this process is connected to already is used as it is.

    Args:
        store: A Chroma server, which all workers write to; or another store, which this process writes to.
        paths: Files and folders.
        segmenter: Cuts the texts. It is pickled.
        embedder: Embeds the chunks. It is pickled. One that runs here gets a GPU for each worker if the
            cluster has GPUs.
        address: ``"local"`` starts Ray on this machine for this run; ``"auto"`` finds the cluster that this
            machine belongs to; else the address of one.
        workers: Most actors; None for as many as the cluster has GPUs, or else cores.
        encoding: Of text files that are not UTF-8.
        rebuild: Make the store anew, whatever it was made with.
        progress: Called as documents are finished.
        context: See `SageConfig`.

    Raises:
        InputError: As `Sage.ingest`; a file named by the caller that cannot be read is only ``skipped``.
        SageError: If there is no cluster, or workers die again and again.
        MissingExtraError: If Ray is not installed.
    """
    check_optional_int("workers", workers, minimum=1)
    try:
        import ray  # noqa: F401
    except ImportError:
        raise MissingExtraError("Ingest on a Ray cluster", "ray") from None
    run = _RayIngest(store, DocumentMaker(segmenter, embedder, encoding, context), progress)
    with _cluster(address):
        return run.run_on_cluster(as_paths(paths), workers=workers, rebuild=rebuild)


class _RayIngest(Ingest):
    """One run. Use `ingest_with_ray`."""

    def run_on_cluster(self, paths: Sequence[Path], *, workers: int | None, rebuild: bool) -> IngestReport:
        """Do it; see `ingest_with_ray`."""
        began = time.perf_counter()
        gone = self._survey(paths, rebuild=rebuild)
        todo: list[_Item] = []
        for file in self._files.values():
            if self._is_settled(file):
                self._count_unchanged(file.source, file.stat)
            else:
                todo.append(_Item(file.source, file.path, self._digest(file), file.stat))
        self._report_progress("")
        identity = self._identity(probe=bool(todo))
        shared = bool(getattr(self.store, "several_writers", False))
        with ExitStack() as stack:

            @cache  # once, and only if something can be read
            def open_store() -> None:
                stack.enter_context(self.store.writing(identity, rebuild=rebuild))

            if shared and todo:
                open_store()
            for results in self._results(todo, workers, identity, shared=shared):
                if new := [r.document for r in results if r.document is not None]:
                    open_store()
                    self.store.put(new)
                for item, skipped, chunks, _ in results:
                    if skipped is not None:
                        self._skip(skipped)
                    elif chunks is not None:
                        self._wrote(item.source, chunks)
                    else:
                        self._count_unchanged(item.source, item.stat)
                    self._report_progress(item.source)
            if self._fresh and not self.chunks:
                raise self._nothing_readable(rebuild=rebuild)
            if self._touched or gone or self._unreadable:
                open_store()
                self._settle(gone)
        return self._report(began)

    def _results(
        self, items: Sequence[_Item], workers: int | None, identity: StoreIdentity, *, shared: bool
    ) -> Iterator[list[_Result]]:
        """What became of the files, some at a time, in no certain order."""
        if not items:
            return
        import ray
        from ray import cloudpickle  # also takes classes of a script or notebook
        from ray.exceptions import RayError
        from ray.util import ActorPool

        resources = ray.cluster_resources()
        here = isinstance(self.maker.embedder, SentenceTransformerEmbedder)
        gpus = int(resources.get("GPU", 0)) if here else 0
        most = workers or gpus or max(1, int(resources.get("CPU", 1)))
        made = ray.put(cloudpickle.dumps((self.maker, self.store if shared else None, identity)))
        portions = [items[i : i + _FILES_TOGETHER] for i in range(0, len(items), _FILES_TOGETHER)]
        retries = {"max_restarts": _RESTARTS, "max_task_retries": _RESTARTS}
        actor = ray.remote(_Worker).options(num_cpus=1, num_gpus=1 if gpus else 0, **retries)
        pool = ActorPool([actor.remote(made) for _ in range(min(most, len(portions)))])
        try:
            yield from pool.map_unordered(lambda each, portion: each.results.remote(portion), portions)
        except RayError as error:
            raise SageError(
                f"workers failed: {_raised(error)}. What they finished is kept: run it again to go on; "
                "a file that ends its worker has to be left out"
            ) from None


class _Worker:
    """Reads, segments and embeds files, and writes to a store that takes several writers."""

    def __init__(self, parts: bytes) -> None:
        self.maker, self.store, self.identity = pickle.loads(parts)

    def results(self, items: Sequence[_Item]) -> list[_Result]:
        """What becomes of some files."""
        done, waiting = list[_Result](), list[tuple[_Item, Document]]()
        for item in items:
            try:
                document = self.maker.read(item.path, item.source, item.digest)
            except (InputError, MissingExtraError) as error:
                done.append(_Result(item, skipped_by(item.source, error)))
                continue
            if document is None:
                done.append(_Result(item))
                continue
            waiting.append((item, document))
            if sum(len(document.text) for _, document in waiting) >= _BATCH_CHARACTERS:
                done += self._done(waiting)
                waiting = []
        return done + (self._done(waiting) if waiting else [])

    def _done(self, read: Sequence[tuple[_Item, Document]]) -> list[_Result]:
        """Cut and embed documents together."""
        stats = {item.source: item.stat for item, _ in read}
        new = self.maker.made(self.maker.segmented([document for _, document in read], stats))
        if self.store is not None:
            with self.store.writing(self.identity):
                self.store.put(new)
        return [
            _Result(item, chunks=len(d.chunks), document=None if self.store is not None else d)
            for (item, _), d in zip(read, new, strict=True)
        ]


@contextmanager
def _cluster(address: str) -> Iterator[None]:
    """A connection to Ray; one that is there already is used, and left."""
    import ray

    if ray.is_initialized():
        yield
        return
    if address == "local":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing of this machine goes anywhere
    own = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except (ConnectionError, ValueError) as error:
        raise SageError(
            f"no Ray cluster at {address!r} ({_raised(error)}): start one with `ray start --head`, "
            "or use this machine alone with --address local"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _raised(error: Exception) -> str:
    """What a long message of Ray's is about: the error that a worker raised, else its first line."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    raised = [line for line in lines if re.match(r"[\w.]*(Error|Exception): ", line)]
    return [lines[0], *raised][-1][:300]
