"""CSV, JSON, notebooks, mail and code as documents."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sage_app.documents.reader import parse_document
from sage_app.documents.structured import read_email
from sage_core import Segmenter
from sage_core.errors import InputError
from tests.fakes.growth import assert_linear
from tests.fakes.stores import names, run


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_values_are_a_table_with_named_columns(delimiter: str) -> None:
    source = delimiter.join(["Farm", "5 kg"]) + "\r\n" + delimiter.join(['"Alba | old"', "29.00"]) + "\r\n"
    document = parse_document("a.csv", source.encode())
    assert document.text == "| Farm | 5 kg |\n|---|---|\n| Alba \\| old | 29.00 |\n"
    assert document.kind == "csv" and not document.headings
    assert parse_document("a.csv", f"sep={delimiter}\r\n{source}".encode()).text == document.text


def test_one_column_is_text_as_it_stands() -> None:
    assert parse_document("a.csv", b"Alba\nNorte\n").text == "Alba\nNorte\n"


def test_json_as_it_stands_and_minified_with_lines() -> None:
    value = [{"name": f"Inn {i}", "rooms": i} for i in range(40)]
    pretty = json.dumps(value, indent=1)
    assert parse_document("a.json", pretty.encode()).text == pretty
    lines = parse_document("a.json", json.dumps(value).encode()).text
    assert json.loads(lines) == value and lines.count("\n") > 100


@pytest.mark.parametrize(
    ("name", "source", "text"),
    [
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\nThe <i>lock</i>\n\n2\n00:00:02,000 --> 00:00:03,000\nopens.", "The lock opens."),
        (
            "a.vtt",
            "WEBVTT - x\n\nNOTE of the editor\n\n00:01.000 --> 00:02.000 align:start\n<v Ann>Who &amp; what?\n\n"
            "00:02.000 --> 00:03.000\n<v Bo>Nobody.",
            "Ann: Who & what?\n\nBo: Nobody.",
        ),
        (
            "a.vtt",
            "WEBVTT\n\n00:01.000 --> 00:02.000\nthe<00:01.500><c> lock</c>\n\n00:02.000 --> 00:03.000\nthe lock\nopens",
            "the lock opens",
        ),
    ],
)  # fmt: skip
def test_captions_are_their_words(name: str, source: str, text: str) -> None:
    document = parse_document(name, source.encode())
    assert document.text == f"{text}\n" and not document.headings and document.title is None


def test_a_sentence_goes_on_over_a_page() -> None:
    page = "\n\n\nBerg & Lund                {}\n\f\nMemo 9                 Locks\n\n\n"
    source = (
        "It shows"
        + page.format(3)
        + "two lights."
        + page.format(4)
        + "It then waits.\n\n9 boats\n\nOf all.\n"
    )
    assert parse_document("a.txt", source.encode()).text == (
        "It shows\ntwo lights.\n\nIt then waits.\n\n9 boats\n\nOf all.\n"
    )


def test_a_notebook_is_its_cells() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Tides\n", "They turn."]},
        {"cell_type": "code", "source": "x = 1", "outputs": [{"text": "secret"}]},
        {"cell_type": "code", "source": ""},
    ]
    document = parse_document("a.ipynb", json.dumps({"cells": cells}).encode())
    assert document.text == "# Tides\nThey turn.\n\n```python\nx = 1\n```\n"
    assert document.title == "Tides"
    about = {"language_info": {"name": "R"}}
    cells = [{"cell_type": "code", "source": "s <- '```'"}]
    document = parse_document("a.ipynb", json.dumps({"cells": cells, "metadata": about}).encode())
    assert document.text == "````r\ns <- '```'\n````\n"


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


PARTS = 'Subject: Hi\nContent-Type: multipart/%s; boundary="B"\n\n--B\n%s\n--B--\n'
HTML = "Content-Type: text/html\n\n<p>The ferry leaves at seven and the mill turns all day long.</p>"


@pytest.mark.parametrize(
    ("kind", "parts", "expected"),
    [
        ("alternative", ["\nThe ferry leaves at seven and the mill turns.", HTML], "mill turns."),
        ("alternative", ["\nOpen it in a browser.", HTML], "all day long."),
        ("alternative", ["\n ", HTML], "all day long."),
        ("mixed", ["\nOne.", "Content-Type: image/png\n\nx", "\nTwo."], "One.\n\nTwo."),
        (
            "mixed",
            ["\nOne.", "Content-Type: text/csv\nContent-Disposition: attachment; filename=a.csv\n\n1,2"],
            "One.\n\nAttached: a.csv",
        ),
        (
            "mixed",
            ["\nSee below.", "Content-Type: message/rfc822\n\nFrom: b@c\nSubject: Boat\n\nIt is red."],
            "See below.\n\n# Boat\n\nFrom: b@c\n\nIt is red.",
        ),
        ("digest", ["\nSubject: A\n\n# One.", "\nSubject: B\n\nTwo."], "# A\n\n# One.\n\n# B\n\nTwo."),
        (
            "alternative",
            ["\nYou are invited.", "Content-Type: text/calendar\n\nSUMMARY:Dredging\\,\n  all day\nUID:1"],
            "You are invited.\n\nSummary: Dredging, all day",
        ),
    ],
)
def test_the_parts_of_a_message_that_are_shown(kind: str, parts: list[str], expected: str) -> None:
    read = read_email((PARTS % (kind, "\n--B\n".join(parts))).encode())
    assert read.text.strip().endswith(expected)
    assert [h.text for h in read.headings] == re.findall("(?m)^# (Hi|A|B|Boat)$", read.text)


@pytest.mark.parametrize(
    ("charset", "body", "expected"),
    [
        ("gb2312", "Die Führung; 你好".encode(), "Führung; 你好"),
        ("iso-8859-1", b"30 \x80", "30 €"),
        ("utf-8", "Führung ".encode() + b"betr\xe4gt", "Führung beträgt"),
        ("koi8-r", "Паром".encode("koi8-r"), "Паром"),
    ],
)
def test_a_false_character_set_costs_no_more_than_its_signs(charset: str, body: bytes, expected: str) -> None:
    head = f"Subject: Hi\nContent-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: 8bit\n\n"
    assert expected in read_email(head.encode() + body).text


def test_code_has_no_headings() -> None:
    document = parse_document("a.py", b"# The rate\nRATE = 25.0\n\n# Another\n\ndef f():\n    return RATE\n")
    assert document.kind == "code" and not document.headings and document.title is None


HALF = "The \\ud83d lamp."  # what is left of an emoji where a program cuts a text


@pytest.mark.parametrize(
    ("name", "source"),
    [
        (
            "a.ipynb",
            '{"cells": [{"cell_type": "markdown", "source": "# The \\ud83d lamp\\n[b](\\ud83d.txt) x"}]}',
        ),
        ("a.json", '{"note": "' + HALF * 40 + '"}'),
    ],
)
def test_half_an_emoji_is_replaced_and_its_folder_stored(tmp_path: Path, name: str, source: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / name).write_text(source)
    (tmp_path / "docs" / "b.txt").write_text("The ferry leaves at nine.")
    assert names(run(tmp_path / "store", tmp_path / "docs").added) == {name, "b.txt"}
    document = parse_document(name, source.encode())
    assert "The \ufffd lamp" in document.text
    for text in (
        document.title or "",
        *(h.text for h in document.headings),
    ):
        text.encode()


@pytest.mark.parametrize(
    "header",
    [
        lambda n: "Subject: " + "=?utf-8?q?a?= " * n,
        lambda n: "To: " + ", ".join(f"u{i}@b.org" for i in range(n)),
        lambda n: "Content-Type: text/plain" + "".join(f"; a{i}=1" for i in range(n)),
        lambda n: "Subject: x\n" + "".join(f" line {i}\n" for i in range(n)).rstrip(),
    ],
)
def test_a_header_without_end_is_cut_and_the_message_read(header: Callable[[int], str]) -> None:
    def read(size: int) -> None:
        message = f"{header(size * 1000)}\nFrom: a@b\n\nThe ferry leaves at nine.\n"
        assert "at nine." in read_email(message.encode()).text

    assert_linear(read, size=2)


@pytest.mark.parametrize("charset", [None, "us-ascii", "utf-8", "iso-8859-1", "iso-2022-jp"])
@pytest.mark.parametrize("text", ["Fähre um neun", "フェリー"])
def test_a_message_that_does_not_say_its_encoding_is_utf_8(charset: str | None, text: str) -> None:
    if charset == "iso-8859-1" and not text.startswith("F"):
        return
    named = charset not in (None, "us-ascii")
    body = text.encode(charset if charset and named else "utf-8", "replace")
    said = f"Content-Type: text/plain; charset={charset}\n".encode() if charset else b""
    expected = body.decode(charset if charset and named else "utf-8")
    assert expected in read_email(b"Subject: Hi\n" + said + b"\n" + body).text


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_a_message_in_utf_16(encoding: str) -> None:
    source = "Subject: Fähre\n\n" + "Sie fährt um neun.\n" * 9
    document = parse_document("a.eml", source.encode(encoding))
    assert document.title == "Fähre" and document.text.count("Sie fährt um neun.") == 9


def test_deeply_nested_json_stays_as_it_is() -> None:
    source = "[" + ",".join("[" * 900 + "]" * 900 for _ in range(50)) + "]"
    assert parse_document("a.json", source.encode()).text == source


MAILBOX = (
    b"From mara@example.org Tue Mar  4 08:12:01 2025\nFrom: Mara <m@example.org>\nDate: Tue, 4 Mar 2025 08:12:01\n"
    b"Subject: Boat\n\nThe first boat leaves at six.\n>From six on, that is.\n\n"
    b"From tom@example.org Tue Mar  4 09:12:01 2025\nFrom: Tom <t@example.org>\nDate: Tue, 4 Mar 2025 09:12:01\n"
    b"Subject: Re: Boat\n\n> The first boat leaves at six.\n\nNo.\n"
)


@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_the_messages_of_a_mailbox(ends: bytes) -> None:
    document = parse_document("a.mbox", MAILBOX.replace(b"\n", ends))
    assert [document.text[h.start : h.end] for h in document.headings] == ["# Boat", "# Re: Boat"]
    assert document.title is None and "\nFrom six on, that is." in document.text
    chunks = [span.of(document.text) for span in Segmenter().segment(document.text)]
    assert [chunk.split("\n")[0] for chunk in chunks] == ["# Boat", "# Re: Boat"]
    assert chunks[1].endswith("> The first boat leaves at six.\n\nNo.")


@pytest.mark.parametrize(
    "charset", ["x-unknown", "x-user-defined", "iso-8859-8-i", "5", "idna", "base64", "rot13"]
)
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_an_unknown_character_set_is_read_as_none(charset: str, encoding: str) -> None:
    head = f"Subject: Hi\nContent-Type: text/plain; charset={charset}\n\n"
    assert "Fähre um neun" in read_email(head.encode() + "Fähre um neun".encode(encoding)).text


def test_a_message_that_cannot_be_read_leaves_the_others_of_its_mailbox(
    caplog: pytest.LogCaptureFixture,
) -> None:
    deep = "Content-Type: multipart/mixed; boundary=%s\n\n--%s\n"
    broken = "".join(deep % (n, n) for n in range(2000)).encode()
    text = read_email(MAILBOX + b"\nFrom a@b.org Tue Mar  4 08:12:01 2025\n" + broken, name="a.mbox").text
    assert "No." in text and "1 of 3 messages" in caplog.text
