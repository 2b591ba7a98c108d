"""Text with paragraphs as training data: who its sentences are, and where the paragraphs start.

Sentences come from the same splitter as at run time, paragraph by paragraph, so that the model meets in use
what it met in training. Paragraph breaks are the only labels; the text handed to a model never shows them.
"""

from __future__ import annotations

import gzip
import json
import logging
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, cast

import numpy as np
from numpy.typing import NDArray

from sage_app.documents.discovery import as_paths, find_files
from sage_app.documents.reader import read_document
from sage_core._checks import shortened
from sage_core.errors import InputError
from sage_core.paths import kind_of
from sage_core.segmentation.models.encoder import SURFACE_SIZE, tokenize
from sage_core.text.sentences import SentenceSplitter, split_sentences
from sage_core.text.spans import check_tiling

_BLANK_LINES = re.compile(r"\n[^\S\n]*\n\s*")
_FENCED = re.compile(r"^(```|~~~).*?(?:^\1|\Z)", re.MULTILINE | re.DOTALL)
_NOT_PROSE = re.compile(r"^(#|[-*+|>]\s|\d+[.)]\s|```|~~~|\s{4}|[-=*_]{3,}\s*$)")
_JSON_LINES = (".jsonl", ".jsonl.gz")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a training corpus.

    Attributes:
        doc_id: Its name; the split into training and held-out documents is drawn from it.
        paragraphs: Its paragraphs in order, each a tuple of sentences.
        source: Where it comes from.
        license: Its license, for the model card.
    """

    doc_id: str
    paragraphs: tuple[tuple[str, ...], ...]
    source: str = ""
    license: str = ""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Tokenized documents in flat arrays (S sentences, D documents).

    Attributes:
        ids: Token ids of all sentences, one after the other.
        offsets: (S + 1,) where each sentence starts in ``ids``.
        starts: (S,) whether a sentence opens a paragraph.
        documents: (D + 1,) where each document starts among the sentences.
        surface: (S, SURFACE_SIZE) float32, see `surface_features`.
        texts: (S,) the sentences.
    """

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]
    starts: NDArray[np.bool_]
    documents: NDArray[np.int64]
    surface: NDArray[np.float32]
    texts: NDArray[np.object_]

    @property
    def gaps(self) -> NDArray[np.int64]:
        """Every sentence that has a predecessor in its document: the gap before it is to be judged."""
        inner = np.ones(len(self.starts), bool)
        inner[self.documents[:-1][np.diff(self.documents) > 0]] = False
        return np.flatnonzero(inner)

    @property
    def base_rate(self) -> float:
        """Share of gaps that are paragraph breaks."""
        gaps = self.gaps
        return float(self.starts[gaps].mean()) if len(gaps) else 0.0

    def take(self, chosen: Sequence[int] | NDArray[np.int64]) -> Corpus:
        """The corpus of some of its documents, in the order given."""
        rows = [np.arange(self.documents[d], self.documents[d + 1]) for d in chosen]
        sentences = np.concatenate(rows) if rows else np.zeros(0, np.int64)
        lengths = np.diff(self.offsets)[sentences]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        tokens = np.repeat(self.offsets[:-1][sentences] - offsets[:-1], lengths) + np.arange(offsets[-1])
        sizes = [len(r) for r in rows]
        return Corpus(
            self.ids[tokens],
            offsets,
            self.starts[sentences],
            np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]),
            self.surface[sentences],
            self.texts[sentences],
        )


def read_corpus(
    data: str | Path | Sequence[str | Path], *, sentences: SentenceSplitter | None = None
) -> Iterator[Document]:
    """Documents with their paragraphs, sentence by sentence.

    Args:
        data: Files or folders (searched for files of known kinds, in the order of their names). JSON lines
            hold ``{"doc_id", "sections": [{"heading", "paragraphs": [str or [sentence]]}]}`` or
            ``{"doc_id", "paragraphs": [...]}``. Other files are read as for an ingest
            (`sage_app.documents.read_document`): a blank line ends a paragraph, and headings, lists,
            quotations, tables and code are left out. In a folder, what cannot be read is passed over.
        sentences: The splitter; default ``sage_core.text.sentences.split_sentences``.

    Yields:
        Documents with two sentences or more.

    Raises:
        InputError: Where a path does not exist, a line is not JSON, or there is nothing to read.
    """
    splitter = sentences or split_sentences
    found = False
    for path, named in _files(data):
        for record in _records(path, named):
            document = _document(record, splitter)
            if sum(map(len, document.paragraphs)) > 1:
                found = True
                yield document
    if not found:
        raise InputError(
            f"no document with two sentences or more in {data}; give .jsonl, .jsonl.gz, .txt or .md"
        )


