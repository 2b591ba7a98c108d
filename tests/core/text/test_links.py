"""Names of documents, and where a text mentions them."""

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.text.links import (
    MAX_NAME_WORDS,
    document_names,
    find_mentions,
    name_key,
)


class Table:
    """Names in memory; counts how often it is asked."""

    def __init__(self, *names: str) -> None:
        self.keys = {key for name in names if (key := name_key(name))}
        self.asked = 0

    def known(self, keys: Sequence[str]) -> set[str]:
        self.asked += 1
        return self.keys & set(keys)

    def beginnings(self, keys: Sequence[str]) -> set[str]:
        self.asked += 1
        return {key for key in keys if any(f"{name} ".startswith(f"{key} ") for name in self.keys)}


def mentioned(text: str, *names: str) -> list[str]:
    [found] = find_mentions([text], Table(*names))
    return [text[m.start : m.end] for m in found]


@pytest.mark.parametrize(
    ("title", "source", "beginning", "names"),
    [
        ("Get Low (song)", "", "", ["get low", "get low song"]),
        ("(I Can't Get No) Satisfaction", "", "", ["i can t get no satisfaction"]),
        ("(untitled)", "", "", ["untitled"]),
        ("", "notes/pay_day.py", "", ["pay_day py", "pay_day"]),
        (None, "https://example.org/a/getStarted.html", "", ["getstarted html", "getstarted"]),
        (None, "Mara Holt", "", ["mara holt"]),
        (None, "https://example.org/12", "", []),
        ("Wool", "mill", "", ["wool"]),
        ("Wool", "C:\\texts\\wool.md", "", ["wool", "wool md"]),
        ("Non-Disclosure Agreement (NDA)", "", "", ["non disclosure agreement", "non disclosure agreement nda", "nda"]),
        ("European Space Agency", "", "It (ESA) is old.", ["european space agency"]),
        ("European Space Agency", "", "The European Space Agency (founded) is old.", ["european space agency"]),
        ("United Nations Educational Scientific and Cultural Organization (UNESCO)", "", "", None),
        (" \n ", "", "", []),
        ("?!", ".hidden", "", []),
    ],
)  # fmt: skip
def test_names_of_a_document(title: str | None, source: str, beginning: str, names: list[str] | None) -> None:
    if names is None:
        assert "unesco" in document_names(title, source, beginning)
    else:
        assert document_names(title, source, beginning) == tuple(names)


def test_a_title_of_500_words_is_no_name() -> None:
    assert document_names(" ".join(["word"] * 500)) == ()
    assert name_key(" ".join(["w"] * MAX_NAME_WORDS))
    assert name_key("x" * 100_000) == "x" * 64


def test_the_longest_name_at_a_place_is_mentioned() -> None:
    text = "In New York City, the New York Times wrote of York's mayor and of new laws."
    assert mentioned(text, "New York", "New York City", "The New York Times", "York", "York's Mayor") == [
        "New York City",
        "the New York Times",
        "York's mayor",
    ]
    assert mentioned("New York", "New York City") == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Frau Müllers Söhne: Jürgen MÜLLER.", "Jurgen Müller"),
        ("Он читал «Войну» и Анну Каренину, Война и мир.", "Война и мир"),
        ("他去了上海博物馆参观。", "上海博物馆"),
        ("Ο Νίκος Καζαντζάκης έγραψε.", "ΝΙΚΟΣ ΚΑΖΑΝΤΖΑΚΗΣ"),
        ("ไปเที่ยวเชียงใหม่กัน", "เชียงใหม่"),
        ("See `ranking/links.py` first.", "links.py"),
    ],
)
def test_other_scripts_and_accents(text: str, name: str) -> None:
    assert len(mentioned(text, name)) == 1


def test_marks_that_make_another_letter_are_kept() -> None:
    assert name_key("がき") != name_key("かき")
    assert name_key("край") != name_key("краи")


def test_names_are_looked_up_a_few_times_however_many_texts() -> None:
    table = Table("Mara Holt")
    assert len(find_mentions(["Mara Holt sailed."] * 50, table)) == 50 and table.asked == 4
    assert find_mentions([], table) == [] and find_mentions(["", " \n"], table) == [[], []]


def test_time_grows_with_the_text_and_no_more_than_its_beginning_is_read() -> None:
    table = Table("a a a a a a a a a a a b", "x" * 200)
    before = time.process_time()
    assert find_mentions(["a " * 500_000, "x" * 1_000_000, "字" * 500_000], table)[0] == []
    assert time.process_time() - before < 20  # hours where it is quadratic


@given(st.text(max_size=60), st.lists(st.text(max_size=12), max_size=4))
def test_mentions_are_disjoint_slices_that_are_names(text: str, names: list[str]) -> None:
    table = Table(*names)
    [found] = find_mentions([text], table)
    end = 0
    for mention in found:
        assert end <= mention.start < mention.end <= len(text)
        assert mention.key in table.keys
        end = mention.end
