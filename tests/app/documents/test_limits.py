"""Files larger than every size a reader knows: 64 KB for a first look, 1 MB, 10 MB, and the limit of their kind."""

import csv
import io
import json
import random
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sage_app.documents import isolated, pandoc, reader
from sage_app.documents.discovery import ISOLATED, KINDS, PANDOC
from sage_app.documents.reader import Document, parse_document, read_bytes, read_document
from sage_core.errors import InputError
from tests.app.documents import pdfs
from tests.app.documents.test_docx import paragraph, word_file
from tests.app.documents.test_office import saved
from tests.app.documents.test_pandoc import book, open_document, zipped
from tests.fakes.growth import assert_linear

LAST = "The last ferry leaves at midnight."


def sentences(size: int) -> list[str]:
    """About ``size`` characters that a packer does not shrink much, and `LAST`."""
    draw = random.Random(7)
    made = [
        f"Berth {draw.getrandbits(200):x} is let until {draw.randint(1900, 2100)}." for _ in range(size // 80)
    ]
    return [*made, LAST]


def rows(size: int) -> list[list[str]]:
    return [["Berth", "Note"], *[[f"N{i}", text] for i, text in enumerate(sentences(size))]]


def workbook(size: int) -> bytes:
    book = pytest.importorskip("openpyxl").Workbook()
    for row in rows(size):
        book.active.append(row)
    return saved(book)


def slides(size: int) -> bytes:
    show = pytest.importorskip("pptx").Presentation()
    texts = sentences(size)
    for first in range(0, len(texts), 100):
        slide = show.slides.add_slide(show.slide_layouts[1])
        slide.shapes.title.text = f"Part {first}"
        slide.placeholders[1].text = "\n".join(texts[first : first + 100])
    return saved(show)


def notebook(size: int) -> bytes:
    return json.dumps({"cells": [{"cell_type": "markdown", "source": t} for t in sentences(size)]}).encode()


def values(size: int) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows(rows(size))
    return out.getvalue().encode()


def message(size: int) -> bytes:
    return b"Subject: Berths\n\n" + "\n".join(["A NUL: \0", *sentences(size)]).encode()


def prose(size: int) -> bytes:
    return "\n\n".join(sentences(size)).encode()


def table(size: int) -> bytes:
    border = f"{'=' * 12} {'=' * 90}"
    lines = [border, *[f"{a:12} {b}" for a, b in rows(size)], border]
    return "\n".join([*lines[:2], border, *lines[2:]]).encode()


FILES: dict[str, Callable[[int], bytes]] = {
    ".txt": prose,
    ".md": prose,
    ".py": prose,
    ".rst": table,
    ".html": lambda size: "".join(f"<p>{text}</p>" for text in sentences(size)).encode(),
    ".csv": values,
    ".json": lambda size: json.dumps(rows(size)).encode(),
    ".ipynb": notebook,
    ".srt": lambda size: "\n\n".join(f"00:00:01,000 --> 00:00:02,000\n{t}" for t in sentences(size)).encode(),
    ".eml": message,
    ".rtf": lambda size: ("{\\rtf1 " + "\\par\n".join(sentences(size)) + "}").encode(),
    ".pdf": lambda size: pdfs.with_lines(sentences(size)),
    ".docx": lambda size: word_file("".join(map(paragraph, sentences(size)))),
    ".xlsx": workbook,
    ".pptx": slides,
    ".epub": lambda size: book("<p>Before.</p>", "".join(f"<p>{text}</p>" for text in sentences(size))),
    ".odt": lambda size: open_document("".join(f"<text:p>{text}</text:p>" for text in sentences(size))),
}
# What is packed holds so many times its size in text.
PACKED = {".pdf": 3.0, ".docx": 3.0, ".xlsx": 2.5, ".pptx": 3.0, ".epub": 3.0, ".odt": 3.0}


def file(suffix: str, size: int) -> bytes:
    """A file of about this size."""
    if suffix in (".rtf", ".epub", ".odt") and pandoc.find_pandoc() is None:
        pytest.skip("needs pandoc")
    return FILES[suffix](int(size * PACKED.get(suffix, 1.0)))


def test_every_kind_is_among_them() -> None:
    by_pandoc_alone = PANDOC - {"epub", "odt", "rtf"}
    assert {KINDS[suffix] for suffix in FILES} == set(KINDS.values()) - by_pandoc_alone


def check_is_read_to_its_end(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    assert read_bytes(path) == data
    assert LAST in read_document(path).text


@pytest.mark.parametrize("suffix", FILES)
def test_a_file_beyond_the_first_look_is_read_to_its_end(tmp_path: Path, suffix: str) -> None:
    data = file(suffix, 100_000)
    assert len(data) > 2**16
    check_is_read_to_its_end(tmp_path / f"a{suffix}", data)


# A PDF of 12 MB is read in minutes.
LARGE = [
    (suffix, size) for suffix in FILES for size in (1_200_000, 12_000_000)[: 1 if suffix == ".pdf" else 2]
]


@pytest.mark.soak
@pytest.mark.parametrize(("suffix", "size"), LARGE)
def test_a_large_file_is_read_to_its_end_or_refused(tmp_path: Path, suffix: str, size: int) -> None:
    data = file(suffix, size)
    assert len(data) > (10_000_000 if size > 10_000_000 else 2**20)
    try:
        check_is_read_to_its_end(tmp_path / f"a{suffix}", data)
    except InputError as error:  # what it unpacks to, or the memory or time it takes
        assert size > 10_000_000 and suffix in PACKED and "split it" in str(error), error


@pytest.mark.parametrize("suffix", FILES)
def test_no_kind_is_read_beyond_its_limit(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(file(suffix, 1_000))
    limits = {"_MAX_BYTES": dict.fromkeys(reader._MAX_BYTES, 100), "_MAX_FILE_BYTES": 100}
    for name, value in limits.items():
        monkeypatch.setattr(reader, name, value)
    with pytest.raises(InputError, match=rf"a\{suffix}' has .* split it"):
        read_document(path)


@pytest.mark.parametrize("suffix", [s for s in FILES if KINDS[s] not in ISOLATED])
@pytest.mark.parametrize("size", [2**16 + 4096, 2**20, 1_000_000_000])
def test_a_sparse_file_is_binary_and_not_read(tmp_path: Path, suffix: str, size: int) -> None:
    path = tmp_path / f"a{suffix}"
    with path.open("wb") as out:
        out.write(file(suffix, 70_000)[: 2**16])
        out.truncate(size)
    with pytest.raises(InputError, match=r"binary|over [25]00 MB"):
        read_document(path)


def test_text_with_a_nul_far_within_is_text_and_with_many_is_not() -> None:
    text = file(".txt", 100_000)
    assert "\0" in parse_document("a.txt", text + b"\0end").text
    with pytest.raises(InputError, match="binary"):
        parse_document("a.txt", text + b"\0" * 2_000)


def parsed(suffix: str, data: bytes) -> Document:
    """`parse_document` in this process, where time and memory are seen."""
    kind = KINDS[suffix]
    if kind not in ISOLATED:
        return parse_document(f"a{suffix}", data)
    return Document("a", isolated._parse(kind, data, f"a{suffix}").text, kind, "")


@pytest.mark.soak
@pytest.mark.parametrize("suffix", FILES)
def test_time_and_memory_grow_with_the_file(suffix: str) -> None:
    files = {size: FILES[suffix](size * 100_000) for size in (1, 10)}
    assert_linear(lambda size: parsed(suffix, files[size]), size=1, times=10)
    peaks = []
    for data in files.values():
        tracemalloc.start()
        parsed(suffix, data)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 20 * max(peaks[0], 1_000_000)


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Bytes changed, left out, repeated; of an archive within one of its parts."""
    if data.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        name = draw.choice([name for name in parts if parts[name]])
        return zipped({**parts, name: mutated(parts[name], draw)})
    for _ in range(draw.randint(1, 4)):
        start = draw.randrange(len(data) + 1)
        end = start + draw.choice((0, 1, 5, 200))
        new = draw.choice(
            (b"", draw.randbytes(end - start), data[start:end] * 3, b"<a", b"\xed\xa0\xbd", b"\\ud83d")
        )
        data = data[:start] + new + data[end:]
    return data


@pytest.mark.parametrize("suffix", FILES)
def test_a_mutated_file_gives_a_document_or_an_error_of_ours(suffix: str) -> None:
    draw = random.Random(suffix)
    data = file(suffix, 2_000)
    for _ in range(20):
        try:
            parse_document(f"a{suffix}", mutated(data, draw)).text.encode()
        except InputError as error:
            assert f"a{suffix}" in str(error)
