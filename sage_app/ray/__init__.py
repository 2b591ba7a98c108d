"""Ingest on a Ray cluster: reading, segmenting and embedding on all its cores, into one store.

Files become rows of a Ray Data set. Actors that hold the models for the whole run turn them into documents
with chunks and vectors. Where the store takes several writers (a Chroma server), the actors write to it
themselves and no vector travels; a folder is written by the process that started the run. Without GPUs one
kind of actor does everything, so that nothing has to be balanced; with GPUs, actors on processor cores read
and segment for those that embed.

Chunks have ids made of path and content: work that is done twice, because a machine was lost, changes
nothing, and a run that was killed goes on where it is started again.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

from sage_app.documents.discovery import KINDS, is_below
from sage_app.documents.reader import READER_VERSION, Document, digest_of, parse_document, read_bytes
from sage_app.models import SentenceTransformerEmbedder, as_vectors
from sage_app.pipeline.ingest import (
    _BATCH_CHARACTERS,
    _SETTLED,
    DocumentSegmenter,
    Ingest,
    IngestReport,
    ProgressFunction,
    Window,
    chunks_of,
    spans_of,
    window_of,
)
from sage_app.store.chunks import Chunk, NewDocument
from sage_app.store.identity import StoreIdentity
from sage_app.store.protocol import Store
from sage_core.embedding.protocol import Embedder
from sage_core.errors import InputError, MissingExtraError, SageError
from sage_core.paths import PathArgument, as_path

logger = logging.getLogger(__name__)

# Files handed to an actor at a time, and most such portions.
_FILES_TOGETHER, _MOST_PORTIONS = 16, 10_000
# A document of more characters would make rows of hundreds of megabytes: the starting process does those.
_TOO_LARGE = 8_000_000
# How often a portion is begun whose actor dies. A file whose reading kills the process must not go on for
# ever, as Ray would.
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class _Item:
    """A file to look at.

    Attributes:
        source: Its name in the store.
        path: Its path, on disk or in a file system.
        system: Address that names the file system; empty for a path on disk.
        digest: Digest of what the store has of it; empty where it has nothing.
        stat: See `DocumentRecord.stat`.
    """

    source: str
    path: str
    system: str
    digest: str
    stat: str


@dataclass(frozen=True, slots=True)
class _Result:
    """What became of a file.

    Attributes:
        item: The file.
        error: Why it could not be read; empty where it could.
        unopened: It could not even be opened.
        large: It is for the starting process.
        chunks: Number of its chunks; None if its content is the one in the store.
        document: What is to be written; None if it has been, or nothing is.
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
        paths: Files and folders, or addresses of them: ``"s3://bucket/manuals"`` and whatever else pyarrow or
            fsspec open. An address names the document in the store, without user, password and query.
        segmenter: Cuts the texts. It is pickled.
        embedder: Embeds the chunks. It is pickled. One that runs here gets a GPU for each worker where the
            cluster has GPUs.
        address: ``"local"`` starts Ray on this machine for this run; ``"auto"`` finds the cluster that this
            machine belongs to; else the address of one.
        workers: Most actors that embed; as many as the cluster has GPUs, or else cores, where None.
        encoding: Of text files that are not UTF-8.
        rebuild: Make the store anew, whatever it was made with. A folder keeps its old contents until the new
            ones are complete; a Chroma server is emptied first.
        progress: Called as documents are finished.
        context: Put title and headings before each chunk's text where it is embedded and indexed.

    Raises:
        InputError: For a path that does not exist and never was ingested, no documents at all, or where none
            of them can be read. One that cannot be read among others is reported as ``skipped``, a file
            named by the caller included.
        StoreError: Where the store was made with other models, or cannot be written.
        SageError: Where there is no cluster, or workers die again and again.
        MissingExtraError: Where Ray is not installed.
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
        items, gone = self._items(given, rebuild=rebuild)
        if not fresh:
            self.store.check(self._identity(probe=False))
        todo = [item for item in items if not self._is_done(item)]
        self._report_progress("")
        identity = self._identity(probe=bool(todo))
        shared = bool(getattr(self.store, "several_writers", False))
        large: list[_Item] = []
        with ExitStack() as stack:
            writing = _Once(lambda: stack.enter_context(self.store.writing(identity, rebuild=rebuild)))
            if shared and todo:
                writing()
            for results in self._results(todo, workers, identity, shared=shared):
                new = [r.document for r in results if r.document is not None]
                if new:
                    writing()
                    self.store.put(new)
                large += [r.item for r in results if r.large]
                for result in results:
                    self._note(result)
            for item in large:
                document = _read(item, self.encoding)
                writing()
                self._stats[item.source] = item.stat
                self._write(self._segmented([document]))
            lost = [*gone, *self._unreadable]
            if fresh and not writing.done:
                raise self._nothing_readable(rebuild=rebuild)
            if self._touched or lost:
                writing()
                self.store.touch(self._touched)
                self.store.remove(*lost)
                self.removed += lost
        if fresh and not self.chunks:
            raise self._nothing_readable(rebuild=rebuild)
        return self._report(began)

    def _items(self, given: Sequence[PathArgument], *, rebuild: bool) -> tuple[list[_Item], list[str]]:
        """The files to look at, and the sources in the store that are gone."""
        addresses = [str(path) for path in given if "://" in str(path)]
        local = [as_path(path) for path in given if "://" not in str(path)]
        for address in list(addresses):
            if urlsplit(address).scheme == "file":
                addresses.remove(address)
                local.append(Path(unquote(urlsplit(address).path)))
        items: dict[str, _Item] = {}
        gone: list[str] = []
        if local or not addresses:
            files, gone = self._survey(local, rebuild=rebuild)
            for file in files:
                stat = self._stat(file)
                items[file.source] = _Item(file.source, str(file.path), "", self._digest(file.source), stat)
        for address in addresses:
            found = self._listed(address)
            scope = _named(address)
            gone += [s for s in self._known if is_below(s, scope) and s not in found]
            items.update(found)
        return list(items.values()), gone

    def _digest(self, source: str) -> str:
        known = self._known.get(source)
        return known.digest if known is not None else ""

    def _listed(self, address: str) -> dict[str, _Item]:
        """The files at an address, by source."""
        from pyarrow import fs

        system, root = _file_system(address)
        name = _named(address)
        try:
            info = system.get_file_info(root)
            if info.type == fs.FileType.File:
                infos = [info]
            else:
                selector = fs.FileSelector(root, recursive=True, allow_not_found=True)
                infos = [i for i in system.get_file_info(selector) if i.type == fs.FileType.File]
        except OSError as error:
            raise InputError(f"{name} cannot be listed: {error}") from error
        found: dict[str, _Item] = {}
        for entry in sorted(infos, key=lambda i: i.path):
            below = entry.path[len(root) :].strip("/")
            hidden = any(part.startswith(".") for part in below.split("/"))
            suffix = Path(below).suffix.lower()
            if below and (hidden or suffix not in KINDS):
                if not hidden:
                    self.other_types[suffix] += 1
                continue
            source = f"{name}/{below}" if below else name
            size, changed = entry.size or 0, entry.mtime_ns or 0
            self._total += size
            self._bytes[source] = size
            settled = changed and time.time() - changed / 1e9 > _SETTLED
            stat = f"{READER_VERSION}:{self.encoding or ''}:{size}:{changed}" if settled else ""
            found[source] = _Item(source, entry.path, address, self._digest(source), stat)
        if not found and not any(is_below(source, name) for source in self._known):
            raise InputError(f"no documents found at {name} (looked for {', '.join(sorted(KINDS))})")
        return found

    def _is_done(self, item: _Item) -> bool:
        """Whether the file is as it was when it was read for the store."""
        known = self._known.get(item.source)
        if known is None or not item.stat or known.stat != item.stat:
            return False
        self._count_unchanged(item.source)
        return True

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

        logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # errors are raised below
        DataContext.get_current().enable_progress_bars = False
        resources = ray.cluster_resources()
        cores = max(1, int(resources.get("CPU", 1)))
        here = isinstance(self.embedder, SentenceTransformerEmbedder)
        gpus = int(resources.get("GPU", 0)) if here else 0
        portions = min(-(-len(items) // _FILES_TOGETHER), _MOST_PORTIONS)
        rows = [{"item": pickle.dumps(item)} for item in items]
        data = ray.data.from_items(rows, override_num_blocks=portions)
        window, own = window_of(self.embedder), Window.of(self.embedder, self.segmenter)
        reader = _Reader(self.segmenter, self.encoding, self.context, window, own, _TOO_LARGE)
        writer = _Writer(self.embedder, self.store if shared else None, identity)

        counting = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(_Attempts)
        counters = []  # each lives as long as it is referred to

        def stage(data: Any, *parts: Any, most: int, **resources: float) -> Any:
            counters.append(counting.remote(_ATTEMPTS))
            return data.map_batches(
                _Actor,
                fn_constructor_args=(cloudpickle.dumps(parts), counters[-1]),
                batch_size=_FILES_TOGETHER,
                compute=ActorPoolStrategy(min_size=1, max_size=most),
                **resources,
            )

        if gpus:
            data = stage(data, reader, most=max(1, cores - gpus), num_cpus=1)
            data = stage(data, writer, most=min(workers or gpus, gpus), num_gpus=1)
        else:
            data = stage(data, reader, writer, most=workers or cores, num_cpus=1)
        with _errors():
            for batch in data.iter_batches(batch_size=None, prefetch_batches=1):
                yield [pickle.loads(row) for row in batch["item"]]


class _Attempts:
    """Counts how often each portion was begun; an actor of its own, for it must outlive the workers."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.begun: Counter[str] = Counter()

    def begin(self, portion: str) -> bool:
        """Whether the portion may be begun once more."""
        self.begun[portion] += 1
        return self.begun[portion] <= self.most


class _Actor:
    """Holds parts that turn pickled rows into others, with their models, for the whole run."""

    def __init__(self, parts: bytes, attempts: Any) -> None:
        self.parts = pickle.loads(parts)
        self.attempts = attempts

    def __call__(self, batch: dict[str, Any]) -> Iterator[dict[str, Any]]:
        import ray

        rows: Iterable[Any] = [pickle.loads(row) for row in batch["item"]]
        sources = [row.source if isinstance(row, _Item) else row.item.source for row in rows]
        if not ray.get(self.attempts.begin.remote(sources[0])):
            raise SageError(
                "the worker died each time that it was given these files, so that one of them may end the "
                f"process, or need more memory than there is: {', '.join(sources)}. What the others had "
                "finished is kept; leave the culprit out and run it again"
            )
        for part in self.parts:
            rows = part(rows)
        for group in _grouped(rows):
            column = np.empty(len(group), dtype=object)
            column[:] = [pickle.dumps(row) for row in group]
            yield {"item": column}


@dataclass(slots=True)
class _Reader:
    """Reads and segments: files to documents without vectors."""

    segmenter: DocumentSegmenter
    encoding: str | None
    context: bool
    window: int
    own_window: Window
    longest: int

    def __call__(self, items: Iterable[_Item]) -> Iterator[_Result]:
        waiting: list[tuple[_Item, Document]] = []
        size = 0
        for item in items:
            read = self._read(item)
            if isinstance(read, _Result):
                yield read
                continue
            waiting.append((item, read))
            size += len(read.text)
            if size >= _BATCH_CHARACTERS:
                yield from self._segmented(waiting)
                waiting, size = [], 0
        yield from self._segmented(waiting)

    def _read(self, item: _Item) -> Document | _Result:
        try:
            data = _fetch(item, self.encoding)
        except InputError as error:
            return _Result(item, str(error), unopened=True)
        digest = digest_of(data, self.encoding)
        if digest == item.digest:
            return _Result(item)
        try:
            document = _parse(item, data, self.encoding, digest)
        except MissingExtraError as error:
            return _Result(item, f"{item.source} was not read: {error}", unopened=True)
        except InputError as error:
            return _Result(item, str(error))
        return document if len(document.text) <= self.longest else _Result(item, large=True)

    def _segmented(self, read: Sequence[tuple[_Item, Document]]) -> Iterator[_Result]:
        spans = spans_of(self.segmenter, [d.text for _, d in read], self.own_window)
        for (item, document), cuts in zip(read, spans, strict=True):
            chunks = chunks_of(document, cuts, context=self.context, window=self.window)
            empty = np.zeros((0, 0), dtype=np.float32)
            new = NewDocument(item.source, document.digest, chunks, empty, document.title, item.stat)
            yield _Result(item, chunks=len(chunks), document=new)


@dataclass(slots=True)
class _Writer:
    """Embeds; writes to a store that takes several writers."""

    embedder: Embedder
    store: Store | None
    identity: StoreIdentity

    def __call__(self, results: Iterable[_Result]) -> Iterator[_Result]:
        for group in _grouped(results):
            texts = [c.text_for_models for r in group for c in _chunks(r)]
            given = self.embedder.embed_documents(texts) if texts else ()
            vectors = as_vectors(self.embedder.name, given, 2)
            done: list[_Result] = []
            start = 0
            for result in group:
                stop = start + len(_chunks(result))
                if result.document is not None:
                    result = replace(result, document=replace(result.document, vectors=vectors[start:stop]))
                done.append(result)
                start = stop
            if self.store is not None:
                new = [r.document for r in done if r.document is not None]
                with self.store.writing(self.identity):
                    self.store.put(new)
                done = [replace(r, document=None) for r in done]
            yield from done


def _chunks(result: _Result) -> Sequence[Chunk]:
    return result.document.chunks if result.document is not None else ()


def _grouped(results: Iterable[_Result]) -> Iterator[list[_Result]]:
    """Results in groups of about `_BATCH_CHARACTERS`."""
    group: list[_Result] = []
    size = 0
    for result in results:
        group.append(result)
        size += sum(len(c.text) for c in _chunks(result))
        if size >= _BATCH_CHARACTERS:
            yield group
            group, size = [], 0
    if group:
        yield group


class _Once:
    """Calls a function the first time that it is called."""

    def __init__(self, action: Any) -> None:
        self.action, self.done = action, False

    def __call__(self) -> None:
        if not self.done:
            self.action()
            self.done = True


# -- files ------------------------------------------------------------------------------------------------


def _named(address: str) -> str:
    """An address as a source: without user, password, query and a slash at the end."""
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}".rstrip("/")


def _file_system(address: str) -> tuple[Any, str]:
    """The file system that an address names, and the path in it: pyarrow's, or fsspec's where it has none."""
    from pyarrow import ArrowInvalid, fs

    try:
        system, path = fs.FileSystem.from_uri(address)
        return system, path.rstrip("/")
    except (ArrowInvalid, NotImplementedError):
        pass  # a scheme that pyarrow does not know, or that this build of it came without
    except OSError as error:
        raise InputError(f"{_named(address)} cannot be opened: {error}") from error
    try:
        from fsspec.core import url_to_fs

        found, path = url_to_fs(address)
    except (ImportError, ValueError, OSError) as error:
        raise InputError(f"{_named(address)} cannot be opened: {error}") from error
    return fs.PyFileSystem(fs.FSSpecHandler(found)), str(path).rstrip("/")


def _fetch(item: _Item, encoding: str | None) -> bytes:
    """The bytes of a file.

    Raises:
        InputError: Where it cannot be read.
    """
    if not item.system:
        return read_bytes(item.path, encoding=encoding)
    system, _ = _file_system(item.system)
    try:
        with system.open_input_stream(item.path) as stream:
            return bytes(stream.read())
    except OSError as error:
        raise InputError(f"{item.source} cannot be read: {error}") from error


def _parse(item: _Item, data: bytes, encoding: str | None, digest: str) -> Document:
    path = item.source if item.system else item.path
    return parse_document(path, data, encoding=encoding, source=item.source, digest=digest)


def _read(item: _Item, encoding: str | None) -> Document:
    data = _fetch(item, encoding)
    return _parse(item, data, encoding, digest_of(data, encoding))


# -- Ray --------------------------------------------------------------------------------------------------


@contextmanager
def _cluster(address: str) -> Iterator[None]:
    """A connection to Ray; one that is there already is used, and left."""
    import ray

    if ray.is_initialized():
        yield
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing of this machine goes anywhere
        ray.init(address="local", include_dashboard=False, **quiet)
    else:
        try:
            ray.init(address=address, **quiet)
        except (ConnectionError, ValueError) as error:
            raise SageError(
                f"no Ray cluster at {address!r} ({_first_line(error)}): start one with `ray start --head`, "
                "or use this machine alone with --address local"
            ) from error
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _errors() -> Iterator[None]:
    """Errors of workers as ours."""
    from ray.exceptions import RayError

    try:
        yield
    except RayError as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, SageError):
                raise cause from None
            cause = getattr(cause, "cause", None) or cause.__cause__
        raise SageError(
            f"workers failed: {_first_line(error)}. What they had finished is kept; run it again to go on"
        ) from error


def _first_line(error: Exception) -> str:
    """What a long message of Ray's is about: the error that a worker raised, which its trace ends with."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]*(Error|Exception): ", line)]
    return next(iter([*raised[-1:], *lines[:1]]), type(error).__name__)[:300]
