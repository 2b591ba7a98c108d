"""Links to other files, from each kind of document: where they stand in the text, and where they lead."""

import io
import time

import pytest
from reportlab.pdfgen.canvas import Canvas

from sage_app.documents import parse_document, read_html
from tests.app.documents.test_docx import OFFICE, word_file

PAGE = """<html><body><nav><a href="home.html">Home</a></nav><main><h1>Club</h1>
<p>Read <a href=" rules.html#dues ">the <b>dues</b></a> or <a href="https://x.org">elsewhere</a>.</p>
<ul><li><a href="a.html">One</a><li><a href="b.html">One</a></ul>
<table><tr><th>Name<th>File</tr><tr><td>x<td><a href="x.html">X file</a></tr></table>
<p><a href="javascript:go()">go</a> <a href="mailto:a@x.org">mail</a> <a>none</a>
<a href="code.html"><code>run()</code></a></p></main></body></html>"""


def test_links_of_a_page() -> None:
    page = read_html(PAGE)
    places = [("the dues", "rules.html#dues"), ("One", "a.html"), ("One", "b.html"), ("X file", "x.html")]
    said = [(page.text[link.start : link.end], link.target) for link in page.links]
    assert said == [*places, ("run()", "code.html")] and page.links[1].end <= page.links[2].start


def test_links_of_a_notebook_and_of_text() -> None:
    cells = b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"cell_type": "markdown", "metadata": {},'
    notebook = parse_document("a.ipynb", cells + b' "source": ["See [b](b.md)."]}]}')
    assert [link.target for link in notebook.links] == ["b.md"]
    assert [x.target for x in parse_document("a.rst", b"See :doc:`b`.").links] == ["b"]
    assert parse_document("a.py", b"# [b](b.md)").links == ()


def test_links_of_a_word_file() -> None:
    body = '<w:p><w:r><w:t xml:space="preserve">Read </w:t></w:r><w:hyperlink r:id="rId9"><w:r><w:t>the dues</w:t>'
    target = f'<Relationship Id="rId9" Type="{OFFICE}/hyperlink" Target="rules.docx" TargetMode="External"/>'
    document = parse_document("a.docx", word_file(f"{body}</w:r></w:hyperlink></w:p>", links=target))
    [found] = document.links
    assert (document.text[found.start : found.end], found.target) == ("the dues", "rules.docx")


def test_links_of_a_pdf() -> None:
    out = io.BytesIO()
    canvas, said = Canvas(out), "What it costs is in the rules."
    for y, line in ((700, "The ferry leaves at seven."), (680, said), (640, "Bees fly.")):
        canvas.drawString(72, y, line)
    canvas.linkURL("rules.pdf", (72, 676, 250, 692))
    canvas.linkURL("https://example.org", (72, 696, 250, 712))
    canvas.linkURL("nowhere.pdf", (400, 100, 410, 110))
    canvas.save()
    document = parse_document("a.pdf", out.getvalue())
    [found] = document.links
    assert (document.text[found.start : found.end], found.target) == (said, "rules.pdf")


@pytest.mark.parametrize("name", ["a.md", "a.html"])
def test_a_document_of_5_000_links_has_them_all(name: str) -> None:
    one = "[n{0}](f{0}.md)\n" if name == "a.md" else '<p><a href="f{0}.md">n{0}</a></p>'
    document = parse_document(name, "".join(one.format(i) for i in range(5_000)).encode())
    assert len(document.links) == 5_000 and document.links[-1].target == "f4999.md"


@pytest.mark.slow
def test_links_that_are_written_otherwise_take_linear_time() -> None:
    # "|" is escaped in a table, so that none of them is found as it stands.
    rows = "".join(f'<tr><th>{i}<td><a href="f{i}.html">a|b{i}</a></tr>' for i in range(20_000))
    before = time.process_time()
    page = read_html(f"<table>{rows}</table>" + "<p>wax</p>" * 3)
    assert len(page.links) == 20_000 and time.process_time() - before < 20  # minutes where it is quadratic
