"""Where a person would not cut: units of the documents in tests/fixtures/structure, and cases seen in use."""

import itertools
from pathlib import Path

import pytest

from sage_core import Segmenter
from sage_core.segmentation.limits import Size
from sage_core.text.blocks import classified
from sage_core.text.continuations import Continuations
from sage_core.text.sentences import split_sentences
from sage_core.text.tokens import get_counter
from tests.core.segmentation.marked import (
    Marked,
    forbidden_cuts,
    marked_documents,
    missed_cuts,
    mixed_chunks,
    parted_headings,
)

FOLDER = Path(__file__).parents[2] / "fixtures" / "structure"
DOCUMENTS = marked_documents(FOLDER)
# In papers-6-1 two paragraphs of a short section are two chunks, which no rule mends.
KNOWN = [document for document in DOCUMENTS if not (document.held_out or document.name == "papers-6-1")]


@pytest.fixture(scope="module")
def segmenter() -> Segmenter:
    return Segmenter()


def chunks(text: str, **sizes: int) -> list[str]:
    return [span.of(text) for span in Segmenter(**sizes).segment(text)]


def together(found: list[str], *pieces: str) -> bool:
    return any(all(piece in chunk for piece in pieces) for chunk in found)


@pytest.mark.parametrize("document", KNOWN, ids=lambda d: d.name)
def test_no_unit_that_fits_is_torn(segmenter: Segmenter, document: Marked) -> None:
    spans = segmenter.segment(document.text)
    assert forbidden_cuts(document, spans, segmenter.max_tokens, get_counter("bert").count) == []
    assert mixed_chunks(document, spans) == []


@pytest.mark.parametrize("target", [None, "sentence", "passage", "topic"])
def test_of_all_cuts_one_in_a_hundred_tears_a_unit(target: Size | None) -> None:
    segmenter = Segmenter(max_tokens=130, target_tokens=target)
    cut = [(d, segmenter.segment(d.text)) for d in DOCUMENTS if d.kind[-1] not in "4567"]
    count = get_counter("bert").count
    torn = [tear for d, spans in cut for tear in forbidden_cuts(d, spans, segmenter.max_tokens, count)]
    assert len(torn) < 0.01 * sum(len(spans) - 1 for _, spans in cut), torn
    assert [head for d, spans in cut for head in parted_headings(d, spans)] == []


def test_most_sections_begin_a_chunk(segmenter: Segmenter) -> None:
    missed = [cut for d in KNOWN for cut in missed_cuts(d, segmenter.segment(d.text))]
    assert len(missed) <= 0.16 * sum(len(d.wanted) for d in KNOWN)


FILLER = "The owner keeps the roof, the walls and the drains in good repair at all times of the year. " * 6


def test_a_number_stays_with_its_heading_and_that_with_its_body() -> None:
    text = f"7. Repairs\n{FILLER}\n8. End of the lease\nThe tenant returns the keys.\n9. Costs\n{FILLER}"
    found = chunks(text)
    assert together(found, "8. End of the lease\nThe tenant returns the keys.")
    assert any(chunk.startswith("8. End of the lease") for chunk in found)


def test_a_heading_with_clauses_below_it_begins_a_chunk() -> None:
    text = (
        "6. OTHER COSTS\n6.1 Trains are booked in second class. First class is never reimbursed.\n"
        "6.2 Taxis are paid where no bus or train runs, or after 11 p.m., and the receipt names the route.\n"
        "6.3 Fines are not reimbursed, wherever and whenever the traveler has incurred them on the trip.\n"
        "7. CLAIMS\n7.1 Claims are made within 30 days of the return, with all receipts of the trip.\n"
        "7.2 A lost receipt may be replaced by a written statement. This does not apply to hotel bills.\n"
        "7.3 The money is paid with the next salary, at the latest in the second month after the trip."
    )
    found = chunks(text)
    assert any(chunk.startswith("7. CLAIMS\n7.1 Claims") for chunk in found)
    assert together(found, "6.1 Trains", "First class is never reimbursed.")
    assert together(found, "7.2 A lost receipt", "hotel bills.")


