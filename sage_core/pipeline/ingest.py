"""Bring a store into step with files: new and changed documents in, deleted ones out, the rest untouched."""

from __future__ import annotations

import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sage_core.documents.discovery import (
    KINDS,
    PassedOver,
    PathArgument,
    as_paths,
    expand_sources,
    kind_of,
    source_of,
    within,
)
from sage_core.documents.reader import Document, digest_of, parse_document, read_bytes
from sage_core.embedding.protocol import Embedder, TextVectors
from sage_core.errors import InputError, StoreError
from sage_core.ranking.protocol import VectorReranker
from sage_core.store.chunks import Chunk, NewDocument, chunk_ids
from sage_core.store.identity import StoreIdentity
from sage_core.store.protocol import Store
from sage_core.text.spans import Span

logger = logging.getLogger(__name__)

PROBE = "The ferry leaves at seven in the morning and returns before dark."

# Documents segmented, embedded and written together: some 600 chunks, a few seconds on a CPU.
_BATCH_CHARACTERS = 50_000

# White space between two chunks that is kept, to join them again.
_LONGEST_GAP = 16


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something below a folder that was left out, and why.

    Attributes:
        source: A file that could not be read, a folder that could not be opened, or a link to a folder.
        reason: Why, and what to do about it.
        unopened: It could not even be opened, so that nobody knows what is below it. What the store has of
            it stays.
    """

    source: str
    reason: str
    unopened: bool = False


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """How far an ingest is.

    Attributes:
        done: Bytes of the files finished, unchanged ones included.
        total: Bytes of all files.
        files: Number of files finished.
        chunks: Chunks written.
        source: The file finished last.
    """

    done: int
    total: int
    files: int
    chunks: int
    source: str


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
class _File:
    path: Path
    source: str
    named: bool  # by the caller, not found in a folder


class Ingest:
    """One run. Use `ingest`."""

    def __init__(
        self,
        store: Store,
        segmenter: DocumentSegmenter,
        embedder: Embedder,
        *,
        encoding: str | None = None,
        progress: ProgressFunction | None = None,
        reranker: VectorReranker | None = None,
    ) -> None:
        self.store = store
        self.segmenter = segmenter
        self.embedder = embedder
        self.encoding = encoding
        self.progress = progress
        self.reranker = reranker
        self.added: list[str] = []
        self.changed: list[str] = []
        self.unchanged: list[str] = []
        self.removed: list[str] = []
        self.skipped: list[Skipped] = []
        self.chunks = 0
        self._known: dict[str, str] = {}
        self._named_documents: dict[str, Document | None] = {}
        self._bytes: dict[str, int] = {}
        self._done = 0
        # Files whose content in the store is no longer theirs, and which cannot be read now.
        self._lost: list[str] = []

    def run(self, paths: Sequence[Path], *, rebuild: bool) -> IngestReport:
        """Do it; see `ingest`."""
        began = time.perf_counter()
        fresh = rebuild or not self.store.finished
        self._known = {} if fresh else {r.source: r.digest for r in self.store.documents()}
        files, gone = self._survey(paths, rebuild=rebuild)
        if not fresh:
            self.store.check(self._identity(probe=False))
        self._read_named(files)
        batches = self._batches(files)
        # The store is left alone, and no model loaded, until there is something to put in.
        first = next(batches, None)
        if fresh and first is None:
            raise self._nothing_readable(rebuild=rebuild)
        with self.store.writing(self._identity(probe=first is not None), rebuild=rebuild):
            for batch in itertools.chain([first] if first else [], batches):
                self._write(batch)
            for source in [*gone, *self._lost]:
                self.store.remove(source)
                self.removed.append(source)
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
        )

    def _identity(self, *, probe: bool) -> StoreIdentity:
        """The models in use. The probe loads the embedding model: a run without changes does without."""
        name, fingerprint = self.embedder.name, self.segmenter.fingerprint
        settings = getattr(self.segmenter, "settings", {})
        if not probe:
            return StoreIdentity(name, segmenter=fingerprint, settings=settings)
        self.store.require_packages()  # before the wait for the model
        return StoreIdentity(name, self.embedder.embed_query(PROBE), fingerprint, settings)

    def _nothing_readable(self, *, rebuild: bool) -> InputError:
        first = next((skipped.reason for skipped in self.skipped), "it was gone when it was to be read")
        kept = "; the store was left as it is" if rebuild and self.store.exists else ""
        return InputError(f"none of the {len(self.skipped)} files can be read{kept}; the first: {first}")

    def _survey(self, paths: Sequence[Path], *, rebuild: bool) -> tuple[list[_File], list[str]]:
        """The files to look at, and the sources in the store that were below ``paths`` and are gone."""
        scopes = [source_of(p) for p in paths]
        present = [(p, s) for p, s in zip(paths, scopes, strict=True) if not self._deleted(p, s)]
        named = {s for p, s in present if kind_of(p) != "folder"}
        passed_over: list[PassedOver] = []
        sources = expand_sources([p for p, _ in present], passed_over)
        found = [_File(path, source, source in named) for source, path in sources.items()]
        here = {file.source for file in found}
        closed = [source_of(item.path) for item in passed_over if item.unreadable]
        gone = [
            s
            for s in self._known
            if s not in here
            and any(within(s, scope) for scope in scopes)
            and not any(within(s, scope) for scope in closed)
        ]
        for item in passed_over:
            self.skipped.append(Skipped(str(item.path), item.reason, item.unreadable))
        if rebuild:
            self._keep_what_cannot_be_read_again(closed)
        if not found and not gone:
            what = ", ".join(str(p) for p in paths) or "no path was given"
            left = f"; {self.skipped[0].reason}" if self.skipped else ""
            raise InputError(f"no documents found: {what} (looked for {', '.join(sorted(KINDS))}){left}")
        return found, gone

    def _keep_what_cannot_be_read_again(self, closed: Sequence[str]) -> None:
        """Refuse to empty a store that has documents of folders which cannot be opened now."""
        try:
            known = [r.source for r in self.store.documents()] if closed and self.store.exists else []
        except StoreError:
            return  # damaged: there is nothing to keep
        for folder in closed:
            if any(within(source, folder) for source in known):
                raise InputError(
                    f"{folder} cannot be read now, and the store has documents from it, which --rebuild "
                    "would lose: make it readable"
                )

    def _deleted(self, path: Path, scope: str) -> bool:
        """Whether ``path`` is gone, but the store has documents from it."""
        return kind_of(path) == "missing" and any(within(s, scope) for s in self._known)

    def _read_named(self, files: Sequence[_File]) -> None:
        """Read the files that the caller names: they must be readable, before anything is written."""
        for file in files:
            with contextlib.suppress(OSError):  # gone or closed since: told when it is read
                self._bytes[file.source] = file.path.stat().st_size
        for file in files:
            if file.named:
                data = read_bytes(file.path)
                self._named_documents[file.source] = self._parse(file, data)

    def _parse(self, file: _File, data: bytes) -> Document | None:
        """The document, or None where the store has it as it is."""
        digest = digest_of(data, self.encoding)
        self._bytes[file.source] = len(data)
        if self._known.get(file.source) == digest:
            return None
        return parse_document(file.path, data, encoding=self.encoding, source=file.source, digest=digest)

    def _batches(self, files: Sequence[_File]) -> Iterator[list[Document]]:
        """New and changed documents in groups of about `_BATCH_CHARACTERS`; each file is read once."""
        batch: list[Document] = []
        size = 0
        for file in files:
            document = self._read(file)
            if document is None:
                continue
            batch.append(document)
            size += len(document.text)
            if size >= _BATCH_CHARACTERS:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _read(self, file: _File) -> Document | None:
        document: Document | None
        if file.named:
            document = self._named_documents.pop(file.source)
        else:
            try:
                data = read_bytes(file.path)
            except InputError as error:
                # It may well be readable next time, so what the store has of it stays.
                self._skip(file, error, unopened=True)
                return None
            try:
                document = self._parse(file, data)
            except InputError as error:
                self._skip(file, error)
                if file.source in self._known:
                    self._lost.append(file.source)
                return None
        if document is None:
            self.unchanged.append(file.source)
            self._done += self._bytes[file.source]
        return document

    def _skip(self, file: _File, error: InputError, *, unopened: bool = False) -> None:
        logger.info("skipped: %s", error)
        self.skipped.append(Skipped(file.source, str(error), unopened))
        self._done += self._bytes.get(file.source, 0)

    def _write(self, documents: Sequence[Document]) -> None:
        """Segment and embed these documents together and put them into the store."""
        spans = self.segmenter.segment_many([d.text for d in documents])
        chunks = [_chunks(d, s) for d, s in zip(documents, spans, strict=True)]
        vectors, for_reranker = self._vectors([c.text for part in chunks for c in part])
        new: list[NewDocument] = []
        start = 0
        for document, part in zip(documents, chunks, strict=True):
            place = slice(start, start + len(part))
            start += len(part)
            new.append(
                NewDocument(
                    document.source,
                    document.digest,
                    part,
                    vectors[place],
                    document.title,
                    for_reranker[place],
                )
            )
        self.store.put(new, maker=self.reranker.vectors_name if self.reranker is not None else "")
        for document, part in zip(documents, chunks, strict=True):
            (self.changed if document.source in self._known else self.added).append(document.source)
            self.chunks += len(part)
            self._done += self._bytes.get(document.source, 0)
            self._tell(document.source)

    def _vectors(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], Sequence[TextVectors]]:
        """The texts' vectors for the search, and those for the reranker."""
        if self.reranker is None or not texts:
            return self.embedder.embed_documents(texts), ()
        made = self.reranker.text_vectors(texts)
        if self.reranker.vectors_name == self.embedder.name:
            return np.stack([v.chunk for v in made]), made  # the same, so they are not made twice
        return self.embedder.embed_documents(texts), made

    def _tell(self, source: str) -> None:
        if self.progress is not None:
            files = len(self.added) + len(self.changed) + len(self.unchanged) + len(self.skipped)
            self.progress(IngestProgress(self._done, sum(self._bytes.values()), files, self.chunks, source))


