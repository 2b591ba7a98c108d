"""CSV, JSON, notebooks, mail and code as documents."""

import json

import pytest

from sage_core.documents.reader import parse_document
from sage_core.errors import InputError


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_values_are_a_table_with_named_columns(delimiter: str) -> None:
    source = delimiter.join(["Farm", "5 kg"]) + "\r\n" + delimiter.join(['"Alba | old"', "29.00"]) + "\r\n"
    document = parse_document("a.csv", source.encode())
    assert document.text == "| Farm | 5 kg |\n|---|---|\n| Alba \\| old | 29.00 |\n"
    assert document.kind == "csv" and not document.headings


def test_one_column_is_text_as_it_stands() -> None:
    assert parse_document("a.csv", b"Alba\nNorte\n").text == "Alba\nNorte\n"


def test_json_as_it_stands_and_minified_with_lines() -> None:
    value = [{"name": f"Inn {i}", "rooms": i} for i in range(40)]
    pretty = json.dumps(value, indent=1)
    assert parse_document("a.json", pretty.encode()).text == pretty
    lines = parse_document("a.json", json.dumps(value).encode()).text
    assert json.loads(lines) == value and lines.count("\n") > 100


def test_a_notebook_is_its_cells() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Tides\n", "They turn."]},
        {"cell_type": "code", "source": "x = 1", "outputs": [{"text": "secret"}]},
        {"cell_type": "code", "source": ""},
    ]
    document = parse_document("a.ipynb", json.dumps({"cells": cells}).encode())
    assert document.text == "# Tides\nThey turn.\n\n```python\nx = 1\n```\n"
    assert document.title == "Tides"


@pytest.mark.parametrize("data", [b"{}", b"[1]", b"{", b'{"cells": [{"source": 1}]}', b'"x"'])
def test_no_notebook(data: bytes) -> None:
    with pytest.raises(InputError, match="notebook"):
        parse_document("a.ipynb", data)


def test_a_message_is_its_subject_and_text() -> None:
    data = (
        b"From: Mara <mara@example.org>\r\nTo: crew@example.org\r\nSubject: =?utf-8?q?Fahrplan_f=C3=BCr_Mai?=\r\n"
        b"Content-Type: text/plain; charset=utf-8\r\n\r\nThe first boat\r\nleaves at 6.40 a.m.\r\n"
    )
    document = parse_document("a.eml", data)
    assert document.title == "Fahrplan für Mai" and [h.text for h in document.headings] == [
        "Fahrplan für Mai"
    ]
    assert document.text.endswith("The first boat\nleaves at 6.40 a.m.\n")
    assert "From: Mara <mara@example.org>\nTo: crew@example.org" in document.text


def test_a_message_of_html() -> None:
    pytest.importorskip("lxml")
    data = b"Subject: Hi\nContent-Type: text/html\n\n<p>It <b>leaves</b> at seven.</p><script>no</script>"
    text = parse_document("a.eml", data).text
    assert "at seven." in text and "<" not in text and "no" not in text.split()


def test_code_has_no_headings() -> None:
    document = parse_document("a.py", b"# The rate\nRATE = 25.0\n\n# Another\n\ndef f():\n    return RATE\n")
    assert document.kind == "code" and not document.headings and document.title is None