def index_corpus(documents: Iterable[Document], *, max_tokens: int = 96) -> Corpus:
    """Tokenize documents into a ``Corpus``; only the first ``max_tokens`` tokens of a sentence are kept."""
    ids: list[NDArray[np.int32]] = []
    lengths: list[NDArray[np.int64]] = []
    surface: list[NDArray[np.float32]] = []
    starts: list[bool] = []
    read: list[str] = []
    sizes = [0]
    for document in documents:
        texts = [s for paragraph in document.paragraphs for s in paragraph]
        starts.extend(i == 0 for paragraph in document.paragraphs for i in range(len(paragraph)))
        read.extend(texts)
        tokens = tokenize(texts, max_tokens)
        ids.append(tokens.ids)
        lengths.append(tokens.lengths)
        surface.append(tokens.surface)
        sizes.append(len(texts))
    return Corpus(
        np.concatenate(ids) if ids else np.zeros(0, np.int32),
        np.concatenate([[0], np.cumsum(np.concatenate(lengths))]) if lengths else np.zeros(1, np.int64),
        np.array(starts, bool),
        np.cumsum(sizes, dtype=np.int64),
        np.concatenate(surface) if surface else np.zeros((0, SURFACE_SIZE), np.float32),
        np.array(read, object),
    )


def split_by_document(corpus: Corpus, held_out: float, rng: np.random.Generator) -> tuple[Corpus, Corpus]:
    """Training and held-out corpus; no document is in both, and each has at least one.

    Raises:
        InputError: Where there are fewer than two documents.
    """
    count = len(corpus.documents) - 1
    if count < 2:
        raise InputError(
            "training needs at least two documents: one is held out to stop in time and to calibrate"
        )
    order = rng.permutation(count)
    cut = min(max(1, round(held_out * count)), count - 1)
    return corpus.take(np.sort(order[cut:])), corpus.take(np.sort(order[:cut]))


def _files(paths: str | Path | Sequence[str | Path]) -> Iterator[tuple[Path, bool]]:
    """Files, and whether the caller named them."""
    for path in as_paths(paths):
        kind = kind_of(path)
        if kind == "file":
            yield path, True
        elif kind == "folder":
            lines = (p for p in path.rglob("*") if p.is_file() and p.name.endswith(_JSON_LINES))
            yield from ((p, False) for p in sorted({*lines, *find_files(path, [])}))
        else:
            raise InputError(
                f"{shortened(path)} does not exist; give files or folders of text with paragraphs"
            )


def _records(path: Path, named: bool) -> Iterator[dict[str, Any]]:
    if not path.name.endswith(_JSON_LINES):
        try:
            document = read_document(path)
        except InputError as error:
            if named:
                raise
            logger.warning("passed over: %s", error)
            return
        edges = [0, *(edge for h in document.headings for edge in (h.start, h.end)), len(document.text)]
        between = [document.text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]
        text = _FENCED.sub("\n\n", "\n\n".join(between))
        blocks = [block for block in _BLANK_LINES.split(text) if not _NOT_PROSE.match(block)]
        yield {"doc_id": path.name, "paragraphs": [block.strip() for block in blocks]}
        return
    opener = gzip.open if path.suffix == ".gz" else open
    number = 0
    try:
        with cast(TextIO, opener(path, "rt", encoding="utf-8")) as lines:
            for line in lines:
                number += 1
                record = json.loads(line)
                if isinstance(record, dict) and ("sections" in record or "paragraphs" in record):
                    yield record
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}, line {number}: not JSON lines ({error})") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def _document(record: dict[str, Any], sentences: SentenceSplitter) -> Document:
    sections = record.get("sections") or [{"paragraphs": record.get("paragraphs", [])}]
    paragraphs = []
    for paragraph in (p for section in sections for p in section.get("paragraphs", [])):
        if isinstance(paragraph, str):
            found = tuple(span.of(paragraph) for span in check_tiling(paragraph, sentences(paragraph)))
        else:
            found = tuple(map(str, paragraph))
        if found:
            paragraphs.append(found)
    return Document(
        str(record.get("doc_id", "")),
        tuple(paragraphs),
        str(record.get("source", "")),
        str(record.get("license", record.get("licence", ""))),
    )
