"""Any bytes under any suffix: errors of ours only, exact offsets, time that grows with the file."""

import logging

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sage_app.documents.discovery import KINDS
from sage_app.documents.html import read_html
from sage_app.documents.reader import Document, parse_document
from sage_core.errors import InputError
from sage_core.text.headings import heading_paths
from tests.app.documents import pdfs
from tests.app.documents.pages import PAGES
from tests.app.documents.test_docx import BODY, word_file
from tests.fakes.growth import assert_linear

SUFFIXES = sorted(KINDS)
SEEDS = (
    b"# Dues\n\n- a\n- b\n\n| a | b |\n|---|---|\n\n```py\nx = 1\n```\n\n1. Berths\n\nText.\n",
    b"Guide\n=====\n\n.. note::\n\n   Text.\n\n= A\n\n== B\n\n----\ncode\n----\n",
    PAGES[0].markup.encode(),
    PAGES[4].markup.encode("utf-16"),
    "Café am Hafen, geöffnet bis „halb neun“. ".encode("cp1252"),
    pdfs.plain_headings(),
    word_file(BODY),
)


def check(document: Document) -> None:
    text = document.text
    assert text.strip()
    text.encode("utf-8")
    end = 0
    for heading in document.headings:
        assert end <= heading.start < heading.end <= len(text)
        assert text[heading.start : heading.end].strip() == text[heading.start : heading.end]
        end = heading.end
    assert len(heading_paths(text, document.headings, [(0, len(text))])) == 1
    assert list(document.page_starts) == sorted(document.page_starts)
    assert document.page_of(0) in (None, 1)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A whole file, cut, spliced with another and with bytes changed."""
    data = draw(st.sampled_from(SEEDS))
    other = draw(st.sampled_from(SEEDS))
    at = draw(st.integers(0, len(data)))
    data = data[:at] + draw(st.binary(max_size=30)) + other[draw(st.integers(0, len(other))) :]
    return data if draw(st.booleans()) else draw(st.binary(max_size=300))


@given(data=files(), suffix=st.sampled_from(SUFFIXES))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_bytes_give_a_document_or_an_error_of_ours(data: bytes, suffix: str) -> None:
    logging.disable(logging.WARNING)
    try:
        check(parse_document(f"a{suffix}", data))
    except InputError as error:
        assert f"a{suffix}" in str(error) or "a.pdf" in str(error)
    finally:
        logging.disable(logging.NOTSET)


@given(st.text(max_size=300), st.sampled_from([".txt", ".md", ".rst"]))
def test_text_comes_through_as_it_is(text: str, suffix: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    try:
        document = parse_document(f"a{suffix}", data, encoding="utf-8")
    except InputError:
        assert not text.strip() or any("\ud800" <= c <= "\udfff" for c in text)
        return
    assert document.text == text
    check(document)


def test_time_grows_with_a_page_of_many_elements_below_many() -> None:
    deep = "<div>" * 1800
    many = "<aside>a</aside><header>b</header><button>c</button><article>d</article>"
    assert_linear(lambda size: read_html(deep + many * size * 40), size=3)
