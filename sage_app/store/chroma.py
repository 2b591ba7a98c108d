"""A store kept by a Chroma server, for any number of writers and readers on any machines.

Chroma has no transactions. A document's chunks carry the version that they belong to, and its record, in a
second collection, names the live version: one small write replaces a document, whatever its size. Every such
write also sets a mark; a search that finds another mark than before it began is made again. Chunks that a
writer that died left behind belong to no live version: no search returns them, and ``rebuild`` clears them.
"""

from __future__ import annotations

import base64
import itertools
import json
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from sage_app.store.chunks import Chunk, Found, NewDocument, document_id, version_of
from sage_app.store.identity import StoreIdentity, StoreInfo
from sage_app.store.protocol import DocumentRecord, OpenStore
from sage_core.errors import InputError, MissingExtraError, StoreError

logger = logging.getLogger(__name__)

SCHEMA = 3
TOKEN_VARIABLE = "SAGE_CHROMA_TOKEN"
# The index is approximate. Against exact search for 30 neighbors, 100 chunks that are much alike: Chroma's
# defaults find 94% of them, these all; 2,000 such chunks: 69% and 90%; 20,000 ordinary ones: all, in 4 ms.
_INDEX = {"hnsw": {"space": "cosine", "max_neighbors": 48, "ef_construction": 200, "ef_search": 400}}
_SETTINGS, _CHANGE, _DOCUMENT = "settings", "change", "d:"
_PAGE = 5_000
_DELETED_TOGETHER = 200
_TRIES = 8  # searches that a writer came between, before one is taken as it is
_PATIENCE = 20.0  # seconds that a server may be away
_TIMEOUT = 60.0  # seconds that it may take over a reply


