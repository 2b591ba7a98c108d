"""`SageCompressor`: rerank documents and keep as many as the scores justify."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from numbers import Real
from typing import Any, Literal

import numpy as np
from langchain_core.callbacks import BaseCallbackManager, Callbacks, dispatch_custom_event
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict, Field, PrivateAttr, model_validator
from typing_extensions import Self

from sage_core.errors import InputError
from sage_core.feedback.drivers import Call, Compute, Steps, adrive, drive
from sage_core.passages import plain_copy
from sage_core.ranking import HybridReranker, Reranker, ascore_candidates, name_of, score_candidates
from sage_core.ranking.foreign import collected_scores, with_unlimited_top_n
from sage_core.ranking.passages import PassageRanker
from sage_core.ranking.retrieved import Candidates
from sage_core.ranking.standing import OVERRULED
from sage_core.selection import (
    Scale,
    ScaleName,
    ScoreReading,
    SelectionConfig,
    finite_score,
    rank_order,
    read_scores,
)
from sage_core.text.tokens import get_counter
from sage_langchain._passages import SCORE_KEY, Candidate, Part, headed, join, retrieved
from sage_langchain._runnables import CheckedModel, Instance

logger = logging.getLogger(__name__)

SEARCH_SCORE_KEY = "score"

_POSITION = "_sage_position"


class Ranked(list[Document]):
    """Candidates best first, and what they are to be selected by.

    Attributes:
        scale: What their scores are.
        selection: How many to keep.
    """

    def __init__(self, documents: Sequence[Document], scale: Scale, selection: SelectionConfig) -> None:
        super().__init__(documents)
        self.scale = scale
        self.selection = selection


class SageCompressor(CheckedModel, BaseDocumentCompressor):
    """Reranks documents and keeps the best ones up to where the score falls off a cliff.

    Returns copies, best first, with the score in ``metadata["relevance_score"]`` as a Python float (None
    where the scorer gave none); ids are kept, the documents passed in are never changed, older scores are
    overwritten. Of documents with equal texts, as a `MergerRetriever` gives, the best stays.

    The scores of the search are read under ``metadata["score"]``, as far as numbers are there; without any,
    the order of the documents stands for them. After another reranker say ``reranker=None``: its scores are
    then those selected on.

    Examples:
        >>> from langchain_core.documents import Document
        >>> scored = {"a": 0.9, "b": 0.8, "c": 0.1}
        >>> documents = [Document(t, metadata={"relevance_score": s}) for t, s in scored.items()]
        >>> paper = SelectionConfig(rule="gradient", min_k=1)
        >>> sage = SageCompressor(reranker=None, scale="probability", selection=paper)
        >>> [found.page_content for found in sage.compress_documents(documents, "Why?")]
        ['a', 'b']
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    reranker: Any = Field(
        default="hybrid",
        repr=False,
        description="'hybrid': the search's scores and the words shared, as one probability, without a "
        "model. None: select on the scores that are there, under 'relevance_score', else "
        "'score'. Or an object with score(query, texts) and a scale "
        "(`sage_core.ranking.Reranker`), a LangChain `BaseCrossEncoder`, or a LangChain "
        "compressor that writes 'relevance_score', whose top_n then does not matter.",
    )
    scale: ScaleName = Field(
        default="auto",
        description="What the documents' scores are, or those of a cross-encoder or compressor of "
        "LangChain's: 'probability', 'logit', 'cosine', 'unbounded', 'distance' (smaller is "
        "nearer), or 'auto': told by their range; if they do not fall along the list, what "
        "documents and question share decides which way they count.",
    )
    selection: Instance[SelectionConfig] = Field(
        default_factory=SelectionConfig,
        description="How many to keep, and how many tokens at most: a `SelectionConfig`.",
    )
    passages: Literal["auto", "off"] = Field(
        default="auto",
        description="'auto': documents of more than 300 tokens are cut into passages, and those are ranked"
        " and returned; metadata['node_id'] is the id of what each is cut from. 'off': whole "
        "documents.",
    )

    _reported_overruled: bool = PrivateAttr(default=False)

    @model_validator(mode="after")
    def _check(self) -> Self:
        scorer = self._scorer
        if scorer is not None and not (hasattr(scorer, "score") and hasattr(scorer, "scale")):
            raise InputError(
                f"no reranker {scorer!r:.80}: it is 'hybrid', None, an object with score(query, texts) and "
                "a scale, a BaseCrossEncoder, or a compressor that writes metadata['relevance_score']"
            )
        return self

    @property
    def _scorer(self) -> Reranker | None:
        """The reranker given, behind our protocol; None for none."""
        scorer = self.reranker
        # By name: their base class has lived in three packages, two of which are not to be imported.
        if any(base.__name__ == "BaseCrossEncoder" for base in type(scorer).__mro__):
            return LangChainCrossEncoder(scorer, self.scale)
        if isinstance(scorer, BaseDocumentCompressor) and not isinstance(scorer, SageCompressor):
            return CompressorScores(scorer, self.scale)
        own: Reranker | None = _hybrid() if scorer == "hybrid" else scorer
        return own

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Rerank and select.

        Args:
            documents: The candidates, in any order.
            query: What they are ranked for.
            callbacks: Told where the selection was cut and why.

        Returns:
            Scored copies of those kept, best first.

        Raises:
            InputError: Where scores are needed and missing.
        """
        return self.keep(self.rank(documents, query), callbacks=callbacks)

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """`compress_documents`, awaiting rerankers that can be awaited and others in a thread."""
        return self.keep(await self.arank(documents, query), callbacks=callbacks)

    def rank(self, documents: Sequence[Document], query: str, *, searched: bool = False) -> Ranked:
        """Scored copies of all documents, best first; of those with equal texts the best.

        Args:
            documents: The candidates.
            query: What they are ranked for.
            searched: Whether they are of our own search: higher scores are better, and None is worst.
        """
        return drive(self._ranking(documents, query, searched))

    async def arank(self, documents: Sequence[Document], query: str, *, searched: bool = False) -> Ranked:
        """`rank`, without blocking the event loop."""
        return await adrive(self._ranking(documents, query, searched))

    def _ranking(self, documents: Sequence[Document], query: str, searched: bool) -> Steps[Ranked]:
        scorer, limits = self._scorer, self.selection
        if not documents:
            return Ranked([], "probability", limits)
        ranker = PassageRanker(scorer if isinstance(scorer, HybridReranker) else _hybrid())
        if scorer is None:
            scores: list[Any] = self._scores_of_earlier_step(documents)
        else:
            # Our own search writes where the rank's score goes: no other entry of the user's is replaced.
            key = SCORE_KEY if searched else SEARCH_SCORE_KEY
            scores = [document.metadata.get(key) for document in documents]
        found = Candidates(query, retrieved(documents, scores), ranker)
        if scorer is None:
            read = yield from Compute(self._reading, found, searched)
            return _ranked(found, documents, read.scores, read.scale, limits)
        if found.unscored:
            limits = replace(limits, empty_below=None)
        standings = None
        # "score" is a common key: a label or a text there is nobody's search.
        if all(score is None or isinstance(score, Real) for score in scores):
            read = yield from Compute(self._reading, found, searched)
            standings = found.standings(read.scores, searched=searched)
        cut = (yield from Compute(found.cut, standings)) if self.passages == "auto" else None
        if cut is None:
            read = yield from self._scores(scorer, documents, query, standings)
            vouched = yield from Compute(found.vouched, read)
            return _ranked(found, documents, vouched, read.scale, limits)
        parts = [Part(documents[p.node], p.start, p.end, p.path, found.offset(p.node)) for p in cut.passages]
        read = ScoreReading([*cut.probabilities], "probability")
        if not isinstance(scorer, HybridReranker):
            read = yield from self._scores(scorer, [part.made() for part in parts], query, read.scores)
        final = [finite_score(score) for score in (yield from Compute(found.vouched, read, cut))]
        candidates = [Candidate.of(parts[i], final[i]) for i in rank_order(final)]
        return Ranked(candidates, read.scale, limits)

    def _reading(self, found: Candidates, searched: bool) -> ScoreReading:
        """The scores that the documents came with, higher is better."""
        # Of a reranker of LangChain's the scale is that of its own scores; our search gives similarities.
        theirs = isinstance(self._scorer, LangChainCrossEncoder | CompressorScores)
        scale = "auto" if theirs or (searched and self._scorer is not None) else self.scale
        read, overruled = found.reading(scale, searched=searched)
        if overruled and not self._reported_overruled:
            self._reported_overruled = True
            logger.warning(OVERRULED)
        return read

    def _scores(
        self,
        scorer: Reranker,
        documents: Sequence[Document],
        query: str,
        known: Sequence[float | None] | None,
    ) -> Steps[ScoreReading]:
        """What the reranker says of the documents."""
        texts, headings = [d.page_content for d in documents], [headed(d) for d in documents]
        scores = yield from Call(
            score_candidates, ascore_candidates, scorer, query, texts, known, headed=headings
        )
        return read_scores(scores, scorer.scale, source=f"scores of {name_of(scorer)}")

    @staticmethod
    def _scores_of_earlier_step(documents: Sequence[Document]) -> list[float | None]:
        """The scores that an earlier step, or the search, wrote into the documents."""
        key = next(
            (k for k in (SCORE_KEY, SEARCH_SCORE_KEY) if any(k in d.metadata for d in documents)), None
        )
        if key is None:
            raise InputError(
                "no document has metadata['relevance_score'] or ['score'] to select on: rerank in the same "
                "step, SageCompressor(reranker=...). LangChain's CrossEncoderReranker drops its scores: give "
                "its model to this compressor, SageCompressor(reranker=<that model>)"
            )
        return [_number(document.metadata.get(key), key) for document in documents]

    def keep(
        self, ranked: Ranked, *, k: int | None = None, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """What the rule keeps of ``ranked`` (from `rank`); exactly ``k`` where that is given.

        Why is sent as the custom event ``sage_selection``, where ``callbacks`` belong to a run.
        """
        scores = [document.metadata[SCORE_KEY] for document in ranked]
        selection = ranked.selection if k is None else SelectionConfig(min_k=k, max_k=k)
        tokens = None
        if k is None and selection.counts_tokens:
            tokens = get_counter("bert").count_many([document.page_content for document in ranked])
        chosen = selection.select(scores, ranked.scale, tokens)
        # A custom event needs a run to belong to; a bare handler has none.
        if isinstance(callbacks, BaseCallbackManager) and callbacks.parent_run_id is not None:
            event = {**chosen.to_dict(), "scale": ranked.scale}
            dispatch_custom_event("sage_selection", event, config={"callbacks": callbacks})
        documents = [ranked[i] for i in chosen.indices]
        # Asked for exactly so many, a caller gets so many.
        return documents if k is not None else join(documents)


def _ranked(
    found: Candidates,
    documents: Sequence[Document],
    scores: Sequence[float | None],
    scale: Scale,
    limits: SelectionConfig,
) -> Ranked:
    """Copies without repetitions, best first, each with its own score."""
    different = set(found.distinct(scores))
    copies = [
        documents[i].model_copy(
            update={"metadata": {**plain_copy(documents[i].metadata), SCORE_KEY: scores[i]}}
        )
        for i in rank_order(scores)
        if i in different
    ]
    return Ranked(copies, scale, limits)


def _number(value: object, key: str) -> float | None:
    try:
        return finite_score(value if value is None else float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"metadata[{key!r}] is {value!r}, not a number") from None


@cache
def _hybrid() -> HybridReranker:
    """One for the process: it keeps the words that it has counted."""
    return HybridReranker()


class LangChainCrossEncoder:
    """A reranker that asks a LangChain cross-encoder.

    Args:
        model: The cross-encoder. One that gives two columns per pair (no, yes) counts by the second.
        scale: What its scores are.
    """

    def __init__(self, model: Any, scale: ScaleName) -> None:
        self.model = model
        self.scale: Any = scale
        self.name = type(model).__name__

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score per text.

        Raises:
            InputError: If the model's answer has another shape.
        """
        output = np.asarray(self.model.score([(query, text) for text in texts]), dtype=np.float64)
        # Two columns are the logits of "no" and "yes"; the last is the one for relevance.
        if output.ndim == 2 and output.shape[1] in (1, 2):
            output = output[:, -1]
        if output.shape != (len(texts),):
            raise InputError(f"{self.name} gave scores of shape {output.shape} for {len(texts)} texts")
        return [float(value) for value in output]


