"""Search by words over somebody else's chunks: what changed is read again, limits hold, nothing else is read."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from sage_core.text.links import document_names
from sage_core.word_index.search import Entry, Limits, TextVersions, WordSearch


class Kept:
    """Texts in a dictionary, read one by one."""

    name = "a dictionary"

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts
        self.read: list[str] = []
        self._versions = TextVersions()

    def versions(self) -> Mapping[str, str]:
        return self._versions.of(self.texts)

    def chunks(self, ids: Sequence[str]) -> list[tuple[str, str]]:
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