class ChromaStore(OpenStore):
    """A store kept by a Chroma server (`chroma run --path data`).

    A broken connection is tried again for 20 seconds. Safe across threads; any number of processes and
    machines may read and write. Chroma's index is approximate. Has the methods of `Store`.

    Examples:
        >>> ChromaStore("http://localhost:8000/manuals")
        ChromaStore('http://localhost:8000/manuals')

    Args:
        address: Address of the server with the name of a collection.
        headers: Sent with every request, such as ``{"X-Chroma-Token": "..."}``; never shown. Where None,
            the environment variable ``SAGE_CHROMA_TOKEN`` is sent as a bearer token.
        tenant: Chroma's tenant.
        database: Chroma's database.

    Raises:
        InputError: For anything but an address with the name of a collection.
    """

    def __init__(
        self,
        address: str,
        *,
        headers: Mapping[str, str] | None = None,
        tenant: str = "default_tenant",
        database: str = "default_database",
    ) -> None:
        self._tenant, self._database = tenant, database
        self._headers = dict(headers) if headers is not None else _headers_of_environment()
        self._url, self._name = self._parsed(str(address))
        self.location = f"{self._url}/{self._name}"
        self._init_runtime_state()

    def _parsed(self, address: str) -> tuple[str, str]:
        """Address and collection."""
        try:
            parts = urlsplit(address)
            _ = parts.port  # checked when it is read
        except ValueError as error:
            raise InputError(f"no Chroma server can have that address: {error}") from None
        name = parts.path.strip("/")
        http = parts.scheme in ("http", "https")
        if not http or not parts.hostname or not name or "/" in name or parts.query or parts.username:
            raise InputError(
                "a Chroma server is named as http://host:8000/collection; a token goes into headers or "
                f"{TOKEN_VARIABLE}"
            )
        port = parts.port or (443 if parts.scheme == "https" else 8000)
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return f"{parts.scheme}://{host}:{port}", name

    def _init_runtime_state(self) -> None:
        """Create locks and caches; called again in a forked child."""
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._client: Any = None
        self._collections: tuple[Any, Any] | None = None
        self._most_rows = 1
        self._mark: str | None = None
        self._writing = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.location!r})"

    def __getstate__(self) -> dict[str, Any]:
        runtime = ("_lock", "_client", "_collections")
        return {name: value for name, value in self.__dict__.items() if name not in runtime}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._init_runtime_state()

    # -- what it is -----------------------------------------------------------------------------------

    @property
    def several_writers(self) -> bool:
        """Whether several processes may write at once."""
        return True

    @property
    def exists(self) -> bool:
        return self.is_complete

    @property
    def is_complete(self) -> bool:
        return self._settings() is not None

    def require_packages(self) -> None:
        try:
            import chromadb  # noqa: F401
        except ImportError:
            raise MissingExtraError("A store kept by Chroma", "chroma") from None

    def info(self) -> StoreInfo:
        records = self.documents()
        return self._identity().info(self.location, len(records), sum(r.chunks for r in records))

    def check(self, identity: StoreIdentity) -> None:
        self._identity().require(identity, self.location)

    def _identity(self, text: str | None = None) -> StoreIdentity:
        """From its settings; read where they are not given."""
        if (text := text or self._settings()) is None:
            raise self._no_store()
        try:
            settings = json.loads(text)
            if settings.pop("schema") != SCHEMA:
                raise ValueError("another format")
            settings["probe"] = base64.b64decode(settings["probe"])
            return StoreIdentity.from_settings(settings)
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(
                f"the store at {self.location} cannot be read ({error}): make it anew with "
                "`sage-rag ingest --rebuild`"
            ) from error

    def _no_store(self) -> StoreError:
        return StoreError(
            f"no store at {self.location}: make one with `sage-rag ingest docs/ --store {self.location}`"
        )

    def _settings(self) -> str | None:
        """The models the store was made with, as JSON; None if there is no store."""
        row = self._documents("get", missing=None, ids=[_SETTINGS], include=["metadatas"])
        return row["metadatas"][0]["text"] if row is not None and row["ids"] else None

    def documents(self) -> list[DocumentRecord]:
        records = [
            DocumentRecord(
                key.removeprefix(_DOCUMENT),
                row["source"],
                row["digest"],
                row["chunks"],
                row.get("title"),
                row.get("stat", ""),
            )
            for key, row in self._rows().items()
        ]
        return sorted(records, key=lambda r: r.source)

    def _rows(self) -> dict[str, dict[str, Any]]:
        """The documents' entries of the second collection, by id."""
        rows: dict[str, dict[str, Any]] = {}
        while True:
            part = self._documents(
                "get", where={"kind": "document"}, limit=_PAGE, offset=len(rows), include=["metadatas"]
            )
            rows.update(zip(part["ids"], part["metadatas"], strict=True))
            if len(part["ids"]) < _PAGE:
                return rows

    # -- Chroma ---------------------------------------------------------------------------------------

    def _chunks(self, method: str, **arguments: Any) -> Any:
        return self._call(lambda chunks, _: getattr(chunks, method)(**arguments))

    def _documents(self, method: str, *, missing: Any = ..., **arguments: Any) -> Any:
        return self._call(lambda _, documents: getattr(documents, method)(**arguments), missing=missing)

    def _call(self, action: Callable[[Any, Any], Any], *, missing: Any = ..., create: bool = False) -> Any:
        """Do something with the collections of chunks and of documents, again where the connection breaks.

        Args:
            action: What to do. Done twice, it must change no more than done once.
            missing: Returned where the collections do not exist; an error where not given.
            create: Make the collections where they do not exist.
        """
        self.require_packages()
        from chromadb.errors import ChromaError, NotFoundError

        deadline, pause = time.monotonic() + _PATIENCE, 0.1
        reopened = False
        while True:
            try:
                return action(*self._opened(create=create))
            except NotFoundError:
                # Made anew by somebody else: the name stands for another collection now.
                with self._lock:
                    self._collections = None
                if reopened:
                    if missing is not ...:
                        return missing
                    raise self._no_store() from None
                reopened = True
            except StoreError:
                raise
            except Exception as error:  # Chroma's client raises bare exceptions for replies it does not know
                if isinstance(error, ChromaError) or not _is_passing(error):
                    raise self._failed(error) from None
                if time.monotonic() + pause > deadline:
                    raise StoreError(
                        f"the Chroma server at {self._url} does not answer: {self._shown(error)}. Start it "
                        "(`chroma run`), or check address, network and token"
                    ) from None
                logger.info("the Chroma server does not answer, trying again: %s", self._shown(error))
                time.sleep(pause)
                pause = min(2 * pause, 2.0)

    def _failed(self, error: Exception) -> StoreError:
        said = f"the store at {self.location} cannot be used: {self._shown(error)}"
        if type(error).__name__ in {"AuthorizationError", "ChromaAuthError"}:
            said += f". Set {TOKEN_VARIABLE}, or give headers"
        return StoreError(said)

    def _shown(self, error: Exception) -> str:
        """What an error says, without what was sent in headers."""
        text = " ".join(str(error).split())[:500] or type(error).__name__
        for value in self._headers.values():
            for secret in {value, value.rpartition(" ")[2]} - {""}:
                text = text.replace(secret, "***")
        return text

    def _opened(self, *, create: bool = False) -> tuple[Any, Any]:
        if self._process != os.getpid():
            self._init_runtime_state()
        with self._lock:
            if self._client is None:
                self._client = self._connect()
                self._most_rows = int(self._client.get_max_batch_size())
            if self._collections is None:
                get, index = self._client.get_collection, {}
                if create:
                    get, index = self._client.get_or_create_collection, {"configuration": _INDEX}
                self._collections = (
                    get(self._name, embedding_function=None, **index),
                    get(f"{self._name}-documents", embedding_function=None),
                )
            return self._collections

    def _connect(self) -> Any:
        import chromadb
        from chromadb.config import Settings

        settings = Settings(anonymized_telemetry=False)
        parts = urlsplit(self._url)
        client = chromadb.HttpClient(
            host=str(parts.hostname),
            port=int(parts.port or 8000),
            ssl=parts.scheme == "https",
            headers=self._headers,
            settings=settings,
            tenant=self._tenant,
            database=self._database,
        )
        # Chroma's client waits forever, and has no option for it.
        session = getattr(getattr(client, "_server", None), "_session", None)
        if session is not None:
            session.timeout = _TIMEOUT
        return client

    def close(self) -> None:
        with self._lock:
            client, self._client, self._collections, self._mark = self._client, None, None, None
        if client is not None and self._process == os.getpid():
            client.close()

    # -- writing --------------------------------------------------------------------------------------

    @contextmanager
    def writing(self, identity: StoreIdentity, *, rebuild: bool = False) -> Iterator[None]:
        """Get ready for writing; makes the store where there is none.

        Several writers may write at the same time; of two that write the same document, the later one wins.

        Args:
            identity: The models that make the chunks and vectors.
            rebuild: Delete an existing store first, whatever it was made with and however damaged it is.

        Raises:
            StoreError: Where the store cannot be written, or was made with other models.
        """
        self.require_packages()
        if rebuild:
            self._delete()
        if not self.is_complete:
            self._create(identity)
        self.check(identity)
        self._writing = True
        try:
            yield
        finally:
            self._writing = False

    def _create(self, identity: StoreIdentity) -> None:
        settings: dict[str, Any] = {**identity.to_settings(), "schema": SCHEMA}
        settings["probe"] = base64.b64encode(settings["probe"]).decode()
        self._call(lambda *_: None, create=True)
        self._write_rows({_SETTINGS: {"kind": "settings", "text": json.dumps(settings)}})

    def _delete(self) -> None:
        for name in (f"{self._name}-documents", self._name):
            self._call(lambda *_, name=name: self._client.delete_collection(name), create=True)
        with self._lock:
            self._collections = None

    def _write_rows(self, rows: Mapping[str, Mapping[str, Any]], *, change: bool = True) -> None:
        """Write entries of the second collection, and that something changed."""
        entries = dict(rows)
        if change:
            entries[_CHANGE] = {"kind": "change", "text": secrets.token_hex(8)}
        for part in _parts(list(entries), self._most_rows):
            self._documents(
                "upsert",
                ids=part,
                embeddings=[[1.0]] * len(part),
                metadatas=[{k: v for k, v in entries[key].items() if v is not None} for key in part],
            )

    def _records(self, keys: Collection[str]) -> dict[str, dict[str, Any]]:
        rows: dict[str, dict[str, Any]] = {}
        for part in _parts(sorted(keys), _PAGE):
            page = self._documents("get", ids=part, include=["metadatas"])
            rows.update(zip(page["ids"], page["metadatas"], strict=True))
        return rows

    def _delete_versions(self, versions: Collection[str]) -> None:
        """Delete the chunks of these versions, unless another writer has made them live again."""
        keys = {_DOCUMENT + version.rpartition("-")[0] for version in versions}
        live = {row["version"] for row in self._records(keys).values()}
        for part in _parts(sorted(set(versions) - live), _DELETED_TOGETHER):
            self._chunks("delete", where={"version": {"$in": part}})

    def _require_writing(self) -> None:
        if not self._writing:
            raise InputError("documents are written within `with store.writing(...)` only")

    def put(self, documents: Sequence[NewDocument]) -> None:
        """Put documents into the store in place of what it held of them; see `Store.put`."""
        self._require_writing()
        new = {d.source: d for d in documents if len(d.chunks)}
        self._put(new, list(new.values()))

    def put_parts(self, parts: Iterable[NewDocument]) -> None:
        self._require_writing()
        made = iter(parts)
        first = next(made, None)
        if first is not None:
            self._put({first.source: first}, itertools.chain([first], made))

    def _put(self, heads: Mapping[str, NewDocument], parts: Iterable[NewDocument]) -> None:
        if not heads:
            return
        versions = {source: version_of(source, d.digest) for source, d in heads.items()}
        before = self._records({_DOCUMENT + document_id(source) for source in heads})
        old = {row["version"] for row in before.values()} - set(versions.values())
        counts = dict.fromkeys(heads, 0)
        for document in parts:
            counts[document.source] += len(document.chunks)
            self._write_chunks(document, versions[document.source])
        # Another writer may have been faster.
        now = self._records({_DOCUMENT + document_id(source) for source in heads})
        old |= {row["version"] for row in now.values()} - set(versions.values())
        self._write_rows(
            {
                _DOCUMENT + document_id(source): {
                    "kind": "document",
                    "source": source,
                    "digest": document.digest,
                    "version": versions[source],
                    "chunks": counts[source],
                    "title": document.title,
                    "stat": document.stat,
                }
                for source, document in heads.items()
            }
        )
        self._delete_versions(old)

    def _write_chunks(self, document: NewDocument, version: str) -> None:
        if len(document.chunks) != len(document.vectors):
            raise InputError(f"{len(document.chunks)} chunks, but {len(document.vectors)} vectors")
        key = document_id(document.source)
        vectors = np.asarray(document.vectors, dtype=np.float32)
        for start in range(0, len(document.chunks), self._most_rows):
            place = slice(start, start + self._most_rows)
            chunks = document.chunks[place]
            self._chunks(
                "upsert",
                ids=[chunk.id for chunk in chunks],
                embeddings=vectors[place],
                documents=[chunk.text for chunk in chunks],
                metadatas=[_metadata(c, key, version) for c in chunks],
            )

    def remove(self, *sources: str) -> None:
        self._require_writing()
        keys = {_DOCUMENT + document_id(source) for source in sources}
        versions = {row["version"] for row in self._records(keys).values()}
        if not versions:
            return
        self._documents("delete", ids=sorted(keys))
        self._write_rows({})
        self._delete_versions(versions)

    def touch(self, stats: Mapping[str, str]) -> None:
        self._require_writing()
        rows = self._records({_DOCUMENT + document_id(source) for source in stats})
        self._write_rows(
            {key: {**row, "stat": stats[row["source"]]} for key, row in rows.items()}, change=False
        )

    # -- searching ------------------------------------------------------------------------------------

    def search_many(
        self,
        vectors: NDArray[np.float32],
        n: int,
        *,
        questions: Sequence[str] = (),
        words: int = 0,
        identity: StoreIdentity | None = None,
    ) -> list[list[Found]]:
        """Search for several questions in one request; see `Store.search_many`."""
        if n < 1:
            raise InputError(f"the number of candidates must be at least 1, not {n}")
        if not len(vectors):
            return []
        for _ in range(_TRIES):
            hits, mark, settings = self._searched(np.asarray(vectors, dtype=np.float32), n)
            if identity is not None:
                self._identity(settings).require(identity, self.location)
            before, self._mark = self._mark, mark
            if before == mark:
                break  # else: a document that was replaced meanwhile may be missing
        return hits

    def _searched(self, vectors: NDArray[np.float32], n: int) -> tuple[list[list[Found]], str, str]:
        """The hits, the mark after the search, and the store's settings."""
        hits: list[list[Found]] = [[] for _ in vectors]
        records: dict[str, dict[str, Any]] = {}
        todo, fetch = list(range(len(vectors))), n
        while todo:
            result = self._chunks(
                "query",
                query_embeddings=vectors[todo],
                n_results=fetch,
                include=["documents", "metadatas", "distances"],
            )
            # The server may return the id of a chunk that another client is deleting, without its data.
            known = [meta for metas in result["metadatas"] for meta in metas if meta is not None]
            keys = {_DOCUMENT + meta["document"] for meta in known}
            records = {**records, **self._records({*keys, _CHANGE, _SETTINGS})}
            short = []
            for i, *columns in zip(
                todo, result["documents"], result["metadatas"], result["distances"], strict=True
            ):
                rows = list(zip(*columns, strict=True))
                hits[i] = _live_hits([row for row in rows if None not in row], records, n)
                # Chunks of replaced versions, and repeated texts, took places: ask for more.
                if len(hits[i]) < n and len(rows) >= fetch:
                    short.append(i)
            todo, fetch = short, 2 * fetch
        if _SETTINGS not in records:
            raise self._no_store()
        return hits, records.get(_CHANGE, {}).get("text", ""), records[_SETTINGS]["text"]


