"""Sentences dropped from chunks: exact slices, nothing empty, nothing torn apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.errors import InputError
from sage_core.text.spans import Span
from sage_core.verify import Pruned, SentencePruner
from sage_core.verify.pruning import chunk_sentences, keep_sentences

QUESTION = "When does the ferry leave for the island?"
FERRY = (
    "The ferry leaves for the island at seven. Seals live in the harbor of the old town. Bees need many "
    "flowers in spring and summer."
)
# Everything but the best sentence of a chunk goes.
HARD = SentencePruner(threshold=1.0)


def slices(text: str, pruner: SentencePruner = HARD, question: str = QUESTION) -> list[str]:
    (pruned,) = pruner.prune(question, [text])
    return pruned.slices(text)


def test_the_sentence_that_helps_stays():
    assert slices(FERRY) == ["The ferry leaves for the island at seven."]


def test_a_threshold_of_0_drops_nothing():
    assert slices(FERRY, SentencePruner(threshold=0)) == [FERRY]


def test_a_lowly_ranked_chunk_loses_more():
    texts = [FERRY, FERRY.replace("ferry", "train")]
    pruner = SentencePruner(threshold=0.02)
    top, low = pruner.prune(QUESTION, texts, [0.9, 0.01])
    assert len(top.dropped) <= len(low.dropped)
    assert low.slices(texts[1]) == ["The train leaves for the island at seven."]
    # The scores decide which is which, not the order.
    assert pruner.prune(QUESTION, texts[::-1], [0.01, 0.9]) == [low, top]


@pytest.mark.parametrize(
    "whole",
    [
        "These are the rules of the house:\n\n- No smoking in the hall.\n- No dogs.\n- No loud music at night.",
        "| day | opens |\n|---|---|\n| Monday | nine |\n| Tuesday | ten |",
        "```\nx = 1\ny = 2\nprint(x + y)\n```",
    ],
)
def test_lists_tables_and_code_stay_whole(whole: str):
    text = f"{FERRY}\n\n{whole}"
    assert slices(text) == ["The ferry leaves for the island at seven.", whole]


def test_a_sentence_that_points_back_keeps_the_one_before():
    text = "Seals live in the harbor of the town. The Anna is an old ship. It is the ferry that leaves for the island."
    assert slices(text) == [text[text.index("The Anna") :]]


def test_headings_stay_with_what_they_head_and_go_with_it():
    text = (
        "# Harbor\n\n## Wildlife\n\nSeals live in the harbor of the old town all year.\n\n## Ferries\n\n"
        "The ferry leaves for the island at seven in the morning."
    )
    kept = slices(text)
    assert kept == [text[: text.index("\n\n## Wildlife")], text[text.index("## Ferries") :]] or kept == [
        text[text.index("## Ferries") :]
    ]
    assert "Wildlife" not in "".join(kept)


def test_few_words_between_two_sentences_stay():
    text = (
        "The ferry leaves for the island at seven. Not always. The ferry leaves for the island at nine too."
    )
    chunk = chunk_sentences(text)
    assert keep_sentences(chunk, [0.9, 0.0, 0.9], 0.5) == Pruned((Span(0, len(text)),))


@pytest.mark.parametrize(
    "text",
    [
        "Die Fähre fährt um sieben Uhr. Die Robben leben im Hafen, und sie sind nicht sehr scheu. Die Bienen sind "
        "im Garten und auf der Wiese, das ist nicht neu.",
        "渡轮七点出发。海豹住在港口。蜜蜂需要花。",
    ],
)
def test_other_languages_stay_whole(text: str):
    assert slices(text) == [text]
    assert slices(FERRY, question="Wann fährt die Fähre und wo ist der Hafen der alten Stadt?") == [FERRY]


@pytest.mark.parametrize(
    "text", ["", " \n ", "x" * 100_000, "👩‍👩‍👧‍👦 🇸🇪", "\r\n\r\nA.\r\n", "…", "# Only a heading"]
)
def test_odd_texts_lose_nothing(text: str):
    (pruned,) = HARD.prune(QUESTION, [text])
    assert pruned.dropped == ()
    assert "".join("".join(pruned.slices(text)).split()) == "".join(text.split())


def test_odd_scores_and_questions():
    texts = [FERRY, FERRY]
    for scores in ([None, None], [float("nan"), 0.5], [0.0, 0.0], [float("inf"), 0.1], [-1.0, 2.0]):
        assert all(p.kept for p in HARD.prune(QUESTION, texts, scores, "logit"))
    assert HARD.prune("  ", texts) == [Pruned((Span(0, len(FERRY)),))] * 2
    assert HARD.prune(QUESTION, []) == []
    with pytest.raises(InputError, match=r"1.*2"):
        HARD.prune(QUESTION, texts, [0.5])
    with pytest.raises(InputError, match="list"):
        HARD.prune(QUESTION, FERRY)
    with pytest.raises(InputError, match="threshold"):
        SentencePruner(threshold=2)


PIECES = st.sampled_from(
    [
        "The ferry leaves at seven. ",
        "It is blue. ",
        "However, seals live there.\n\n",
        "# Heading\n",
        "- item\n",
        "| a | b |\n",
        "```\ncode\n```\n",
        "Rules:\n",
        "…",
        "---\n",
    ]
)


@given(
    st.lists(st.lists(PIECES | st.text(max_size=30), max_size=8).map("".join), max_size=4),
    st.sampled_from([0.0, 0.01, 0.2, 1.0]),
)
def test_slices_are_exact_ordered_and_whole_sentences(texts: list[str], threshold: float):
    for text, pruned in zip(texts, SentencePruner(threshold=threshold).prune(QUESTION, texts), strict=True):
        assert bool(pruned.kept) == bool(text.strip())
        spans = sorted([*pruned.kept, *pruned.dropped])
        at = 0
        for span in spans:
            assert not text[at : span.start].strip()
            assert span.of(text) == span.of(text).strip() != ""
            at = span.end
        assert not text[at:].strip()
        assert list(pruned.kept) == sorted(pruned.kept)
