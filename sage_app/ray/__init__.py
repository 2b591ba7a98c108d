"""Ingest on a Ray cluster: reading, segmenting and embedding on all its cores, into one store.

Actors hold the models for the whole run and turn portions of the files into documents with chunks and
vectors. If the store takes several writers (a Chroma server), they write to it themselves and no vector
travels; a folder is written by the process that started the run.

Chunks have ids made of path and content: work that is done twice, because a machine was lost, changes
nothing, and a run that was killed goes on if it is started again.
"""

from __future__ import annotations

import itertools
import logging
import os
import pickle
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import NamedTuple

from sage_app.documents.reader import Document, digest_of, parse_document, read_bytes
from sage_app.models import SentenceTransformerEmbedder, as_vectors
from sage_app.pipeline.ingest import (
    _BATCH_CHARACTERS,
    DocumentSegmenter,
    Ingest,
    IngestReport,
    ProgressFunction,
    Window,
    chunks_of,
    spans_of,
    window_of,
)
from sage_app.store.chunks import NewDocument
from sage_app.store.identity import StoreIdentity
from sage_app.store.protocol import Store
from sage_core.embedding.protocol import Embedder
from sage_core.errors import InputError, MissingExtraError, SageError
from sage_core.paths import PathArgument, as_path

# Files handed to an actor at a time.
_FILES_TOGETHER = 16
# A document of more characters would make replies of hundreds of megabytes: the starting process does those.
_TOO_LARGE = 8_000_000
# How often an actor that died is started again. A file that kills its process must not go on for ever.
_RESTARTS = 4


class _Item(NamedTuple):
    """A file to look at: its name in the store, its path, and `DocumentRecord.digest` and ``stat`` of it."""

    source: str
    path: str
    digest: str = ""
    stat: str = ""


class _Result(NamedTuple):
    """What became of a file: an error, too large to be sent, unchanged (no number of chunks), or chunks.

    The document is what is still to be written; None if the actor has written it.
    """

    item: _Item
    error: str = ""
    unopened: bool = False
    large: bool = False
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
    if workers is not None and workers < 1:
        raise InputError(f"workers must be at least 1, not {workers}")
    try:
        import ray  # noqa: F401
    except ImportError:
        raise MissingExtraError("Ingest on a Ray cluster", "ray") from None
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    run = _RayIngest(store, segmenter, embedder, encoding=encoding, progress=progress, context=context)
    with _cluster(address):
        return run.run_on_cluster(given, workers=workers, rebuild=rebuild)