def _parts(values: list[str], size: int) -> Iterator[list[str]]:
    return (values[start : start + size] for start in range(0, len(values), size))


def _headers_of_environment() -> dict[str, str]:
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    return {"Authorization": f"Bearer {token}"} if token else {}


def _is_passing(error: Exception) -> bool:
    """Whether an error of Chroma's client may be gone a moment later."""
    import httpx

    said = str(error)
    return isinstance(error, httpx.TransportError | OSError) or (
        type(error) in {Exception, ValueError}
        and ("Could not connect" in said or any(word in said.lower() for word in _PASSING))
    )


# What proxies and servers that are starting say.
_PASSING = ("too many requests", "unavailable", "bad gateway", "timeout", "temporarily")


def _metadata(chunk: Chunk, key: str, version: str) -> dict[str, str | int]:
    """What Chroma keeps beside a chunk's text; what is missing takes no room."""
    meta: dict[str, str | int | None] = {
        "document": key,
        "version": version,
        "source": chunk.source,
        "start": chunk.start,
        "end": chunk.end,
        "position": chunk.position,
        "headings": json.dumps(chunk.headings) if chunk.headings else None,
        "header": chunk.header or None,
        "page": chunk.page,
    }
    return {name: value for name, value in meta.items() if value is not None}


def _live_hits(
    rows: Iterable[tuple[str, dict[str, Any], float]], records: Mapping[str, Mapping[str, Any]], n: int
) -> list[Found]:
    """The first ``n`` chunks of live versions, no text twice."""
    hits: dict[str, Found] = {}
    for text, meta, distance in rows:
        record = records.get(_DOCUMENT + meta["document"])
        words = " ".join(text.split())
        if record is None or record["version"] != meta["version"]:
            continue
        start, end = meta["start"], meta["end"]
        chunk = Chunk(
            f"{meta['version']}-{start}-{end}",
            text,
            meta["source"],
            start,
            end,
            meta.get("page"),
            meta.get("position", 0),
            record.get("title"),
            tuple(json.loads(meta.get("headings", "[]"))),
            meta.get("header", ""),
        )
        if (first := hits.get(words)) is not None:
            hits[words] = replace(first, copies=(*first.copies, chunk))
        elif len(hits) < n:
            hits[words] = Found(chunk, 1.0 - float(distance))
    return list(hits.values())
