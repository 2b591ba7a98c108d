"""`SagePruner`: drop the sentences of nodes that do not help with the question."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from pydantic import Field, PrivateAttr

from sage_core.errors import InputError
from sage_core.selection import Scale, ScaleName, read_scores
from sage_core.verify import Pruned, SentencePruner
from sage_llamaindex._component import SageComponent


class SagePruner(SageComponent, BaseNodePostprocessor):
    """Replaces each node by the slices of it that help with the question; English, no LLM.

    Goes after what selects nodes, such as `SageNodePostprocessor`, whose ``prune=True`` is short for it.
    Slices are new `TextNode` objects with exact text, offsets, the metadata and the source of their node, at
    least one for each; the nodes passed in are never changed. Nodes without text pass through.

    Examples:
        >>> from llama_index.core.schema import NodeWithScore, TextNode
        >>> text = "The ferry leaves at seven. Seals live in the harbor. Bees need flowers in spring."
        >>> nodes = [NodeWithScore(node=TextNode(text=text, start_char_idx=100), score=0.9)]
        >>> pruner = SagePruner(threshold=0.5)
        >>> [found] = pruner.postprocess_nodes(nodes, query_str="When does the ferry leave?")
        >>> found.text, found.node.start_char_idx, found.node.end_char_idx
        ('The ferry leaves at seven.', 100, 126)
    """

    threshold: float | None = Field(
        default=None,
        description="Probability of being evidence below which a sentence goes. None: the measured one.",
    )
    scale: ScaleName = Field(
        default="auto", description="What the scores of the nodes are; see SageNodePostprocessor."
    )

    _pruner: SentencePruner = PrivateAttr()
    _advice: ClassVar[Mapping[str, str]] = {"percentile_cutoff": "use `threshold`"}

    def model_post_init(self, context: Any) -> None:
        """Check the settings."""
        super().model_post_init(context)
        self._pruner = SentencePruner(threshold=self.threshold)

    @classmethod
    def class_name(cls) -> str:
        """Name in serialized form."""
        return "SagePruner"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if not nodes:
            return []
        if query_bundle is None:
            raise InputError("what helps depends on the question: pass query_str or query_bundle")
        return [piece for pieces in self.slices(nodes, query_bundle) for piece in pieces]

    def slices(self, nodes: Sequence[NodeWithScore], query_bundle: QueryBundle) -> list[list[NodeWithScore]]:
        """What is left of each node: itself where nothing was dropped, else a node for every slice."""
        texts = [_text(node) for node in nodes]
        parts = self._pruner.prune(query_bundle.query_str, texts, *self._scores(nodes))
        return [_slices(node, part) for node, part in zip(nodes, parts, strict=True)]

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._postprocess_nodes, nodes, query_bundle)

    def _scores(self, nodes: Sequence[NodeWithScore]) -> tuple[list[float | None] | None, Scale]:
        """The nodes' scores and what they are; None if no node has one."""
        # The pruner then goes by the order, as a ranked list has it.
        if all(node.score is None for node in nodes):
            return None, "probability"
        read = read_scores([node.score for node in nodes], self.scale)
        return read.scores, read.scale


def _text(node: NodeWithScore) -> str:
    return node.node.text if isinstance(node.node, TextNode) else ""


def _slices(scored: NodeWithScore, part: Pruned) -> list[NodeWithScore]:
    """The node itself where nothing was dropped, else a node for every slice."""
    node = scored.node
    if not part.dropped or not isinstance(node, TextNode):
        return [scored]
    placed = node.start_char_idx is not None
    result = []
    for span in part.kept:
        start = (node.start_char_idx or 0) + span.start
        update = {
            "id_": f"{node.node_id}-{span.start}-{span.end}",
            "text": span.of(node.text),
            "start_char_idx": start if placed else None,
            "end_char_idx": start + span.end - span.start if placed else None,
            # That of the whole node; a store that is handed the slice must make its own.
            "embedding": None,
        }
        result.append(NodeWithScore(node=node.model_copy(update=update), score=scored.score))
    return result
