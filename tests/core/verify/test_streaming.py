"""Sentences of an answer are judged while it is written."""

import random
import re
import time
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest

from sage_core.errors import InputError
from sage_core.feedback import FeedbackConfig
from sage_core.selection import select
from sage_core.verify import (
    AnswerMark,
    LocalJudge,
    StreamMarks,
    amarked_stream,
    local_check,
    mark_answer,
    marked_stream,
)
from sage_core.verify.entailment import Entailment

PASSAGES = [
    "The ferry leaves at seven. It takes 40 minutes to the island and carries twelve cars. Dr. Holt owns it.",
    "Tickets cost nine crowns. Children under six travel free.",
]
ANSWERS = [
    "The ferry leaves at seven. It takes 40 minutes to the island. Tickets cost nine crowns.",
    "Based on the passages, the ferry leaves at seven. Dr. Holt owns it, e.g. since 3.5 years. It is blue!",
    "Here is what is known:\n\n- The ferry leaves at seven.\n- It carries twelve cars.\n\nTickets cost nine crowns.",
    "The ferry leaves at seven.\r\nTickets cost nine crowns. 🚢 Children under six travel free.",
    "1. The ferry carries twelve cars.\n2. Tickets cost 12 crowns.\n",
    "Nine crowns.",
    "The documents do not say.",
    "Le bac part à sept heures. Il transporte douze voitures vers l'île.",
    "Wait... what? The ferry takes 40 minutes (to the island). “It carries twelve cars.” Good",
    "x" * 100_000,
    "   ",
    "",
]


def streamed(answer: str, sizes: Iterator[int], **settings: object) -> tuple[StreamMarks, list[AnswerMark]]:
    marks = StreamMarks(PASSAGES, **settings)  # type: ignore[arg-type]
    at, found = 0, []
    while at < len(answer):
        size = next(sizes)
        found += marks.feed(answer[at : at + size])
        at += size
    return marks, [*found, *marks.finish()]


def lengths(seed: int) -> Iterator[int]:
    rng = random.Random(seed)
    while True:
        yield rng.choice((1, 2, 5, 9)) if seed else 10_000


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("seed", range(4))
def test_the_marks_are_those_of_the_whole_answer(answer: str, seed: int) -> None:
    marks, found = streamed(answer, lengths(seed))
    assert marks.text == answer == "".join(mark.text for mark in found)
    assert [mark.span.start for mark in found] == list(_starts(found))
    whole = mark_answer(answer, PASSAGES)
    assert [m for m in found if m.probability is not None] == [m for m in whole if m.probability is not None]
    assert marks.finish() == ()


def _starts(marks: list[AnswerMark]) -> Iterator[int]:
    at = 0
    for mark in marks:
        yield at
        at += len(mark.text)


def test_a_sentence_has_its_mark_before_the_next_one_appears() -> None:
    pieces = re.findall(r"\S+\s*|\s+", ANSWERS[0])
    shown, judged = "", 0
    for piece in marked_stream(iter(pieces), StreamMarks(PASSAGES)):
        if isinstance(piece, str):
            ended = [m.end() for m in re.finditer(r"\.", shown)]
            assert not ended or judged >= max(ended)
            shown += piece
        else:
            judged = piece.span.end
    assert shown == ANSWERS[0] and judged == len(shown)


def test_a_sentence_is_read_while_its_successor_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    logits = Entailment.logits

    def counted(self: Entailment, pairs: Sequence[tuple[str, str]]) -> object:
        read.extend(claim for claim, _ in pairs)
        return logits(self, pairs)

    monkeypatch.setattr(Entailment, "logits", counted)
    known = []

    def pieces() -> Iterator[str]:
        for piece in ("The ferry goes", " at seven.", " It holds", " a dozen cars", ".", " It is blue."):
            known.append(len(read))
            yield piece

    found = list(marked_stream(pieces(), StreamMarks(PASSAGES, judge=LocalJudge())))
    assert known == [0, 0, 1, 1, 1, 2]
    assert read == ["The ferry goes at seven.", "It holds a dozen cars."]
    assert "".join(p for p in found if isinstance(p, str)).endswith("It is blue.")