def ingest(
    store: Store,
    paths: PathArgument | Iterable[PathArgument],
    segmenter: DocumentSegmenter,
    embedder: Embedder,
    *,
    encoding: str | None = None,
    rebuild: bool = False,
    progress: ProgressFunction | None = None,
    reranker: VectorReranker | None = None,
) -> IngestReport:
    """Bring ``store`` into step with the files below ``paths``.

    Documents whose content is in the store already are skipped, changed ones replaced, and those that came
    from ``paths`` and whose files are gone removed. A run that is broken off leaves whole documents, each as
    it was or as it should be; the next run does the rest.

    Args:
        store: The store; made where it does not exist.
        paths: A file or folder, or any iterable of them. What below a folder cannot be read, and links to
            folders, are left out and reported as ``skipped``; what the store has of a folder that cannot be
            opened stays.
        segmenter: Cuts the texts.
        embedder: Embeds the chunks.
        encoding: Of plain text, Markdown and HTML files that are not UTF-8; see `read_document`.
        rebuild: Empty the store first, whatever it was made with; not before there is something to put in.
        progress: Called after every document.
        reranker: Have its embeddings of chunks and their sentences kept in the store too, so that questions
            need not wait for them. Documents that are in the store already get theirs when they change.

    Raises:
        InputError: For a path that does not exist and never was ingested, a named file that cannot be read,
            or no documents at all. Nothing is written then.
        StoreError: Where the store was made with other models, is being written to or is damaged.
        MissingExtraError: Where a format or the store needs a package that is not installed.
    """
    run = Ingest(store, segmenter, embedder, encoding=encoding, progress=progress, reranker=reranker)
    return run.run(as_paths(paths), rebuild=rebuild)


def _chunks(document: Document, spans: Sequence[Span]) -> list[Chunk]:
    ids = chunk_ids(document.source, document.digest, spans)
    text, source = document.text, document.source
    nexts = [span.start for span in spans[1:]] + [len(text)]
    return [
        Chunk(i, s.of(text), source, s.start, s.end, document.page_of(s.start), _gap(text[s.end : following]))
        for i, s, following in zip(ids, spans, nexts, strict=True)
    ]


def _gap(text: str) -> str:
    """What lies between two chunks, where it is white space worth keeping."""
    return text if text.isspace() and len(text) <= _LONGEST_GAP else ""
