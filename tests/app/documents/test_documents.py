"""Readers: text comes through unchanged, encodings are told apart, and what is no text is refused."""

from pathlib import Path

import pytest

from sage_app.documents.discovery import as_paths, find_documents, find_files, source_of
from sage_app.documents.reader import digest_of, read_document
from sage_core.errors import InputError

DEMO = Path(__file__).parents[3] / "demo" / "documents"
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde"


def write(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_newlines_are_kept(tmp_path: Path, newline: str) -> None:
    text = newline.join(["First line.", "", "Second — with a dash.", ""])
    assert read_document(write(tmp_path, "a.txt", text)).text == text


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
def test_encodings_are_found_out(tmp_path: Path, encoding: str) -> None:
    text = "Café on the pier, open until “half past eight”. " * 5
    assert read_document(write(tmp_path, "a.txt", text.encode(encoding))).text == text


def test_a_named_encoding_is_used_and_checked(tmp_path: Path) -> None:
    text = "Паром уходит в семь часов."
    path = write(tmp_path, "a.txt", text.encode("koi8-r"))
    assert read_document(path, encoding="koi8-r").text == text
    with pytest.raises(InputError, match="ascii"):
        read_document(path, encoding="ascii")
    with pytest.raises(InputError, match="encoding"):
        read_document(path, encoding="no-such")
    assert digest_of(b"x") != digest_of(b"x", "koi8-r")


@pytest.mark.parametrize(
    "data", [PNG, bytes(range(1, 256)) * 4, b"\x1f\x8b\x08\x01\x02\x03" + b"\x81\x05\x90" * 99]
)
def test_binary_files_are_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(InputError, match="binary"):
        read_document(write(tmp_path, "notes.txt", data))


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html"])
def test_files_without_text_are_refused(tmp_path: Path, name: str) -> None:
    for data in ("", " \n\t \r\n"):
        with pytest.raises(InputError):
            read_document(write(tmp_path, name, data))


def test_what_a_file_holds_counts_more_than_its_suffix(tmp_path: Path) -> None:
    data = (DEMO / "harbour-rules.pdf").read_bytes()
    assert read_document(write(tmp_path, "scan.txt", data)).kind == "pdf"
    assert read_document(write(tmp_path, "notes.notes", "* A heading")).kind == "text"


def test_missing_files_and_folders_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read_document(tmp_path / "none.txt")
    with pytest.raises(InputError, match="folder"):
        read_document(tmp_path)


def test_folders_are_searched_in_order_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b.md", "a.TXT", "sub/c.html", ".hidden.md", ".git/d.md", "e.png", "sub/deep/f.pdf"):
        write(tmp_path, name, "x")
    found = [p.relative_to(tmp_path).as_posix() for p in find_files(tmp_path)]
    assert found == ["a.TXT", "b.md", "sub/c.html", "sub/deep/f.pdf"]


def expand(paths: object) -> list[Path]:
    return list(find_documents(as_paths(paths)).files.values())  # type: ignore[arg-type]


def test_paths_are_expanded_once(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "x")
    write(tmp_path, "no-suffix", "x")
    assert expand([tmp_path, path, str(path)]) == [path]
    assert expand([tmp_path / "no-suffix"]) == [tmp_path / "no-suffix"]
    with pytest.raises(InputError):
        expand([tmp_path / "none"])


TEXT = "The ferry leaves at seven. It returns before dark.\n\n" * 400


@pytest.mark.parametrize("use", [read_document, lambda text: expand([text]), lambda text: expand(text)])
@pytest.mark.parametrize("text", [TEXT, TEXT[:200], "x" * 100_000])
def test_a_text_in_place_of_a_path_is_told_and_not_echoed(use, text: str) -> None:
    with pytest.raises(InputError) as told:
        use(text)
    assert len(str(told.value)) < 250
    with pytest.raises(InputError, match=r"ferry and the harbour.txt"):
        expand(["my notes on the ferry and the harbour.txt"])


def test_a_link_is_its_target(tmp_path: Path) -> None:
    path = write(tmp_path, "real/a.txt", "x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert source_of(tmp_path / "link" / "a.txt") == source_of(path)
    assert len(expand([tmp_path / "real", tmp_path / "link"])) == 1
