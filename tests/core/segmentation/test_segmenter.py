"""What holds for every text whatever, and how the segmenter behaves as an object."""

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sage_core.errors import InputError
from sage_core.passages import Node, PassageCutter
from sage_core.segmentation import Boundary, Layout, Segmenter
from sage_core.segmentation.segmenter import _warn
from sage_core.text.spans import Span, check_tiling
from sage_core.text.tokens import CallableCounter
from tests.core.text.test_sentences import MESSY
from tests.fakes.models import ConstantModel, HashModel

TEXT = (
    "The ferry leaves at nine. It carries cars and bicycles. Tickets are sold on board. "
    "Bees dance to tell where flowers are. The angle shows the direction. The length shows the distance."
)


def letters_and_spaces(text: str) -> int:
    """A counter under which a joined text has more tokens than its parts: white space counts."""
    return len(text) + text.count(" ")


COUNTERS = ["bert", "words", CallableCounter(letters_and_spaces, "letters_and_spaces")]


def assert_invariants(text: str, chunks: list[Span], segmenter: Segmenter) -> None:
    assert check_tiling(text, chunks) == chunks  # ordered, disjoint, trimmed, nothing visible left out
    for chunk in chunks:
        inside = segmenter.counter.count(chunk.of(text)) <= segmenter.max_tokens
        assert inside or chunk.end - chunk.start == 1  # one character may be several tokens


@pytest.mark.parametrize("counter", COUNTERS, ids=["bert", "words", "function"])
@pytest.mark.parametrize("strategy", ["threshold", "optimal"])
@given(text=MESSY, max_tokens=st.integers(1, 30), data=st.data())
@example(text="", max_tokens=2, data=None)
@example(text="x" * 300, max_tokens=7, data=None)
@example(text="same same. " * 60, max_tokens=5, data=None)
@example(text="。" * 50 + "好" * 90, max_tokens=4, data=None)
@example(text="a\x0cb\x1cc. d\u2028e", max_tokens=2, data=None)
@example(text="각각각 각", max_tokens=2, data=None)
@example(text="# H\n\n" + "word " * 40, max_tokens=8, data=None)
@example(text="e\u0301\u0302\u0303" * 30, max_tokens=3, data=None)
@example(text="One \ud800. Two \udfff.", max_tokens=4, data=None)
@example(text="QUJD" * 500, max_tokens=50, data=None)  # one unknown token to BERT
def test_invariants(counter, strategy, text, max_tokens, data) -> None:
    least = data.draw(st.integers(0, max_tokens)) if data else max_tokens // 2
    window = 3 * max_tokens if strategy == "threshold" else None
    segmenter = Segmenter(
        HashModel(), max_tokens=max_tokens, min_tokens=least, coarse_tokens=window, strategy=strategy,
        counter=counter,
    )  # fmt: skip
    assert_invariants(text, segmenter.segment(text), segmenter)


def test_invariants_with_a_byte_pair_counter(tiktoken_cache: None) -> None:
    text = "Tabs\t\tand   spaces.\n\n\n  Odd     gaps; emoji 👩‍👩‍👧 and 漢字。もう一つ。 " * 12 + "z" * 500
    for strategy in ("threshold", "optimal"):
        segmenter = Segmenter(
            HashModel(), max_tokens=12, min_tokens=4, strategy=strategy, counter="cl100k_base"
        )
        assert_invariants(text, segmenter.segment(text), segmenter)


def test_a_character_above_the_limit_is_a_chunk_of_its_own() -> None:
    thrice = CallableCounter(lambda text: 3 * len(text), "thrice")
    segmenter = Segmenter(HashModel(), max_tokens=2, counter=thrice)
    text = "ab c"
    assert [chunk.of(text) for chunk in segmenter.segment(text)] == ["a", "b", "c"]


def test_an_accent_stays_with_its_letter() -> None:
    text = "e\u0301" * 100
    chunks = Segmenter(HashModel(), max_tokens=9, counter=CallableCounter(len, "chars")).segment(text)
    assert all(chunk.of(text).startswith("e") for chunk in chunks)


