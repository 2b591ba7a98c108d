"""Nodes cut into passages: exact slices, always the same, no text twice where nodes overlap."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sage_core import MiniLMEmbedder, Segmenter, get_counter
from sage_core.passages import Node, Passage, PassageCutter, Place, joined
from sage_core.ranking import Links, passages
from sage_core.ranking.links import Titled
from sage_core.ranking.passages import PASSAGES, PassageRanker, RankedPassages
from sage_core.ranking.retrieved import Candidates, Retrieved
from sage_core.selection.scales import ScoreReading
from sage_core.text import cache
from sage_core.text.cache import CACHE_DIR, Kept

SENTENCES = [
    f"The {thing} of {place} is {state} in the month of {month}."
    for place in ("Heron Pier", "the old mill", "Salt Jetty", "the north quay")
    for thing, state, month in (
        ("ferry", "painted", "May"),
        ("lamp", "tested twice", "June"),
        ("school", "closed", "August"),
        ("market", "held on every Sunday", "September"),
        ("museum", "free for children", "January"),
    )
]
DOCUMENT = (
    "\n\n".join(" ".join(SENTENCES[i : i + 5]) for i in range(0, 20, 5))
    + "\n\n"
    + "\n".join(f"- berth {n} costs {n * 7} pounds a week" for n in range(1, 40))
)
NOTICE = "Dogs must be kept on a lead at all times, and may not enter the water."


def texts_of(nodes: list[Node], passages: list[Passage]) -> list[str]:
    return [nodes[p.node].text[p.start : p.end] for p in passages]


def letters(text: str) -> str:
    return "".join(text.split())


ANY = [
    pytest.param(DOCUMENT, id="prose and a list"),
    pytest.param("第一章。渡船は七時に出発します。" * 60, id="Japanese without white space"),
    pytest.param("x" * 5_000, id="one word"),
    pytest.param("def f():\n    return 1\n\n" * 120, id="code"),
    pytest.param("| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 200, id="a table"),
    pytest.param("\r\n\r\n".join(SENTENCES * 2), id="CRLF"),
    pytest.param("A sentence that is said often. " * 3_300, id="100,000 characters"),
]


@pytest.mark.parametrize("text", ANY)
def test_passages_are_slices_in_order_and_lose_nothing(text: str):
    [*passages] = PassageCutter().cut([Node(text)])
    assert len(passages) > 1
    assert all(a.end <= b.start for a, b in pairwise(passages))
    assert letters("".join(texts_of([Node(text)], passages))) == letters(text)


@given(st.text(max_size=400), st.integers(0, 30))
@settings(max_examples=40, deadline=None)
def test_no_text_breaks_it(text: str, repeats: int):
    node = Node(text * repeats)
    assert letters("".join(texts_of([node], PassageCutter().cut([node])))) == letters(node.text)


@pytest.mark.parametrize(
    "node", [Node(""), Node(" \n"), Node("It leaves at seven."), Node(DOCUMENT, whole=True)], ids=repr
)
def test_what_is_short_or_whole_is_one_passage(node: Node):
    [passage] = PassageCutter().cut([node])
    assert (passage.start, passage.end) == (0, len(node.text))


# How much of the document is in both nodes, as its own text says.
LOW, HIGH = DOCUMENT.index("The ferry of the old mill"), DOCUMENT.index("The ferry of Salt Jetty") - 2
FIRST, SECOND = DOCUMENT[:HIGH], DOCUMENT[LOW:]


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param(
            [Node(FIRST, place=Place("d", 0, HIGH)), Node(SECOND, place=Place("d", LOW, len(DOCUMENT)))],
            id="by place",
        ),
        pytest.param([Node(FIRST), Node(SECOND, previous=0)], id="by neighbors"),
        pytest.param([Node(FIRST, source="d"), Node(SECOND, source="d")], id="by text found nowhere else"),
    ],
)
def test_text_that_two_nodes_share_is_in_one_passage(nodes: list[Node]):
    passages = PassageCutter(longest_whole=100).cut(nodes)
    assert letters("".join(texts_of(nodes, passages))) == letters(DOCUMENT)
    shared = [p for p in passages if p.node == 0 and p.start >= LOW]
    assert shared and all(p.holders == (0, 1) for p in shared)


@pytest.mark.parametrize("source", ["d", None])
def test_of_equal_nodes_one_is_left(source: str | None):
    nodes = [Node(DOCUMENT, source=source), Node("Bees fly."), Node(DOCUMENT, source=source)]
    ranked = PassageRanker().rank("How much is berth 23?", nodes, [0.2, 0.1, 0.3])
    assert {p.node for p in ranked.passages} == {1, 2}
    assert letters(DOCUMENT) in letters("".join(texts_of(nodes, PassageCutter().cut(nodes))))


def test_a_sentence_that_a_node_ends_in_is_whole_in_the_next():
    torn = HIGH + len("\n\nThe ferry of Sa")
    nodes = [
        Node(DOCUMENT[:torn], place=Place("d", 0, torn)),
        Node(SECOND, place=Place("d", LOW, len(DOCUMENT))),
    ]
    first = next(p for p in PassageCutter(longest_whole=100).cut(nodes) if p.node == 1)
    assert SECOND[first.start :].startswith("The ferry of Salt Jetty is painted")


def test_a_node_within_another_adds_nothing():
    nodes = [Node(DOCUMENT, place=Place("d", 0, len(DOCUMENT))), Node(FIRST, place=Place("d", 0, HIGH))]
    passages = PassageCutter().cut(nodes)
    assert {p.node for p in passages} == {0}
    assert letters("".join(texts_of(nodes, passages))) == letters(DOCUMENT)


def test_a_true_copy_stays():
    # A notice at the end of one node and at the beginning of others: a copy under another heading.
    nodes = [Node(f"{NOTICE}\n\n{' '.join(SENTENCES[i::5])}\n\n{NOTICE}", source="d") for i in range(3)]
    passages = PassageCutter().cut(nodes)
    assert letters("".join(texts_of(nodes, passages))) == letters("".join(node.text for node in nodes))


def test_cuts_do_not_depend_on_the_nodes_beside():
    alone = PassageCutter().cut([Node(DOCUMENT)])
    among = PassageCutter().cut([Node(" ".join(SENTENCES)), Node(DOCUMENT)])
    assert [p[1:3] for p in alone] == [p[1:3] for p in among if p.node == 1]


def test_headings_come_from_text_and_metadata():
    text = "\n\n".join(f"## Part {n}\n\n" + " ".join(SENTENCES) for n in (1, 2))
    passages = PassageCutter().cut([Node(text, {"title": "Harbor", "header_path": "/Rules/"})])
    assert passages[-1].header == "Harbor > Rules > Part 2"
    assert passages[-1].path == "/Rules/Part 2/"


def test_neighbors_are_known_across_nodes():
    nodes = [
        Node(FIRST, place=Place("d", 0, HIGH)),
        Node(DOCUMENT[HIGH:], place=Place("d", HIGH, len(DOCUMENT))),
    ]
    ranked = PassageRanker().rank("What does berth 4 cost?", nodes, [0.4, 0.6])
    first_of_second = next(i for i, p in enumerate(ranked.passages) if p.node == 1)
    assert ranked.links[first_of_second].previous == first_of_second - 1


def test_of_nodes_without_places_what_they_share_tells_who_is_beside_whom():
    middle = len(FIRST) // 2
    nodes = [
        Node(DOCUMENT[middle:], source="d"),
        Node(FIRST, source="d"),
        Node("Bees fly. " * 90, source="e"),
    ]
    ranked = PassageRanker().rank("What does berth 4 cost?", nodes, [0.6, 0.4, 0.1])
    first_of_second = next(i for i, p in enumerate(ranked.passages) if p.node == 0)
    assert ranked.passages[ranked.links[first_of_second].previous or 0].node == 1


def test_a_node_is_cut_once_whatever_the_threads():
    cutter, calls = PassageCutter(), []
    segment = cutter._segmenter.segment_quietly

    def counted(texts: list[str]):
        calls.append(texts)
        return segment(texts)

    cutter._segmenter.segment_quietly = counted  # type: ignore[method-assign]
    threads = [threading.Thread(target=cutter.cut, args=([Node(DOCUMENT)],)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When is the museum of Salt Jetty free for children?", "museum of Salt Jetty"),
        ("How much is a week in berth 23?", "berth 23 "),
    ],
)
def test_the_passage_that_answers_is_the_best(question: str, answer: str):
    node = Node(DOCUMENT)
    ranked = PassageRanker().rank(question, [node, Node("Bees fly.")], [0.1, 0.1])
    best = max(range(len(ranked.passages)), key=ranked.probabilities.__getitem__)
    assert answer in texts_of([node, node], ranked.passages)[best]


def test_a_question_embeds_a_bounded_number():
    nodes = [Node(" ".join(f"{s} Note {n}." for s in SENTENCES * 4)) for n in range(40)]
    assert len(PassageRanker().rank("Who paints the ferry?", nodes, [0.1] * 40).passages) == PASSAGES


def test_touching_passages_are_one():
    texts = [DOCUMENT] * 3
    assert joined([("a", 10, 20), ("b", 0, 5), ("a", 0, 10)], texts) == [[2, 0], [1]]
    assert joined([("a", 40, 50), ("a", 0, 10)], texts[:2]) == [[0], [1]]


def test_the_next_process_neither_cuts_nor_embeds_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(CACHE_DIR, str(tmp_path / "kept"))
    nodes = [
        Node(f"## Ferry\n\n{' '.join(f'Berth {i} costs {i} crowns.' for i in range(90))}", {"title": "Pier"})
    ]

    def ranked() -> RankedPassages:
        monkeypatch.setattr(passages, "_SHARED", passages._Shared())  # as another process has it
        return PassageRanker().rank("What does berth 4 cost?", nodes, [0.4])

    first = ranked()
    monkeypatch.setattr(Segmenter, "segment_quietly", None)
    monkeypatch.setattr(MiniLMEmbedder, "embed_documents", None)
    assert len(first.passages) > 3 and ranked() == first
    monkeypatch.undo()
    (tmp_path / "kept" / "passages.sqlite3").write_bytes(b"not a database" * 99)
    monkeypatch.setenv(CACHE_DIR, str(tmp_path / "kept"))
    assert ranked() == first and "nothing is kept in SAGE_CACHE_DIR" in caplog.text


def test_the_file_keeps_the_latest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_DIR, str(tmp_path))
    monkeypatch.setattr(cache, "_ROWS", 3)
    kept: Kept[bytes] = Kept("some", bytes, bytes)
    for value in (b"a", b"b", b"c", b"d"):
        kept.put({value: value})
    assert kept.get([b"a", b"b", b"d"]) == {b"b": b"b", b"d": b"d"}
    monkeypatch.delenv(CACHE_DIR)
    assert kept.get([b"d"]) == {}


def test_a_passage_vouches_for_the_document_that_it_names() -> None:
    question = "Where was the owner of the Petrel born?"
    long = f"The Petrel belonged to Mara Holt. {' '.join(SENTENCES)}"
    born = "# Mara Holt\n\nShe came from Ulm by train."
    texts = {"petrel.md": long, "holt.md": born, "quay.md": "# The quay\n\nIt came from Ulm by train."}
    nodes = [
        Retrieved(Node(text, source=name), text, Titled(text, name, None, name))
        for name, text in texts.items()
    ]
    found = Candidates(question, nodes, PassageRanker())
    cut = found.cut([0.6, 0.1, 0.1])
    assert cut is not None and len(cut.passages) > 3
    read = ScoreReading([*cut.probabilities], "probability")
    *_, before, quay = cut.probabilities
    *_, after, unnamed = found.vouched(read, cut)
    assert after is not None and after > before + 0.05 and unnamed == pytest.approx(quay)


def test_a_document_has_its_name_if_the_passage_that_says_it_was_not_chosen() -> None:
    petrel = f"The Petrel belonged to Mara Holt. {' '.join(SENTENCES)}"
    holt = f"# Mara Holt\n\n{' '.join(SENTENCES)}\n\nShe came from Ulm by train."
    nodes = [Retrieved(Node(t, source=t), t, Titled(t, t, None, "7.md")) for t in (petrel, holt)]
    found = Candidates("Where was the owner of the Petrel born?", nodes, PassageRanker())
    cut = found.cut([0.6, 0.1])
    assert cut is not None
    some = [i for i, p in enumerate(cut.passages) if p.node == 0 or p.start]
    passages = [cut.passages[i] for i in some]
    rest = RankedPassages(passages, [cut.probabilities[i] for i in some], [Links() for _ in some])
    vouched = found.vouched(ScoreReading([*rest.probabilities], "probability"), rest)
    rose = {
        p.node
        for p, before, after in zip(passages, rest.probabilities, vouched, strict=True)
        if before != after
    }
    assert rose == {1}


def test_a_node_of_one_passage_is_that_passage_with_the_white_space_around_it() -> None:
    text = (
        "\n| berth | rent |\n|---|---|\n" + "".join(f"| {i} | {i * 7} crowns |\n" for i in range(20)) + "\n"
    )
    [passage] = PassageCutter().cut([Node(text)])
    assert len(Segmenter().segment(text)) == 1 and get_counter().count(text) > 130
    assert (passage.start, passage.end) == (0, len(text))