def test_a_clause_is_no_heading_and_neither_is_an_assignment() -> None:
    from sage_core.text.blocks import line_breaks, sentence_kinds
    from sage_core.text.sentences import split_sentences

    text = (
        "2. APPROVAL\n2.1 Trips are approved.\n2.2 Approval is given in writing.\n3. CLASSES\n"
        "3.3 Second class.\n\nDEFAULT_RATE = 25.0\n\nThe rate applies to everybody who travels for us by car."
    )
    spans = split_sentences(text)
    kinds = sentence_kinds(text, spans, line_breaks(text, spans))
    headings = [span.of(text) for span, kind in zip(spans, kinds, strict=True) if kind == "heading"]
    assert headings == ["2. APPROVAL", "3. CLASSES"]


ROWS = [f"| Finca {i} | Colombia | medium | 2{i}.00 | 2{i}.40 | 2{i}.00 |" for i in range(9)]
HEAD = ["| Farm | Country | Roast | 5 kg | 20 kg | 60 kg |", "|---|---|---|---|---|---|"]


PRICES = "\n".join(f"| bolt {n} | {n}.20 | {n}.90 |" for n in range(9))
SMALL = {"target_tokens": 10, "max_tokens": 130}
# What stands before a unit, the unit that stays in one chunk, what stands after it, and sizes.
UNITS: dict[str, tuple[str, str, str, dict[str, int]]] = {
    "a table": (
        f"# List\n\n{FILLER}\n\n",
        "\n".join([*HEAD, *ROWS[:4]]),
        f"\n\nDelivery is free. {FILLER}",
        {},
    ),
    "a table without outer bars": (
        f"{FILLER}\n\n",
        "Room | Seats | Day\n--- | --- | ---\nMill hall | 120 | 390.00\nLoft | 35 | 160.00",
        f"\n\n{FILLER}",
        {},
    ),
    "a paragraph in which somebody speaks": (
        f"The rain had stopped when the bus came down the hill. {FILLER}\n\n",
        'Odile wiped her hands. "My grandmother said you would come," she said. "She said it every spring."',
        f"\n\n{FILLER}",
        {},
    ),
    "a list with its lead-in": (
        f"{FILLER}\n\n",
        "We lend every person who works from home:\n\n- a laptop and a screen;\n- a headset;\n- a chair.",
        f"\n\n{FILLER}",
        {},
    ),
    "an item with what is below it": (
        f"3. Use\n3.1 Joinery is allowed. {FILLER}\n",
        "3.2 The following need consent:\n(a) machines of more than 7.5 kW;\n(b) work at night.",
        f"\n3.3 No living. {FILLER}",
        {},
    ),
    "a step with its warning": (
        f"# Boiler\n\n{FILLER}\n\n1. Close the valve.\n2. {FILLER}\n",
        "3. Open the valve.\n\n   **Caution:** If you smell gas, do not go on. Open the door and leave.",
        f"\n4. {FILLER}",
        {},
    ),
    "prose beside a table": (
        f"# Bolts\n\n| part | one | ten |\n|---|---|---|\n{PRICES}\n\n",
        "Delivery is free. It takes a week.",
        "\n",
        {"target_tokens": 20, "max_tokens": 130},
    ),
    "a table with its caption": (
        "Three runs were made with sand.\n",
        "Table 1: Mean length, cm\n| run | one |\n|---|---|\n| A | 8.1 |",
        "\n",
        SMALL,
    ),
    "a question with the replies": (
        "The bell rang twice.\n\n",
        '"Has he a watch?"\n\n"He has three."\n\n"Then let him in, he may be of use."',
        f"\n\n{FILLER}",
        SMALL,
    ),
}


@pytest.mark.parametrize("name", UNITS)
def test_stays_in_one_chunk(name: str) -> None:
    before, unit, after, sizes = UNITS[name]
    assert together(chunks(before + unit + after, **sizes), unit)


def test_a_table_that_does_not_fit_is_cut_between_rows() -> None:
    text = "\n".join([*HEAD, *ROWS, *ROWS])
    found = chunks(text)
    assert len(found) > 1
    assert found[0].startswith("\n".join([*HEAD, ROWS[0]]))
    assert all(chunk.startswith("| ") and chunk.endswith(" |") for chunk in found)


