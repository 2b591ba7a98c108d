"""Which nodes stand beside each other in their document, and what names that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from llama_index.core.schema import BaseNode, MetadataMode, NodeRelationship, RelatedNodeInfo

from sage_core.passages import Place, proven_places
from sage_core.ranking.links import Titled
from sage_core.ranking.neighbors import Links, link, link_ids
from sage_core.text.outline import title_of

_BEFORE, _AFTER = NodeRelationship.PREVIOUS, NodeRelationship.NEXT


def neighbors_of(nodes: Sequence[BaseNode]) -> list[Links]:
    """Each node's neighbors among ``nodes``: by its relationships; without any, by document and offsets."""
    by_id = link_ids(
        [node.node_id for node in nodes],
        [_related(node, _BEFORE) for node in nodes],
        [_related(node, _AFTER) for node in nodes],
    )
    by_place = link(places_of(nodes))
    # What the parser linked is surer than offsets, which parsers with windows make overlap.
    return [
        a if a != Links() or _linked(node) else b for node, a, b in zip(nodes, by_id, by_place, strict=True)
    ]


def places_of(nodes: Sequence[BaseNode]) -> list[Place | None]:
    """Where each node stands in its document, if that is proven; see `proven_places`.

    Offsets of a node whose text was replaced, or that is cut from another node, count in something else than
    the document. So do those of a second parser: its nodes have a node before them, and none behind.
    """
    with_next = {node.ref_doc_id for node in nodes if _related(node, _AFTER)}
    ends = Counter(n.ref_doc_id for n in nodes if _related(n, _BEFORE) and not _related(n, _AFTER))
    texts = [node.get_content(metadata_mode=MetadataMode.NONE) for node in nodes]
    starts: list[int | None] = []
    for node, text in zip(nodes, texts, strict=True):
        start, end = getattr(node, "start_char_idx", None), getattr(node, "end_char_idx", None)
        exact = start is not None and end is not None and end - start == len(text)
        torn = NodeRelationship.PARENT in node.relationships or NodeRelationship.CHILD in node.relationships
        # The last node of a document is the only one without another behind it.
        one_parser = ends[node.ref_doc_id] <= (node.ref_doc_id in with_next)
        starts.append(start if exact and not torn and one_parser else None)
    return proven_places([node.ref_doc_id for node in nodes], starts, texts)


def _linked(node: BaseNode) -> bool:
    return _BEFORE in node.relationships or _AFTER in node.relationships


def _related(node: BaseNode, side: NodeRelationship) -> str | None:
    related = node.relationships.get(side)
    return related.node_id if isinstance(related, RelatedNodeInfo) else None


def titled(node: BaseNode) -> Titled:
    """A node with what names its document."""
    sources = (node.metadata.get(key) for key in ("file_name", "source"))
    source = next((value for value in sources if isinstance(value, str) and value), "")
    start = getattr(node, "start_char_idx", None)
    first = NodeRelationship.PREVIOUS not in node.relationships and not start
    text = node.get_content(metadata_mode=MetadataMode.NONE)
    document = node.ref_doc_id or source or None
    return Titled(text, document, title_of(node.metadata), source, first)