@pytest.mark.slow
@given(st.lists(MESSY, max_size=8))
def test_pooling_changes_nothing(texts: list[str]) -> None:
    segmenter = Segmenter(HashModel(), max_tokens=12, min_tokens=3)
    alone = [segmenter.segment(text) for text in texts]
    assert segmenter.segment_many(texts) == alone
    assert list(segmenter.segment_iter(iter(texts))) == alone


def test_many_texts_are_judged_together() -> None:
    model = HashModel()
    Segmenter(model).segment_many([TEXT] * 100)
    assert model.calls == 1


def test_a_stream_is_read_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sage_core.segmentation.segmenter._POOL_CHARS", 1000)
    read = 0

    def texts() -> Iterator[str]:
        nonlocal read
        for _ in range(100):
            read += 1
            yield TEXT

    results = Segmenter(HashModel()).segment_iter(texts())
    assert read == 0
    next(results)
    assert 0 < read < 10
    assert len(list(results)) == 99


def test_boundaries_are_the_models_own_words() -> None:
    found = Segmenter(ConstantModel(0.75, mark="Bees", other=0.25)).boundaries(TEXT)
    assert len(found) == 5
    assert found[2] == Boundary(TEXT.index("Bees"), 0.25)
    assert {b.probability for b in found} == {0.75, 0.25}
    assert Segmenter(HashModel()).boundaries("") == []


def test_empty_texts() -> None:
    segmenter = Segmenter(HashModel())
    assert segmenter.segment("") == segmenter.segment(" \n\t") == []
    assert segmenter.segment_many([]) == []
    assert segmenter.segment_many(["", "One."]) == [[], [Span(0, 4)]]
    assert Segmenter().segment_many([]) == []
    assert Segmenter().segment_many(["", " ", "One."]) == [[], [], [Span(0, 4)]]
    assert Segmenter().boundaries("") == []


def test_pickle_and_threads() -> None:
    segmenter = Segmenter(HashModel(), max_tokens=20, min_tokens=5)
    again = pickle.loads(pickle.dumps(segmenter))
    assert again.segment(TEXT) == segmenter.segment(TEXT)
    assert again.fingerprint == segmenter.fingerprint
    with ThreadPoolExecutor(8) as pool:
        assert set(map(tuple, pool.map(segmenter.segment, [TEXT] * 50))) == {tuple(segmenter.segment(TEXT))}


def test_every_setting_that_changes_chunks_changes_the_fingerprint() -> None:
    segmenters = [
        Segmenter(HashModel()),
        Segmenter(ConstantModel(0.5)),
        Segmenter(HashModel(), coarse_tokens=300, strategy="threshold"),
        Segmenter(HashModel(), target_tokens=70),
        Segmenter(HashModel(), target_tokens="section"),
        Segmenter(HashModel(), threshold=0.5),
        Segmenter(HashModel(), max_tokens=90),
        Segmenter(HashModel(), min_tokens=10),
        Segmenter(HashModel(), strategy="threshold"),
        Segmenter(HashModel(), counter="words"),
        Segmenter(HashModel(), layout=Layout(blank_line=-1.0)),
        Segmenter(HashModel(), sentences=by_line),
    ]
    assert len({segmenter.fingerprint for segmenter in segmenters}) == len(segmenters)
    assert Segmenter(HashModel()).fingerprint == segmenters[0].fingerprint


