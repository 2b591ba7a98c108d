"""Update a store from files: add new and changed documents, remove deleted ones, leave the rest."""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

from sage_app.documents.discovery import (
    KINDS,
    Skipped,
    as_paths,
    find_documents,
    is_below,
    source_of,
)
from sage_app.documents.reader import READER_VERSION, Document, UnopenedError, read_changed
from sage_app.models import as_vectors
from sage_app.store.chunks import Chunk, NewDocument, chunk_ids
from sage_app.store.identity import StoreIdentity
from sage_app.store.protocol import DocumentRecord, Store
from sage_core.embedding.protocol import Embedder
from sage_core.errors import InputError, MissingExtraError, StoreError
from sage_core.paths import PathArgument
from sage_core.segmentation.long_sentences import fit_window
from sage_core.text.continuations import Continuations
from sage_core.text.header import header_parts, make_headers
from sage_core.text.headings import heading_paths
from sage_core.text.spans import Span
from sage_core.text.tokens import TokenCounter, get_counter

logger = logging.getLogger(__name__)

T = TypeVar("T")

PROBE = "The ferry leaves at seven in the morning and returns before dark."

# Documents segmented, embedded and written together: some 600 chunks, a few seconds on a CPU.
_BATCH_CHARACTERS = 50_000
# A longer document is embedded and written in parts of `_PART_CHUNKS`.
_LARGE_CHARACTERS, _PART_CHUNKS = 500_000, 3_000
# A longer text is segmented in pieces of about so many characters: segmenting takes 40 times their memory.
_PIECE_CHARACTERS = 2_000_000
# Characters of documents named by the caller that are kept from the check until they are written.
_KEPT_CHARACTERS = 10_000_000
# A file that changed less than so many seconds before it was read may change again with the same time stamp.
_SETTLED = 2.0
# Tokens that an embedding model reads at least, where it does not say.
_WINDOW = 256


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """How far an ingest is.

    Attributes:
        done: Bytes of the files finished, unchanged ones included.
        total: Bytes of all files.
        files: Number of files finished.
        chunks: Chunks written.
        source: The file finished last.
        unchanged: Bytes of ``done`` that were in the store already. Time left is
            estimated from the others.
    """

    done: int
    total: int
    files: int
    chunks: int
    source: str
    unchanged: int = 0


