"""Names of documents, and where a text mentions them."""

import time
from collections.abc import Sequence
from pathlib import PurePath
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.text.links import (
    MAX_NAME_WORDS,
    document_names,
    find_hyperlinks,
    find_mentions,
    is_file_link,
    link_target,
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
        assert document_names(title, source, beginning) == names


def test_a_title_of_500_words_is_no_name() -> None:
    assert document_names(" ".join(["word"] * 500)) == []
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


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("[a](b.md) and [c](<d e.md> 'title') ![p](q_(1).png)", ["b.md", "d e.md", "q_(1).png"]),
        ("See [the dues][d], [d] or [d][].\n\n[d]: rules.md#dues\n", ["rules.md#dues"] * 3),
        ("[a](https://x.org) [b](mailto:a@x.org) [c](javascript:f()) [d](//x.org/a.md) [e]()", []),
        ("[a](FILE:///b.md) [no link] [also][none] a[1](2)", ["FILE:///b.md", "2"]),
    ],
)
def test_links_of_markdown(text: str, targets: list[str]) -> None:
    found = find_hyperlinks(text, "markdown")
    assert [link.target for link in found] == targets
    assert all((text[link.start] == "[" and text[link.end - 1] in ")]") or "'" in text for link in found)


def test_links_of_restructured_text() -> None:
    text = (
        "See :doc:`guide/start`, `the rules <rules.rst>`_, :doc:`dues </dues>`, a `site <https://x.org>`_,\n"
        "``code``, mill_ and `the old mill`_.\n\n.. _mill: mill.rst\n.. _the old mill: mill.rst#old\n"
    )
    found = find_hyperlinks(text, "rst")
    targets = ["guide/start", "rules.rst", "/dues", "mill.rst", "mill.rst#old"]
    assert [link.target for link in found] == targets
    assert text[found[1].start : found[1].end] == "`the rules <rules.rst>`_"


@pytest.mark.parametrize(
    "target", ["", "a\0b", "x" * 2_000, "data:text/plain,a", "JavaScript:f()", "http://x"]
)
def test_what_leads_to_no_file(target: str) -> None:
    assert not is_file_link(target)


@pytest.mark.parametrize(
    ("target", "paths", "anchor"),
    [
        ("b.md", ["/docs/b.md"], ""),
        ("./x/../b%20c.md?raw=1#The_Dues!", ["/docs/b c.md"], "thedues"),
        ("../../../b.md", ["/b.md"], ""),
        ("file://localhost/other/b.md", ["/other/b.md"], ""),
        ("guide/", ["/docs/guide", "/docs/guide.md", "/docs/guide/index.md"], ""),
        ("b.html", ["/docs/b.html", "/docs/b.md"], ""),
        ("#dues", ["/docs/a.md"], "dues"),
        ("#", [], ""),
    ],
)
def test_paths_that_a_link_may_mean(target: str, paths: list[str], anchor: str) -> None:
    found = link_target(target, "/docs/a.md")
    assert ([PurePath(path) for path in found[0]], found[1]) == ([PurePath(path) for path in paths], anchor)


def test_links_are_found_in_linear_time() -> None:
    before = time.process_time()
    for text in (
        "[" * 200_000,
        "[a" * 100_000,
        "[a](" * 50_000,
        "`" * 200_000,
        "`a <" * 50_000,
        "[a]: " * 50_000,
    ):
        find_hyperlinks(text, "markdown")
        find_hyperlinks(text, "rst")
    assert time.process_time() - before < 20  # hours where it is quadratic


@given(st.text("[]()<>`_:. ab/#\n", max_size=60), st.sampled_from(["markdown", "rst"]))
def test_links_are_places_in_the_text(text: str, markup: Literal["markdown", "rst"]) -> None:
    for link in find_hyperlinks(text, markup):
        assert 0 <= link.start < link.end <= len(text) and link.target in text
        link_target(link.target, "/docs/a.md")