CODE = '''class Bucket:
    """A bucket that leaks.

    It loses water at a constant rate.
    """

    def take(self, amount):
        """Take out water.

        Returns what was there, which may be less than what was asked for.
        """
        taken = min(amount, self.litres)
        self.litres -= taken
        return taken

    def fill(self, amount):
        """Put water in."""
        if amount < 0:
            raise ValueError("amount is negative: use take")
        self.litres += amount
'''


def test_code_is_cut_between_functions_and_a_docstring_stays_with_its_def() -> None:
    found = chunks(CODE, max_tokens=90)
    assert together(found, "def take(self, amount):", '        """Take out water.', "return taken")
    assert together(found, "def fill(self, amount):", '"""Put water in."""', "self.litres += amount")
    assert together(found, "class Bucket:", 'constant rate.\n    """')


def test_records_of_json_are_not_torn() -> None:
    record = '  {\n    "id": 10%d,\n    "name": "Anchor Inn",\n    "rooms": 12,\n    "note": "Closed in May. Open."\n  }'
    text = "[\n" + ",\n".join(record % i for i in range(8)) + "\n]"
    found = chunks(text, max_tokens=120)
    assert len(found) > 1
    for i in range(8):
        assert together(found, (record % i).strip())


@pytest.mark.parametrize("size", [20, 60, 130])
def test_no_chunk_is_above_the_limit_whatever_the_units(size: int) -> None:
    text = "\n\n".join(document.text for document in DOCUMENTS)
    segmenter = Segmenter(max_tokens=size)
    spans = segmenter.segment(text)
    assert max(segmenter.counter.count_many([span.of(text) for span in spans])) <= size
    between = [text[a.end : b.start] for a, b in itertools.pairwise(spans)]
    assert not "".join([text[: spans[0].start], *between, text[spans[-1].end :]]).strip()


def test_prices_with_leaders_are_one_table() -> None:
    text = "".join(f"Rope of {n} mm, hemp, sold by the meter ........ {n}.80\n" for n in range(5, 10))
    assert len(chunks(text, target_tokens=20, max_tokens=130)) == 1
    assert len(chunks(text.replace(".80", "."), target_tokens=20, max_tokens=130)) > 1


def test_code_keeps_its_preamble_and_a_class_its_first_function() -> None:
    body = "".join(
        f"    def part_{n}(self) -> float:\n        return {n} * self.rate * 12.5\n\n" for n in range(12)
    )
    text = f'import csv\n\nLIMIT = 3.5\n\n\nclass Bill:\n    """A bill."""\n\n{body}'
    for size in (10, 65):
        found = chunks(text, target_tokens=size, max_tokens=130)
        assert together(found, "import csv", "LIMIT")
        assert together(found, "class Bill", "def part_0")
    settings = "server:\n  host: local\n  port: 8080\n  # Seconds, for slow clients.\n  timeout: 30\n"
    assert together(chunks(settings, target_tokens=10, max_tokens=130), "# Seconds", "timeout")


@pytest.mark.slow
def test_long_runs_of_comments_and_replies_take_linear_work() -> None:
    # Quadratic work would take minutes.
    code = "x = 1\n" * 5 + "# a\n" * 10_000 + "x = 1\n"
    for text in (code, '"Why?" said Ann.\n\n' * 2_000, "Rope ..... 1.40\n" * 2_000):
        spans = Segmenter().segment(text)
        assert spans[0].start == 0 and spans[-1].end == len(text.rstrip())


def test_a_table_of_up_to_twice_the_limit_is_whole_where_no_limit_is_set() -> None:
    table = "\n".join([*HEAD, *ROWS])
    text = f"{FILLER}\n\n## Prices\n\n{table}\n\n{FILLER}"
    count = get_counter("bert").count
    assert 130 < count(table) <= 260 and f"## Prices\n\n{table}" in chunks(text)
    assert max(map(count, chunks(text, max_tokens=130))) <= 130
    long = "\n".join([*HEAD, *ROWS, *ROWS])
    assert count(long) > 260 and max(map(count, chunks(long))) <= 130


