"""LlamaIndex's own rerankers, such as `SentenceTransformerRerank` and `LLMRerank`, as a source of scores."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

from sage_core.errors import InputError
from sage_core.selection.scales import Scale
from sage_llamaindex._scores import ScaleName, guess_scale, plain_score


class PostprocessorScores:
    """Asks a node postprocessor for the scores of all nodes, whatever its own ``top_n``.

    A node that it leaves out has no score: it ranks last and never counts as evidence.

    Args:
        postprocessor: Sets `NodeWithScore.score`; it is called on copies.
        scale: What its scores are.
    """

    def __init__(self, postprocessor: BaseNodePostprocessor, scale: ScaleName) -> None:
        self._postprocessor = postprocessor
        self._scale = scale
        self.name = type(postprocessor).__name__

    def score_nodes(
        self, nodes: Sequence[NodeWithScore], query_bundle: QueryBundle
    ) -> tuple[list[float | None], Scale]:
        """One score per node, and what they are.

        Raises:
            InputError: Where the postprocessor sets no scores.
        """
        if not nodes:
            return self._read(nodes, [])
        return self._read(nodes, self._for(nodes).postprocess_nodes(_unscored(nodes), query_bundle))

    async def ascore_nodes(
        self, nodes: Sequence[NodeWithScore], query_bundle: QueryBundle
    ) -> tuple[list[float | None], Scale]:
        """`score_nodes` without blocking the event loop."""
        if not nodes:
            return self._read(nodes, [])
        given = await self._for(nodes).apostprocess_nodes(_unscored(nodes), query_bundle)
        return self._read(nodes, given)

    def _for(self, nodes: Sequence[NodeWithScore]) -> BaseNodePostprocessor:
        """The postprocessor, or a copy that returns as many nodes as it is given."""
        top_n = getattr(self._postprocessor, "top_n", None)
        if not isinstance(top_n, int) or top_n >= len(nodes):
            return self._postprocessor
        return self._postprocessor.model_copy(update={"top_n": len(nodes)})

    def _read(
        self, nodes: Sequence[NodeWithScore], given: Sequence[NodeWithScore]
    ) -> tuple[list[float | None], Scale]:
        by_id: dict[str, deque[float | None]] = defaultdict(deque)
        for node in given:
            by_id[node.node.node_id].append(plain_score(node.score))
        if given and all(node.score is None for node in given):
            raise InputError(
                f"{self.name} set no scores, so it is no reranker: put it into node_postprocessors, "
                "before or after this one"
            )
        scores = [queue.popleft() if (queue := by_id[n.node.node_id]) else None for n in nodes]
        return scores, guess_scale(scores) if self._scale == "auto" else self._scale


def _unscored(nodes: Sequence[NodeWithScore]) -> list[NodeWithScore]:
    """Copies without the retriever's scores, so that none of those is taken for the reranker's."""
    return [NodeWithScore(node=n.node) for n in nodes]