def by_line(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for line in text.splitlines(keepends=True):
        yield start, start + len(line)
        start += len(line)


def test_any_sentence_splitter_will_do() -> None:
    text = "one two\nthree four\nfive"
    segmenter = Segmenter(ConstantModel(0.01), sentences=by_line, min_tokens=0)
    assert [chunk.of(text) for chunk in segmenter.segment(text)] == ["one two", "three four", "five"]
    with pytest.raises(InputError, match="in no span"):
        Segmenter(HashModel(), sentences=lambda text: [(0, 3)]).segment(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": "100"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_tokens": 500, "strategy": "threshold"}, "coarse_tokens"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"min_tokens": 80, "max_tokens": 50}, "min_tokens"),
        ({"coarse_tokens": 0}, "coarse_tokens"),
        ({"coarse_tokens": float("nan")}, "coarse_tokens"),
        ({"target_tokens": 0}, "target_tokens"),
        ({"target_tokens": "chapter"}, "target_tokens"),
        ({"target_tokens": 90, "max_tokens": 80}, "target_tokens"),
        ({"target_tokens": 50, "min_tokens": 60}, "min_tokens"),
        ({"target_tokens": 50, "strategy": "threshold"}, "strategy"),
        ({"threshold": 1.5}, "threshold"),
        ({"threshold": float("nan")}, "threshold"),
        ({"threshold": "0.5"}, "threshold"),
        ({"threshold": True}, "threshold"),
        ({"strategy": "best"}, "strategy"),
        ({"counter": ""}, "counter"),
        ({"sentences": 3}, "sentences"),
        ({"sentences": "abc"}, "sentences"),
        ({"layout": {"blank_line": 1}}, "layout"),
        ({"model": 3}, "model"),
    ],
)
def test_arguments_are_checked_at_once(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Segmenter(**arguments)


def test_a_small_window_lowers_the_default_limits() -> None:
    segmenter = Segmenter(HashModel(), coarse_tokens=20, strategy="threshold")
    assert (segmenter.max_tokens, segmenter.min_tokens) == (20, 2)


def test_a_setting_that_does_nothing_is_told() -> None:
    with pytest.warns(UserWarning, match="coarse_tokens"):
        Segmenter(HashModel(), coarse_tokens=300)


def test_texts_are_strings() -> None:
    with pytest.raises(InputError, match="bytes"):
        Segmenter(HashModel()).segment(b"One. Two.")


def test_a_splitter_may_give_the_sentences_themselves() -> None:
    text = "One here.  Two there.\n\nOne here. Three."
    pieces = ["One here.  ", "Two there.\n\n", "One here. ", "Three."]
    spans = [(0, 9), (11, 21), (23, 32), (33, 39)]
    by_text = Segmenter(HashModel(), sentences=lambda _: pieces)
    by_span = Segmenter(HashModel(), sentences=lambda _: spans)
    assert by_text.boundaries(text) == by_span.boundaries(text)
    assert by_text.segment(text) == by_span.segment(text)


@pytest.mark.parametrize(("given", "message"), [(["One here", "gone"], "gone"), ([3], "3")])
def test_a_splitter_that_gives_something_else_is_told(given: list[object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Segmenter(HashModel(), sentences=lambda _: given).segment("One here. Two there.")


def test_a_limit_that_stands_for_none_takes_no_longer() -> None:
    text = "The ferry leaves at nine. It returns before dark. " * 40
    chunks = [Segmenter(max_tokens=limit).segment(text) for limit in (10**5, 10**12)]
    assert all(c and c[-1].end <= len(text) for c in chunks)


PAGE = "<html><head><title>x</title></head><body><p>The ferry leaves.</p></body></html>"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("%PDF-1.4\n4 0 obj << /Contents 5 0 R >>\n", "PDF"),
        ("PK\x03\x04\x14\x00\x06\x00\x08\x00 word/document.xml", "PK"),
        ("\ufffd\x00\x01ab\ufffd\ufffd\x05" * 9, "unprintable"),
        (PAGE, "HTML"),
        ("<p>One.</p> " * 40, "HTML"),
    ],
)
def test_what_is_no_text_is_told_once(text: str, what: str, caplog: pytest.LogCaptureFixture) -> None:
    _warn.cache_clear()
    PassageCutter().cut([Node(text * 300)])
    assert not caplog.records, "of an index nobody is told with each question"
    for _ in range(2):
        Segmenter().segment(text)
    assert [what in r.getMessage() and "read_document" in r.getMessage() for r in caplog.records] == [True]


@pytest.mark.parametrize(
    "text",
    [
        "PK is the sign of the firm.",
        "A tag such as <p> or </p> ends a paragraph.",
        "Πλοίο στις εννέα.\n\t",
        "",
        "\x0c",
    ],
)
def test_text_is_no_cause_for_a_warning(text: str, caplog: pytest.LogCaptureFixture) -> None:
    Segmenter().segment(text)
    assert not caplog.records
