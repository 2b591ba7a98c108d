"""Names of documents in a store: they come, change and go with their documents."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import sage_app.pipeline.ingest as ingest_module
from sage_app.store.folder import FolderStore
from tests.fakes.models import HashEmbedder
from tests.fakes.stores import fill, run

MILL, HOLT = "# The mill\n\nIt spins wool.\n\nMara Holt owns it.\n", "# Mara Holt\n\nShe was born in 1854.\n"


def named(store: Path, *keys: str) -> dict[str, list[str]]:
    with FolderStore(store) as opened:
        found = opened.named(list(keys), 9)
        assert opened.known(list(keys)) == found.keys()
        return {key: sorted(Path(source).name for source in sources) for key, sources in found.items()}


def rows(store: Path) -> int:
    with closing(sqlite3.connect(store / "store.sqlite3")) as connection:
        return int(connection.execute("SELECT COUNT(*) FROM names").fetchone()[0])


def test_names_come_change_and_go_with_their_documents(tmp_path: Path) -> None:
    docs, store = fill(tmp_path / "docs", {"mill.md": MILL}), tmp_path / "store"
    run(store, docs)
    assert named(store, "the mill", "mara holt") == {"the mill": ["mill.md"]}
    fill(docs, {"holt.md": HOLT})
    run(store, docs)
    assert named(store, "mara holt", "holt md") == {"mara holt": ["holt.md"], "holt md": ["holt.md"]}
    fill(docs, {"holt.md": HOLT.replace("Holt", "Voss")})
    run(store, docs)
    assert named(store, "mara holt", "mara voss") == {"mara voss": ["holt.md"]}
    (docs / "holt.md").unlink()
    run(store, docs)
    assert named(store, "mara voss", "the mill") == {"the mill": ["mill.md"]} and rows(store) == 2
    run(store, fill(tmp_path / "other", {"a.md": HOLT}), rebuild=True)
    assert named(store, "mara holt", "the mill") == {"mara holt": ["a.md"]}


def test_beginnings_are_whole_words(tmp_path: Path) -> None:
    run(tmp_path / "store", fill(tmp_path / "docs", {"a.md": "# Mara Holt the Younger\n\nBorn.\n"}))
    with FolderStore(tmp_path / "store") as store:
        assert store.beginnings(["mara holt", "mara hol", "holt the", "a md"]) == {"mara holt", "a md"}
        assert store.beginnings([]) == store.known([]) == set()
        assert store.known(["'; DROP TABLE names --", "\0"]) == set()


def test_documents_of_one_title_are_listed_up_to_the_limit(tmp_path: Path) -> None:
    run(
        tmp_path / "store",
        fill(tmp_path / "docs", {f"{i}.md": f"# Report\n\nYear {i}.\n" for i in range(30)}),
    )
    with FolderStore(tmp_path / "store") as store:
        assert len(store.named(["report"], 6)["report"]) == 6


def test_words_of_names_are_counted_by_chunks(tmp_path: Path) -> None:
    run(tmp_path / "store", fill(tmp_path / "docs", {"mill.md": MILL, "holt.md": HOLT}))
    with FolderStore(tmp_path / "store") as store:
        counts, chunks = store.counts(["holt", "mill", "nobody"])
    assert (counts, chunks) == ({"holt": 3, "mill": 3, "nobody": 0}, 5)  # a title stands before each


def test_the_first_chunks_of_documents_come_with_their_cosines(tmp_path: Path) -> None:
    docs = fill(tmp_path / "docs", {"mill.md": MILL, "holt.md": HOLT})
    run(tmp_path / "store", docs)
    vector = HashEmbedder().embed_query("Mara Holt owns it.")
    with FolderStore(tmp_path / "store") as store:
        found = store.first_chunks([str(docs / "mill.md"), str(docs / "gone.md")], vector, 1)
        [both] = [store.first_chunks([str(docs / "mill.md")], vector, 9)]
        searched = {f.chunk.id: f.similarity for f in store.search(vector, 9)}
        assert store.first_chunks([], vector, 9) == []
    assert [f.chunk.position for f in found] == [0] and [f.chunk.position for f in both] == [0, 1, 2]
    assert all(f.similarity == pytest.approx(searched[f.chunk.id]) for f in both)


def test_a_large_document_has_its_names_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_module, "_LARGE_CHARACTERS", 20)
    run(
        tmp_path / "store",
        fill(tmp_path / "docs", {"esa.md": "# Space Agency\n\nThe Space Agency (SA) flies.\n"}),
    )
    assert named(tmp_path / "store", "space agency", "sa") == {"space agency": ["esa.md"], "sa": ["esa.md"]}


def test_a_store_without_names_is_searched_and_gets_them_when_it_is_written_to(tmp_path: Path) -> None:
    docs, store = fill(tmp_path / "docs", {"mill.md": MILL, "holt.md": HOLT}), tmp_path / "store"
    run(store, docs)
    with closing(sqlite3.connect(store / "store.sqlite3")) as connection:
        connection.execute("DROP TABLE names")
    with FolderStore(store) as opened:
        assert opened.known(["mara holt"]) == opened.beginnings(["mara holt"]) == set()
    run(store, docs)
    assert named(store, "mara holt", "the mill") == {"mara holt": ["holt.md"], "the mill": ["mill.md"]}