def test_a_contradicted_sentence_ends_the_answer_and_closes_the_source() -> None:
    closed, read = [], []
    said = "The ferry leaves at seven. It takes 55 minutes to the island."

    def pieces() -> Iterator[str]:
        try:
            for word in f"{said} It is blue. And so on.".split():
                read.append(word)
                yield f"{word} "
        finally:
            closed.append(True)

    marks = StreamMarks(PASSAGES, stop_on="contradicted")
    found = list(marked_stream(pieces(), marks))
    assert closed and read[-1] == "It" and len(read) == 13
    assert marks.stopped and marks.text == said
    assert [m.refuted for m in found if isinstance(m, AnswerMark) and m.text.strip()] == [False, True]
    assert marks.feed("more") == marks.finish() == ()


def test_unsupported_stops_where_contradicted_does_not() -> None:
    answer = "In 1874 Maria Lopez sailed with 300 sailors from Lisbon to Goa. It is blue."
    for stop_on, expected in (("contradicted", False), ("unsupported", True)):
        marks = StreamMarks(PASSAGES, stop_on=stop_on)
        list(marked_stream(iter(re.findall(r"\S+\s*", answer)), marks))
        assert marks.stopped is expected
        config = FeedbackConfig(critic="llm", stop_on=stop_on)
        check = local_check(config, "What is it?", lambda _: PASSAGES)
        assert check is not None
        verdict = check(select([0.9]), marks.text)
        assert (verdict is not None) is expected


def test_without_stop_on_it_is_only_marked() -> None:
    answer = "It takes 55 minutes to the island. It is blue."
    marks, found = streamed(answer, lengths(1))
    assert not marks.stopped and marks.text == answer and found[0].refuted


async def test_async_is_the_same() -> None:
    async def pieces() -> AsyncIterator[str]:
        for piece in re.findall(r"\S+\s*|\s+", ANSWERS[1]):
            yield piece

    own = [piece async for piece in amarked_stream(pieces(), StreamMarks(PASSAGES))]
    plain = list(marked_stream(iter(re.findall(r"\S+\s*|\s+", ANSWERS[1])), StreamMarks(PASSAGES)))
    assert own == plain


@pytest.mark.parametrize(("passages", "stop_on"), [("one text", None), (PASSAGES, "always")])
def test_wrong_arguments(passages: object, stop_on: str | None) -> None:
    with pytest.raises(InputError):
        StreamMarks(passages, stop_on=stop_on)  # type: ignore[arg-type]


RUNAWAY = {
    "a sentence": "It takes 40 minutes to the island. ",
    "a paragraph": "It takes 40 minutes to the island.\n\n",
    "abbreviations": "Mr. e.g. ",
    "dots": "... ",
    "lines": "the ferry\n",
    "digits": "1. 2. ",
}


@pytest.mark.slow
@pytest.mark.parametrize("unit", RUNAWAY.values(), ids=RUNAWAY)
def test_a_runaway_answer_takes_linear_time(unit: str) -> None:
    def seconds(size: int) -> float:
        answer, marks = (unit * size)[:size], StreamMarks(PASSAGES, judge=LocalJudge(model=False))
        pieces = iter([answer[i : i + 4] for i in range(0, size, 4)])
        start = time.process_time()
        found = [piece for piece in marked_stream(pieces, marks) if isinstance(piece, AnswerMark)]
        assert "".join(mark.text for mark in found) == answer
        return time.process_time() - start

    short, long = seconds(4_000), seconds(16_000)
    assert long < 9 * max(short, 0.05)


def test_beyond_the_first_300_claims_nothing_is_known() -> None:
    answer = " ".join(f"The ferry takes {i} minutes to the island." for i in range(320))
    for found in (
        streamed(answer, lengths(0))[1],
        streamed(answer, lengths(1))[1],
        mark_answer(answer, PASSAGES),
    ):
        claims = [mark for mark in found if mark.support != "nothing claimed"]
        assert [mark.probability is None for mark in claims] == [i >= 300 for i in range(320)]


def test_the_marks_of_a_long_paragraph_are_those_of_the_whole() -> None:
    rng = random.Random(5)
    sentences = [s for answer in ANSWERS[:2] for s in answer.split(". ")] + [
        "He said: “No.” Then",
        "See Fig. 3",
    ]
    answer = ". ".join(rng.choice(sentences) for _ in range(150)) + "."
    _, found = streamed(answer, lengths(2))
    whole = mark_answer(answer, PASSAGES)
    assert [m for m in found if m.probability is not None] == [m for m in whole if m.probability is not None]
