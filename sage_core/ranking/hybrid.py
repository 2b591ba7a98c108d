"""The offline default: similarity of meaning and of words, joined into one calibrated probability."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sage_core._checks import check_part
from sage_core._microbatch import MicroBatcher
from sage_core.embedding.protocol import Embedder, unit_rows
from sage_core.embedding.sentence_transformer import SentenceTransformerEmbedder
from sage_core.errors import InputError
from sage_core.ranking.calibration import Calibration
from sage_core.ranking.features import feature_matrix
from sage_core.ranking.protocol import (
    BatchReranker,
    CosineRequest,
    Request,
    Reranker,
    ascore,
    check_request,
    checked_scores,
)
from sage_core.selection.cut import Scale
from sage_core.text.keywords import gram_codes, words

logger = logging.getLogger(__name__)

_Requested = Request | CosineRequest

V = TypeVar("V")


class _Read(NamedTuple):
    """What is compared of a text besides its meaning."""

    words: tuple[str, ...]
    grams: NDArray[np.uint16]


def _read(text: str) -> _Read:
    found = tuple(words(text))
    return _Read(found, gram_codes(found))


class HybridReranker:
    """Scores without a cross-encoder and without a download: the default of the library.

    A logistic model joins three similarities of the question and the chunk: of their embeddings, of the words
    they share (BM25 over the candidates), and of parts of words. It is calibrated on development questions
    together with the neighbors that vouch (`sage_core.ranking.vouch`): after that a score is the probability
    that the chunk holds evidence. However similar a chunk is, its own probability stays below a ceiling of
    about 0.75: of such chunks a quarter holds no evidence. A blank text scores 0, and so does every text
    where the question is blank.

    Embeddings of candidates are cached, so that a text met again costs nothing; cosines that come with the
    request, as from a store, are used as they are. Safe across threads; pickles without its caches.

    Examples:
        >>> texts = ["It leaves at seven.", "Bees fly."]
        >>> scores = HybridReranker().score("When does the ferry leave?", texts)
        >>> scores[0] > scores[1], 0 <= min(scores) <= max(scores) <= 1
        (True, True)

    Args:
        embedder: Gives the embeddings; None for all-MiniLM-L6-v2. Probabilities are calibrated for that
            one; with another the order is sound, and a warning says that the calibration is not.
        cross_encoder: Its logit joins the similarities: `CrossEncoderReranker()`, the bundled one, for which
            the package's calibration is made. It reads every candidate with the question, which takes far
            longer than all the rest.
        calibration: A file made by ``benchmarks/calibrate_reranker.py``; None for the package's.
        cache_size: Most texts whose embeddings and words are cached, about 4 KB for a text of 100 tokens.

    Raises:
        InputError: For a negative cache size.
        ModelError: For a calibration that cannot be used.
    """

    scale: Scale = "probability"

    def __init__(
        self,
        embedder: Embedder | None = None,
        *,
        cross_encoder: BatchReranker | None = None,
        calibration: Path | str | None = None,
        cache_size: int = 4_096,
    ) -> None:
        check_part("embedder", embedder, ("embed_query", "embed_documents"), "SentenceTransformerEmbedder()")
        self._embedder: Embedder = embedder if embedder is not None else SentenceTransformerEmbedder()
        check_part("cross_encoder", cross_encoder, ("score", "score_many"), "CrossEncoderReranker()")
        self._cross = cross_encoder
        self._calibration = Calibration.load(
            Path(calibration) if calibration is not None else None, crossed=cross_encoder is not None
        )
        self._vectors: LRUCache[NDArray[np.float32]] = LRUCache(cache_size)
        self._words: LRUCache[_Read] = LRUCache(cache_size)
        self._init_runtime_state()
        models = [(self._embedder.name, self._calibration.embedder)]
        if cross_encoder is not None:
            models.append((cross_encoder.name, str(self._calibration.cross_encoder)))
        for given, known in models:
            if given != known:
                logger.warning("probabilities are calibrated for %s, not for %s", known, given)

    def _init_runtime_state(self) -> None:
        """Create locks and the batcher; called again after unpickling."""
        self._batcher: MicroBatcher[_Requested, list[float]] = MicroBatcher(
            self.score_many, weight=lambda request: len(request.texts), limit=512, delay=0.002
        )

    @property
    def name(self) -> str:
        """``hybrid`` and its models."""
        cross = f", {self._cross.name}" if self._cross is not None else ""
        return f"hybrid({self._embedder.name}{cross})"

    def __repr__(self) -> str:
        cross = f", cross_encoder={self._cross!r}" if self._cross is not None else ""
        return f"{type(self).__name__}({self._embedder!r}{cross})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_batcher": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._init_runtime_state()

    @property
    def embedder_name(self) -> str:
        """The embedding model; see `CosineReranker.embedder_name`."""
        return self._embedder.name

    def score(
        self,
        query: str,
        texts: Sequence[str],
        cosines: Sequence[float | None] | None = None,
        *,
        embedded: Sequence[str] | None = None,
    ) -> list[float]:
        """Probability that each text holds evidence; see `Reranker.score`. Simultaneous calls are batched.

        Args:
            query: The question.
            texts: The candidates.
            cosines: Of the question and each, where a search with this embedding model gave them.
            embedded: What the embedding model reads in place of each text, such as its title and headings
                before it; words are compared with the text alone. None for the texts themselves.
        """
        check_request(query, texts)
        if cosines is None and embedded is None:
            return self._batcher(Request(query, texts))
        known = [None] * len(texts) if cosines is None else cosines
        return self._batcher(CosineRequest(query, texts, known, embedded))

    def score_many(self, requests: Sequence[_Requested]) -> list[list[float]]:
        """Score several questions, embedding all their new texts at once; see `BatchReranker.score_many`."""
        asked = [r for r in requests if r.query.strip()]
        texts = dict.fromkeys(t for r in asked for t in r.texts if t.strip())
        unknown = dict.fromkeys(
            read
            for r in asked
            for text, (read, cosine) in zip(r.texts, cosines_of(r), strict=True)
            if text in texts and cosine is None
        )
        vectors = self._vectors.of(unknown, self._embed)
        read = self._words.of(texts, lambda new: [_read(text) for text in new])
        logits = self._logits(requests)
        return [self._score(r, vectors, read, row) for r, row in zip(requests, logits, strict=True)]

    def _embed(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        # Copies: a row would hold on to the vectors of all.
        return [row.copy() for row in unit_rows(self._embedder.embed_documents(texts))]

    def _logits(self, requests: Sequence[_Requested]) -> Sequence[Sequence[float] | None]:
        """What the cross-encoder says of every text that is not blank; None where there is none."""
        if self._cross is None:
            return [None] * len(requests)
        asked = [
            Request(r.query, [t for t in r.texts if t.strip()] if r.query.strip() else []) for r in requests
        ]
        found = self._cross.score_many(asked)
        return [checked_scores(self._cross.name, f, len(a.texts)) for f, a in zip(found, asked, strict=True)]

    def _score(
        self,
        request: _Requested,
        vectors: dict[str, NDArray[np.float32]],
        read: dict[str, _Read],
        logits: Sequence[float] | None,
    ) -> list[float]:
        scores = [0.0] * len(request.texts)
        filled = [i for i, text in enumerate(request.texts) if text in read]
        if not filled or not request.query.strip():
            return scores
        texts = [request.texts[i] for i in filled]
        given = list(cosines_of(request))
        known = [given[i][1] for i in filled]
        if None in known:
            asked = unit_rows(self._embedder.embed_query(request.query))
            known = [
                float(vectors[given[i][0]] @ asked) if c is None else c
                for i, c in zip(filled, known, strict=True)
            ]
        features = feature_matrix(
            request.query,
            texts,
            [c or 0.0 for c in known],
            [read[t].words for t in texts],
            [read[t].grams for t in texts],
        )
        if logits is not None:
            features = np.column_stack([features, logits])
        for i, value in zip(filled, self._calibration.probability(features), strict=True):
            scores[i] = float(value)
        return scores


def cosines_of(request: _Requested) -> Iterable[tuple[str, float | None]]:
    """What the embedding model reads of every text, and its cosine where a number came with the request."""
    if isinstance(request, Request):
        return [(text, None) for text in request.texts]
    read = request.texts if request.embedded is None else request.embedded
    for given, what in ((request.cosines, "cosines"), (read, "texts to embed")):
        if len(given) != len(request.texts):
            raise InputError(f"{len(given)} {what} for {len(request.texts)} texts")
    finite = (c if c is not None and math.isfinite(c) else None for c in request.cosines)
    return zip(read, finite, strict=True)


def score_in_context(
    reranker: Reranker, query: str, texts: Sequence[str], embedded: Sequence[str]
) -> list[float]:
    """Score chunks that know where they stand, as the pipeline does.

    Args:
        reranker: Any. A `HybridReranker` compares meanings with ``embedded`` and words with ``texts``, which
            it is calibrated for; others read ``embedded``.
        query: The question.
        texts: The chunks.
        embedded: Each with what goes before it: title, headings, metadata.

    Raises:
        InputError: Where the reranker does not return one score per text.
    """
    if isinstance(reranker, HybridReranker):
        return reranker.score(query, texts, embedded=embedded)
    return checked_scores(reranker.name, reranker.score(query, embedded), len(embedded))


async def ascore_in_context(
    reranker: Reranker, query: str, texts: Sequence[str], embedded: Sequence[str]
) -> list[float]:
    """`score_in_context` without blocking the event loop."""
    if isinstance(reranker, HybridReranker):
        return await asyncio.to_thread(reranker.score, query, texts, embedded=embedded)
    return await ascore(reranker, query, embedded)


class LRUCache(Generic[V]):
    """The values computed of the texts used last. Safe across threads; pickles empty.

    Args:
        size: Most texts; 0 keeps none.

    Raises:
        InputError: For a negative size.
    """

    def __init__(self, size: int) -> None:
        if size < 0:
            raise InputError(f"cache_size must be at least 0, not {size}")
        self._size = size
        self._values: OrderedDict[bytes, V] = OrderedDict()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"size": self._size}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["size"])  # type: ignore[misc]  # the cache is not saved

    def of(self, texts: Iterable[str], make: Callable[[Sequence[str]], Sequence[V]]) -> dict[str, V]:
        """The value of each text; ``make`` gives all that are not there, each text once, in one call."""
        keys = {text: _key(text) for text in texts}
        found: dict[str, V] = {}
        with self._lock:
            for text, key in keys.items():
                if key in self._values:
                    self._values.move_to_end(key)
                    found[text] = self._values[key]
        missing = [text for text in keys if text not in found]
        if missing:
            found.update(zip(missing, make(missing), strict=True))
            with self._lock:
                self._values.update((keys[text], found[text]) for text in missing)
                while len(self._values) > self._size:
                    self._values.popitem(last=False)
        return found


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