class CompressorScores:
    """A reranker that asks a LangChain compressor that writes scores (Flashrank, Cohere, Jina).

    Its own ``top_n`` does not matter. A document that it leaves out gets NaN: it ranks last and never counts
    as evidence.

    Args:
        compressor: Writes ``relevance_score`` into the metadata of the documents it returns.
        scale: What its scores are.
    """

    def __init__(self, compressor: BaseDocumentCompressor, scale: ScaleName) -> None:
        self.compressor = compressor
        self.scale: Any = scale
        self.name = type(compressor).__name__

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score per text.

        Raises:
            InputError: Where it returns documents without a score.
        """
        compressor = with_unlimited_top_n(self.compressor, len(texts))
        return self._read(compressor.compress_documents(_documents(texts), query), len(texts))

    async def ascore(self, query: str, texts: Sequence[str]) -> list[float]:
        """`score` without blocking the event loop."""
        compressor = with_unlimited_top_n(self.compressor, len(texts))
        return self._read(await compressor.acompress_documents(_documents(texts), query), len(texts))

    def _read(self, documents: Sequence[Document], n: int) -> list[float]:
        results: list[tuple[int, Any]] = []
        for document in documents:
            # Compressors return copies in another order; the metadata come along.
            position: Any = document.metadata.get(_POSITION)
            if SCORE_KEY not in document.metadata or not isinstance(position, int):
                raise InputError(
                    f"{self.name} returned documents without their metadata, or without "
                    f"metadata[{SCORE_KEY!r}]: only compressors with scores can rerank here"
                )
            results.append((position, document.metadata[SCORE_KEY]))
        scores = collected_scores(self.name, results)
        return [math.nan if (score := scores.get(i)) is None else score for i in range(n)]


def _documents(texts: Sequence[str]) -> list[Document]:
    return [Document(text, metadata={_POSITION: i}) for i, text in enumerate(texts)]
