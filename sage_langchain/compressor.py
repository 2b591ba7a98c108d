"""`SageCompressor`: rerank documents and keep as many as the scores justify."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict, Field, PrivateAttr, model_validator
from typing_extensions import Self

from sage_core.errors import InputError
from sage_core.ranking import Reranker, ascore, named_reranker
from sage_core.selection.cut import Scale, Selection, check_bounds, rank_order, resolve_rule, select
from sage_langchain._compressor_scores import CompressorScores
from sage_langchain._cross_encoder import LangChainCrossEncoder, is_cross_encoder

SCORE_KEY = "relevance_score"


class SageCompressor(BaseDocumentCompressor):
    """Reranks documents and keeps the best ones up to where the score falls off a cliff.

    Returns copies, best first, with the score in ``metadata["relevance_score"]`` as a Python float (None
    where the scorer gave none); ids are kept, the documents passed in are never changed, older scores are
    overwritten.

    Three uses:

    - ``SageCompressor()`` or ``SageCompressor(reranker=...)`` reranks, then selects;
    - ``SageCompressor(reranker=..., select=False)`` only reranks;
    - ``SageCompressor(score_key="relevance_score")`` only selects, on scores that an earlier step wrote into
      the metadata (Cohere, Jina and most hosted rerankers do).

    Attributes:
        reranker: A `sage_core.ranking.Reranker`, or the name of one (``"hybrid"``, ``"hybrid+sage-minilm"``,
            ``"sage-minilm"``, any cross-encoder's name or folder); or a LangChain
            `BaseCrossEncoder` (then ``scale`` says what its numbers are); or a LangChain compressor that
            writes ``relevance_score``, whose ``top_n`` then does not matter. None takes ``"hybrid"``, which
            downloads nothing.
        score_key: Read scores from this metadata key and run no reranker.
        scale: What the numbers under ``score_key``, or of a cross-encoder or compressor of LangChain's, are.
            For ``score_key`` and compressors the default is ``"probability"``. Others know their own.
        select: Whether to select after reranking; if False all documents are returned.
        top_n: Return exactly so many (or all there are), whatever the scores. Switches the rule off.
        min_k: Least number to keep; None for the rule's own (7, or 1 for rules such as ``FixedK`` that name
            the number themselves), lowered to ``max_k``.
        gradient: Share of its predecessor that a score must exceed (paper: g). Giving it asks for the
            paper's rule.
        max_k: Most to keep.
        rule: ``"auto"`` (what measured best for the scale), ``"gradient"`` (the paper's, with 0.3), or a
            rule of `sage_core.selection.rules`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    reranker: Any = Field(default=None, repr=False)
    score_key: str | None = None
    scale: Scale | None = None
    select: bool = True
    top_n: int | None = None
    min_k: int | None = None
    gradient: float | None = None
    max_k: int | None = None
    rule: Any = Field(default="auto", repr=False)

    # Kept, because it warns once.
    _wrapped: LangChainCrossEncoder | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_bounds(self.min_k, self.max_k)
        if self.top_n is not None and self.top_n < 1:
            raise InputError(f"top_n must be at least 1, not {self.top_n}")
        resolve_rule(self.rule, "probability", self.gradient)
        if self.score_key is not None and self.reranker is not None:
            raise InputError("give a reranker or a score_key, not both: score_key means that scores exist")
        self._adopted()
        return self

    def _adopted(self) -> Reranker | None:
        """The reranker given, behind our protocol; None for the default one."""
        given = self.reranker
        if is_cross_encoder(given):
            if self.scale is None:
                raise InputError(
                    "a LangChain cross-encoder does not say what its scores are: pass scale='logit' for raw "
                    "model outputs, or scale='probability' for scores between 0 and 1"
                )
            wrapped = self._wrapped
            if wrapped is None or wrapped.model is not given or wrapped.scale != self.scale:
                wrapped = self._wrapped = LangChainCrossEncoder(given, self.scale)
            return wrapped
        if isinstance(given, BaseDocumentCompressor) and not isinstance(given, SageCompressor):
            return CompressorScores(given, self.scale or "probability", SCORE_KEY)
        if self.scale is not None and self.score_key is None:
            raise InputError(
                "scale goes with score_key, or a cross-encoder or compressor of LangChain's; this reranker "
                "has its own"
            )
        if isinstance(given, str):
            return _named(given)
        if given is not None and not (hasattr(given, "score") and hasattr(given, "scale")):
            raise InputError(
                "reranker must be a name, have score(query, texts) and a scale, be a BaseCrossEncoder, or a "
                f"compressor that writes metadata['relevance_score']; {type(given).__name__} is none of them"
            )
        reranker: Reranker | None = given
        return reranker

    @property
    def score_scale(self) -> Scale:
        """The scale of the scores that this compressor selects on."""
        if self.score_key is not None:
            return self.scale or "probability"
        return self._scorer().scale

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Rerank and select.

        Args:
            documents: The candidates, in any order.
            query: What they are ranked for.
            callbacks: Not used: no model of LangChain's is called.

        Returns:
            Scored copies of those kept, best first.

        Raises:
            InputError: Where scores are needed and missing.
        """
        return self.keep(self.rank(documents, query))

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """`compress_documents`, awaiting rerankers that can be awaited and others in a thread."""
        return self.keep(await self.arank(documents, query))

    def rank(self, documents: Sequence[Document], query: str) -> list[Document]:
        """Scored copies of all documents, best first."""
        if not documents:
            return []
        if self.score_key is not None:
            return _scored(documents, self._scores_found(documents, self.score_key))
        return _scored(documents, self._scorer().score(query, [d.page_content for d in documents]))

    async def arank(self, documents: Sequence[Document], query: str) -> list[Document]:
        """`rank`, without blocking the event loop."""
        if not documents or self.score_key is not None:
            return self.rank(documents, query)
        return _scored(documents, await ascore(self._scorer(), query, [d.page_content for d in documents]))

    def keep(self, ranked: Sequence[Document], *, k: int | None = None) -> list[Document]:
        """What the rule keeps of ``ranked`` (from `rank`); exactly ``k`` where that is given."""
        chosen = self.choose([document.metadata[SCORE_KEY] for document in ranked], k=k)
        return [ranked[i] for i in chosen.indices]

    def choose(self, scores: Sequence[float | None], *, k: int | None = None) -> Selection:
        """What the rule keeps of these scores, and why."""
        exact = self.top_n if k is None else k
        if exact is None and not self.select:
            exact = max(len(scores), 1)
        if exact is not None:
            return select(scores, scale=self.score_scale, min_k=exact, max_k=exact)
        return select(
            scores,
            scale=self.score_scale,
            rule=self.rule,
            min_k=self.min_k,
            gradient=self.gradient,
            max_k=self.max_k,
        )

    def _scorer(self) -> Reranker:
        return self._adopted() or _named("hybrid")

    def _scores_found(self, documents: Sequence[Document], key: str) -> list[float | None]:
        scores: list[float | None] = []
        for i, document in enumerate(documents):
            if key not in document.metadata:
                raise InputError(
                    f"document {i} of {len(documents)} has no metadata[{key!r}] to select on. Rerank in the "
                    "same step, SageCompressor(reranker=...), or before it with a compressor that keeps its "
                    "scores, such as SageCompressor(reranker=..., select=False); LangChain's "
                    "CrossEncoderReranker drops them: give its model to this compressor, "
                    "SageCompressor(reranker=<that model>, scale='logit'), or 'probability'"
                )
            scores.append(_number(document.metadata[key], key))
        if self.scale is None and any(s is not None and not 0 <= s <= 1 for s in scores):
            raise InputError(
                f"metadata[{key!r}] holds numbers outside 0..1: say what they are with "
                "scale='logit', 'cosine' or 'unbounded'"
            )
        return scores

    def __repr_args__(self) -> Any:
        yield from super().__repr_args__()
        if (given := self._adopted()) is not None:
            yield "reranker", given.name


def _number(value: object, key: str) -> float | None:
    if value is None:
        return None
    try:
        number = float(value)  # type: ignore[arg-type]  # whatever is no number is the error below
    except (TypeError, ValueError):
        raise InputError(f"metadata[{key!r}] is {value!r}, not a number") from None
    return None if math.isnan(number) else number


def _scored(documents: Sequence[Document], scores: Sequence[float | None]) -> list[Document]:
    """Copies, best first, each with its own score."""
    if len(scores) != len(documents):
        raise InputError(f"the reranker gave {len(scores)} scores for {len(documents)} documents")
    return [_with_score(documents[i], scores[i]) for i in rank_order(scores)]


def _with_score(document: Document, score: float | None) -> Document:
    value = None if score is None else float(score)
    if value is not None and (math.isnan(value) or value == -math.inf):
        value = None
    return document.model_copy(update={"metadata": {**copy.deepcopy(document.metadata), SCORE_KEY: value}})


@lru_cache(maxsize=8)
def _named(name: str) -> Reranker:
    """One for the process, so that its model is loaded once."""
    return named_reranker(name)
