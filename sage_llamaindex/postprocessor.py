"""`SageNodePostprocessor`: rerank, then keep nodes up to where the scores fall off a cliff."""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from llama_index.core.callbacks import CBEventType, EventPayload
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
from llama_index_instrumentation import get_dispatcher
from pydantic import (
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    field_serializer,
    field_validator,
)

from sage_core.errors import InputError
from sage_core.feedback.drivers import Call, Compute, Steps, adrive, drive
from sage_core.ranking import HybridReranker, Reranker, ascore_candidates, name_of, score_candidates
from sage_core.ranking.foreign import collected_scores, with_unlimited_top_n
from sage_core.ranking.passages import PassageRanker
from sage_core.ranking.retrieved import Candidates
from sage_core.ranking.standing import OVERRULED
from sage_core.selection import (
    Scale,
    ScaleName,
    ScoreReading,
    Selection,
    SelectionConfig,
    finite_score,
    rank_order,
    read_scores,
)
from sage_core.selection.config import limited
from sage_llamaindex._component import SageComponent, text_counter
from sage_llamaindex._neighbors import retrieved, show_places
from sage_llamaindex._passages import Part, join, unnamed

logger = logging.getLogger(__name__)
dispatcher = get_dispatcher(__name__)

Ended = Callable[[Sequence[NodeWithScore]], None]


