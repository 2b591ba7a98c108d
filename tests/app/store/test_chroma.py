"""A store kept by a real Chroma server that is killed and started again."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from sage_app.pipeline.ingest import IngestReport, ingest
from sage_app.pipeline.sage import Sage
from sage_app.store import ChromaStore, FolderStore, open_store
from sage_app.store import chroma as module
from sage_app.store.chunks import Found
from sage_core.errors import InputError, StoreError
from tests.app.servers import ChromaServer as Server
from tests.fakes.models import BlankLineSegmenter, HashEmbedder
from tests.fakes.stores import fill

pytest.importorskip("chromadb")
pytestmark = pytest.mark.slow

QUERY = HashEmbedder().embed_query("the")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("chroma")) as running:
        yield running


@pytest.fixture
def address(server: Server, request: pytest.FixtureRequest) -> str:
    """A collection of its own for every test."""
    return f"{server.url}/test-{abs(hash(request.node.name)) % 10**9}"


def run(store: ChromaStore, folder: Path, *, rebuild: bool = False) -> IngestReport:
    embedder = HashEmbedder()
    return ingest(store, [folder], BlankLineSegmenter(), embedder, rebuild=rebuild)


def contents(store: ChromaStore | FolderStore) -> set[tuple[str, str, str, int, int]]:
    found: list[Found] = store.search(QUERY, 1000)
    return {(f.chunk.id, f.chunk.source, f.chunk.text, f.chunk.start, f.chunk.end) for f in found}


def test_it_holds_what_a_folder_holds(address: str, tmp_path: Path) -> None:
    folder = fill(tmp_path / "docs")
    store, other = open_store(address), FolderStore(tmp_path / "folder")
    assert isinstance(store, ChromaStore) and not store.exists
    with pytest.raises(StoreError):
        store.search(QUERY, 3)
    with store, other:
        for change in range(4):
            if change == 1:
                (folder / "mill.md").write_text("The mill is closed.\n\nIt burned.")
                (folder / "ferry.txt").unlink()
            elif change == 2:
                fill(folder)
            assert run(store, folder).to_dict().keys() == run(other, folder).to_dict().keys()
            assert contents(store) == contents(other)
            assert [(d.id, d.digest, d.chunks) for d in store.documents()] == [
                (d.id, d.digest, d.chunks) for d in other.documents()
            ]
        vectors = HashEmbedder().embed_documents(["the ferry sails", "wool of sheep"])
        for mine, theirs in zip(store.search_many(vectors, 4), other.search_many(vectors, 4), strict=True):
            assert [f.similarity for f in mine] == pytest.approx([f.similarity for f in theirs], abs=2e-3)
            assert {f.chunk for f in mine} <= {f.chunk for f in other.search(QUERY, 10)}
        info = store.info()
        assert (info.documents, info.chunks, info.dimension) == (3, 6, 64)
        with pytest.raises(StoreError, match=r"'hash'.*'other'"):
            ingest(store, [folder], BlankLineSegmenter(), HashEmbedder("other"))
        run(store, folder, rebuild=True)
        assert contents(store) == contents(other)
        # Nothing is left of what was replaced.
        assert store._opened()[0].count() == 6 and store._opened()[1].count() == 5


def test_a_large_document_comes_in_parts(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sage_app.pipeline.ingest._LARGE_CHARACTERS", 100)
    monkeypatch.setattr("sage_app.pipeline.ingest._PART_CHUNKS", 8)
    folder = fill(tmp_path / "docs", {"large.txt": "\n\n".join(f"Line {i} of the log." for i in range(50))})
    with ChromaStore(address) as store:
        assert run(store, folder).chunks == 50
        assert len(contents(store)) == 50


def test_a_server_that_is_gone_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.5)
    monkeypatch.setenv(module.TOKEN_VARIABLE, "a-secret-token")
    with (
        caplog.at_level("DEBUG"),
        ChromaStore("http://127.0.0.1:9/pages") as store,
        pytest.raises(StoreError, match=r"http://127\.0\.0\.1:9") as raised,
    ):
        store.search(QUERY, 3)
    shown = f"{raised.value} {store!r} {store.location} {caplog.text}"
    assert "secret" not in shown


def test_naming_a_server_does_not_ask_it() -> None:
    began = time.monotonic()
    sage = Sage(ChromaStore("http://127.0.0.1:9/pages"), embedder=HashEmbedder())
    assert sage.store.location == "http://127.0.0.1:9/pages" and time.monotonic() - began < 5
    with pytest.raises(InputError, match="store"):
        Sage(3)  # type: ignore[arg-type]


class Refusing(BaseHTTPRequestHandler):
    """A proxy that wants a token, and quotes the one it gets."""

    seen: list[str]

    def do_GET(self) -> None:
        token = self.headers.get("Authorization", "")
        type(self).seen.append(token)
        body = json.dumps({"error": "AuthorizationError", "message": f"not allowed: {token}"}).encode()
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


def test_a_token_is_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(module.TOKEN_VARIABLE, "a-secret-token")
    Refusing.seen = []
    with HTTPServer(("127.0.0.1", 0), Refusing) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        with pytest.raises(StoreError) as raised:
            ChromaStore(f"http://127.0.0.1:{proxy.server_port}/pages").info()
        proxy.shutdown()
    assert Refusing.seen[0] == "Bearer a-secret-token"
    assert "secret" not in f"{raised.value}" and "***" in f"{raised.value}"


@pytest.mark.parametrize(
    "address", ["http://localhost:8000", "http://localhost:8000/a/b", "http:///x", "http://a:b@h/c"]
)
def test_an_address_without_a_collection_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="http://host:8000/collection"):
        open_store(address)


def test_sage_over_a_server(address: str, tmp_path: Path) -> None:
    with Sage(address, segmenter=BlankLineSegmenter(), embedder=HashEmbedder()) as sage:
        sage.ingest(fill(tmp_path / "docs"))
        assert sage.retrieve("who spins wool").candidates
        with Sage(address, segmenter=BlankLineSegmenter(), embedder=HashEmbedder("x", salt="x")) as other:
            other.ingest(tmp_path / "docs", rebuild=True)
        with pytest.raises(StoreError, match="'x'"):
            sage.retrieve("who spins wool")
