"""A tree of summaries over clusters of a document's chunks, searched flat: RAPTOR (arXiv 2401.18059)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.protocol import Embedder
from sage_core.errors import InputError, MissingExtraError
from sage_core.llm.usage import NO_USAGE, TokenUsage
from sage_core.text.tokens import TokenCounter
from sage_eval.methods.answering import Stopwatch
from sage_eval.methods.chunking import ChunkSource
from sage_eval.methods.summaries import Summarizer, summarize_all
from sage_eval.records import EvalDocument, Piece

Floats = NDArray[np.float32]


# RAPTOR's: dimensions that vectors are reduced to before they are clustered; neighbors of a vector within a
# coarse cluster that shape the reduction (over all vectors it is the square root of their number, there and
# here); a vector belongs to each cluster that it has this probability for; most clusters looked for.
_DIMENSIONS, _NEIGHBORS, _SHARE, _MOST = 10, 10, 0.1, 50
_PATIENCE = 5  # numbers of clusters without a better BIC end the search
_SEED = 0  # of the reduction and the mixtures


def soft_clusters(vectors: Floats) -> list[list[int]]:
    """Clusters in two steps: coarse ones over all vectors, then finer ones within each.

    Vectors are reduced by the graph of their nearest neighbors and clustered by the mixture of least BIC. A
    vector may be in several clusters, and is in at least one. RAPTOR reduces with UMAP; here it is the
    spectral embedding that UMAP starts from, which scikit-learn has and which comes out the same every time.
    (In principal components the BIC sees no clusters at all.)

    Args:
        vectors: Shape ``(n, d)``.

    Returns:
        Positions of each cluster, ascending; clusters in the order of their first members, none twice.

    Raises:
        MissingExtraError: Where scikit-learn is not installed.
    """
    found: set[tuple[int, ...]] = set()
    for coarse in _mixture(vectors, max(2, math.isqrt(max(len(vectors) - 1, 0)))):
        for fine in _mixture(vectors[coarse], _NEIGHBORS):
            found.add(tuple(coarse[i] for i in fine))
    return [list(cluster) for cluster in sorted(found)]


def _mixture(vectors: Floats, neighbors: int) -> list[list[int]]:
    """Clusters of the mixture with the least BIC; one where there are too few vectors to tell."""
    n = len(vectors)
    if n <= _DIMENSIONS + 1 or not np.ptp(vectors, axis=0).any():
        return [list(range(n))] if n else []
    with warnings.catch_warnings():
        # A graph in parts, or a mixture that has not settled, still clusters well enough.
        warnings.simplefilter("ignore")
        points = _reduced(vectors, min(neighbors, n - 1))
        best, least, since = None, np.inf, 0
        for count in range(1, min(_MOST, n // 2) + 1):
            model = _fitted(points, count)
            bic = float(model.bic(points))
            if bic < least:
                best, least, since = model, bic, 0
            elif (since := since + 1) >= _PATIENCE:
                break
        assert best is not None, "BIC is a number"
        probabilities = best.predict_proba(points)
    belongs = (probabilities >= _SHARE) | (probabilities == probabilities.max(axis=1, keepdims=True))
    return [np.flatnonzero(column).tolist() for column in belongs.T if column.any()]


def _reduced(vectors: Floats, neighbors: int) -> NDArray[np.float64]:
    """Laplacian eigenmaps of the neighbor graph, of variance 1."""
    try:
        from sklearn.manifold import SpectralEmbedding
    except ImportError as error:
        raise MissingExtraError("clustering for the summary tree", "eval") from error
    reduction = SpectralEmbedding(
        _DIMENSIONS,
        affinity="nearest_neighbors",
        n_neighbors=neighbors,
        random_state=_SEED,
    )
    points = np.asarray(reduction.fit_transform(vectors), np.float64)
    scaled: NDArray[np.float64] = points / max(float(points.std()), 1e-12)
    return scaled


def _fitted(points: NDArray[np.float64], count: int) -> Any:
    from sklearn.mixture import GaussianMixture

    # The floor under the variances keeps a cluster of two points from having an endless likelihood.
    return GaussianMixture(count, covariance_type="diag", reg_covar=0.01, random_state=_SEED).fit(points)


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """Settings of the tree.

    Attributes:
        summary_tokens: Length asked of a summary (RAPTOR: 100; its summaries come to 131 on average).
        cluster_tokens: Most tokens summarized at once (RAPTOR: 3,500); a larger cluster is cut into parts.
        levels: Most levels of summaries (RAPTOR: 5).
        least: A level of so few nodes is not summarized further (RAPTOR: 11).

    Raises:
        InputError: Where a value is out of its range.
    """

    summary_tokens: int = 100
    cluster_tokens: int = 3_500
    levels: int = 5
    least: int = 11

    def __post_init__(self) -> None:
        if min(self.summary_tokens, self.cluster_tokens, self.levels, self.least) < 1:
            raise InputError("summary_tokens, cluster_tokens, levels and least must be at least 1")


class TreeSource:
    """The leaves of every document, and the summaries above them, level by level, as one list of pieces.

    Retrieval over that list is RAPTOR's "collapsed tree", which its authors found best. Summaries have no
    span: they are no slices of the document. A document of few leaves has no summaries.

    Args:
        leaves: Makes the leaves.
        embedder: Its vectors are clustered.
        summarizer: Writes the summaries.
        counter: Counts tokens.
        options: Settings.
    """

    def __init__(
        self,
        leaves: ChunkSource,
        embedder: Embedder,
        summarizer: Summarizer,
        counter: TokenCounter,
        options: TreeOptions | None = None,
    ) -> None:
        self._leaves = leaves
        self._embedder = embedder
        self._summarizer = summarizer
        self._counter = counter
        self._options = options or TreeOptions()

    def describe(self) -> object:
        return {
            "leaves": self._leaves.describe(),
            "summaries": self._summarizer.name,
            "clustered by": self._embedder.name,
            **asdict(self._options),
        }

    def pieces(
        self, documents: Sequence[EvalDocument], watch: Stopwatch
    ) -> tuple[list[Piece], Mapping[str, TokenUsage]]:
        found: list[Piece] = []
        spent = NO_USAGE
        for document in documents:
            level, _ = self._leaves.pieces([document], watch)
            found += level
            for _ in range(self._options.levels):
                if len(level) < self._options.least:
                    break
                above, usage = self._summarized(level, watch)
                spent += usage
                found += above
                if len(above) >= len(level):
                    break
                level = above
        return found, {"summary": spent} if spent.calls else {}

    def _summarized(self, level: Sequence[Piece], watch: Stopwatch) -> tuple[list[Piece], TokenUsage]:
        """The level above."""
        with watch.stage("cluster"):
            vectors = self._embedder.embed_documents([piece.text for piece in level])
            groups = soft_clusters(vectors)
            texts = [text for group in groups for text in self._joined([level[i].text for i in group])]
        with watch.stage("summarize"):
            summaries, usage = summarize_all(self._summarizer, texts, self._options.summary_tokens)
        document = level[0].document
        return [Piece(s, document) for s in dict.fromkeys(summaries) if s.strip()], usage

    def _joined(self, texts: Sequence[str]) -> list[str]:
        """The texts of a cluster as one; as several where they are too long together."""
        parts: list[list[str]] = []
        room = 0
        for text, count in zip(texts, self._counter.count_many(texts), strict=True):
            if not parts or count > room:
                parts.append([])
                room = self._options.cluster_tokens
            parts[-1].append(text)
            room -= count
        return ["\n\n".join(part) for part in parts]