def test_a_fence_of_up_to_twice_the_limit_is_whole_where_no_limit_is_set() -> None:
    lines = "\n\n".join(
        f"abc{i}  ubuntu running since {i} hours nostalgic_{i} and port {i}" for i in range(9)
    )
    fence = f"```console\n$ docker ps -a\n\n{lines}\n```"
    text = f"# Containers\n\nThis page says how to list containers.\n\nTo see them run:\n\n{fence}\n\nThe list ends here.\n"
    assert 130 < get_counter().count(fence) <= 260
    (whole,) = [c for c in chunks(text) if "docker" in c]
    assert whole == f"To see them run:\n\n{fence}"
    assert sum("abc" in c for c in chunks(text, max_tokens=130)) > 1


# A line that announces, and what it announces.
ANNOUNCED = {
    "a directive whose line ends as a sentence does": (
        ".. function:: modf(x)",
        f"\n\n   Return both parts of *x*. {FILLER}",
    ),
    "a note on a version": (
        ".. versionchanged:: 3.4",
        f"\n   The method was replaced by another one. {FILLER}",
    ),
    "a label": (".. _tide-tables:", "\n\nThe tide is high at noon, and low in the evening."),
    "a term": ("tide-offset", "\n    Minutes that are added to the time of the harbor."),
    "a caption above a fence": ("Filename: src/tide.py", "\n\n```python\nprint(1)\n```"),
    "a sentence before two colons": ("The shell says so. ::", "\n\n   $ tide --now\n   high"),
}


@pytest.mark.parametrize("name", ANNOUNCED)
def test_a_line_that_announces_belongs_to_what_follows(name: str) -> None:
    line, announced = ANNOUNCED[name]
    entries = "\n\n".join(f"{line.replace('3.4', f'3.{n}')}{announced}\n\n{FILLER}" for n in range(6))
    text = f"Tides\n=====\n\n.. module:: tides\n\n{FILLER}\n\n{entries}\n"
    found = chunks(text, **SMALL)
    head = line.removesuffix("4")
    assert not [chunk for chunk in found if chunk.splitlines()[-1].strip().startswith(head)]
    assert not [chunk for chunk in found if chunk.startswith("::")]


def test_a_comment_below_a_heading_is_not_the_end_of_a_chunk() -> None:
    body = (
        "It {0}s the gate. Both boats wait for it, and so does the keeper, who has a key of his own and a lamp. "
        "The gate of the old lock is opened by hand, the one of the new lock by a pump."
    )
    sections = [
        f"### `tide.{name}()`\n\n<!-- YAML\nadded: v18.2.0\n-->\n\n{body.format(name)}"
        for name in ("open", "close", "closeAll", "closeIdle", "timeout", "listen")
    ]
    found = chunks("# Tide\n\n" + "\n\n".join(sections))
    assert len(found) >= 6 and not [chunk for chunk in found if chunk.endswith("-->")]


def test_a_text_about_code_is_no_code_and_its_literal_blocks_are_whole() -> None:
    fence = "```python\nclient = Client()\n\nreply = client.send(\n    name=1,\n)\n```"
    text = f"# Client\n\n{FILLER}\n\nIt sends:\n\n" + "\n\nIt sends:\n\n".join([fence] * 5) + "\n"
    assert {line.kind for line in classified(text)[0]} >= {"heading", "text", "fence", "code"}
    assert all(chunk.count("```") % 2 == 0 for chunk in chunks(text))
    lines = "\n\n".join(f"   >>> tide({hour}, place='pier')\n   {hour}.25 meters" for hour in range(9))
    text = f"Tides\n=====\n\n.. module:: tides\n\n{FILLER}\n\nTry it::\n\n{lines}\n\n{FILLER}\n"
    (whole,) = [chunk for chunk in chunks(text) if ">>>" in chunk]
    assert whole.startswith("Try it::") and whole.count(">>>") == 9 and get_counter().count(whole) > 130


