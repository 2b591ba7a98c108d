"""`SageCompressor`: rerank documents and keep as many as the scores justify."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from numbers import Real
from typing import Any, Literal, Protocol

import numpy as np
from langchain_core.callbacks import BaseCallbackManager, Callbacks, dispatch_custom_event
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict, Field, PrivateAttr, model_validator
from typing_extensions import Self

from sage_core.errors import InputError
from sage_core.feedback.drivers import Call, Compute, Steps, adrive, drive
from sage_core.ranking import (
    HybridReranker,
    Reranker,
    Titled,
    ascore_candidates,
    link,
    score_candidates,
    vouch,
)
from sage_core.ranking.candidates import distinct, vouched
from sage_core.ranking.features import scores_or_order
from sage_core.ranking.foreign import collected_scores, with_unlimited_top_n
from sage_core.ranking.passages import PassageRanker
from sage_core.ranking.standing import OVERRULED, asked_or_not, standing
from sage_core.selection import (
    Scale,
    ScaleName,
    ScoreReading,
    Selection,
    SelectionConfig,
    finite_score,
    rank_order,
    read_scores,
    select,
)
from sage_core.selection.scales import declared_scale
from sage_core.text.header import with_header
from sage_core.text.outline import header_of, title_of
from sage_core.text.tokens import get_counter
from sage_langchain._passages import Candidate, Cut, cut_documents, join, places_of, to_cut
from sage_langchain._runnables import CheckedModel, Instance

logger = logging.getLogger(__name__)

HYBRID = "hybrid"
SCORE_KEY = "relevance_score"
SCALE_KEY = "relevance_scale"
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

    Three uses:

    - ``SageCompressor()`` or ``SageCompressor(reranker=...)`` reranks, then selects;
    - ``SageCompressor(reranker=..., select=False)`` only reranks;
    - ``SageCompressor(score_key="relevance_score")`` only selects, on scores that an earlier step wrote into
      the metadata (Cohere, Jina and most hosted rerankers do).

    Examples:
        >>> from langchain_core.documents import Document
        >>> scored = {"a": 0.9, "b": 0.8, "c": 0.1}
        >>> documents = [Document(t, metadata={"score": s}) for t, s in scored.items()]
        >>> paper = SelectionConfig(rule="gradient", min_k=1)
        >>> sage = SageCompressor(score_key="score", scale="probability", selection=paper)
        >>> [found.page_content for found in sage.compress_documents(documents, "Why?")]
        ['a', 'b']

    Attributes:
        passages: ``"auto"``: documents of more than 300 tokens are cut into passages, and those are ranked
            and returned; ``metadata["node_id"]`` is the id of what each is cut from. ``"off"``: whole ones.
        reranker: A `sage_core.ranking.Reranker`, or ``"hybrid"``; or a
            LangChain `BaseCrossEncoder` (then ``scale`` says what its numbers are); or a LangChain compressor
            that writes ``relevance_score``, whose ``top_n`` then does not matter. ``"hybrid"`` makes one
            probability of the search's scores, of whatever embedding model, and the words shared; it loads
            no model. None: no reranker, as in LlamaIndex; the scores that are there are selected on, under
            ``score_key``, else ``search_score_key``, else ``"score"``.
        score_key: Read scores from this metadata key and run no reranker.
        search_score_key: Where the search's scores are in the metadata, higher is better, for the hybrid.
            `SageRetriever.from_vectorstore` says it. None: ``"score"``, as far as numbers are there that fall
            (or rise, as distances do) along the documents; others are none of a search. Without scores the
            order of the documents stands for them.
        scale: What the numbers under ``score_key``, or of a cross-encoder or compressor of LangChain's, are:
            ``"probability"``, ``"logit"``, ``"cosine"``, ``"unbounded"``, ``"distance"`` (smaller is
            nearer), or ``"auto"``: five or more under ``score_key`` that rise along the documents are
            distances, others are told by their range; what was found is in ``metadata["relevance_scale"]``.
            For ``score_key`` and compressors the default is ``"probability"``, for ``reranker=None`` without
            a ``score_key`` ``"auto"``. Others know their own.
        select: Whether to select after reranking; if False all documents are returned.
        top_n: Return exactly so many (or all there are), whatever the scores. Switches the rule off.
        selection: How many to keep, a `SelectionConfig`.
        max_context_tokens: Most tokens to keep, in whole documents and at least one; None: as the selection
            says.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    passages: Literal["auto", "off"] = "auto"
    reranker: Any = Field(default=HYBRID, repr=False)
    score_key: str | None = None
    search_score_key: str | None = None
    scale: ScaleName | None = None
    select: bool = True
    top_n: int | None = None
    selection: Instance[SelectionConfig] = Field(default_factory=SelectionConfig, repr=False)
    max_context_tokens: int | None = Field(default=None, gt=0)

    _reported_overruled: bool = PrivateAttr(default=False)

    @model_validator(mode="before")
    @classmethod
    def _scored_before(cls, data: Any) -> Any:
        """A ``score_key`` stands for no reranker."""
        scored = isinstance(data, dict) and data.get("score_key") is not None
        return {"reranker": None, **data} if scored else data

    @property
    def limits(self) -> SelectionConfig:
        """How many documents to keep, within ``max_context_tokens``."""
        return self.selection.limited(self.max_context_tokens)

    def never_empty(self) -> SageCompressor:
        """The same, for documents whose probabilities are no opinion that nothing is relevant.

        Those that were searched with a question rewritten from the history may share nothing with the one
        that they are ranked for; an order without scores says which is best, not how good it is.
        """
        if self.selection.empty_below is None:
            return self
        return self.model_copy(update={"selection": replace(self.selection, empty_below=None)})

    def denying(self, ranked: Sequence[Document]) -> SageCompressor:
        """This, or `never_empty` if no document of these, which come from `rank`, has a score of a search."""
        unscored = self.reranker is not None and all(d.metadata.get(self._key) is None for d in ranked)
        return self.never_empty() if unscored else self

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.top_n is not None and self.top_n < 1:
            raise InputError(f"top_n must be at least 1, not {self.top_n}")
        selection = self.limits
        if self.top_n is not None and (selection.min_k or selection.max_k or selection.min_context_tokens):
            raise InputError(
                "top_n keeps exactly so many documents: leave out min_k, max_k and min_context_tokens"
            )
        if self.score_key is not None and self.reranker is not None:
            raise InputError("give a reranker or a score_key, not both: score_key means that scores exist")
        self._adopted()
        return self

    def _adopted(self) -> Reranker | None:
        """The reranker given, behind our protocol; None for none."""
        reranker = self.reranker
        if is_cross_encoder(reranker):
            if self.scale is None:
                raise InputError(
                    "a LangChain cross-encoder does not say what its scores are: pass scale='logit' for raw "
                    "model outputs, or scale='probability' for scores between 0 and 1"
                )
            return LangChainCrossEncoder(reranker, self.scale)
        if isinstance(reranker, BaseDocumentCompressor) and not isinstance(reranker, SageCompressor):
            return CompressorScores(reranker, self.scale or "probability", SCORE_KEY)
        if self.scale is not None and reranker is not None:
            raise InputError(
                "scale goes with score_key, or a cross-encoder or compressor of LangChain's; this reranker "
                "has its own"
            )
        if reranker == HYBRID:
            return _hybrid()
        if reranker is not None and not (hasattr(reranker, "score") and hasattr(reranker, "scale")):
            raise InputError(
                f"no reranker {reranker!r:.80}: it is 'hybrid', None, an object with score(query, texts) and "
                "a scale, a BaseCrossEncoder, or a compressor that writes metadata['relevance_score']"
            )
        own: Reranker | None = reranker
        return own

    @property
    def score_scale(self) -> Scale | None:
        """The scale of the scores that this compressor selects on; None if ``"auto"`` looks at them."""
        return declared_scale(self._said())

    def ranked(self, documents: Sequence[Document], k: int | None = None) -> Ranked:
        """All documents that `rank` gave, with what is to select of them; exactly ``k`` if given."""
        # If this does not select, a loop is to keep them all too.
        exact = k or self.top_n or (None if self.select else max(len(documents), 1))
        selection = self.denying(documents).limits
        if exact is not None:
            selection = replace(selection, min_k=exact, max_k=exact)
        return Ranked(documents, self.scale_of(documents), selection)

    def scale_of(self, ranked: Sequence[Document]) -> Scale:
        """The scale of the scores of these documents, which come from `rank`."""
        scale = ranked[0].metadata.get(SCALE_KEY) if ranked else None
        return self.score_scale or scale or "cosine"

    def _said(self) -> ScaleName:
        """What the scores are said to be."""
        if self.scale is not None:
            return self.scale
        if self.reranker is None:
            return "probability" if self.score_key is not None else "auto"
        return self._scorer().scale

    @property
    def _key(self) -> str:
        """Where the scores of the search are, or those of an earlier step."""
        return self.score_key or self.search_score_key or SEARCH_SCORE_KEY

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

    def rank(self, documents: Sequence[Document], query: str) -> list[Document]:
        """Scored copies of all documents, best first; of those with equal texts the best."""
        return drive(self._ranking(documents, query))

    async def arank(self, documents: Sequence[Document], query: str) -> list[Document]:
        """`rank`, without blocking the event loop."""
        return await adrive(self._ranking(documents, query))

    def _ranking(self, documents: Sequence[Document], query: str) -> Steps[list[Document]]:
        if not documents:
            return []
        if self.reranker is None:
            scores = self._scores_of(documents)
            if self._said() == "auto":
                scores = yield from Compute(self._standing, documents, scores, query)
            return self._scored(documents, scores, question=query)
        known = yield from Compute(self._search_scores, documents, query)
        cut = yield from Compute(self._cut, documents, query, known)
        if cut is None:
            return self._scored(documents, (yield from self._scores(documents, query, known)), question=query)
        read = ScoreReading([*cut.probabilities], "probability")
        if not isinstance(self._scorer(), HybridReranker):
            passages = [part.made() for part in cut.parts]
            read = self._read((yield from self._scores(passages, query, read.scores)))
        final = [finite_score(score) for score in vouch(read.scores, cut.links, read.scale)]
        noted = {SCALE_KEY: read.scale} if self._said() == "auto" else {}
        return [Candidate.of(cut.parts[i], {SCORE_KEY: final[i], **noted}) for i in rank_order(final)]

    def _scores(
        self, documents: Sequence[Document], query: str, known: Sequence[float | None] | None
    ) -> Steps[list[float]]:
        """What the reranker says of the documents."""
        texts, headed = texts_of(documents)
        call = Call(score_candidates, ascore_candidates, self._scorer(), query, texts, known, headed=headed)
        return (yield from call)

    def _cut(
        self, documents: Sequence[Document], query: str, known: Sequence[float | None] | None
    ) -> Cut | None:
        """The passages of the documents that stand best; None if all are short."""
        ranker, (texts, headed) = self._ranker(), texts_of(documents)
        if self.passages == "off" or not ranker.cuts(query, texts):
            return None
        nodes = to_cut(documents)
        scores = score_candidates(ranker.reranker, query, texts, known, headed=headed)
        links, about = link([node.place for node in nodes]), [titled(d) for d in documents]
        priors = vouched(query, scores, "probability", links, about)
        return cut_documents(ranker, query, documents, nodes, priors)

    def _ranker(self) -> PassageRanker:
        scorer = self._adopted()
        return PassageRanker(scorer if isinstance(scorer, HybridReranker) else _hybrid())

    def keep(
        self,
        ranked: Sequence[Document],
        *,
        k: int | None = None,
        callbacks: Callbacks | None = None,
    ) -> list[Document]:
        """What the rule keeps of ``ranked`` (from `rank`); exactly ``k`` where that is given.

        Why is sent as the custom event ``sage_selection``, where ``callbacks`` belong to a run.
        """
        scores = [document.metadata[SCORE_KEY] for document in ranked]
        texts = texts_of(ranked)[0]
        scale = self.scale_of(ranked)
        chosen = self.denying(ranked).choose(scores, k=k, scale=scale, texts=texts)
        # A custom event needs a run to belong to; a bare handler has none.
        if isinstance(callbacks, BaseCallbackManager) and callbacks.parent_run_id is not None:
            event = {**chosen.to_dict(), "scale": scale}
            dispatch_custom_event("sage_selection", event, config={"callbacks": callbacks})
        documents = [ranked[i] for i in chosen.indices]
        # Asked for exactly so many, a caller gets so many.
        return documents if k is not None or self.top_n is not None else join(documents)

    def choose(
        self,
        scores: Sequence[float | None],
        *,
        k: int | None = None,
        scale: Scale | None = None,
        texts: Sequence[str] | None = None,
    ) -> Selection:
        """What the rule keeps of these scores, and why.

        Args:
            scores: Higher is better.
            k: Keep exactly so many.
            scale: What the scores are; this compressor's own where None.
            texts: What was scored, for the floor in tokens.
        """
        scale = scale or self.score_scale or read_scores(scores).scale
        exact = self.top_n if k is None else k
        if exact is None and not self.select:
            # All of them; `select` takes no bound of 0.
            exact = max(len(scores), 1)
        if exact is not None:
            return select(scores, scale=scale, min_k=exact, max_k=exact)
        selection = self.limits
        tokens = None
        if texts is not None and selection.counts_tokens:
            tokens = get_counter("bert").count_many(texts)
        return selection.select(scores, scale, tokens)

    def _scorer(self) -> Reranker:
        scorer = self._adopted()
        assert scorer is not None  # asked for only where there is one
        return scorer

    def _search_scores(self, documents: Sequence[Document], query: str) -> list[float | None] | None:
        """What the search said of each document, higher is better; None if it said nothing."""
        key = self._key
        values = [document.metadata.get(key) for document in documents]
        if self.search_score_key is not None:
            return scores_or_order([_number(value, key) for value in values])
        # "score" is a common key: a label or a text there is nobody's search.
        if not all(value is None or isinstance(value, Real) for value in values):
            return None
        read = self._standing(documents, [_number(value, key) for value in values], query)
        return scores_or_order(asked_or_not(read), lambda: link(places_of(documents)))

    def _standing(
        self, documents: Sequence[Document], scores: Sequence[float | None], query: str
    ) -> list[float | None]:
        texts = texts_of(documents)[0]
        found = standing(scores, lambda some: self._ranker().likeness(query, [texts[i] for i in some]))
        if found.overruled and not self._reported_overruled:
            self._reported_overruled = True
            logger.warning(OVERRULED)
        return found.scores

    def _scores_of(self, documents: Sequence[Document]) -> list[float | None]:
        scores: list[float | None] = []
        key = self._key
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
        return scores

    def _scored(
        self, documents: Sequence[Document], scores: Sequence[float | None], *, question: str
    ) -> list[Document]:
        """Copies, best first, each with its own score."""
        if len(scores) != len(documents):
            raise InputError(f"the reranker gave {len(scores)} scores for {len(documents)} documents")
        said, reranked = self._said(), self.reranker is not None
        read = self._read(scores)
        final = read.scores
        if reranked:
            links, about = link(places_of(documents)), [titled(d) for d in documents]
            final = vouched(question, final, read.scale, links, about)
        different = set(distinct([d.page_content for d in documents], [d.id for d in documents], final))
        noted = {SCALE_KEY: read.scale} if said == "auto" else {}
        return [
            document.model_copy(
                update={"metadata": {**copy.deepcopy(document.metadata), SCORE_KEY: final[i], **noted}}
            )
            for i in rank_order(final)
            if i in different
            for document in [documents[i]]
        ]

    def _read(self, scores: Sequence[float | None]) -> ScoreReading:
        named = self._scorer().name if self.reranker is not None else None
        source = f"scores of {named}" if named else f"metadata[{self._key!r}]"
        return read_scores(scores, self._said(), source=source)

    def __repr_args__(self) -> Any:
        yield from super().__repr_args__()
        settings = self.selection.keywords.items()
        yield from ((name, value) for name, value in settings if value not in (None, "auto"))
        if self.reranker != HYBRID and self.score_key is None:
            yield "reranker", None if self.reranker is None else self._scorer().name


def texts_of(documents: Sequence[Document]) -> tuple[list[str], list[str]]:
    """The documents' texts; and each with its title and headings, as far as they are known."""
    texts = [document.page_content for document in documents]
    return texts, [with_header(header_of(d.page_content, d.metadata), d.page_content) for d in documents]


