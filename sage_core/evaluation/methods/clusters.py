"""Soft clusters of vectors by Gaussian mixtures, as RAPTOR forms them (arXiv 2401.18059, section 3)."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_core.errors import InputError, MissingExtraError

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Settings of `soft_clusters`.

    Attributes:
        dimensions: Dimensions that vectors are reduced to before they are clustered (RAPTOR: 10).
        neighbours: Neighbours of a vector within a coarse cluster that shape the reduction (RAPTOR: 10; over
            all vectors it is the square root of their number, there and here).
        share: A vector belongs to every cluster it has this probability for (RAPTOR: 0.1).
        most: Most clusters looked for at a time (RAPTOR: 50).
        patience: So many numbers of clusters without a better BIC end the search.
        seed: Of the reduction and the mixtures.

    Raises:
        InputError: Where a value is out of its range.
    """

    dimensions: int = 10
    neighbours: int = 10
    share: float = 0.1
    most: int = 50
    patience: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        least = min(self.dimensions, self.neighbours, self.most, self.patience)
        if least < 1 or not 0 < self.share <= 0.5:
            raise InputError("cluster settings are at least 1, and share is above 0 and at most 0.5")


def soft_clusters(vectors: Floats, options: ClusterOptions | None = None) -> list[list[int]]:
    """Clusters in two steps: coarse ones over all vectors, then finer ones within each.

    Vectors are reduced by the graph of their nearest neighbours and clustered by the mixture of least BIC. A
    vector may be in several clusters, and is in at least one. RAPTOR reduces with UMAP; here it is the
    spectral embedding that UMAP starts from, which scikit-learn has and which comes out the same every time.
    (In principal components the BIC sees no clusters at all.)

    Args:
        vectors: Shape ``(n, d)``.
        options: Settings.

    Returns:
        Positions of each cluster, ascending; clusters in the order of their first members, none twice.

    Raises:
        MissingExtraError: Where scikit-learn is not installed.
    """
    options = options or ClusterOptions()
    found: set[tuple[int, ...]] = set()
    for coarse in _mixture(vectors, max(2, math.isqrt(max(len(vectors) - 1, 0))), options):
        for fine in _mixture(vectors[coarse], options.neighbours, options):
            found.add(tuple(coarse[i] for i in fine))
    return [list(cluster) for cluster in sorted(found)]


def _mixture(vectors: Floats, neighbours: int, options: ClusterOptions) -> list[list[int]]:
    """Clusters of the mixture with the least BIC; one where there are too few vectors to tell."""
    n = len(vectors)
    if n <= options.dimensions + 1 or not np.ptp(vectors, axis=0).any():
        return [list(range(n))] if n else []
    with warnings.catch_warnings():
        # A graph in parts, or a mixture that has not settled, still clusters well enough.
        warnings.simplefilter("ignore")
        points = _reduced(vectors, min(neighbours, n - 1), options)
        best, least, since = None, np.inf, 0
        for count in range(1, min(options.most, n // 2) + 1):
            model = _fitted(points, count, options.seed)
            bic = float(model.bic(points))
            if bic < least:
                best, least, since = model, bic, 0
            elif (since := since + 1) >= options.patience:
                break
        assert best is not None, "BIC is a number"
        probabilities = best.predict_proba(points)
    belongs = (probabilities >= options.share) | (probabilities == probabilities.max(axis=1, keepdims=True))
    return [np.flatnonzero(column).tolist() for column in belongs.T if column.any()]


def _reduced(vectors: Floats, neighbours: int, options: ClusterOptions) -> NDArray[np.float64]:
    """Laplacian eigenmaps of the neighbour graph, of variance 1."""
    try:
        from sklearn.manifold import SpectralEmbedding
    except ImportError as error:
        raise MissingExtraError("clustering for the summary tree", "eval") from error
    reduction = SpectralEmbedding(
        options.dimensions,
        affinity="nearest_neighbors",
        n_neighbors=neighbours,
        random_state=options.seed,
    )
    points = np.asarray(reduction.fit_transform(vectors), np.float64)
    scaled: NDArray[np.float64] = points / max(float(points.std()), 1e-12)
    return scaled


def _fitted(points: NDArray[np.float64], count: int, seed: int) -> Any:
    from sklearn.mixture import GaussianMixture

    # The floor under the variances keeps a cluster of two points from having an endless likelihood.
    return GaussianMixture(count, covariance_type="diag", reg_covar=0.01, random_state=seed).fit(points)