def test_padding_of_a_table_is_no_text() -> None:
    rows = "| `no` | Don't restart. |\n| `always` | Always restart the container if it stops. |"
    table = f"| Flag | Description{' ' * 329} |\n| :--- | :{'-' * 340} |\n{rows}"
    assert chunks(f"## Restart\n\nValues:\n\n{table}\n") == [f"## Restart\n\nValues:\n\n{table}"]
    assert get_counter().count("-" * 340) == get_counter().count("---") == 3


def test_a_long_table_is_cut_between_groups_of_rows() -> None:
    rows = [
        f"| {name if not i else ''} | paper no. {i} for the press | 2{i}.00 | 4{i}.00 |"
        for name in ("Flyers", "Envelopes", "Posters", "Cards", "Pads")
        for i in range(4)
    ]
    text = "\n".join(["| Group | Product | 100 | 500 |", "|---|---|---|---|", *rows])
    found = chunks(text, max_tokens=130)
    assert [chunk.count("paper no. 0") for chunk in found] == [1] * 5
    assert all(
        chunk.startswith(("| Group", *(f"| {n}" for n in ("Env", "Pos", "Car", "Pad")))) for chunk in found
    )


@pytest.mark.parametrize("mark", [",", ";"])
@pytest.mark.parametrize("above", ["", "The printer's list, as he sent it to us in May.\n\n"])
def test_values_between_commas_are_a_table_cut_between_its_groups(mark: str, above: str) -> None:
    rows = [
        [name, f'"no. {i}, A4"' if i > 4 else f"no. {i}", f"2{i}.00", f"4{i}.00"]
        for name in ("Flyers", "Envelopes", "Posters", "Cards", '"Pads; long"')
        for i in range(6)
    ]
    text = above + "\n".join(map(mark.join, [["Group", "Product", "Hundred", "Thousand"], *rows])) + "\n"
    spans = Segmenter().segment(text)
    assert [n for span in spans if (n := span.of(text).count("no. "))] == [6] * 5
    columns = [parts for parts in Continuations(text).above(spans) if parts]
    assert columns[-4:] == [("Group | Product | Hundred | Thousand",)] * 4


def test_lists_of_words_between_commas_are_no_table() -> None:
    for text in (
        "He came, he saw, he won.\n" * 3,
        "Ann, Bo, Cy\nDi, Ed, Flo\nGus, Hal, Ida\n",
        "1,5\n2,5\n3,5\n",
    ):
        assert {line.kind for line in classified(text)[0]} == {"text"}


def test_a_group_that_does_not_fit_with_the_head_is_halved() -> None:
    group = [
        f"| {'Flyers' if not i else ''} | Flyer no. {i} | A6 | 2{i}.00 | 3{i}.00 | 39.00 | 52.00 |"
        for i in range(4)
    ]
    other = [row.replace("Flyer", "Poster") for row in group]
    head = "| Group | Product | Format | 100 | 250 | 500 | 1000 |"
    found = chunks("\n".join([head, "|---|---|---|---|---|---|---|", *group, *other]), max_tokens=130)
    assert all(chunk.count(" no. ") > 1 for chunk in found)


def test_records_are_cut_between_lines_and_wrapped_capitals_are_prose() -> None:
    records = "\n".join(
        f"Mara Vance, {n} Quay Street, tel. 01803 55{n}, mara{n}@ex.org" for n in range(10, 40)
    )
    assert all(chunk.startswith("Mara") for chunk in chunks(records))
    shouted = "THE SOFTWARE IS PROVIDED AS IT IS, AND\nWITHOUT ANY WARRANTY OF ANY KIND, BE IT\nEXPRESS OR IMPLIED. NOBODY IS LIABLE\nFOR ANY DAMAGE THAT COMES OF ITS USE."
    assert [span.of(shouted)[:3] for span in split_sentences(shouted)] == ["THE", "NOB"]


def test_no_row_of_a_table_stands_alone() -> None:
    text = "\n".join([*HEAD, *ROWS])
    for most in (90, 100, 110, 130):
        found = chunks(text, max_tokens=most)
        assert all(chunk.count("Finca") > 1 for chunk in found), (most, found)


