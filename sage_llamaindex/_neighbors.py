"""Which nodes stand beside each other in their document, and what names that."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index.core.schema import BaseNode, MetadataMode, NodeRelationship, RelatedNodeInfo

from sage_core.ranking.links import Titled
from sage_core.ranking.neighbors import Links, Place, link, link_ids


def neighbors_of(nodes: Sequence[BaseNode]) -> list[Links]:
    """Each node's neighbors among ``nodes``: by its relationships; without any, by document and offsets."""

    def named(node: BaseNode, side: NodeRelationship) -> str | None:
        related = node.relationships.get(side)
        return related.node_id if isinstance(related, RelatedNodeInfo) else None

    def place(node: BaseNode) -> Place | None:
        start, end = getattr(node, "start_char_idx", None), getattr(node, "end_char_idx", None)
        if node.ref_doc_id is None or start is None or end is None:
            return None
        return Place(node.ref_doc_id, start, end)

    before, after = NodeRelationship.PREVIOUS, NodeRelationship.NEXT
    by_id = link_ids(
        [node.node_id for node in nodes],
        [named(node, before) for node in nodes],
        [named(node, after) for node in nodes],
    )
    by_place = link([place(node) for node in nodes])
    return [
        # What the parser linked is surer than offsets, which parsers with windows make overlap.
        by_id[i] if before in node.relationships or after in node.relationships else by_place[i]
        for i, node in enumerate(nodes)
    ]


def titled(node: BaseNode) -> Titled:
    """A node with what names its document."""
    title, sources = node.metadata.get("title"), (node.metadata.get(key) for key in ("file_name", "source"))
    source = next((value for value in sources if isinstance(value, str) and value), "")
    start = getattr(node, "start_char_idx", None)
    first = NodeRelationship.PREVIOUS not in node.relationships and not start
    text = node.get_content(metadata_mode=MetadataMode.NONE)
    document = node.ref_doc_id or source or None
    return Titled(text, document, title if isinstance(title, str) else None, source, first)
