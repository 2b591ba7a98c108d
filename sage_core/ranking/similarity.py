"""No reranking: candidates in the order of the search, by the cosine of their embeddings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sage_core._checks import check_part
from sage_core.embedding.protocol import Embedder, unit_rows
from sage_core.embedding.sentence_transformer import SentenceTransformerEmbedder
from sage_core.ranking.hybrid import LRUCache, cosines_of
from sage_core.ranking.protocol import CosineRequest, Request, check_request
from sage_core.selection.scales import Scale


class SimilarityReranker:
    """Scores by the cosine of question and text alone: what a vector search without a reranker gives.

    By name ``"none"``. Its scores are no probabilities, so that the selection knows less than after the
    hybrid; it is here to compare with. A blank text scores 0. Safe across threads; pickles without its cache.

    Examples:
        >>> scores = SimilarityReranker().score("When does the ferry leave?", ["It leaves at seven.", ""])
        >>> scores[0] > scores[1] == 0
        True

    Args:
        embedder: Gives the embeddings; None for all-MiniLM-L6-v2.
        cache_size: Most texts whose embeddings are cached.

    Raises:
        InputError: For a negative cache size.
    """

    scale: Scale = "cosine"

    def __init__(self, embedder: Embedder | None = None, *, cache_size: int = 20_000) -> None:
        check_part("embedder", embedder, ("embed_query", "embed_documents"), "SentenceTransformerEmbedder()")
        self._embedder: Embedder = embedder if embedder is not None else SentenceTransformerEmbedder()
        self._vectors: LRUCache[NDArray[np.float32]] = LRUCache(cache_size)

    @property
    def name(self) -> str:
        """``none`` and the embedding model."""
        return f"none({self._embedder.name})"

    @property
    def embedder_name(self) -> str:
        """The embedding model; see `CosineReranker.embedder_name`."""
        return self._embedder.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._embedder!r})"

    def score(
        self, query: str, texts: Sequence[str], cosines: Sequence[float | None] | None = None
    ) -> list[float]:
        """Cosine of each text; see `Reranker.score`.

        Args:
            query: The question.
            texts: The candidates.
            cosines: Those that are known already.
        """
        check_request(query, texts)
        request = Request(query, texts) if cosines is None else CosineRequest(query, texts, cosines)
        return self.score_many([request])[0]

    def score_many(self, requests: Sequence[Request | CosineRequest]) -> list[list[float]]:
        """Score several questions, embedding all their new texts at once; see `BatchReranker.score_many`."""
        asked = [list(cosines_of(request)) for request in requests]
        new = dict.fromkeys(text for row in asked for text, c in row if c is None and text.strip())
        vectors = self._vectors.of(new, lambda texts: list(unit_rows(self._embedder.embed_documents(texts))))
        scores: list[list[float]] = []
        for request, row in zip(requests, asked, strict=True):
            question: NDArray[np.float32] | None = None
            found: list[float] = []
            for text, cosine in row:
                if not text.strip() or not request.query.strip():
                    cosine = 0.0
                elif cosine is None:
                    if question is None:
                        question = unit_rows(self._embedder.embed_query(request.query))
                    cosine = float(vectors[text] @ question)
                found.append(cosine)
            scores.append(found)
        return scores