def test_a_warning_below_the_steps_goes_with_them_and_not_with_the_table_below() -> None:
    steps = "Step 1. Count out a hundred seeds.\nStep 2. Lay them on damp paper.\nStep 3. Count again."
    note = "Note: seeds with a hard shell are filed first. Use the fine file."
    rows = "\n".join(f"| Crop {row} | {row} days | {row + 60}% |" for row in range(9))
    text = f"## Testing\n\n{steps}\n\n{note}\n\n| Crop | After | Good |\n|---|---|---|\n{rows}"
    assert [chunk.split("\n")[0] for chunk in chunks(text)] == ["## Testing", "| Crop | After | Good |"]


def test_questions_with_answers_are_whole_and_so_is_a_short_section_beside_others() -> None:
    asked = "**Are these hybrids?**\nNo. They do not come true.\n\n**May I sell them?**\nYes, all of them."
    asked += "\n\n**Why is my bean another color?**\nIt has crossed with a neighbor's. Bring us ten."
    section = "## Item {}\n\nV. Horvat presents:\n- every Sunday, with staff;\n- every second one.\n\n"
    section += (
        "Sister Clare fears for the corner. Prof. Lindqvist points to Elmsford.\n\nResolved: the second."
    )
    text = f"# Seeds\n\n## Visitors ask\n\n{asked}\n\n## Hours\n\n{FILLER}"
    assert together(chunks(text), *asked.split("\n\n"))
    found = chunks("\n\n".join(section.format(number) for number in (1, 2, 3)))
    assert [chunk.split("\n")[0] for chunk in found] == ["## Item 1", "## Item 2", "## Item 3"]


def test_the_next_meeting_is_no_other_business() -> None:
    text = (
        "## 6. Any other business\n\nThe shredder is back from repair. Whoever uses it fills in the book.\n\n"
        "A bicycle stands behind the hut. It is red.\n\nNext meeting: 15 May, 18:30, at the hut.\n"
    )
    assert chunks(text)[-1].startswith("Next meeting:")


def test_two_scenes_are_two_chunks() -> None:
    dark = "The hall was dark, and for a long time nobody spoke. Then the old man took his hat."
    text = f"{dark}\n\n2\n\nIn Merrow, at that hour, the school was lit. Everybody spoke at once, and loudly."
    assert [chunk.split("\n")[0] for chunk in chunks(text)] == [dark, "2"]
    assert len(chunks(text.replace("hat.", "hat"))) == 1  # the number of a page


@pytest.mark.parametrize(
    "below", ["In it lay a key and two candle ends.", "Since then nobody has heard the bell."]
)
def test_a_sentence_about_what_was_just_named_follows_it(below: str) -> None:
    from sage_core.segmentation.layout import Layout, Sentences, evidence
    from sage_core.text.sentences import split_sentences

    text = f"Behind its door there was a narrow box of dark wood. {below} The lock was of brass."
    sentences = Sentences.of(text, split_sentences(text))
    assert evidence(sentences, Layout(), [-1.0, -1.0]) == [Layout().reference, 0.0]


def test_short_items_of_minutes_are_chunks_of_their_own() -> None:
    items = [
        "1. Bicycle room\nThe lock is replaced in April. Keys are handed out by M. Ortiz.",
        "2. Heating\nThe boiler lost pressure twice in January. A technician comes on the 12th.",
        "3. Garden\nK. Brandt buys two new hoses. The old ones leak.",
        "4. Noise\nThe rest period from 13:00 to 15:00 is kept. A note goes into the hall.",
    ]
    found = chunks("Minutes of the residents' meeting\n\nPresent: J. Lee, M. Ortiz\n\n" + "\n\n".join(items))
    assert found[-3:] == items[1:]


def test_a_decision_stays_with_its_item() -> None:
    plan = (
        "The plan was sent out on the 14th. Six people have two late shifts in a row before an early one. "
        * 2
    )
    items = [
        f"## Item 1 Shifts\n\n{plan}The rule allows one.\n\n*Resolved:* the plan is refused.\n*To do:* I. Brandt writes.",
        f"## Item 2 Canteen\n\n{plan}It has none.\n\n*Resolved:* the council demands half.\n*To do:* T. Faber asks.",
    ]
    assert chunks("\n\n".join(["# Works council", *items]))[-1] == items[1]
