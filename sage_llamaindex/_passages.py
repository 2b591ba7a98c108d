"""Passages as nodes of LlamaIndex's, which fusion, merging, citation and replacement leave as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from llama_index.core.schema import BaseNode, MetadataMode, NodeRelationship, NodeWithScore, TextNode

from sage_core.passages import joined, plain_copy, reading_order
from sage_core.text.outline import PATH_KEY, TITLE_KEY
from sage_llamaindex._neighbors import LONGER, SOURCE_KEYS

NODE_KEY = "node_id"
"""Metadata of a passage: the id of the node that it is cut from."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a passage is of: ``text[start:end]`` of a node, which starts at ``offset`` in its document."""

    node: BaseNode
    start: int
    end: int
    path: str
    offset: int | None

    def made(self) -> BaseNode:
        """The passage as a node, or the node itself if it is all of it."""
        node = self.node
        text = node.get_content(metadata_mode=MetadataMode.NONE)
        if (self.start, self.end) == (0, len(text)) or not isinstance(node, TextNode):
            return node
        metadata = {k: plain_copy(v) for k, v in node.metadata.items() if k not in LONGER}
        metadata |= {PATH_KEY: self.path} if self.path else {}
        related = {NodeRelationship.SOURCE: node.source_node} if node.source_node is not None else {}
        place = None if self.offset is None else (self.offset + self.start, self.offset + self.end)
        # Made anew, not copied: a copy shares metadata with the node, and an index would take its vector.
        return TextNode(
            # The same for every question: retrievers drop what comes twice under one id.
            id_=f"{node.node_id}-{self.start}-{self.end}",
            text=text[self.start : self.end],
            metadata={**metadata, NODE_KEY: node.node_id},
            relationships=related,
            start_char_idx=place and place[0],
            end_char_idx=place and place[1],
            excluded_embed_metadata_keys=[*node.excluded_embed_metadata_keys, NODE_KEY],
            excluded_llm_metadata_keys=[*node.excluded_llm_metadata_keys, NODE_KEY],
            metadata_separator=node.metadata_separator,
            metadata_template=node.metadata_template,
            text_template=node.text_template,
            mimetype=node.mimetype,
        )


def join(nodes: Sequence[NodeWithScore], parts: Sequence[Part]) -> list[NodeWithScore]:
    """The passages with those that touch in their node as one, which has the best score; best first."""
    texts = [part.node.get_content(metadata_mode=MetadataMode.NONE) for part in parts]
    found: list[NodeWithScore] = []
    for group in joined([(p.node.node_id, p.start, p.end) for p in parts], texts):
        first, last = parts[group[0]], parts[group[-1]]
        node = nodes[group[0]].node
        if len(group) > 1:
            node = Part(first.node, first.start, last.end, first.path, first.offset).made()
        scores: list[Any] = [nodes[i].score for i in group]
        found.append(NodeWithScore(node=node, score=max((s for s in scores if s is not None), default=None)))
    return found


def unnamed(node: BaseNode) -> BaseNode:
    """A passage that shows an LLM its headings, not which document it is of; other nodes as they are."""
    if NODE_KEY not in node.metadata:
        return node
    hidden = [*node.excluded_llm_metadata_keys, *SOURCE_KEYS, TITLE_KEY]
    return node.model_copy(update={"excluded_llm_metadata_keys": hidden})


def as_read(nodes: Sequence[NodeWithScore], *, one_a_node: bool) -> list[NodeWithScore]:
    """The nodes of a selection, passages of a document in its order.

    With ``one_a_node`` the passages of a node are one text: a synthesizer may call its LLM for each node.
    """
    cut = any(NODE_KEY in n.node.metadata for n in nodes)
    sources = [(cut and n.node.ref_doc_id) or n.node.node_id for n in nodes]
    starts = [n.node.start_char_idx if isinstance(n.node, TextNode) else None for n in nodes]
    read: list[NodeWithScore] = []
    for n in (nodes[i] for i in reading_order(sources, starts)):
        before, own = read[-1] if read else n, n.node.metadata.get(NODE_KEY)
        if one_a_node and read and own is not None and before.node.metadata.get(NODE_KEY) == own:
            texts = [m.node.get_content(metadata_mode=MetadataMode.NONE) for m in (before, n)]
            both = before.node.model_copy(update={"start_char_idx": None, "end_char_idx": None})
            both.set_content("\n[...]\n".join(texts))
            n = NodeWithScore(node=both, score=max(before.score or 0.0, n.score or 0.0))
            read.pop()
        read.append(n)
    return read


def named_once(nodes: Sequence[NodeWithScore]) -> list[NodeWithScore]:
    """The nodes, of whose passages one behind another of its document does not name it again."""
    named = [*nodes[:1]]
    for before, n in pairwise(nodes):
        same = n.node.ref_doc_id is not None and n.node.ref_doc_id == before.node.ref_doc_id
        named.append(NodeWithScore(node=unnamed(n.node), score=n.score) if same else n)
    return named
