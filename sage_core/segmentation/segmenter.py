"""The segmenter: short chunks, complete in meaning, never above a token limit, exact slices of the source."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import logging
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sage_core._checks import check_int
from sage_core.errors import InputError
from sage_core.segmentation.chunker import chunks, english_trust
from sage_core.segmentation.layout import Layout, Sentences, hard_wrapped
from sage_core.segmentation.limits import Limits, Size, Strategy
from sage_core.segmentation.long_sentences import CHARS_PER_TOKEN, token_lengths
from sage_core.segmentation.models.grams import gram_probabilities
from sage_core.segmentation.models.protocol import BoundaryModel, CountingModel
from sage_core.segmentation.view import Boundary, BoundaryReason, SegmentationView
from sage_core.text.blocks import classified
from sage_core.text.lines import Line
from sage_core.text.sentences import SentenceSplitter, split_sentences
from sage_core.text.spans import Span, check_tiling
from sage_core.text.tokens import BertCounter, TokenCounter, get_counter, in_english, without_lone_surrogates

_ALGORITHM = 9  # part of every fingerprint: raised when the same settings give other chunks
_POOL_CHARS = 1_000_000  # characters segmented together by segment_many and segment_iter


logger = logging.getLogger(__name__)

_HEAD = 4096  # characters of a text that are looked at
_TAGS = re.compile(r"</(?:p|div|td|li|span|body|head|script)\s*>", re.IGNORECASE)
_PAGE = re.compile(r"\s*(?:<\?xml[^<>]*>\s*)?<(?:!doctype\s+html|html)\b", re.IGNORECASE)


def _no_text(text: str) -> str | None:
    """What a text is that is none: a file's bytes or HTML; None for any other."""
    head = text[:_HEAD]
    if head.startswith("%PDF-"):
        return "begins with %PDF-: it is a PDF file's bytes"
    unprintable = 0
    if "\ufffd" in head or not "".join(head.split()).isprintable():
        unprintable = sum(not (c.isprintable() or c.isspace()) or c == "\ufffd" for c in head)
    if head.startswith("PK") and unprintable:
        return "begins with PK: it is the bytes of an office file or archive"
    if unprintable > 0.3 * len(head):
        return "is mostly unprintable: it is a binary file's bytes"
    if _PAGE.match(head) or len(_TAGS.findall(head)) > max(9, len(head) // 200):
        return "is HTML with its tags"
    return None


def _checked(text: str) -> str:
    """A text, of which readers of a framework may have made the bytes of a file, or a page with its tags."""
    if not isinstance(text, str):
        raise InputError(f"a text is a string, not {type(text).__name__}")
    if what := _no_text(text):
        _warn(what)
    return text


@functools.cache  # once in a process: a folder holds many
def _warn(what: str) -> None:
    logger.warning("a text %s: read such files with sage_app.documents.read_document (extra files)", what)


class Segmenter:
    r"""Cuts texts into chunks where the meaning changes (the paper's section IV).

    Between every two neighboring sentences a boundary model gives P(same). With ``strategy="threshold"``,
    the paper's, each coarse window of whole sentences is cut wherever P(same) is below the threshold. With
    ``strategy="optimal"`` the most likely segmentation under the length limits is found by dynamic
    programming. Both add what the layout says: a blank line speaks for a boundary, a heading stays with what
    follows it, lists, tables and fenced code are kept together where they fit.

    For every text: each chunk is an exact slice, chunks are ordered and do not overlap, every character that
    is not white space is in exactly one, and none has more than ``max_tokens`` tokens by ``counter``. (A
    single character of more tokens than that is a chunk of its own, and by default a table or a fence may
    have twice as many.) The object can be pickled and used from several threads.

    Examples:
        >>> text = "The ferry leaves at seven. It returns at noon.\n\nBees need flowers all summer."
        >>> spans = Segmenter(max_tokens=20, min_tokens=0).segment(text)
        >>> [text[start:end] for start, end in spans]
        ['The ferry leaves at seven. It returns at noon.', 'Bees need flowers all summer.']

    Args:
        model: ``"default"`` (bundled; texts that are not English are judged by one that knows no words), a
            folder with a trained model, or any ``BoundaryModel``. Loaded on first use.
        target_tokens: Mean size of the chunks of a text: a number of tokens, or ``"sentence"`` (35),
            ``"passage"`` (80) or ``"section"`` (250). A text is then cut into its length over the target, at
            the gaps that the model minds least. Default: at most half of ``max_tokens``, less where the
            text changes often. With ``"topic"`` the text alone decides, and chunks are longer where little
            changes.
        max_tokens: Hard limit of a chunk. Default 130, twice that for a table or fence, which so stay whole;
            with ``target_tokens`` twice that (at least 100), with ``"topic"`` 300, with ``"threshold"`` at
            most ``coarse_tokens``.
        min_tokens: Chunks below this are avoided, not forbidden. Default a quarter of the size aimed at; with
            0, short chunks cost nothing.
        strategy: ``"threshold"`` or ``"optimal"``.
        threshold: Keep two sentences together where P(same) is at least this (the paper's ss).
        coarse_tokens: Size of the coarse windows of ``strategy="threshold"`` (the paper's l); default 400.
        counter: A token counter or its name (``sage_core.text.tokens.get_counter``).
        sentences: From a text to its sentence candidates: ``(start, end)`` pairs, or the sentences
            themselves; see `sage_core.text.sentences.SentenceSplitter`.
        layout: How much the layout counts.

    Raises:
        InputError: For an argument out of its range.
    """

    def __init__(
        self,
        model: str | Path | BoundaryModel = "default",
        *,
        target_tokens: int | Size | None = None,
        max_tokens: int | None = None,
        min_tokens: int | None = None,
        strategy: Strategy = "optimal",
        threshold: float = 0.55,
        coarse_tokens: int | None = None,
        counter: str | TokenCounter = "bert",
        sentences: SentenceSplitter = split_sentences,
        layout: Layout | None = None,
    ) -> None:
        from sage_core.segmentation.models.load import bundled_models, find_model

        self._limits = Limits.checked(
            coarse_tokens, threshold, max_tokens, min_tokens, strategy, target_tokens
        )

        if not isinstance(model, str | Path | BoundaryModel):
            raise InputError(f"model is 'default', a folder or a BoundaryModel, not {type(model).__name__}")
        if not callable(sentences):
            raise InputError("sentences is a function from a text to its (start, end) pairs")
        if isinstance(model, str | Path):
            find_model(model)  # a wrong name fails now, not at the first text
        self._source = model
        # Only the bundled models are known to be English.
        self._english = isinstance(model, str) and (model == "default" or model in bundled_models())
        self._any_language = model == "default"  # by another model where a text is not English
        self._model: BoundaryModel | None = None if isinstance(model, str | Path) else model
        self._lock = threading.Lock()
        self.counter: TokenCounter = get_counter(counter) if isinstance(counter, str) else counter
        if not isinstance(self.counter, TokenCounter):
            raise InputError(f"counter is a name or a TokenCounter, not {counter!r}: see get_counter")
        if not isinstance(layout, Layout | None):
            raise InputError(f"layout is a Layout, such as Layout(blank_line=-2.0), not {layout!r}")
        self.sentences = sentences
        self.layout = layout or Layout()

    @property
    def coarse_tokens(self) -> int:
        """Size of the coarse windows of ``strategy="threshold"`` (paper: l)."""
        return self._limits.coarse_tokens

    @property
    def threshold(self) -> float:
        """P(same) from which two sentences are kept together (paper: ss)."""
        return self._limits.threshold

    @property
    def target_tokens(self) -> int | None:
        """The requested mean size; None for none."""
        return self._limits.target_tokens

    @property
    def max_tokens(self) -> int:
        """Hard limit of a chunk, in tokens of ``counter``; by default, twice that for a table or a fence."""
        return self._limits.max_tokens

    @property
    def min_tokens(self) -> int:
        """Size below which chunks are avoided."""
        return self._limits.min_tokens

    @property
    def strategy(self) -> Strategy:
        """``"threshold"`` or ``"optimal"``."""
        return self._limits.strategy

    @property
    def model(self) -> BoundaryModel:
        """The boundary model, loaded on first use.

        Raises:
            ModelError: Where its files are missing or damaged.
        """
        if self._model is None:
            from sage_core.segmentation.models.load import load_model

            with self._lock:
                if self._model is None:
                    self._model = load_model(cast("str | Path", self._source))
        return self._model

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the model and every setting that changes the chunks.

        A custom sentence splitter enters by its name, and by its text attribute ``fingerprint`` if there is
        one; a counter by its name.
        """
        settings = {
            "algorithm": _ALGORITHM,
            "model": self.model.fingerprint,
            "limits": asdict(self._limits),
            "layout": asdict(self.layout),
            "counter": [type(self.counter).__qualname__, self.counter.name],
            "sentences": self._splitter_name(),
        }
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()

    @property
    def settings(self) -> dict[str, str | int | float]:
        """What the fingerprint stands for, in words and numbers: kept beside it to tell what differs."""
        return {
            "algorithm": _ALGORITHM,
            "model": f"{self._model_name} ({self.model.fingerprint[:8]})",
            **asdict(self._limits),
            **{f"layout.{name}": value for name, value in asdict(self.layout).items()},
            "counter": self.counter.name,
            "sentences": ".".join(self._splitter_name()),
        }

    @property
    def _model_name(self) -> str:
        named = isinstance(self._source, str | Path)
        return str(self._source) if named else type(self._source).__name__

    def _splitter_name(self) -> list[str]:
        splitter = self.sentences
        name = [
            getattr(splitter, "__module__", ""),
            getattr(splitter, "__qualname__", type(splitter).__qualname__),
        ]
        own = getattr(splitter, "fingerprint", None)
        return [*name, own[:16]] if isinstance(own, str) else name

    def segment(self, text: str) -> list[Span]:
        """Chunks of one text, in order; ``[]`` for a text of nothing but white space.

        Raises:
            InputError: If ``text`` is not a string, or a custom sentence splitter loses text.
            ModelError: If the model cannot be loaded.
        """
        return self.segment_quietly([_checked(text)])[0]

    def segment_many(self, texts: Iterable[str]) -> list[list[Span]]:
        """Chunks of each text. Sentences of many texts are judged together in large batches."""
        return list(self.segment_iter(texts))

    def segment_iter(self, texts: Iterable[str]) -> Iterator[list[Span]]:
        """Like ``segment_many``, one after the other: at most a million characters or one text are held."""
        pool: list[str] = []
        size = 0
        for text in texts:
            pool.append(_checked(text))
            size += len(text) + 100
            if size >= _POOL_CHARS:
                yield from self.segment_quietly(pool)
                pool, size = [], 0
        yield from self.segment_quietly(pool)

    def with_limit(self, max_tokens: int) -> Segmenter:
        """The same segmenter, its loaded model included, with at most ``max_tokens`` tokens in a chunk.

        A segmenter whose own limit is no higher is returned as it is. A target is lowered to at most two
        thirds of the new limit.

        Raises:
            InputError: For a limit below 1.
        """
        if max_tokens >= self.max_tokens:
            return self
        limits = self._limits.lowered_to(check_int("max_tokens", max_tokens, minimum=1))
        _ = self.model  # loaded once for both
        copy = Segmenter.__new__(Segmenter)
        copy.__setstate__({**self.__dict__, "_limits": limits})
        return copy

    def segment_within(self, texts: Sequence[str], limits: Sequence[int]) -> list[list[Span]]:
        """Chunks of each text, none above its own limit; texts of one limit are segmented together.

        A blank text has none, and the model is not loaded for it.

        Args:
            texts: The texts.
            limits: Most tokens of a chunk, one per text; ``max_tokens`` holds too.
        """
        results: list[list[Span]] = [[] for _ in texts]
        filled = [i for i, text in enumerate(texts) if text.strip()]
        for limit in sorted({limits[i] for i in filled}):
            members = [i for i in filled if limits[i] == limit]
            spans = self.with_limit(limit).segment_many([texts[i] for i in members])
            for i, own in zip(members, spans, strict=True):
                results[i] = own
        return results

    def boundaries(self, text: str) -> list[Boundary]:
        """Every place where the model was asked, with its answer (before the layout and the limits)."""
        clean, spans, _ = self._sentences(_checked(text))
        probabilities = self._score_gaps([[clean[a:b] for a, b in spans]], [self._is_foreign(clean)])[0][0]
        return [Boundary(b.start, p) for b, p in zip(spans[1:], probabilities.tolist(), strict=True)]

    def explain(self, text: str) -> SegmentationView:
        """The chunks of one text with every judged boundary, to look at: colored in a notebook or terminal.

        Raises:
            InputError: As `segment`.
            ModelError: As `segment`.
        """
        spans = self.segment(text)
        settings: dict[str, object] = {**asdict(self._limits), "counter": self.counter.name}
        tokens = self.counter.count_many([span.of(text) for span in spans])
        boundaries = self.boundaries(text)
        reasons = self._reasons(text, spans, tokens, boundaries)
        return SegmentationView(text, spans, tokens, boundaries, settings, reasons)

    def _reasons(
        self, text: str, spans: list[Span], tokens: list[int], boundaries: list[Boundary]
    ) -> list[BoundaryReason]:
        """Why the text was cut before each chunk but the first."""
        sentences = Sentences.of(*self._sentences(text))
        probabilities = {boundary.position: boundary.probability for boundary in boundaries}
        least = 2 if hard_wrapped(text, sentences.gaps) else 1
        starts = (span.start for span in sentences.spans[1:])
        gaps = dict(zip(starts, zip(sentences.gaps, sentences.kinds[1:], strict=True), strict=True))
        reasons: list[BoundaryReason] = []
        for (_, after), (size, size_after) in zip(
            itertools.pairwise(spans), itertools.pairwise(tokens), strict=True
        ):
            breaks, kind = gaps.get(after.start, (0, ""))
            if not kind:
                reasons.append("limit")
            elif kind == "heading":
                reasons.append("heading")
            elif probabilities[after.start] < self.threshold:
                reasons.append("topic")
            elif breaks >= least:
                reasons.append("paragraph")
            else:
                reasons.append("limit" if size + size_after > self.max_tokens else "size")
        return reasons

    def segment_quietly(self, texts: list[str]) -> list[list[Span]]:
        """Chunks of texts that an index holds: what should not be in it was told when it was made."""
        documents = [self._sentences(text) for text in texts]
        foreign = [self._is_foreign(text) for text, _, _ in documents]
        probabilities, counts = self._score_gaps(
            [[text[a:b] for a, b in spans] for text, spans, _ in documents], foreign
        )
        if counts is None:
            flat = iter(self._lengths([(text, spans) for text, spans, _ in documents]))
            counts = [list(itertools.islice(flat, len(spans))) for _, spans, _ in documents]
        result: list[list[Span]] = []
        for document, values, lengths, other in zip(documents, probabilities, counts, foreign, strict=True):
            text, spans, read = document
            trust = english_trust(text) if self._english and not (other and self._any_language) else 1.0
            own = self._foreign_lengths(text, spans) if other else None
            # A chunk may look like another language than its text, and is then of another size.
            sums = own is None and getattr(self.counter, "additive", False)
            settings = self._limits, self.counter, self.layout
            result.append(
                chunks(text, spans, read, own or lengths, values, *settings, trust=trust, sums=sums)
            )
        return result

    def _sentences(self, text: str) -> tuple[str, list[Span], tuple[list[Line], dict[int, int]]]:
        """The text as the tokenizers can read it (same indices), its sentences, its lines and headings."""
        text = without_lone_surrogates(text)
        if self.sentences is split_sentences:
            read = classified(text)
            return text, split_sentences(text, read[0]), read
        return text, check_tiling(text, self.sentences(text)), classified(text)

    def _is_foreign(self, text: str) -> bool:
        """Whether another model, or other sizes, are for this text than for an English one."""
        return (self._any_language or isinstance(self.counter, BertCounter)) and not in_english(text)

    def _score_gaps(
        self, documents: list[list[str]], foreign: list[bool]
    ) -> tuple[list[NDArray[np.float32]], list[list[int]] | None]:
        """P(same) of all gaps; and sentences' lengths where the model counts as the counter does.

        Of texts that another model judges the lengths are left to `_foreign_lengths`.
        """
        model, counter = self.model, self.counter
        elsewhere = [other and self._any_language for other in foreign]
        own = [[] if other else document for document, other in zip(documents, elsewhere, strict=True)]
        lengths: list[list[int]] | None = None
        if not any(own):
            probabilities = [np.zeros(0, np.float32) for _ in own]
            lengths = [[] for _ in own] if isinstance(counter, BertCounter) else None
        elif isinstance(model, CountingModel) and get_counter(model.tokenizer_name) == counter:
            probabilities, counts = model.probabilities_and_lengths(own)
            widths = np.fromiter((len(text) for document in own for text in document), np.int64)
            sizes = iter(np.maximum(np.maximum(counts, -(-widths // CHARS_PER_TOKEN)), 1).tolist())
            lengths = [list(itertools.islice(sizes, len(document))) for document in own]
        else:
            probabilities = model.probabilities(own)
        for index in itertools.compress(range(len(own)), elsewhere):
            probabilities[index] = gram_probabilities(documents[index])
        return probabilities, lengths

    def _foreign_lengths(self, text: str, spans: list[Span]) -> list[int] | None:
        """What there is to read in each sentence of a text that is not English, where the counter knows."""
        if not isinstance(self.counter, BertCounter):
            return None
        sizes = self.counter.foreign_sizes(text[a:b] for a, b in spans)
        return [max(n, -(-(b - a) // CHARS_PER_TOKEN), 1) for n, (a, b) in zip(sizes, spans, strict=True)]

    def _lengths(self, documents: list[tuple[str, list[Span]]]) -> list[int]:
        """Tokens of every sentence; with the gap before it where a counter does not simply add up."""
        if getattr(self.counter, "additive", False):
            flat = [text[a:b] for text, spans in documents for a, b in spans]
        else:
            flat = []
            for text, spans in documents:
                flat += [text[a:b] for a, b in spans[:1]]
                flat += [text[before.end : span.end] for before, span in itertools.pairwise(spans)]
        return token_lengths(self.counter, flat, self.max_tokens)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_lock"]
        if isinstance(self._source, str | Path):
            state["_model"] = None  # found again by name
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return (
            f"Segmenter(model={self._model_name!r}, target_tokens={self.target_tokens}, "
            f"max_tokens={self.max_tokens}, min_tokens={self.min_tokens}, strategy={self.strategy!r}, "
            f"threshold={self.threshold}, coarse_tokens={self.coarse_tokens}, counter={self.counter.name!r})"
        )