def titled(document: Document) -> Titled:
    """A document with what names its source."""
    title, source = title_of(document.metadata), document.metadata.get("source")
    source = source if isinstance(source, str) else ""
    first = not document.metadata.get("start_index")
    return Titled(document.page_content, source or title, title, source, first)


def _number(value: object, key: str) -> float | None:
    try:
        return finite_score(value if value is None else float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"metadata[{key!r}] is {value!r}, not a number") from None


@cache
def _hybrid() -> HybridReranker:
    """One for the process: it keeps the words that it has counted."""
    return HybridReranker()


class PairScorer(Protocol):
    """What a LangChain cross-encoder can do."""

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        """One score per pair."""
        ...


def is_cross_encoder(value: object) -> bool:
    """Whether ``value`` is one of LangChain's cross-encoders.

    Their base class has lived in three packages, two of which are not to be imported; hence by its name.
    """
    return any(base.__name__ == "BaseCrossEncoder" for base in type(value).__mro__)


class LangChainCrossEncoder:
    """A reranker that asks a LangChain cross-encoder.

    Args:
        model: The cross-encoder. One that gives two columns per pair (no, yes) counts by the second.
        scale: What its scores are.
    """

    def __init__(self, model: PairScorer, scale: ScaleName) -> None:
        self.model = model
        self.scale: Scale = declared_scale(scale) or "cosine"
        self.name = type(model).__name__

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score per text.

        Raises:
            InputError: If the model's answer has another shape.
        """
        if not texts:
            return []
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
        compressor: Writes a score into the metadata of the documents it returns.
        scale: What its scores are.
        key: Under which key.
    """

    def __init__(self, compressor: BaseDocumentCompressor, scale: ScaleName, key: str) -> None:
        self.compressor = compressor
        self.scale: Scale = declared_scale(scale) or "cosine"
        self.key = key
        self.name = type(compressor).__name__

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score per text.

        Raises:
            InputError: Where it returns documents without a score.
        """
        if not texts:
            return []
        compressor = with_unlimited_top_n(self.compressor, len(texts))
        return self._read(compressor.compress_documents(_documents(texts), query), len(texts))

    async def ascore(self, query: str, texts: Sequence[str]) -> list[float]:
        """`score` without blocking the event loop."""
        if not texts:
            return []
        compressor = with_unlimited_top_n(self.compressor, len(texts))
        return self._read(await compressor.acompress_documents(_documents(texts), query), len(texts))

    def _read(self, documents: Sequence[Document], n: int) -> list[float]:
        results: list[tuple[int, Any]] = []
        for document in documents:
            # Compressors return copies in another order; the metadata come along.
            position: Any = document.metadata.get(_POSITION)
            if self.key not in document.metadata or not isinstance(position, int):
                raise InputError(
                    f"{self.name} returned documents without their metadata, or without "
                    f"metadata[{self.key!r}]: only compressors with scores can rerank here"
                )
            results.append((position, document.metadata[self.key]))
        return [math.nan if s is None else s for s in collected_scores(self.name, results, n)]


def _documents(texts: Sequence[str]) -> list[Document]:
    return [Document(text, metadata={_POSITION: i}) for i, text in enumerate(texts)]
