"""Search by words over somebody else's chunks: what changed is read again, limits hold, nothing else is read."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

from sage_core.text.links import document_names
from sage_core.word_index.search import Limits, WordSearch, text_versions
from sage_core.word_index.words import Entry


class Kept:
    """Texts in a dictionary, read one by one."""

    name = "a dictionary"

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts
        self.read: list[str] = []
        self.calls: list[int] = []
        self.listed = 0
        self.fails_after = 10**9

    def state(self) -> object:
        return len(self.texts)

    def versions(self) -> Mapping[str, str]:
        self.listed += 1
        return text_versions(self.texts)

    def chunks(self, ids: Sequence[str]) -> list[tuple[str, str]]:
        self.calls.append(len(ids))
        if sum(self.calls) > self.fails_after:
            raise ConnectionError("the server is gone")
        self.read += ids
        return [(i, self.texts[i]) for i in ids if i in self.texts]

    def passing(self, ids: Sequence[str], limits: Limits) -> Collection[str]:
        return {i for i in ids if i in limits["only"]}


def entry(chunk: tuple[str, str]) -> Entry:
    key, text = chunk
    return Entry(key, f"Harbor\n{text}", f"{key}.md", document_names(text.split()[0], f"{key}.md", ""))


def test_what_changed_is_read_again_and_nothing_else(tmp_path: Path) -> None:
    kept = Kept({"a": "Pumps are painted green.", "b": "Seals sleep on rocks."})
    search = WordSearch(kept, entry, tmp_path / "words.sqlite3")
    assert [i for i, _ in search.search("Which pumps are green?", 5)] == ["a"]
    assert [i for i, _ in search.search("harbor", 5)] == ["a", "b"]  # of the header
    kept.read.clear()
    kept.texts["b"] = "Pumps of the mill."
    assert {i for i, _ in search.search("pumps", 5)} == {"a", "b"}
    assert kept.read[0] == "b" and kept.read.count("b") == 2  # for the index, and for the result
    del kept.texts["a"]
    assert [i for i, _ in search.search("pumps", 5)] == ["b"]
    again = Kept(kept.texts)
    WordSearch(again, entry, tmp_path / "words.sqlite3").search("pumps", 5)
    assert again.read == ["b"]  # the file knew it already


def test_limits_hold_for_both_ways_and_names_are_known() -> None:
    search = WordSearch(Kept({"a": "Pumps one.", "b": "Pumps two."}), entry, None)
    assert [i for i, _ in search.search("pumps", 5, {"only": ["b"]})] == ["b"]
    assert [i for i, _ in search.passing(["b", "a", "gone"], {"only": ["a", "gone"]})] == ["a"]
    assert [i for i, _ in search.passing(["b", "gone"])] == ["b"]
    assert search.index.chunks_of(["a.md"], 1) == ["a"]


def test_many_are_read_by_pages_listed_once_and_looked_up_by_few() -> None:
    kept = Kept({f"{i:05}": f"Pump {i} is green." for i in range(33_000)})
    search = WordSearch(kept, entry, None)
    assert [i for i, _ in search.search("Which pump is 32999?", 3)] == ["32999"]
    assert max(kept.calls) <= 5_000 and sum(kept.calls) == 33_001
    kept.calls.clear()
    assert [i for i, _ in search.search("7", 3)] == ["00007"]
    assert kept.calls == [1] and kept.listed == 1
    kept.texts["new"] = "Pump QZ-9."
    del kept.texts["00007"], kept.texts["00008"]
    assert [i for i, _ in search.search("qz", 3)] == ["new"] and search.search("7", 3) == []
    assert kept.listed == 2 and sum(kept.calls) < 10


def test_a_store_that_fails_costs_the_words_and_goes_on_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Kept({f"{i:05}": f"Pump {i} is green." for i in range(12_000)})
    kept.fails_after = 10_000
    search = WordSearch(kept, entry, tmp_path / "words.sqlite3")
    assert search.search("32", 3) == search.search("32", 3) == search.passing(["00007"]) == []
    assert [r.message for r in caplog.records] == [
        "words are not searched: the a dictionary cannot be read: the server is gone"
    ]
    again = Kept(kept.texts)
    assert [i for i, _ in WordSearch(again, entry, search.index.path).search("11999", 3)] == ["11999"]
    assert sum(again.calls) == 2_001  # the first two pages are there


def test_the_next_process_reads_nothing(tmp_path: Path) -> None:
    kept = Kept({f"{i:05}": f"Pump {i} is green." for i in range(600)})
    WordSearch(kept, entry, tmp_path / "words.sqlite3").search("7", 1)
    again = Kept(kept.texts)
    assert WordSearch(again, entry, tmp_path / "words.sqlite3").search("7", 1) == [
        ("00007", "Pump 7 is green.")
    ]
    assert again.listed == 0 and again.read == ["00007"]


def test_words_of_what_went_do_not_pile_up() -> None:
    kept = Kept({f"{i:05}": f"Pump {i}." for i in range(6_000)})
    search = WordSearch(kept, entry, None)
    search.search("7", 1)
    kept.texts = {f"x{i}": f"Pump {i}." for i in range(3_000)}
    assert [i for i, _ in search.search("7", 9)] == ["x7"]
    assert search.index._next_row() == 3_001  # made anew
