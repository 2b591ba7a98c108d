"""What a chunk knows that begins in the middle of a table, a list or a block of code."""

from sage_app.documents.reader import parse_document
from sage_app.pipeline.ingest import chunks_of
from sage_core.segmentation import Segmenter
from sage_core.text.continuations import Continuations
from sage_core.text.lines import read_lines
from sage_core.text.outline import Outline


def above(text: str, piece: str) -> tuple[str, ...]:
    return Continuations(text).above([(text.index(piece), len(text))])[0]


def test_rows_know_their_columns() -> None:
    text = "# List\n\n| Farm | Country | 5 kg |\n|---|---|---|\n| Alba | Kenya | 29.00 |\n| Norte | Peru | 2.00 |\n\nEnd."
    assert above(text, "| Norte") == ("Farm | Country | 5 kg",)
    assert above(text, "| Farm") == above(text, "End.") == above(text, "# List") == ()


def test_tables_of_other_markup() -> None:
    simple = "=====  ====\nPort   High\n=====  ====\nMarsey  3.1\nTolland 2.8\n=====  ====\n"
    assert above(simple, "Tolland") == ("Port | High",)
    bare = "Room | Seats\n--- | ---\nLoft | 35\nCellar | 18"
    assert above(bare, "Cellar") == ("Room | Seats",)
    block = "|===\n|Pier |Price\n\n|North |11.00\n\n|South |16.50\n|===\n"
    assert above(block, "|South") == ("Pier | Price",)
    tabs = "Port\tHigh\nMarsey\t3.1\nTolland\t2.8"
    assert above(tabs, "Tolland") == ("Port | High",)


def test_a_table_whose_first_row_has_numbers_has_no_names() -> None:
    assert above("| 1 | 2 |\n| 3 | 4 |\n| 5 | 6 |", "| 5") == ()


def test_items_know_their_lead_in() -> None:
    text = "3.1 All.\n3.2 The following need consent:\n(a) machines;\n(b) work at night.\n3.3 No living."
    assert above(text, "(b)") == ("3.2 The following need consent:",)
    assert above(text, "3.3") == ()


def test_code_knows_its_scope() -> None:
    text = "class Bucket:\n    size = 1\n\n    def take(self):\n        x = self.size\n        return x\n\ny = 1\n"
    assert above(text, "return x") == ("class Bucket", "def take")
    assert above(text, "def take") == ("class Bucket",)
    assert above(text, "y = 1") == ()


def test_columns_are_in_the_header_of_a_chunk_and_not_in_its_text() -> None:
    rows = "\n".join(f"| Finca {i} | Colombia | medium | 2{i}.00 | 2{i}.40 | 25.00 |" for i in range(12))
    source = f"# Spring list\n\n| Farm | Country | Roast | 5 kg | 20 kg | 60 kg |\n|---|---|---|---|---|---|\n{rows}\n"
    document = parse_document("list.md", source.encode())
    chunks = chunks_of(document, Segmenter().segment(document.text), context=True, window=256)
    assert len(chunks) > 1
    for chunk in chunks[1:]:
        assert "Farm" not in chunk.text
        assert chunk.headings[-1] == "Farm | Country | Roast | 5 kg | 20 kg | 60 kg"
        assert "Farm | Country | Roast" in chunk.header
        assert chunk.text_for_models.endswith(chunk.text)


def test_an_outline_counts_the_columns_in_its_longest_header() -> None:
    from sage_core.text.tokens import get_counter

    text = "| Farm | Country |\n|---|---|\n| Alba | Kenya |\n| Norte | Peru |"
    outline = Outline(text, {})
    assert outline
    assert outline.contexts([(text.index("| Norte"), len(text))])[0].headings == ("Farm | Country",)
    assert outline.longest(get_counter("bert")) >= 3


def test_letters_number_items_and_initials_do_not() -> None:
    kinds = [
        line.kind
        for line in read_lines("a. Oars.\nb. Sails.\ni. Masts.\nc) Ropes.\nB. Marten spoke.\ne.g. so")
    ]
    assert kinds == ["item", "item", "item", "item", "text", "text"]