def _read_selection(value: Any) -> SelectionConfig:
    if isinstance(value, Mapping):  # saved by `to_dict`
        return SelectionConfig.from_dict(value)
    return limited(value, None)


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates with the scores that selection goes by.

    Attributes:
        nodes: The candidates in the order they came, with their scores as Python floats; of those with equal
            texts the best. Never the caller's own `NodeWithScore` objects.
        scale: What the scores are.
        by_order: Whether the search gave no scores, so that its order stood for them.
        parts: What the candidates are of, if they are passages.
    """

    nodes: tuple[NodeWithScore, ...]
    scale: Scale
    by_order: bool = False
    parts: tuple[Part, ...] = ()

    def selecting(self, selection: SelectionConfig) -> SelectionConfig:
        """The settings that hold for these scores: an order is no opinion that nothing is relevant."""
        return replace(selection, empty_below=None) if self.by_order else selection

    @property
    def scores(self) -> list[float | None]:
        """One score per candidate."""
        return [node.score for node in self.nodes]

    @property
    def best_first(self) -> list[NodeWithScore]:
        """The candidates in the order of their scores."""
        return [self.nodes[i] for i in rank_order(self.scores)]

    def pick(self, selection: Selection) -> list[NodeWithScore]:
        """The nodes of a selection, best first; passages that touch are one."""
        nodes = [self.nodes[i] for i in selection.indices]
        if not self.parts:
            return nodes
        return show_places(join(nodes, [self.parts[i] for i in selection.indices]))

    @property
    def scored(self) -> bool:
        """Whether any candidate has a score."""
        return any(node.score is not None for node in self.nodes)


class SageNodePostprocessor(SageComponent, BaseNodePostprocessor):
    """Reranks nodes, and keeps the best up to the point where the scores fall.

    By default the hybrid reranker makes probabilities of the scores the nodes come with, of whatever
    embedding model, and of the words they share with the question; it loads no model. After another reranker
    say ``reranker=None``: its scores are then those selected on. Nodes are never changed: what comes back are
    new `NodeWithScore` objects around the same nodes. Where there is no reranker and no node has a score
    there is nothing to go by, and all are returned.

    How much is kept, and how many tokens at most, is said by ``selection=SelectionConfig(...)``.

    Examples:
        >>> from llama_index.core.schema import NodeWithScore, TextNode
        >>> scored = {"a": 0.9, "b": 0.8, "c": 0.1}
        >>> nodes = [NodeWithScore(node=TextNode(text=t), score=s) for t, s in scored.items()]
        >>> paper = SelectionConfig(rule="gradient", min_k=1)
        >>> sage = SageNodePostprocessor(reranker=None, scale="probability", selection=paper)
        >>> [found.text for found in sage.postprocess_nodes(nodes, query_str="Why?")]
        ['a', 'b']
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", validate_assignment=True)

    reranker: Any = Field(
        default="hybrid",
        description="'hybrid': the retriever's scores and the words shared, as one probability, without a "
        "model. None: select on the scores that are there, as after another reranker. Or an object with "
        "score(query, texts) and a scale (`sage_core.ranking.Reranker`), or a reranker of LlamaIndex's "
        "own, whose top_n then does not matter.",
    )
    scale: ScaleName = Field(
        default="auto",
        description="What the nodes' scores are, or those of a reranker of LlamaIndex's: 'probability', "
        "'logit', 'cosine', 'unbounded', 'distance' (smaller is nearer, as FAISS's L2), or 'auto': told by "
        "their range; if they do not fall along the list, what nodes and question share decides which way "
        "they count.",
    )
    selection: Annotated[
        SelectionConfig, PlainValidator(_read_selection), PlainSerializer(SelectionConfig.to_dict)
    ] = Field(
        default_factory=SelectionConfig,
        description="How many nodes to keep: a `sage_core.selection.SelectionConfig`.",
    )
    passages: Literal["auto", "off"] = Field(
        default="auto",
        description="'auto': nodes of more than 300 tokens are cut into passages, and those are ranked and "
        "sent. 'off': whole nodes.",
    )

    # Kept, for it remembers the words of texts.
    _own: HybridReranker = PrivateAttr(default_factory=HybridReranker)
    _told: set[str] = PrivateAttr(default_factory=set)
    # Whether the nodes are from our own search: higher is better, and what it does not return is worse.
    _searched: bool = PrivateAttr(default=False)

    @classmethod
    def class_name(cls) -> str:
        """Name in serialized form."""
        return "SageNodePostprocessor"

    @field_validator("reranker", mode="before")
    @classmethod
    def _read_reranker(cls, value: Any) -> Any:
        if value is None or value == "hybrid" or isinstance(value, Reranker):
            return value
        if isinstance(value, Mapping) and "custom" in value:
            raise InputError(
                f"it was saved with a reranker object ({value['custom']}): pass it again, "
                "SageNodePostprocessor.from_dict(data, reranker=...)"
            )
        if isinstance(value, BaseNodePostprocessor) and not isinstance(value, SageNodePostprocessor):
            return value
        raise InputError(
            f"no reranker {value!r:.80}: it is 'hybrid', None, a reranker of LlamaIndex, or an object with "
            "score(query, texts) and a scale"
        )

    @field_serializer("reranker")
    def _write_reranker(self, value: Any) -> Any:
        if value is None or isinstance(value, str):
            return value
        return {"custom": name_of(value)}

    @property
    def _scorer(self) -> Any:
        return self._own if self.reranker == "hybrid" else self.reranker

    def _ranking(self, nodes: Sequence[NodeWithScore], query_bundle: QueryBundle | None) -> Steps[Ranking]:
        # Retrievers return 2 nodes unless told otherwise; a small index of ours has no more.
        if 1 < len(nodes) <= self.selection.effective_min_k and not self._searched:
            self._warn(
                "there is little to select from so few candidates, and an answer may be lost: raise the "
                "retriever's similarity_top_k (some 60)"
            )
        scorer, question = self._scorer, "" if query_bundle is None else query_bundle.query_str
        ranker = PassageRanker(scorer if isinstance(scorer, HybridReranker) else self._own)
        found = Candidates(question, retrieved(nodes), ranker)
        reading = yield from Compute(self._reading, found)
        if scorer is None:
            return self._ranked(found, nodes, reading.scores, reading.scale)
        if query_bundle is None:
            raise InputError(
                "reranking needs the question: pass query_str or query_bundle; with reranker=None it selects "
                "on the scores that the nodes have"
            )
        standings = found.standings(reading.scores, searched=self._searched)
        cut = (yield from Compute(found.cut, standings)) if self.passages == "auto" else None
        if cut is None:
            read = yield from self._scores(nodes, standings, query_bundle)
            scores = yield from Compute(found.vouched, read)
            return self._ranked(found, nodes, scores, read.scale, found.unscored)
        parts = [Part(nodes[p.node].node, p.start, p.end, p.path, found.offset(p.node)) for p in cut.passages]
        read, made = ScoreReading([*cut.probabilities], "probability"), [part.made() for part in parts]
        if not isinstance(scorer, HybridReranker):
            passages = [NodeWithScore(node=node) for node in made]
            read = yield from self._scores(passages, read.scores, query_bundle)
        scores = yield from Compute(found.vouched, read, cut)
        ranked = [NodeWithScore(node=node, score=s) for node, s in zip(made, scores, strict=True)]
        return Ranking(tuple(show_places(ranked)), read.scale, found.unscored, tuple(parts))

    def _reading(self, found: Candidates) -> ScoreReading:
        """The scores that the nodes came with, higher is better."""
        # Of a reranker of LlamaIndex's the scale is that of its own scores.
        scale = "auto" if isinstance(self.reranker, BaseNodePostprocessor) else self.scale
        reading, overruled = found.reading(scale, searched=self._searched)
        if overruled:
            self._warn(OVERRULED)
        return reading

    def _scores(
        self, nodes: Sequence[NodeWithScore], known: Sequence[float | None], bundle: QueryBundle
    ) -> Steps[ScoreReading]:
        """What the reranker says of the nodes."""
        scorer = self._scorer
        if isinstance(scorer, BaseNodePostprocessor):
            # On copies without the search's scores, so that none of those is taken for the reranker's.
            unscored = [NodeWithScore(node=n.node) for n in nodes]
            unlimited = with_unlimited_top_n(scorer, len(unscored))
            ranked = yield from postprocessed(unlimited, unscored, bundle)
            return read_scores(_scores_of(type(scorer).__name__, nodes, ranked), self.scale)
        texts = [n.node.get_content(metadata_mode=MetadataMode.NONE) for n in nodes]
        headed = [n.node.get_content(metadata_mode=MetadataMode.EMBED) for n in nodes]
        scores = yield from Call(
            score_candidates, ascore_candidates, scorer, bundle.query_str, texts, known, headed=headed
        )
        return read_scores(scores, scorer.scale, source=f"scores of {name_of(scorer)}")

    @staticmethod
    def _ranked(
        found: Candidates,
        nodes: Sequence[NodeWithScore],
        scores: Sequence[float | None],
        scale: Scale,
        by_order: bool = False,
    ) -> Ranking:
        """The nodes without repetitions, with these scores."""
        kept = [(nodes[i].node, finite_score(scores[i])) for i in found.distinct(scores)]
        # Columns, lead-ins and headings reach whatever LLM reads the nodes, and are counted.
        shown = show_places([NodeWithScore(node=node, score=score) for node, score in kept])
        return Ranking(tuple(shown), scale, by_order)

    @dispatcher.span
    def rerank(self, nodes: Sequence[NodeWithScore], query_bundle: QueryBundle | None = None) -> Ranking:
        """Score the nodes, leaving out repetitions only: by the reranker, or by the scores they have.

        A step of its own in traces, with the events of a reranker.

        Raises:
            InputError: If there is a reranker and no query.
        """
        with self.events(nodes, query_bundle) as ended:
            ranked = drive(self._ranking(nodes, query_bundle))
            ended(ranked.best_first)
        return ranked

    @dispatcher.span
    async def arerank(
        self, nodes: Sequence[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> Ranking:
        """`rerank` without blocking the event loop."""
        with self.events(nodes, query_bundle) as ended:
            ranked = await adrive(self._ranking(nodes, query_bundle))
            ended(ranked.best_first)
        return ranked

    @dispatcher.span
    def select(
        self,
        scores: Sequence[float | None],
        scale: Scale,
        tokens: Sequence[int] | None = None,
        selection: SelectionConfig | None = None,
    ) -> Selection:
        """What the rule keeps of these scores, and why: a step of its own in traces."""
        return (selection or self.selection).select(scores, scale, tokens)

    @dispatcher.span
    def cut(self, ranking: Ranking) -> list[NodeWithScore]:
        """The nodes to keep of a ranking: a step of its own in traces."""
        if not ranking.scored:
            if ranking.nodes:
                self._warn("no node has a score: all are kept")
            return list(ranking.nodes)
        # Counted only for rules that look at them: it takes longer than the rule itself.
        limits = ranking.selecting(self.selection)
        tokens = tokens_of(ranking.nodes) if limits.counts_tokens else None
        chosen = self.select(ranking.scores, ranking.scale, tokens, limits)
        logger.debug("kept %d of %d nodes: %s", chosen.cut, chosen.candidates, chosen.reason)
        return ranking.pick(chosen)

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return drive(self._postprocessing(nodes, query_bundle))

    @dispatcher.span
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return await adrive(self._postprocessing(nodes, query_bundle))

    def _postprocessing(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None
    ) -> Steps[list[NodeWithScore]]:
        if not (nodes := [n if isinstance(n, NodeWithScore) else NodeWithScore(node=n) for n in nodes]):
            return []
        with self.events(nodes, query_bundle) as ended:
            ranked = yield from self._ranking(nodes, query_bundle)
            selected = self.cut(ranked)
            ended(selected)
        return selected

    @contextmanager
    def events(self, nodes: Sequence[NodeWithScore], query_bundle: QueryBundle | None) -> Iterator[Ended]:
        """Tell both of LlamaIndex's event systems of a reranking; call what is yielded with the result."""
        max_k = self.selection.max_k
        most = len(nodes) if max_k is None else min(max_k, len(nodes))
        scorer = self if self._scorer is None else self._scorer
        name = name_of(scorer)
        dispatcher.event(ReRankStartEvent(query=query_bundle, nodes=list(nodes), top_n=most, model_name=name))
        payload: dict[str, Any] = {
            EventPayload.NODES: list(nodes),
            EventPayload.MODEL_NAME: name,
            EventPayload.QUERY_STR: query_bundle.query_str if query_bundle is not None else "",
            EventPayload.TOP_K: most,
        }
        with self.callback_manager.event(CBEventType.RERANKING, payload=payload) as event:

            def ended(selected: Sequence[NodeWithScore]) -> None:
                event.on_end(payload={EventPayload.NODES: list(selected)})
                dispatcher.event(ReRankEndEvent(nodes=list(selected)))

            yield ended

    def _warn(self, message: str) -> None:
        """Warn once: what is wrong with one question is wrong with all."""
        if message not in self._told:
            self._told.add(message)
            logger.warning(message)


def postprocessed(
    postprocessor: BaseNodePostprocessor, nodes: list[NodeWithScore], query_bundle: QueryBundle | None
) -> Call[list[NodeWithScore]]:
    """The call of another postprocessor."""
    run, arun = postprocessor.postprocess_nodes, postprocessor.apostprocess_nodes
    return Call(run, arun, nodes, query_bundle=query_bundle)


def tokens_of(nodes: Sequence[NodeWithScore]) -> list[int]:
    """Tokens of each node as the LLM sees it, of a passage without its document; as nodes are sized."""
    read = [unnamed(n.node).get_content(metadata_mode=MetadataMode.LLM) for n in nodes]
    return text_counter().count_many(read)


def _scores_of(
    name: str, nodes: Sequence[NodeWithScore], ranked: Sequence[NodeWithScore]
) -> list[float | None]:
    """One score for each node; a node that the reranker left out has none, and ranks last.

    Raises:
        InputError: If it sets no scores.
    """
    places: dict[str, deque[int]] = defaultdict(deque)  # of nodes with the same id, in their order
    for i, node in enumerate(nodes):
        places[node.node.node_id].append(i)
    # Fusion may give one node twice: each result takes the next place of its id.
    results = [(queue.popleft(), n.score) for n in ranked if (queue := places[n.node.node_id])]
    try:
        scores = collected_scores(name, results)
    except InputError as error:
        raise InputError(f"{error}: put it into node_postprocessors, before or after this one") from None
    return list(map(scores.get, range(len(nodes))))