class _RayIngest(Ingest):
    """One run. Use `ingest_with_ray`."""

    def run_on_cluster(
        self, given: Sequence[PathArgument], *, workers: int | None, rebuild: bool
    ) -> IngestReport:
        """Do it; see `ingest_with_ray`."""
        began = time.perf_counter()
        fresh = rebuild or not self.store.is_complete
        self._known = {} if fresh else {r.source: r for r in self.store.documents()}
        todo, gone = self._items(given, rebuild=rebuild)
        if not fresh:
            self.store.check(self._identity(probe=False))
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
                for item in (r.item for r in results if r.large):
                    data = read_bytes(item.path, encoding=self.encoding)
                    document = parse_document(item.path, data, encoding=self.encoding, source=item.source)
                    open_store()
                    self._stats[item.source] = item.stat
                    self._write(self._segmented([document]))
                for result in results:
                    self._note(result)
            if fresh and not self.chunks:
                raise self._nothing_readable(rebuild=rebuild)
            if self._touched or gone or self._unreadable:
                open_store()
                self.store.touch(self._touched)
                self.store.remove(*gone, *self._unreadable)
                self.removed += [*gone, *self._unreadable]
        return self._report(began)

    def _items(self, given: Sequence[PathArgument], *, rebuild: bool) -> tuple[list[_Item], list[str]]:
        """The files that may have changed, and the sources in the store that are gone."""
        files, gone = self._survey([as_path(path) for path in given], rebuild=rebuild)
        items: list[_Item] = []
        for file in files:
            if self._is_settled(file):
                self._count_unchanged(file.source)
                continue
            digest = self._known[file.source].digest if file.source in self._known else ""
            items.append(_Item(file.source, str(file.path), digest, self._stat(file)))
        return items, gone

    def _note(self, result: _Result) -> None:
        """Count what became of a file."""
        item = result.item
        if result.large:
            return
        if result.error:
            self._skip(item.source, result.error, unopened=result.unopened)
            if item.source in self._known and not result.unopened:
                self._unreadable.append(item.source)
        elif result.chunks is None:
            self._count_unchanged(item.source)
            if item.stat and item.stat != self._known[item.source].stat:
                self._touched[item.source] = item.stat
        else:
            self._wrote(item.source, result.chunks)
        self._report_progress(item.source)

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
        here = isinstance(self.embedder, SentenceTransformerEmbedder)
        gpus = int(resources.get("GPU", 0)) if here else 0
        most = workers or gpus or max(1, int(resources.get("CPU", 1)))
        parts = (self.segmenter, self.embedder, self.store if shared else None, identity)
        made = ray.put(cloudpickle.dumps((*parts, self.encoding, self.context)))
        portions = [items[i : i + _FILES_TOGETHER] for i in range(0, len(items), _FILES_TOGETHER)]
        actor = ray.remote(_Worker).options(
            num_cpus=1,
            num_gpus=1 if gpus else 0,
            max_restarts=_RESTARTS,
            max_task_retries=_RESTARTS,
        )
        pool = ActorPool([actor.remote(made) for _ in range(min(most, len(portions)))])
        try:
            yield from pool.map_unordered(lambda each, portion: each.results.remote(portion), portions)
        except RayError as error:
            cause: BaseException | None = error
            while cause is not None and not (
                isinstance(cause, SageError) and not isinstance(cause, RayError)
            ):
                cause = getattr(cause, "cause", None) or cause.__cause__
            raise cause or SageError(
                f"workers failed: {_raised(error)}. What they finished is kept: run it again to go on; "
                "a file that ends its worker has to be left out"
            ) from None


class _Worker:
    """Reads, segments and embeds files, and writes to a store that takes several writers."""

    def __init__(self, parts: bytes) -> None:
        made = pickle.loads(parts)
        self.segmenter, self.embedder, self.store, self.identity, self.encoding, self.context = made

    def results(self, items: Sequence[_Item]) -> list[_Result]:
        """What becomes of some files."""
        done: list[_Result] = []
        waiting: list[tuple[_Item, Document]] = []
        for item in items:
            read = self.read(item)
            if isinstance(read, _Result):
                done.append(read)
                continue
            waiting.append((item, read))
            if sum(len(document.text) for _, document in waiting) >= _BATCH_CHARACTERS:
                done += self._done(waiting)
                waiting = []
        return done + (self._done(waiting) if waiting else [])

    def read(self, item: _Item) -> Document | _Result:
        """The document of a file; a result if that is all that becomes of it."""
        try:
            data = read_bytes(item.path, encoding=self.encoding)
            if digest_of(data, self.encoding) == item.digest:
                return _Result(item)
        except InputError as error:
            return _Result(item, str(error), unopened=True)
        try:
            document = parse_document(item.path, data, encoding=self.encoding, source=item.source)
        except MissingExtraError as error:
            return _Result(item, f"{item.source} was not read: {error}", unopened=True)
        except InputError as error:
            return _Result(item, str(error))
        return document if len(document.text) <= _TOO_LARGE else _Result(item, large=True)

    def _done(self, read: Sequence[tuple[_Item, Document]]) -> list[_Result]:
        """Cut and embed documents together."""
        spans = spans_of(self.segmenter, [d.text for _, d in read], Window.of(self.embedder, self.segmenter))
        window = window_of(self.embedder)
        chunks = [
            chunks_of(document, own, context=self.context, window=window)
            for (_, document), own in zip(read, spans, strict=True)
        ]
        given = self.embedder.embed_documents([c.text_for_models for own in chunks for c in own])
        vectors = as_vectors(self.embedder.name, given, 2)
        ends = itertools.accumulate(map(len, chunks))
        new = [
            NewDocument(i.source, d.digest, own, vectors[end - len(own) : end], d.title, i.stat)
            for (i, d), own, end in zip(read, chunks, ends, strict=True)
        ]
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
    lines = [line for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]*(Error|Exception): ", line)]
    return next(iter([*raised[-1:], *lines[:1]]), type(error).__name__)[:300]
