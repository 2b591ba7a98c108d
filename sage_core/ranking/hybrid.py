"""The offline default: similarity of meaning and of words, joined into one calibrated probability."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding import Embedder, SentenceTransformerEmbedder, unit_rows
from sage_core.errors import InputError, ModelError
from sage_core.microbatch import MicroBatcher
from sage_core.ranking.features import FEATURES, TextVectors, feature_matrix
from sage_core.ranking.protocol import Request
from sage_core.selection import Scale
from sage_core.sentences import split_sentences

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Calibration:
    """A logistic model over `FEATURES`, fitted by ``benchmarks/calibrate_reranker.py``.

    Attributes:
        embedder: Name of the embedding model whose cosines it was fitted on.
        coefficients: One per feature.
        intercept: The log-odds where every feature is 0.
    """

    embedder: str
    coefficients: tuple[float, ...]
    intercept: float

    @classmethod
    def load(cls, path: Path | None = None) -> Calibration:
        """Read a calibration; without a path, the one of the package.

        Raises:
            ModelError: For a file that cannot be read or was fitted on other features.
        """
        try:
            source = path or resources.files("sage_core.ranking").joinpath("calibration.json")
            data = json.loads(source.read_text(encoding="utf-8"))
            coefficients = data["coefficients"]
            if tuple(coefficients) != FEATURES:
                raise ValueError(f"fitted on {', '.join(coefficients)}, not on {', '.join(FEATURES)}")
            values = tuple(float(x) for x in coefficients.values())
            return cls(str(data["embedder"]), values, float(data["intercept"]))
        except (OSError, KeyError, TypeError, AttributeError, ValueError) as error:
            raise ModelError(
                f"cannot use the calibration {path or 'of the package'} ({error}): remake it with "
                "benchmarks/calibrate_reranker.py"
            ) from error

    def probability(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability of relevance for each row of ``features``."""
        logits = features @ np.array(self.coefficients) + self.intercept
        return np.asarray(0.5 * (1.0 + np.tanh(0.5 * logits)))  # A sigmoid that cannot overflow.


class HybridReranker:
    """Scores without a cross-encoder and without a download: the default of the library.

    A logistic model joins three similarities: of the question's embedding and the chunk's, of the question's
    and the chunk's best sentence's, and of the words they share (BM25 over the candidates). It is
    calibrated on development questions, so that a score is the probability that the chunk holds evidence.
    A blank text scores 0, and so does every text where the question is blank.

    Embeddings of candidates are kept, so that a text met again costs nothing. Safe across threads;
    pickles without the kept embeddings.

    Args:
        embedder: Gives the embeddings; None for all-MiniLM-L6-v2. Probabilities are calibrated for that
            one; with another the order is sound, and a warning says that the calibration is not.
        calibration: A file made by ``benchmarks/calibrate_reranker.py``; None for the package's.
        cache_size: Most texts whose embeddings are kept, about 10 KB each for a text of 100 tokens.

    Raises:
        InputError: For a negative cache size.
        ModelError: For a calibration that cannot be used.
    """

    scale: Scale = "probability"

    def __init__(
        self,
        embedder: Embedder | None = None,
        *,
        calibration: Path | str | None = None,
        cache_size: int = 4_096,
    ) -> None:
        if cache_size < 0:
            raise InputError(f"cache_size must be at least 0, not {cache_size}")
        self._embedder: Embedder = embedder if embedder is not None else SentenceTransformerEmbedder()
        self._calibration = Calibration.load(Path(calibration) if calibration is not None else None)
        self._cache_size = cache_size
        self._cache: OrderedDict[bytes, TextVectors] = OrderedDict()
        self._start()
        if self._embedder.name != self._calibration.embedder:
            logger.warning(
                "probabilities are calibrated for %s, not for %s",
                self._calibration.embedder,
                self._embedder.name,
            )

    def _start(self) -> None:
        """What cannot be pickled."""
        self._lock = threading.Lock()
        self._together: MicroBatcher[Request, list[float]] = MicroBatcher(
            self.score_many, weight=lambda request: len(request.texts), limit=512, delay=0.002
        )

    @property
    def name(self) -> str:
        """``hybrid`` and the embedding model."""
        return f"hybrid({self._embedder.name})"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._embedder!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": OrderedDict(), "_lock": None, "_together": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Probability that each text holds evidence; see `Reranker.score`. Simultaneous calls are batched."""
        return self._together(Request(query, texts))

    def score_many(self, requests: Sequence[Request]) -> list[list[float]]:
        """Score several questions, embedding all their new texts at once; see `BatchReranker.score_many`."""
        asked = [r for r in requests if r.query.strip()]
        vectors = self._vectors(dict.fromkeys(t for r in asked for t in r.texts if t.strip()))
        return [self._score(request, vectors) for request in requests]

    def _score(self, request: Request, vectors: dict[str, TextVectors]) -> list[float]:
        scores = [0.0] * len(request.texts)
        filled = [i for i, text in enumerate(request.texts) if text in vectors]
        if not filled or not request.query.strip():
            return scores
        texts = [request.texts[i] for i in filled]
        query_vector = unit_rows(self._embedder.embed_query(request.query))
        features = feature_matrix(request.query, query_vector, texts, [vectors[t] for t in texts])
        for i, value in zip(filled, self._calibration.probability(features), strict=True):
            scores[i] = float(value)
        return scores

    def _vectors(self, texts: dict[str, None]) -> dict[str, TextVectors]:
        """Embeddings of each text: kept ones, and the rest in one call of the embedder."""
        keys = {
            text: hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
            for text in texts
        }
        found: dict[str, TextVectors] = {}
        with self._lock:
            for text, key in keys.items():
                if (kept := self._cache.get(key)) is not None:
                    self._cache.move_to_end(key)
                    found[text] = kept
        missing = [text for text in texts if text not in found]
        if missing:
            found.update(self._embed(missing))
            with self._lock:
                for text in missing:
                    self._cache[keys[text]] = found[text]
                while len(self._cache) > self._cache_size:
                    self._cache.popitem(last=False)
        return found

    def _embed(self, texts: Sequence[str]) -> dict[str, TextVectors]:
        """Embed texts and their sentences, each different string once."""
        sentences = {text: [s.of(text) for s in split_sentences(text)] for text in texts}
        wanted = list(dict.fromkeys(piece for text in texts for piece in (text, *sentences[text])))
        rows = unit_rows(self._embedder.embed_documents(wanted))
        row_of = {piece: row for row, piece in enumerate(wanted)}
        return {
            text: TextVectors(rows[row_of[text]].copy(), rows[[row_of[s] for s in sentences[text] or [text]]])
            for text in texts
        }
