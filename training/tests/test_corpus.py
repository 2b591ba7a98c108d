"""Training reads the texts that an ingest reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from sage_train.corpus import read_corpus

from sage_app.documents.reader import read_document
from sage_core.errors import InputError


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16"])
def test_training_reads_what_ingest_reads(tmp_path: Path, encoding: str) -> None:
    text = "Das Café öffnet um acht. Es schließt um neun.\n\nDer Kahn liegt am Kai. Er wartet."
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode(encoding))
    assert read_document(path).text == text
    (document,) = read_corpus(path)
    assert document.paragraphs[0] == ("Das Café öffnet um acht.", "Es schließt um neun.")


def test_training_reads_every_kind_and_passes_over_what_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "# Boats\n\nOne sails. One rows.\n\nOars\n----\n\nTwo are long. One is short.\n"
    )
    (tmp_path / "b.html").write_text("<nav>Menu</nav><h1>Lamps</h1><p>One burns. One is out.</p>")
    (tmp_path / "c.txt").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    found = {d.doc_id: d.paragraphs for d in read_corpus(tmp_path)}
    assert found == {
        "a.md": (("One sails.", "One rows."), ("Two are long.", "One is short.")),
        "b.html": (("One burns.", "One is out."),),
    }
    with pytest.raises(InputError):
        list(read_corpus(tmp_path / "c.txt"))
