"""The index of words beside the vectors: what it finds, and that it stays in step with the chunks."""

import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

import sage_app.store.folder as folder_module
import sage_core.word_index.words as words_module
from sage_app.store.chunks import Found
from sage_app.store.folder import FolderStore
from sage_core.errors import StoreError
from sage_core.text.keywords import indexed
from sage_core.word_index.words import Entry, WordIndex
from tests.fakes.models import HashEmbedder
from tests.fakes.stores import TEXTS, fill, run


def found(store: Path, question: str, *, n: int = 1, words: int = 5) -> list[Found]:
    with FolderStore(store) as opened:
        vectors = HashEmbedder().embed_query(question)[None, :]
        return opened.search_many(vectors, n, questions=[question], words=words)[0]


def check(store: Path) -> None:
    """The index has the words of the chunks that count, row by row, and no others."""
    with closing(sqlite3.connect(store / "store.sqlite3")) as connection:
        chunks = dict(connection.execute("SELECT row, header || char(10) || text FROM chunks"))
        words = dict(connection.execute("SELECT rowid, terms FROM words"))
    assert words == {row: indexed(text.removeprefix("\n")) for row, text in chunks.items()}


def test_a_rare_word_finds_its_chunk_whatever_the_vector(tmp_path: Path) -> None:
    many = {f"{i}.txt": f"The pump number {i} of the ferry is painted green.\n" for i in range(40)}
    store, part = tmp_path / "store", {"part.txt": "Spare parts: seal XK-200/7 fits.\n"}
    run(store, fill(tmp_path / "docs", {**many, **part}))
    hits = found(store, "the pump of the ferry painted green is number XK-200/7", n=3, words=2)
    assert Path(hits[0].chunk.source).name != "part.txt"
    [by_words] = [h for h in hits if Path(h.chunk.source).name == "part.txt"]
    assert by_words.by_words == 0 and -1 <= by_words.similarity < hits[0].similarity
    assert len({h.chunk.id for h in hits}) == len(hits) <= 5


def test_a_chunk_found_both_ways_comes_once(tmp_path: Path) -> None:
    run(tmp_path / "store", fill(tmp_path / "docs"))
    hits = found(tmp_path / "store", "When does the ferry sail?", n=5)
    assert len({h.chunk.id for h in hits}) == len(hits) == 5
    assert [h.chunk.text for h in hits if h.by_words == 0] == ["The ferry sails at seven."]
    assert [h.similarity for h in hits] == sorted((h.similarity for h in hits), reverse=True)


@pytest.mark.parametrize(
    "question", ['"', "the of and", "NEAR(a b) OR *", "a:b^c -d {e}", "灯台", "é" * 300, ""]
)
def test_no_question_breaks_the_search(tmp_path: Path, question: str) -> None:
    run(tmp_path / "store", fill(tmp_path / "docs"))
    assert len(found(tmp_path / "store", question, n=2)) >= 2


def test_words_are_found_with_other_diacritics_and_in_titles(tmp_path: Path) -> None:
    texts = {
        **TEXTS,
        "a.md": "# Paraíba do Sul\n\nIt is long.\n\nIt is wide.\n",
        "b.txt": "灯台は海辺にある。\n",
    }
    run(tmp_path / "store", fill(tmp_path / "docs", texts))
    named = {h.chunk.text for h in found(tmp_path / "store", "Paraiba") if h.by_words is not None}
    assert {"It is long.", "It is wide."} <= named
    assert any(h.by_words == 0 and "灯台" in h.chunk.text for h in found(tmp_path / "store", "海辺の灯台"))


def test_common_words_are_not_searched_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path / "store", fill(tmp_path / "docs"))
    monkeypatch.setattr(words_module, "COMMON_LEAST", 1)
    hits = found(tmp_path / "store", "the ferry and the mill", n=1)
    assert {h.chunk.text for h in hits if h.by_words is not None} == {"The ferry sails at seven."}


def test_it_stays_in_step_with_every_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs, store = fill(tmp_path / "docs"), tmp_path / "store"
    monkeypatch.setattr(folder_module, "_LEAST_DEAD", 0)  # files are compacted at once
    run(store, docs)
    check(store)
    (docs / "ferry.txt").write_text("No ferry today.\n\nThe captain is ill.")
    (docs / "sub" / "light.txt").unlink()
    run(store, docs)
    check(store)
    assert not any(h.by_words is not None for h in found(store, "seven"))
    assert found(store, "captain")[-1].chunk.text == "The captain is ill."
    run(store, docs, rebuild=True)
    check(store)


def test_parts_of_a_document_count_only_when_it_is_whole(tmp_path: Path) -> None:
    from sage_app.store.chunks import Chunk, NewDocument

    docs, store = fill(tmp_path / "docs"), tmp_path / "store"
    run(store, docs)
    embedder = HashEmbedder()
    texts = [f"Zebra number {i}." for i in range(3)]
    source = str(tmp_path / "zebra.txt")

    def parts():
        for i, text in enumerate(texts):
            chunk = Chunk("", text, source, i * 20, i * 20 + len(text), position=i)
            yield NewDocument(source, "digest", [chunk], embedder.embed_documents([text]), "Zebras")
            assert not any("Zebra" in h.chunk.text for h in found(store, "zebra"))

    with FolderStore(store) as opened:
        with opened._reading() as connection:
            made_with = opened._identity(connection)
        with opened.writing(made_with):
            opened.put_parts(parts())
    hits = [h for h in found(store, "zebra") if h.by_words is not None]
    assert [h.chunk.position for h in sorted(hits, key=lambda h: h.chunk.start)] == [0, 1, 2]
    assert {h.chunk.title for h in hits} == {"Zebras"}
    check(store)