ProgressFunction = Callable[[IngestProgress], None]


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What an ingest did.

    Attributes:
        added: Documents that were not in the store.
        changed: Documents replaced.
        unchanged: Documents whose content is the one in the store.
        removed: Documents taken out, because their files are gone or can no longer be read.
        skipped: What was left out below folders; see `Skipped`.
        chunks: Chunks written.
        documents_in_store: Documents in the store afterwards.
        chunks_in_store: Their chunks.
        seconds: Wall time.
        other_types: How many files below the folders were left out because of their suffix, by suffix (``""``
            for none). A file named by the caller is read whatever its suffix.
        missing: Documents in the store from elsewhere than the paths of this run, whose files no longer
            exist. They stay in the store; ingesting the path they came from removes them.
    """

    added: tuple[str, ...]
    changed: tuple[str, ...]
    unchanged: tuple[str, ...]
    removed: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    chunks: int
    documents_in_store: int
    chunks_in_store: int
    seconds: float
    other_types: Mapping[str, int] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every file and folder could be opened."""
        return not any(skipped.unopened for skipped in self.skipped)

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready form."""
        return {
            "added": list(self.added),
            "changed": list(self.changed),
            "unchanged": list(self.unchanged),
            "removed": list(self.removed),
            "skipped": [asdict(skipped) for skipped in self.skipped],
            "other_types": dict(self.other_types),
            "missing": list(self.missing),
            "chunks": self.chunks,
            "store": {"documents": self.documents_in_store, "chunks": self.chunks_in_store},
            "seconds": round(self.seconds, 3),
        }


class DocumentSegmenter(Protocol):
    """The part of `sage_core.segmentation.Segmenter` used here."""

    @property
    def fingerprint(self) -> str:
        """Identifies the model and its settings."""
        ...

    def segment_many(self, texts: Iterable[str]) -> list[list[Span]]:
        """Spans of the chunks of each text."""
        ...


@dataclass(frozen=True, slots=True)
class Segmented:
    """A document and where to cut it; `DocumentRecord.stat` of its file."""

    document: Document
    spans: Sequence[Span]
    stat: str = ""


@dataclass(frozen=True, slots=True)
class DocumentMaker:
    """What turns files into what a store keeps, in this process or on a worker.

    Attributes:
        segmenter: Cuts texts.
        embedder: Embeds chunks.
        encoding: Of text files that are not UTF-8.
        context: See `SageConfig`.
    """

    segmenter: DocumentSegmenter
    embedder: Embedder
    encoding: str | None = None
    context: bool = True

    def read(self, path: Path, source: str, known: str = "") -> Document | None:
        """`read_changed` a file whose content in the store has the digest ``known``."""
        return read_changed(path, known, encoding=self.encoding, source=source)

    def segmented(self, documents: Sequence[Document], stats: Mapping[str, str]) -> list[Segmented]:
        """Where to cut documents: within the window of the embedding model."""
        window = Window.of(self.embedder, self.segmenter)
        spans = spans_of(self.segmenter, [d.text for d in documents], window)
        return [Segmented(d, own, stats.get(d.source, "")) for d, own in zip(documents, spans, strict=True)]

    def made(self, batch: Sequence[Segmented], first: int = 0, most: int | None = None) -> list[NewDocument]:
        """The chunks and vectors of documents, embedded together: ``most`` of each, from the ``first`` on."""
        window, stop = window_of(self.embedder), None if most is None else first + most
        chunks = [
            chunks_of(b.document, b.spans, context=self.context, window=window, first=first, stop=stop)
            for b in batch
        ]
        rows = self.embedder.embed_documents([c.text_for_models for own in chunks for c in own])
        vectors = as_vectors(self.embedder.name, rows, 2)
        ends = itertools.accumulate(map(len, chunks))
        return [
            NewDocument(
                b.document.source,
                b.document.digest,
                own,
                vectors[end - len(own) : end],
                b.document.title,
                b.stat,
            )
            for b, own, end in zip(batch, chunks, ends, strict=True)
        ]


def skipped_by(source: str, error: InputError | MissingExtraError) -> Skipped:
    """A file that an error left out."""
    if isinstance(error, MissingExtraError):
        return Skipped(source, f"{source} was not read: {error}", unopened=True)
    # What cannot be opened may well be next time, so what the store has of it stays.
    return Skipped(source, str(error), isinstance(error, UnopenedError))


@dataclass(frozen=True, slots=True)
class _File:
    """A file to look at.

    ``stat`` says that it is as it was: what the file system says of it, and how it is to be read; empty if
    that is no proof. ``named`` by the caller, not found in a folder.
    """

    path: Path
    source: str
    named: bool
    size: int
    stat: str


@dataclass(eq=False)
class Ingest:
    """One run. Use `ingest`."""

    store: Store
    maker: DocumentMaker
    progress: ProgressFunction | None = None
    roots: Sequence[str] | None = None

    def __post_init__(self) -> None:
        self.added: list[str] = []
        self.changed: list[str] = []
        self.unchanged: list[str] = []
        self.removed: list[str] = []
        self.skipped: list[Skipped] = []
        self.other_types: Counter[str] = Counter()
        self.missing: list[str] = []
        self.chunks = 0
        self._fresh = True  # the store is made by this run
        self._known: dict[str, DocumentRecord] = {}
        self._files: dict[str, _File] = {}
        self._named_documents: dict[str, Document] = {}
        self._total = self._done = self._done_before = 0
        self._touched: dict[str, str] = {}
        # Files whose content in the store is no longer theirs, and which cannot be read now.
        self._unreadable: list[str] = []

    def run(self, paths: Sequence[Path], *, rebuild: bool) -> IngestReport:
        """Do it; see `ingest`."""
        began = time.perf_counter()
        gone = self._survey(paths, rebuild=rebuild)
        self._check_named()
        with _ahead(self._batches()) as batches:
            # The store is left alone, and no model loaded, until there is something to put in.
            first = next(batches, [])
            if self._fresh and not first:
                raise self._nothing_readable(rebuild=rebuild)
            with self.store.writing(self._identity(probe=bool(first)), rebuild=rebuild):
                for batch in itertools.chain([first] if first else [], batches):
                    self._write(batch)
                self._settle(gone)
        return self._report(began)

    def _settle(self, gone: Sequence[str]) -> None:
        """Note what is as it was, and take out what is gone or can no longer be read."""
        if self._touched:
            self.store.touch(self._touched)
        if lost := [*gone, *self._unreadable]:
            self.store.remove(*lost)
            self.removed += lost

    def _report(self, began: float) -> IngestReport:
        info = self.store.info()
        return IngestReport(
            tuple(self.added),
            tuple(self.changed),
            tuple(self.unchanged),
            tuple(self.removed),
            tuple(self.skipped),
            self.chunks,
            info.documents,
            info.chunks,
            time.perf_counter() - began,
            dict(self.other_types.most_common()),
            tuple(self.missing),
        )

    def _identity(self, *, probe: bool) -> StoreIdentity:
        """The models in use. The probe loads the embedding model: a run without changes does without."""
        maker = self.maker
        name, fingerprint = maker.embedder.name, maker.segmenter.fingerprint
        settings = {**getattr(maker.segmenter, "settings", {}), "context": maker.context}
        if maker.context:  # a chunk's vector is not the same without
            fingerprint += "+context"
        if not probe:
            return StoreIdentity(name, segmenter=fingerprint, settings=settings)
        self.store.require_packages()  # before the wait for the model
        return StoreIdentity(
            name, as_vectors(name, maker.embedder.embed_query(PROBE), 1), fingerprint, settings
        )

    def _nothing_readable(self, *, rebuild: bool) -> InputError:
        first = next((skipped.reason for skipped in self.skipped), "it was gone when it was to be read")
        left = "; the store was left as it is" if rebuild and self.store.exists else ""
        return InputError(f"none of the {len(self.skipped)} files can be read{left}; the first: {first}")

    def _survey(self, paths: Sequence[Path], *, rebuild: bool) -> list[str]:
        """Find the files to look at; returns those in the store that lay below ``paths`` and are gone."""
        self._fresh = rebuild or not self.store.is_complete
        self._known = {} if self._fresh else {r.source: r for r in self.store.documents()}
        found = find_documents(paths, self.roots, self._known)
        self.skipped += found.skipped
        self.other_types.update(found.other_types)
        in_scope = [source for source in self._known if _below_any(source, found.scopes)]
        # What was ingested by name and is no type that folders are searched for is still there, and stays.
        by_name = [s for s in in_scope if Path(s).suffix.lower() not in KINDS and Path(s).is_file()]
        files = found.files | {source: Path(source) for source in by_name if source not in found.files}
        self._files = {s: _file_at(p, s, s in found.named, self.maker.encoding) for s, p in files.items()}
        self._total = sum(file.size for file in self._files.values())
        closed = [source_of(item.source) for item in found.skipped if item.unopened]
        gone = [s for s in in_scope if s not in files and not _below_any(s, closed)]
        # What came from a folder that was renamed since: the new name makes other sources.
        self.missing = [s for s in self._known if not _below_any(s, found.scopes) and not os.path.lexists(s)]
        if rebuild:
            self._keep_what_cannot_be_read_again(closed)
        if not files and not gone:
            raise found.nothing(paths)
        if not self._fresh:
            self.store.check(self._identity(probe=False))
        return gone

    def _keep_what_cannot_be_read_again(self, closed: Sequence[str]) -> None:
        """Refuse to empty a store that has documents of folders which cannot be opened now."""
        try:
            known = [r.source for r in self.store.documents()] if closed and self.store.exists else []
        except StoreError:
            return  # damaged: there is nothing to keep
        for folder in closed:
            if any(is_below(source, folder) for source in known):
                raise InputError(
                    f"{folder} cannot be read now, and the store has documents from it, which --rebuild "
                    "would lose: make it readable"
                )

    def _check_named(self) -> None:
        """Read the files that the caller names, to fail on one before anything is written."""
        characters = 0
        for file in self._files.values():
            if not file.named or self._is_settled(file):
                continue
            try:
                document = self.maker.read(file.path, file.source, self._digest(file))
            except InputError as error:
                raise InputError(
                    f"{error}; nothing was ingested: leave it out, or name its folder, where such files are "
                    "skipped"
                ) from error
            if document is not None and (characters := characters + len(document.text)) <= _KEPT_CHARACTERS:
                self._named_documents[file.source] = document

    def _digest(self, file: _File) -> str:
        """Digest of the content that is in the store; empty if none is."""
        return self._known[file.source].digest if file.source in self._known else ""

    def _is_settled(self, file: _File) -> bool:
        """Whether the file system says that the file is as it was when it was read for the store."""
        known = self._known.get(file.source)
        return known is not None and file.stat != "" and known.stat == file.stat

    def _batches(self) -> Iterator[list[Segmented]]:
        """Documents in groups of about `_BATCH_CHARACTERS`."""
        batch: list[Document] = []
        size = 0
        stats = {file.source: file.stat for file in self._files.values()}
        for file in self._files.values():
            document = self._read(file)
            if document is not None:
                large = len(document.text) > _LARGE_CHARACTERS
                if large and batch:
                    yield self.maker.segmented(batch, stats)
                    batch, size = [], 0
                batch.append(document)
                size += _BATCH_CHARACTERS if large else len(document.text)
            if size >= _BATCH_CHARACTERS:
                yield self.maker.segmented(batch, stats)
                batch, size = [], 0
        if batch:
            yield self.maker.segmented(batch, stats)

    def _read(self, file: _File) -> Document | None:
        """The document of a file whose content is not the one in the store."""
        document = self._named_documents.pop(file.source, None)
        if document is None and not self._is_settled(file):
            try:
                document = self.maker.read(file.path, file.source, self._digest(file))
            except (InputError, MissingExtraError) as error:
                self._skip(skipped_by(file.source, error))
                return None
        if document is None:
            self._count_unchanged(file.source, file.stat)
        return document

    def _count_unchanged(self, source: str, stat: str) -> None:
        """Count a file whose content is in the store."""
        self.unchanged.append(source)
        if stat and stat != self._known[source].stat:
            self._touched[source] = stat
        self._done += self._files[source].size
        self._done_before += self._files[source].size

    def _skip(self, item: Skipped) -> None:
        logger.info("skipped: %s", item.reason)
        self.skipped.append(item)
        if item.source in self._known and not item.unopened:
            self._unreadable.append(item.source)
        self._done += self._files[item.source].size

    def _write(self, batch: Sequence[Segmented]) -> None:
        """Embed these documents together and put them into the store; a large one comes alone, in parts."""
        if len(batch) == 1 and len(batch[0].document.text) > _LARGE_CHARACTERS:
            self.store.put_parts(self._parts(batch[0]))
            self._wrote(batch[0].document.source, 0)
            return
        made = self.maker.made(batch)
        self.store.put(made)
        for document in made:
            self._wrote(document.source, len(document.chunks))

    def _parts(self, each: Segmented) -> Iterator[NewDocument]:
        """A large document in parts, embedded one after the other."""
        source, count = each.document.source, len(each.spans)
        for first in range(0, count, _PART_CHUNKS):
            [part] = self.maker.made([each], first, _PART_CHUNKS)
            yield part
            self.chunks += len(part.chunks)
            done = self._files[source].size * min(first + _PART_CHUNKS, count) // count
            self._report_progress(source, within=done)

    def _wrote(self, source: str, chunks: int) -> None:
        (self.changed if source in self._known else self.added).append(source)
        self.chunks += chunks
        self._done += self._files[source].size
        self._report_progress(source)

    def _report_progress(self, source: str, *, within: int = 0) -> None:
        """Report progress; ``within`` are bytes of ``source`` that are done, where it is not finished."""
        if self.progress is not None:
            files = len(self.added) + len(self.changed) + len(self.unchanged) + len(self.skipped)
            self.progress(
                IngestProgress(
                    self._done + within, self._total, files, self.chunks, source, self._done_before
                )
            )


def _file_at(path: Path, source: str, named: bool, encoding: str | None) -> _File:
    try:
        status = path.stat()
    except OSError:
        return _File(path, source, named, 0, "")
    stat = f"{READER_VERSION}:{encoding or ''}:{status.st_size}:{status.st_ino}"
    if time.time() - max(status.st_mtime, status.st_ctime) < _SETTLED:
        stat = ""
    else:
        stat += f":{status.st_mtime_ns}:{status.st_ctime_ns}"
    return _File(path, source, named, status.st_size, stat)


def _below_any(source: str, folders: Sequence[str]) -> bool:
    return any(is_below(source, folder) for folder in folders)


def ingest(
    store: Store,
    paths: PathArgument | Iterable[PathArgument],
    segmenter: DocumentSegmenter,
    embedder: Embedder,
    *,
    encoding: str | None = None,
    rebuild: bool = False,
    progress: ProgressFunction | None = None,
    context: bool = True,
    roots: Iterable[PathArgument] | None = None,
) -> IngestReport:
    """Update ``store`` from the files below ``paths``; arguments and errors are those of `Sage.ingest`.

    Documents whose content is in the store already are skipped, and not even read where the file system says
    that they are as they were. Files are read and segmented in a thread while those before them are embedded.
    With ``context`` title and headings go before each chunk's text where it is embedded and indexed.
    """
    maker = DocumentMaker(segmenter, embedder, encoding, context)
    run = Ingest(store, maker, progress, None if roots is None else [source_of(root) for root in roots])
    return run.run(as_paths(paths), rebuild=rebuild)


@dataclass(frozen=True, slots=True)
class Window:
    """What an embedding model reads of a text: ``tokens`` by its own ``counter``, where that is known."""

    tokens: int
    counter: TokenCounter | None

    @classmethod
    def of(cls, embedder: Embedder, segmenter: DocumentSegmenter) -> Window:
        """The model's window; chunks that are meant to be longer, by the segmenter's limit, stay so."""
        longest = getattr(segmenter, "max_tokens", 0)
        return cls(max(window_of(embedder), longest), getattr(embedder, "counter", None))


def spans_of(
    segmenter: DocumentSegmenter, texts: Sequence[str], window: Window | None = None
) -> list[list[Span]]:
    """Spans of the chunks of each text within the window; a long text is segmented piece by piece."""
    spans = iter(segmenter.segment_many([t for t in texts if len(t) <= _PIECE_CHARACTERS]) if texts else [])
    chunks = [
        next(spans) if len(text) <= _PIECE_CHARACTERS else list(_piecewise(segmenter, text)) for text in texts
    ]
    if window is None or window.counter is None:
        return chunks
    return [
        fit_window(text, own, window.counter, window.tokens) for text, own in zip(texts, chunks, strict=True)
    ]


def _piecewise(segmenter: DocumentSegmenter, text: str) -> Iterator[Span]:
    """Spans of the chunks of a text, none of them across the border of two pieces."""
    start = 0
    while start < len(text):
        end = start + _PIECE_CHARACTERS
        if end < len(text):
            # After the last blank line of the second half, or else the last line, or word.
            middle = start + _PIECE_CHARACTERS // 2
            marks = ((mark, text.rfind(mark, middle, end)) for mark in ("\n\n", "\n\r\n", "\n", " "))
            end = next((place + len(mark) for mark, place in marks if place >= 0), end)
        [spans] = segmenter.segment_many([text[start:end]])
        for span in spans:
            yield span.shift(start)
        start = end


def window_of(embedder: Embedder) -> int:
    """Tokens that an embedding model reads."""
    return getattr(embedder, "max_tokens", None) or _WINDOW


def chunks_of(
    document: Document,
    spans: Sequence[Span],
    *,
    context: bool,
    window: int,
    first: int = 0,
    stop: int | None = None,
) -> list[Chunk]:
    """The chunks of spans ``first`` to ``stop`` of a document, all where None.

    With context, their title, headings and header too, which takes a part of the model's ``window``.
    """
    chunks = _chunks(document, spans, first, len(spans) if stop is None else min(stop, len(spans)))
    if not context:
        return chunks
    places = [(c.start, c.end) for c in chunks]
    paths = [
        (*path, *inner)
        for path, inner in zip(
            heading_paths(document.text, document.headings, places),
            _continuations(document.text, places),
            strict=True,
        )
    ]
    texts = [c.text for c in chunks]
    headers = make_headers(
        texts,
        [header_parts(t, document.title, path) for t, path in zip(texts, paths, strict=True)],
        counter=get_counter("bert"),
        window=window,
    )
    return [
        replace(c, title=document.title, headings=path, header=header)
        for c, path, header in zip(chunks, paths, headers, strict=True)
    ]


def _continuations(text: str, places: Sequence[tuple[int, int]]) -> list[tuple[str, ...]]:
    """What stands above the beginning of each chunk; in a very long text, not from too far above."""
    if not places:
        return []
    start = max(0, places[0][0] - _PIECE_CHARACTERS)
    start = text.find("\n", start) + 1 if start else 0
    part = text[start : places[-1][1]] if start else text
    return Continuations(part).above([(a - start, b - start) for a, b in places])


def _chunks(document: Document, spans: Sequence[Span], first: int, stop: int) -> list[Chunk]:
    ids = chunk_ids(document.source, document.digest, spans[first:stop])
    text, source = document.text, document.source
    return [
        Chunk(i, s.of(text), source, s.start, s.end, document.page_of(s.start), position)
        for position, (i, s) in enumerate(zip(ids, spans[first:stop], strict=True), first)
    ]


@contextmanager
def _ahead(items: Iterator[T]) -> Iterator[Iterator[T]]:
    """Make items in a thread of their own, one ahead of those that are taken."""
    with ThreadPoolExecutor(1, "sage-ingest") as pool:

        def take() -> Iterator[T]:
            following = pool.submit(next, items, None)
            while (item := following.result()) is not None:
                following = pool.submit(next, items, None)
                yield item

        yield take()
