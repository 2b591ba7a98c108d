"""What cannot be read: folders that cannot be opened, links, rebuilds with nothing to put in."""

import sys
from pathlib import Path

import pytest

from sage_app.documents.discovery import as_paths, find_files, source_of
from sage_app.pipeline.ingest import ingest
from sage_app.store.folder import FolderStore
from sage_core.errors import InputError, MissingExtraError
from sage_core.paths import as_path
from tests.app.folders import lock
from tests.fakes.models import BlankLineSegmenter, HashEmbedder
from tests.fakes.stores import contents, fill, ingested, names, run

BINARY = b"\x89PNG\r\n\x1a\n\x00\x00"


class TestAFolderThatCannotBeOpened:
    def test_is_reported_and_what_the_store_has_of_it_stays(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder, store = ingested(tmp_path)
        before = contents(store)
        lock(monkeypatch, folder / "sub")
        (folder / "mill.md").unlink()
        report = run(store, folder)
        (skipped,) = report.skipped
        assert skipped.source == str(folder / "sub") and skipped.unopened and not report.complete
        assert "sub cannot be read: Permission denied" in skipped.reason
        assert names(report.removed) == {"mill.md"}
        assert contents(store) == {c for c in before if not c[1].endswith("mill.md")}

    def test_is_not_lost_by_a_rebuild(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder, store = ingested(tmp_path)
        before = contents(store)
        lock(monkeypatch, folder / "sub")
        with pytest.raises(InputError, match=r"sub.*--rebuild"):
            run(store, folder, rebuild=True)
        assert contents(store) == before

    def test_does_not_stop_a_rebuild_of_what_the_store_has(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder, store = fill(tmp_path / "docs"), tmp_path / "store"
        lock(monkeypatch, folder / "sub")
        assert not run(store, folder).complete
        assert names(run(store, folder, rebuild=True).added) == {"ferry.txt", "mill.md"}

    def test_named_itself_is_an_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = fill(tmp_path / "docs")
        lock(monkeypatch, folder)
        with pytest.raises(InputError, match="docs"):
            run(tmp_path / "store", folder)
        assert not (tmp_path / "store").exists()

    def test_is_named_where_there_is_nothing_else(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = fill(tmp_path / "docs", {"sub/a.txt": "Text."})
        lock(monkeypatch, folder / "sub")
        with pytest.raises(InputError, match="sub"):
            run(tmp_path / "store", folder)


class TestARebuild:
    @pytest.mark.parametrize("content", [BINARY, b" \n", None])
    def test_with_nothing_readable_leaves_the_store(self, tmp_path: Path, content: bytes | None) -> None:
        _, store = ingested(tmp_path)
        before, embedder = contents(store), HashEmbedder()
        (tmp_path / "other").mkdir()
        if content is not None:
            (tmp_path / "other" / "a.txt").write_bytes(content)
        with pytest.raises(InputError, match=r"a\.txt" if content else "other"):
            run(store, tmp_path / "other", embedder=embedder, rebuild=True)
        assert contents(store) == before and embedder.texts_embedded == 0


def test_a_file_that_is_never_readable_loads_no_model_again(tmp_path: Path) -> None:
    folder, store = fill(tmp_path / "docs"), tmp_path / "store"
    (folder / "picture.txt").write_bytes(BINARY)
    run(store, folder)
    embedder = HashEmbedder()
    report = run(store, folder, embedder=embedder)
    assert len(report.unchanged) == 3 and names((report.skipped[0].source,)) == {"picture.txt"}
    assert embedder.texts_embedded == 0


def test_a_store_whose_last_document_became_unreadable_is_empty_not_an_error(tmp_path: Path) -> None:
    folder, store = fill(tmp_path / "docs", {"a.txt": "Text."}), tmp_path / "store"
    run(store, folder)
    (folder / "a.txt").write_bytes(BINARY)
    report = run(store, folder)
    assert names(report.removed) == {"a.txt"} and report.documents_in_store == 0


class TestLinks:
    def test_to_folders_are_reported_and_not_followed(self, tmp_path: Path) -> None:
        folder, store = fill(tmp_path / "docs"), tmp_path / "store"
        fill(tmp_path / "elsewhere", {"far.txt": "Far away."})
        (folder / "link").symlink_to(tmp_path / "elsewhere")
        report = run(store, folder)
        (skipped,) = report.skipped
        assert "link is a link to a folder: name it" in skipped.reason
        assert report.complete and len(report.added) == 3
        assert names(run(store, folder, folder / "link").added) == {"far.txt"}

    def test_into_the_folder_itself_make_no_loop_and_no_noise(self, tmp_path: Path) -> None:
        folder = fill(tmp_path / "docs")
        (folder / "sub" / "up").symlink_to(folder)
        (folder / "round").symlink_to(folder / "round")
        report = run(tmp_path / "store", folder)
        assert len(report.added) == 3 and report.skipped == ()

    def test_to_files_are_followed(self, tmp_path: Path) -> None:
        folder = fill(tmp_path / "docs")
        fill(tmp_path / "elsewhere", {"far.txt": "Far away."})
        (folder / "near.txt").symlink_to(tmp_path / "elsewhere" / "far.txt")
        assert str(tmp_path / "elsewhere" / "far.txt") in run(tmp_path / "store", folder).added


class TestPaths:
    @pytest.mark.parametrize("wrong", ["", "  ", "a\0b", 3, None, b"docs", ["a", ""], [Path("a"), 3]])
    def test_that_are_none_are_told(self, wrong: object) -> None:
        with pytest.raises(InputError, match="path"):
            as_paths(wrong)  # type: ignore[arg-type]
        with pytest.raises(InputError):
            FolderStore(wrong)  # type: ignore[arg-type]

    def test_of_a_home_that_is_not_there(self) -> None:
        with pytest.raises(InputError, match="path"):
            as_path("~nobody-of-that-name/docs")

    def test_the_source_of_a_loop_is_its_own_name(self, tmp_path: Path) -> None:
        (tmp_path / "round").symlink_to(tmp_path / "round")
        assert source_of(tmp_path / "round") == str(tmp_path / "round")
        assert list(find_files(tmp_path)) == []


class TestRoots:
    def test_a_link_out_of_the_roots_is_not_followed(self, tmp_path: Path) -> None:
        root, outside = tmp_path / "root", tmp_path / "secret.txt"
        (root / "sub").mkdir(parents=True)
        (root / "a.txt").write_text("The ferry leaves at seven.")
        outside.write_text("The code of the vault is 4711.")
        (root / "sub" / "link.txt").symlink_to(outside)
        (root / "chain.txt").symlink_to(root / "sub" / "link.txt")
        (root / "within.txt").symlink_to(root / "a.txt")
        store = FolderStore(tmp_path / "store")
        for paths in ([root], [root / "sub" / "link.txt", root]):
            report = ingest(store, paths, BlankLineSegmenter(), HashEmbedder(), roots=[root])
            assert names(s.source for s in report.skipped) == {"link.txt", "chain.txt"}
            assert names(d.source for d in store.documents()) == {"a.txt"}
        ingest(store, root, BlankLineSegmenter(), HashEmbedder())
        assert names(d.source for d in store.documents()) == {"a.txt", "secret.txt"}


def test_a_missing_package_skips_its_files_and_keeps_what_the_store_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("lxml")
    folder, store = (
        fill(tmp_path / "docs", {"a.txt": "Text.", "b.html": "<p>The lamp is lit.</p>"}),
        tmp_path / "store",
    )
    run(store, folder)
    fill(
        folder,
        {
            "a.txt": "Other text.",
            "b.html": "<p>The lamp is out.</p>",
            "c.docx": "no package",
            "d.md": "More.",
        },
    )
    monkeypatch.setitem(sys.modules, "lxml", None)  # as where the extra is not installed
    report = run(store, folder)
    assert names(report.added) == {"d.md"} and names(report.changed) == {"a.txt"} and not report.removed
    assert names(s.source for s in report.skipped) == {"b.html", "c.docx"} and not report.complete
    assert all("sage-rag[files]" in s.reason and Path(s.source).name in s.reason for s in report.skipped)
    assert "The lamp is lit." in {text for _, _, text in contents(store)}
    with pytest.raises(MissingExtraError):
        run(store, folder / "b.html")