def index_of(texts: dict[str, str], path: Path | None = None) -> tuple[WordIndex, int]:
    index = WordIndex(path)
    versions = {key: str(hash(text)) for key, text in texts.items()}
    return index, index.update(versions, lambda ids: [Entry(key, texts[key]) for key in ids])


SAILING = {"a": "Guide\nThe ferry sails at seven.", "b": "Bees fly.", "c": "The ferry ferry ferry."}


def test_a_word_index_finds_by_words_and_by_nothing_else() -> None:
    index, read = index_of(SAILING)
    assert read == len(index) == 3
    assert index.search("sailing of the ferry", 5) == ["a", "c"]
    assert index.search("guide", 5) == ["a"], "what stands before the text is searched too"
    assert index.search("the of and", 5) == index.search('" OR *', 5) == index.search("", 5) == []


def test_a_question_scores_no_more_rows_than_a_limit_the_rarest_words_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = {str(i): "ferry " * (i < 4) + "boats " * (4 <= i < 6) + "mill" for i in range(10)}
    index, _ = index_of(texts)
    monkeypatch.setattr(words_module, "COMMON_LEAST", 5)
    assert set(index.search("the boat, the ferry or the mill?", 9)) == set("012345")
    monkeypatch.setattr(words_module, "_MOST_SCORED", 5)
    assert set(index.search("the boat, the ferry or the mill?", 9)) == set("45")
    assert set(index.search("ferry", 9)) == set("0123")


def test_a_filter_holds_however_far_down_the_first_that_passes_is() -> None:
    texts = {str(i): "ferry " * (400 - i) + "boat" for i in range(400)}
    index, _ = index_of(texts)
    asked: list[int] = []

    def allowed(ids: Sequence[str]) -> set[str]:
        asked.append(len(ids))
        return {key for key in ids if int(key) >= 395}

    assert set(index.search("boat", 3, allowed=allowed)) < {str(i) for i in range(395, 400)}
    assert sum(asked) <= 400


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Not a database. " * 400)
    with pytest.raises(StoreError):
        WordIndex(tmp_path / "notes.txt")
    with closing(sqlite3.connect(tmp_path / "theirs.db")) as connection:
        connection.execute("CREATE TABLE words (mine TEXT)")
    with pytest.raises(StoreError):
        WordIndex(tmp_path / "theirs.db")
    with closing(sqlite3.connect(tmp_path / "theirs.db")) as connection:
        assert connection.execute("SELECT COUNT(*) FROM words").fetchone() == (0,)


def test_threads_share_an_index() -> None:
    index, _ = index_of(SAILING)
    with ThreadPoolExecutor(8) as pool:
        assert set(map(tuple, pool.map(lambda _: index.search("ferry", 5), range(100)))) == {("c", "a")}


def test_a_word_index_knows_documents_by_their_names_while_they_have_chunks() -> None:
    texts = {"a0": "Ferries.", "a1": "They sail.", "b0": "Bees.", "c0": "No name."}
    described = {"a0": ("a", ["the ferry"]), "a1": ("a", ["the ferry"]), "b0": ("b", ["bee", "the ferry"])}
    versions = dict.fromkeys(texts, "1")
    index = WordIndex()

    def update() -> None:
        index.update(versions, lambda ids: [Entry(i, texts[i], *described.get(i, ())) for i in ids])

    update()
    assert index.named(["the ferry", "bee", "c"], 5) == {"the ferry": ["a", "b"], "bee": ["b"]}
    assert index.known(["bee", "wasp"]) == {"bee"} and index.beginnings(["the ferry"]) == {"the ferry"}
    assert index.chunks_of(["a", "b"], 2) == ["a0", "b0", "a1"] and index.chunks_of(["a"], 1) == ["a0"]
    assert index.counts(["bee", "wasp"]) == ({"bee": 1, "wasp": 0}, 4)
    del versions["a0"], versions["b0"]
    update()
    assert index.named(["the ferry", "bee"], 5) == {"the ferry": ["a"]} and index.chunks_of(
        ["a", "b"], 5
    ) == ["a1"]


def test_a_store_of_other_words_gets_them_anew_once(tmp_path: Path) -> None:
    run(tmp_path / "store", fill(tmp_path / "docs"))
    database = tmp_path / "store" / "store.sqlite3"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("DELETE FROM words")
        connection.execute("INSERT INTO words (rowid, terms) VALUES (1, 'torn')")
        connection.execute("DELETE FROM settings WHERE name = 'words'")
    assert [h for h in found(tmp_path / "store", "When does the ferry sail?", n=5) if h.by_words == 0]
    check(tmp_path / "store")
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("DELETE FROM words")
    assert not [h for h in found(tmp_path / "store", "When does the ferry sail?", n=5) if h.by_words == 0]
