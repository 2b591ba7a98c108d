"""PDF and Word files that would end the process or the machine."""

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from sage_app.documents import isolated
from sage_app.documents.discovery import find_files
from sage_app.documents.reader import parse_document, read_bytes, read_document
from sage_core.errors import InputError
from sage_core.paths import kind_of
from tests.app.documents import pdfs
from tests.app.documents.test_docx import BODY, word_file
from tests.app.documents.test_pdf import CATALOG, FONT, PAGE, TEXT, _file, _object, _pages, _stream
from tests.fakes.stores import names, run
from tests.fakes.threads import together


def _form(number: int, content: bytes, draws: int) -> bytes:
    resources = b"/Resources << /XObject << /X %d 0 R >> >>" % draws
    return _object(number, _stream(content, b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] " + resources))


def _with_forms(*forms: bytes) -> bytes:
    page = PAGE.replace(b"/Font", b"/XObject << /X 6 0 R >> /Font")
    return _file(CATALOG, _pages(), page, _object(4, _stream(b"/X Do " + TEXT)), FONT, *forms)


def _packed(data: bytes, filters: bytes) -> bytes:
    return _file(CATALOG, _pages(), PAGE, _object(4, _stream(data, b"/Filter [%s]" % filters)), FONT)


_window = zlib.compressobj(9, zlib.DEFLATED, 12)
_BOMB = _window.compress(b"q " * 10_000_000) + _window.flush()
HOSTILE = {
    "a form that draws itself twice": _with_forms(_form(6, b"/X Do /X Do", 6)),
    "forms that draw the next": _with_forms(*[_form(6 + i, b"/X Do " * 12, 7 + i) for i in range(10)]),
    "operators": _packed(_BOMB, b"/FlateDecode"),
    "in hexadecimal": _packed(_BOMB.hex().encode() + b">", b"/ASCIIHexDecode /FlateDecode"),
    "packed twice": _packed(zlib.compress(_BOMB), b"/FlateDecode /FlateDecode"),
}


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "_MEMORY", 100_000_000)
    monkeypatch.setattr(isolated, "_MEMORY_PER_BYTE", 0)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.slow
def test_a_file_that_takes_all_memory_is_refused_and_the_next_one_read(
    name: str, little_memory: None
) -> None:
    with pytest.raises(InputError, match=r"a\.pdf.*memory"):
        parse_document("a.pdf", HOSTILE[name])
    assert "pilot" in parse_document("b.pdf", pdfs.one_column()).text


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="memory is not limited on Windows")
def test_the_limit_does_not_grow_with_the_program_that_reads() -> None:
    large = bytearray(b"x") * 400_000_000  # the peak of this process, were it handed down
    code = "from sage_app.documents.isolated import _limits; print(_limits()[0]())"
    peak = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout
    size = len(large)
    assert 1_000_000 < float(peak) < size


def test_a_file_that_takes_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "_CPU_SECONDS", 0.2)
    monkeypatch.setattr(isolated, "_CPU_SECONDS_PER_BYTE", 0)
    parse_document("a.pdf", pdfs.one_column())  # what is loaded at first takes time too
    with pytest.raises(InputError, match=r"a\.docx.*seconds"):
        parse_document("a.docx", word_file(BODY * 3000))


@pytest.mark.slow
def test_a_folder_is_read_but_for_the_hostile_file(tmp_path: Path, little_memory: None) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.pdf").write_bytes(HOSTILE["a form that draws itself twice"])
    (folder / "b.pdf").write_bytes(pdfs.one_column())
    (folder / "c.docx").write_bytes(word_file(BODY))
    (folder / "d.txt").write_text("The ferry leaves at seven.")
    report = run(tmp_path / "store", folder)
    assert names(report.added) == {"b.pdf", "c.docx", "d.txt"}
    assert names(skipped.source for skipped in report.skipped) == {"a.pdf"}


def test_a_child_that_ended_between_two_files_is_replaced() -> None:
    parse_document("a.docx", word_file(BODY))
    child = isolated._child._process
    assert child is not None and child.stdin is not None
    child.stdin.close()
    child.wait()
    isolated._child._process = child
    assert "Every vessel pays." in parse_document("a.docx", word_file(BODY)).text


def test_one_child_reads_for_all_threads() -> None:
    assert len({d.text for d in together([lambda: parse_document("a.docx", word_file(BODY))] * 8)}) == 1


def test_warnings_come_through(caplog: pytest.LogCaptureFixture) -> None:
    pages = _pages(b"[3 0 R 9 0 R]", b"2")
    parse_document("a.pdf", _file(CATALOG, pages, PAGE, _object(4, _stream(TEXT)), FONT))
    assert "1 of 2 pages" in caplog.text


def test_no_memory_for_one_file_is_an_error_of_that_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("sage_app.documents.reader.decode", none_left)
    with pytest.raises(InputError, match=r"a\.txt.*memory"):
        parse_document("a.txt", b"text")


@pytest.mark.parametrize("text", ["ab", "a" * 40_000, "\U0001f6a2" * 40_000, "a" + "\U0001f6a2" * 40_000])
def test_utf_16_is_not_taken_for_binary(tmp_path: Path, text: str) -> None:
    """Without a mark; in the third and fourth, a pair of surrogates may lie across the first 64 KB."""
    path = tmp_path / "a.txt"
    text = "The ferry leaves. " * 3000 + text
    path.write_bytes(text.encode("utf-16-le"))
    assert read_document(path).text == text


@pytest.mark.skipif(not os.path.ismount("/proc"), reason="no /proc here")
def test_files_of_the_kernel_are_no_files(tmp_path: Path) -> None:
    link = tmp_path / "a.txt"
    link.symlink_to("/proc/self/status")
    assert kind_of(link) == "other" and list(find_files(tmp_path)) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.txt")
    with pytest.raises(InputError, match="regular"):
        read_bytes(tmp_path / "a.txt")
