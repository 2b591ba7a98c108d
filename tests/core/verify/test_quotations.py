"""What we quote from a document, from prose, a list or a table, is always supported by it."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from sage_core.verify import LocalJudge, check
from sage_core.verify.passages import Sentence, parse_passages

DOCUMENTS = sorted(
    path
    for path in (Path(__file__).parents[3] / "demo" / "documents").iterdir()
    if path.suffix in (".md", ".txt")
)
JUDGE = LocalJudge(model=False)


def quotations(sentences: tuple[Sentence, ...]) -> list[str]:
    """Each sentence of prose, each row as its cells with their headers, each list behind its lead."""
    quoted = [s.text for s in sentences if s.kind == "text" and len(s.text.split()) > 2]
    for row in (s for s in sentences if s.cells):
        quoted.append("; ".join(f"{c.header}: {c.text}" for c in row.cells if c.header))
    lists: list[list[str]] = []
    for before, sentence in pairwise(sentences):
        if sentence.kind == "item" and before.kind != "item":
            lists.append([before.text.rstrip(":")] if before.text.endswith(":") else [])
        if sentence.kind == "item" and lists:
            lists[-1].append(re.sub(r"^(?:[-*+•]|\d+[.)])\s+", "", sentence.text).rstrip(".;,"))
    quoted += [f"{one[0]}: {'; '.join(one[1:])}" for one in lists if len(one) > 2]
    return [" ".join(text.split()) for text in quoted if "“" not in text and '"' not in text]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_quotation_is_supported(path: Path) -> None:
    passages = [block for block in path.read_text(encoding="utf-8").split("\n\n\n") if block.strip()]
    material = parse_passages(tuple(passages))
    wrong = []
    for text in quotations(material.sentences):
        verdict = check("", passages, f"The documents say: “{text}”", judge=JUDGE)
        if {m.support for m in verdict.marks} - {"supported", "nothing claimed"} or not verdict.accepted:
            wrong.append((text, [m.reason for m in verdict.marks if m.reason]))
    assert not wrong


LISTS = """# Keys

The tenant gives back at the end of the lease:

- all keys, also those of the cellar
- the parking permit
- 2 remote controls

Deposits of 1,200 € are repaid within 30 days. See "House rules"."""


def test_a_list_is_quoted_as_a_whole_and_another_one_is_not() -> None:
    quoted = quotations(parse_passages((LISTS,)).sentences)
    (listed,) = [text for text in quoted if "; " in text]
    for text in quoted:
        assert check("", [LISTS], f"The documents say: “{text}”", judge=JUDGE).accepted, text
    for other in ("all windows", "3 remote controls"):
        wrong = listed.replace("the parking permit", other)
        assert not check("", [LISTS], f"The documents say: “{wrong}”", judge=JUDGE).accepted


def test_a_row_with_a_cell_of_another_row_is_not_quoted() -> None:
    table = "| Path | Length |\n| --- | --- |\n| Ridge path | 1.2 km |\n| Lake path | 800 m |"
    assert check("", [table], "The documents say: “Path: Ridge path; Length: 1.2 km”", judge=JUDGE).accepted
    wrong = "The documents say: “Path: Ridge path; Length: 800 m”"
    assert not check("", [table], wrong, judge=JUDGE).accepted
