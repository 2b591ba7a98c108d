"""Headings, lists, tables, code and blank lines: chunks as a reader would make them."""

import pytest

from sage_core.segmentation import Layout, Segmenter
from tests.fakes.models import ConstantModel, HashModel

STRATEGIES = pytest.mark.parametrize("strategy", ["threshold", "optimal"])

GUIDE = """# Growing beans

Beans like warm soil. Wait until the last frost has passed.

## What you need

- a spade
- two canes a plant
- a packet of seeds

Watering
--------

Water the rows every evening. Do not wet the leaves.

```python
def litres(rows):
    return rows * 4

print(litres(3))
```

| row | litres |
|-----|--------|
| 1   | 4      |
| 2   | 8      |

4.2 Harvest

Pick the pods while they are young. Older pods are tough."""


def cut(text: str, segmenter: Segmenter) -> list[str]:
    return [chunk.of(text) for chunk in segmenter.segment(text)]


@STRATEGIES
@pytest.mark.parametrize("max_tokens", [24, 40, 100])
@pytest.mark.parametrize("salt", range(5))
def test_no_chunk_ends_with_a_heading(strategy, max_tokens, salt) -> None:
    text = GUIDE.replace("Beans", "Beans" + "x" * salt)  # other hashes, other boundaries
    chunks = cut(text, Segmenter(HashModel(), strategy=strategy, max_tokens=max_tokens, min_tokens=10))
    for chunk in chunks:
        last = chunk.splitlines()[-1]
        assert not last.startswith("#")
        assert last not in ("Watering", "--------", "4.2 Harvest")


@STRATEGIES
def test_a_long_sentence_leaves_room_for_its_heading(strategy) -> None:
    text = "## Terms of the lease\n\n" + "the tenant shall keep the garden tidy and " * 5 + "quiet."
    chunks = cut(text, Segmenter(ConstantModel(0.9), strategy=strategy, max_tokens=30))
    assert chunks[0].startswith("## Terms of the lease\n\nthe tenant")
    assert len(chunks) > 1


@STRATEGIES
def test_blocks_that_fit_stay_whole(strategy) -> None:
    """The model sees a boundary everywhere; only the layout speaks for keeping."""
    chunks = cut(GUIDE, Segmenter(ConstantModel(0.25), strategy=strategy, max_tokens=60, min_tokens=0))
    for start, end in (("- a spade", "of seeds"), ("```python", "```"), ("| row", "8      |")):
        block = GUIDE[GUIDE.index(start) : GUIDE.index(end, GUIDE.index(start) + 3) + len(end)]
        assert any(block in chunk for chunk in chunks), block


@pytest.mark.parametrize(
    ("text", "border"),
    [
        (
            "\n".join(f"2025-05-03 10:00:{i:02},123 INFO [w{i}] Request {i} took {i} ms" for i in range(60)),
            "\n",
        ),
        ("\n".join(f"Person {i}, {i} Quay Street, Aldby" for i in range(60)), "\n"),
        ("\n".join(f"The boat number {i} went over the bar at dawn" for i in range(60)), "\n"),
        ("| " + " | ".join(f"Column number {i}, with a long name" for i in range(60)) + " |", "|"),
        ("[" + ",".join(f'{{"number":{i},"name":"the boat {i}"}}' for i in range(60)) + "]", ","),
        ("the boat that went\nover the bar at dawn, all alone, and\nwas not seen " * 40 + "again.", ","),
    ],
    ids=["log", "contacts", "verses", "row", "values", "wrapped"],
)
def test_what_has_no_sentences_is_cut_where_it_pauses(text: str, border: str) -> None:
    spans = Segmenter(ConstantModel(0.9), max_tokens=60).segment(text)
    assert len(spans) > 3
    for span in spans[:-1]:
        assert border in (text[span.end - 1], text[span.end])


def test_labels_and_directives_belong_to_the_heading_below_them() -> None:
    text = (
        "Settings\n========\n\nAll of them are read at the start, and none is read again.\n\n.. _speed:\n.. setting:: SPEED"
        "\n\nSpeed\n-----\n\nHow fast the boat goes, in knots, when nobody says anything.\n\n.. note:: Read this first.\n\n"
        "Range\n-----\n\nHow far the boat goes, in miles, when nobody says anything.\n"
    )
    starts = [chunk.split("\n")[0] for chunk in cut(text, Segmenter(ConstantModel(0.5), max_tokens=50))]
    assert starts == ["Settings", ".. _speed:", "Range"]


@STRATEGIES
def test_a_blank_line_is_evidence_and_not_a_law(strategy) -> None:
    text = "Rain fell all day.\n\nThe river rose. It reached the bridge."
    assert len(cut(text, Segmenter(ConstantModel(0.7), strategy=strategy, min_tokens=0))) == 2
    assert len(cut(text, Segmenter(ConstantModel(0.99), strategy=strategy, min_tokens=0))) == 1
    plain = Segmenter(ConstantModel(0.7), strategy=strategy, min_tokens=0, layout=Layout(blank_line=0.0))
    assert len(cut(text, plain)) == 1


@STRATEGIES
def test_line_breaks_count_unless_lines_are_wrapped(strategy) -> None:
    segmenter = Segmenter(ConstantModel(0.65), strategy=strategy, min_tokens=0)
    paragraphs = "Rain fell all day. It was cold.\nThe river rose. It reached the bridge."
    assert cut(paragraphs, segmenter) == paragraphs.split("\n")
    wrapped = (
        "Rain fell all day without a single break and nobody went out of doors.\n"
        "The river rose until the water reached the stones of the old bridge in\n"
        "the village, where children usually fish or swim when the sun shines on\n"
        "the bank."
    )
    assert cut(wrapped, segmenter) == [wrapped]


@STRATEGIES
def test_the_model_decides_in_plain_prose(strategy) -> None:
    parts = ["Cats sleep a lot. They dream too.", "Trains run on rails. Trains carry ore."]
    segmenter = Segmenter(ConstantModel(0.9, mark="on rails"), strategy=strategy, min_tokens=0)
    assert cut(" ".join(parts), segmenter) == parts


@STRATEGIES
def test_short_chunks_join_the_nearer_neighbor(strategy) -> None:
    parts = ["One two three four five six. Seven.", "Eight nine ten eleven twelve thirteen."]
    model, sizes = ConstantModel(0.3, mark="Seven", other=0.5), {"min_tokens": 4, "max_tokens": 12}
    assert cut(" ".join(parts), Segmenter(model, strategy=strategy, counter="words", **sizes)) == parts


def test_windows_bound_the_papers_strategy() -> None:
    text = " ".join(f"Sentence number {n} stands here." for n in range(40))
    chunks = cut(
        text, Segmenter(ConstantModel(0.99), strategy="threshold", coarse_tokens=25, counter="words")
    )
    assert [len(chunk.split()) for chunk in chunks] == [25] * 8


def test_chunks_keep_the_text_between_their_sentences() -> None:
    code = "```\nif a:\n\n    b()\n```"
    assert cut(code, Segmenter(ConstantModel(0.1))) == [code]
