"""Ingest on a Ray cluster: reading, segmenting and embedding on all its cores, into one store.

Files become rows of a Ray Data set; actors that hold the models for the whole run turn them into documents
with chunks and vectors. If the store takes several writers (a Chroma server), the actors write to it
themselves and no vector travels; a folder is written by the process that started the run.

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
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from sage_app.documents.discovery import KINDS, is_below
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

# Files handed to an actor at a time, and most such portions.
_FILES_TOGETHER, _MOST_PORTIONS = 16, 10_000
# A document of more characters would make rows of hundreds of megabytes: the starting process does those.
_TOO_LARGE = 8_000_000
# How often an actor that died is started again. A file that kills its process must not go on for ever.
_RESTARTS = 4


class _Item(NamedTuple):
    """A file to look at.

    Attributes:
        source: Its name in the store.
        path: Its path, on disk or in a file system.
        system: Address that names the file system; empty for a path on disk.
        digest: Digest of what the store has of it; empty if it has nothing.
        stat: See `DocumentRecord.stat`.
    """

    source: str
    path: str
    system: str = ""
    digest: str = ""
    stat: str = ""


class _Result(NamedTuple):
    """What became of a file: an error, too large for a row, unchanged (no number of chunks), or chunks.

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
        paths: Files and folders, or addresses of them that fsspec opens, such as ``"s3://bucket/manuals"``.
            An address names the document in the store, without user, password and query.
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
        import ray.data  # noqa: F401
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
                    document = _parsed(item, _fetch(item, self.encoding), self.encoding)
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
        addresses = [str(path) for path in given if "://" in str(path)]
        local = [as_path(path) for path in given if "://" not in str(path)]
        items: list[_Item] = []
        gone: list[str] = []
        if local or not addresses:
            files, gone = self._survey(local, rebuild=rebuild)
            settled = {file.source for file in files if self._is_settled(file)}
            for source in settled:
                self._count_unchanged(source)
            items = [
                _Item(f.source, str(f.path), stat=self._stat(f)) for f in files if f.source not in settled
            ]
        for address in addresses:
            scope, found = _named(address), self._listed(address)
            here = {item.source for item in found}
            gone += [s for s in self._known if is_below(s, scope) and s not in here]
            items += found
        digests = {source: record.digest for source, record in self._known.items()}
        return [item._replace(digest=digests.get(item.source, "")) for item in items], gone

    def _listed(self, address: str) -> list[_Item]:
        """The files at an address."""
        from fsspec.core import url_to_fs

        name = _named(address)
        try:
            system, root = url_to_fs(address)
            entries = system.find(root, detail=True)
        except (ImportError, ValueError, OSError) as error:
            raise InputError(f"{name} cannot be opened: {error}") from error
        found: list[_Item] = []
        for path, entry in sorted(entries.items()):
            below = PurePosixPath(path[len(root) :].strip("/"))
            if any(part.startswith(".") for part in below.parts):
                continue
            if below.name and below.suffix.lower() not in KINDS:
                self.other_types[below.suffix.lower()] += 1
                continue
            source = f"{name}/{below}" if below.name else name
            self._bytes[source] = entry.get("size") or 0
            self._total += self._bytes[source]
            found.append(_Item(source, path, address))
        if not found and not any(is_below(source, name) for source in self._known):
            raise InputError(f"no documents found at {name} (looked for {', '.join(sorted(KINDS))})")
        return found

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
        from ray.data import ActorPoolStrategy, DataContext
        from ray.exceptions import RayError

        logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # errors are raised below
        DataContext.get_current().enable_progress_bars = False
        resources = ray.cluster_resources()
        here = isinstance(self.embedder, SentenceTransformerEmbedder)
        gpus = int(resources.get("GPU", 0)) if here else 0
        parts = (self.segmenter, self.embedder, self.store if shared else None, identity)
        rows = ray.data.from_items(
            [{"row": pickle.dumps(item)} for item in items],
            override_num_blocks=min(-(-len(items) // _FILES_TOGETHER), _MOST_PORTIONS),
        ).map_batches(
            _Worker,
            fn_constructor_args=(cloudpickle.dumps((*parts, self.encoding, self.context)),),
            batch_size=_FILES_TOGETHER,
            compute=ActorPoolStrategy(
                min_size=1, max_size=workers or gpus or max(1, int(resources.get("CPU", 1)))
            ),
            num_cpus=1,
            num_gpus=1 if gpus else 0,
            max_restarts=_RESTARTS,
            max_task_retries=_RESTARTS,
        )
        try:
            for batch in rows.iter_batches(batch_size=None, prefetch_batches=1):
                yield [pickle.loads(row) for row in batch["row"]]
        except RayError as error:
            cause: BaseException | None = error
            while cause is not None and not isinstance(cause, SageError):
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

    def __call__(self, batch: dict[str, Any]) -> Iterator[dict[str, Any]]:
        waiting: list[tuple[_Item, Document]] = []
        for row in batch["row"]:
            item = pickle.loads(row)
            read = self.read(item)
            if isinstance(read, _Result):
                yield _rows([read])
                continue
            waiting.append((item, read))
            if sum(len(document.text) for _, document in waiting) >= _BATCH_CHARACTERS:
                yield _rows(self._done(waiting))
                waiting = []
        if waiting:
            yield _rows(self._done(waiting))

    def read(self, item: _Item) -> Document | _Result:
        """The document of a file; a result if that is all that becomes of it."""
        try:
            data = _fetch(item, self.encoding)
            if digest_of(data, self.encoding) == item.digest:
                return _Result(item)
        except InputError as error:
            return _Result(item, str(error), unopened=True)
        try:
            document = _parsed(item, data, self.encoding)
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


def _rows(results: Sequence[_Result]) -> dict[str, Any]:
    column = np.empty(len(results), dtype=object)
    column[:] = [pickle.dumps(result) for result in results]
    return {"row": column}


def _named(address: str) -> str:
    """An address as a source: without user, password, query and a slash at the end."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")


def _fetch(item: _Item, encoding: str | None) -> bytes:
    """The bytes of a file; InputError if it cannot be read."""
    if not item.system:
        return read_bytes(item.path, encoding=encoding)
    from fsspec.core import url_to_fs

    try:
        return bytes(url_to_fs(item.system)[0].cat_file(item.path))
    except OSError as error:
        raise InputError(f"{item.source} cannot be read: {error}") from error


def _parsed(item: _Item, data: bytes, encoding: str | None) -> Document:
    path = item.source if item.system else item.path
    return parse_document(path, data, encoding=encoding, source=item.source)


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
