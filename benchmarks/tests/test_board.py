"""The board on texts small enough to check by hand."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import board
from chunkers import CHUNKERS, located, overlapping, spaced
from development_sets import Corpus, Question

from sage_core.embedding.minilm import MiniLMEmbedder
from sage_core.text.spans import Span

FERRY = "The ferry leaves at seven on Sundays and costs nine crowns."
OTHERS = " ".join(["Bread rises slowly in a cold kitchen. A warm kitchen is better for bread."] * 8)
TEXT = f"{OTHERS}\n\n{FERRY}\n\n{OTHERS}"


@pytest.fixture(scope="module")
def corpus():
    start = TEXT.index(FERRY)
    question = Question("When does the ferry leave on Sundays?", 0, [Span(start, start + len(FERRY))])
    return Corpus([TEXT, OTHERS], ["", ""], [question, question], False)


def test_where_chunks_stand():
    assert located("a b  c", ["a b ", " c"]) == [Span(0, 3), Span(5, 6)]
    assert overlapping("one two three", ["one two", "two three"]) == [Span(0, 7), Span(4, 13)]
    assert spaced("one\n two  three", ["one two", "", "three"]) == [Span(0, 8), Span(10, 15)]


def test_the_last_chunk_is_cut_where_the_tokens_end_and_copies_are_sent_once(corpus):
    paragraphs = lambda text, embed: located(text, text.split("\n\n"))  # noqa: E731
    result = board.evaluate(corpus, paragraphs, board.Memory(MiniLMEmbedder()))
    assert result.alone == result.ranked == [[1.0, 1.0, 1.0]] * 2
    start = TEXT.index(FERRY)
    half = board.recall(corpus, corpus.questions[0], [(0, Span(start, start + len(FERRY)))], [6])
    assert 0.3 < half[0] < 0.7
    # Three copies of what ranks first would be more than 250 tokens; one leaves room for the ferry.
    far = Question("How does bread rise in a kitchen?", 0, corpus.questions[0].evidence)
    asked = Corpus(corpus.texts, corpus.titles, [far], False)
    assert board.evaluate(asked, paragraphs, board.Memory(MiniLMEmbedder())).alone[0][0] == 1.0
    copies = [(0, Span(0, len(OTHERS))), (1, Span(0, len(OTHERS))), (0, Span(start, start + len(FERRY)))]
    assert board.recall(asked, far, copies, [250])[0] < 1.0


def test_a_difference_whose_interval_holds_nothing_is_a_tie(corpus):
    found = board.Result([[1.0] * 3, [0.0] * 3], [[1.0] * 3] * 2, 20.0, 1.0)
    worse = board.Result([[0.0] * 3, [1.0] * 3], [[0.0] * 3] * 2, 20.0, 1.0)
    other = Question("?", 1, [Span(0, 4)])
    both = Corpus(corpus.texts, corpus.titles, [corpus.questions[0], other], False)
    text = board.page({"sage-rag": {"toy": found}, "other": {"toy": worse}}, {"toy": both}, 0)
    row = next(line for line in text.splitlines() if line.startswith("| other"))
    assert "+0.0 [-100.0, +100.0], tie" in row and "-100.0 [-100.0, -100.0] |" in row


def test_what_a_splitter_loads_with_its_first_text_is_no_time_of_its_own(corpus, monkeypatch):
    clock, loaded = [0.0], []
    monkeypatch.setattr(board.time, "process_time", lambda: clock[0])

    def slow_at_first(text, embed):
        clock[0] += 0 if loaded else 100
        loaded.append(text)
        return located(text, [text])

    assert board.evaluate(corpus, slow_at_first, board.Memory(MiniLMEmbedder())).seconds == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", CHUNKERS)
def test_a_splitter_loses_no_word(name):
    # A line to be filled in by hand is a word of more tokens than a chunk may have.
    text, embed = f"{TEXT}\n\nName: {'_' * 300}\n", MiniLMEmbedder().embed_documents
    try:
        spans = CHUNKERS[name](text, embed)
    except ImportError as error:
        pytest.skip(str(error))
    covered = {i for span in spans for i in range(*span)}
    assert all(i in covered for i, sign in enumerate(text) if not sign.isspace())
