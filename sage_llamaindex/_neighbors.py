"""Where nodes stand: beside which others, in which document, and what shows that to an LLM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from llama_index.core.schema import (
    BaseNode,
    ImageNode,
    IndexNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)

from sage_core.passages import Node, Place, proven_places
from sage_core.ranking.links import Titled
from sage_core.ranking.neighbors import Links, link_ids
from sage_core.ranking.retrieved import Retrieved
from sage_core.text.outline import PATH_KEY, TITLE_KEY, source_names, title_of
from sage_llamaindex.node_parser import has_media

# What loaders call the file or page that a document came from.
SOURCE_KEYS = ("file_name", "source", "file_path", "url")
# Sentence windows: a postprocessor would put the longer text in the passage's place.
LONGER = frozenset({"window", "original_text"})
_BEFORE, _AFTER = NodeRelationship.PREVIOUS, NodeRelationship.NEXT


def retrieved(scored: Sequence[NodeWithScore]) -> list[Retrieved]:
    """The nodes of a search as the core ranks them."""
    nodes = [n.node for n in scored]
    places = places_of(nodes)
    return [
        Retrieved(
            Node(
                node.get_content(metadata_mode=MetadataMode.NONE),
                {k: v for k, v in node.metadata.items() if k not in LONGER},
                place,
                link.previous,
                node.ref_doc_id,
                not isinstance(node, TextNode) or isinstance(node, ImageNode | IndexNode) or has_media(node),
            ),
            # What the embedding model saw, as LlamaIndex's own rerankers read it.
            node.get_content(metadata_mode=MetadataMode.EMBED),
            titled(node),
            link,
            node.node_id,
            n.score,
        )
        for n, node, place, link in zip(scored, nodes, places, neighbors_of(nodes), strict=True)
    ]


def neighbors_of(nodes: Sequence[BaseNode]) -> list[Links]:
    """Each node's neighbors among ``nodes``: by its relationships; without any, by where it stands."""
    places, ids = places_of(nodes), [node.node_id for node in nodes]
    before, after = [_related(node, _BEFORE) for node in nodes], [_related(node, _AFTER) for node in nodes]
    return link_ids(ids, before, after, places)


def places_of(nodes: Sequence[BaseNode]) -> list[Place | None]:
    """Where each node stands in its document, if that is proven; see `proven_places`.

    A list is of one parser. So if one node shows that offsets count in something else than the document,
    those of all do: its text was replaced, it is cut from another node, stands beside one of another kind,
    or begins the document behind another. A second parser's nodes have one before them, and none behind.
    """
    ends = Counter(n.ref_doc_id for n in nodes if _related(n, _BEFORE) and not _related(n, _AFTER))
    if max(ends.values(), default=0) > 1 or not all(map(_in_document, nodes)):
        return [None] * len(nodes)
    # One end may be the document's last node, if a node with another behind it is there too.
    with_next = {node.ref_doc_id for node in nodes if _related(node, _AFTER)}
    frames = [n.ref_doc_id if ends[n.ref_doc_id] <= (n.ref_doc_id in with_next) else None for n in nodes]
    starts = [getattr(node, "start_char_idx", None) for node in nodes]
    texts = [node.get_content(metadata_mode=MetadataMode.NONE) for node in nodes]
    return proven_places(frames, starts, texts)


def _in_document(node: BaseNode) -> bool:
    """Whether a node's offsets, if it has any, may count in its document."""
    start, end = getattr(node, "start_char_idx", None), getattr(node, "end_char_idx", None)
    if start is None or end is None:
        return True
    torn = NodeRelationship.PARENT in node.relationships or NodeRelationship.CHILD in node.relationships
    beside = [node.relationships.get(side) for side in (_BEFORE, _AFTER)]
    mixed = any(isinstance(n, RelatedNodeInfo) and n.node_type not in (None, node.get_type()) for n in beside)
    exact = end - start == len(node.get_content(metadata_mode=MetadataMode.NONE))
    return exact and not (torn or mixed or (start == 0 and beside[0]))


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


def show_places(nodes: Sequence[NodeWithScore]) -> list[NodeWithScore]:
    """The nodes with title and headings in what an LLM is shown, and the source where titles repeat.

    Args:
        nodes: Never changed; those that need it are replaced by copies, whose text, metadata and id are the
            same.
    """
    titles = [n.node.metadata.get(TITLE_KEY) for n in nodes]
    sources = [_source(n.node) for n in nodes]
    names = source_names((t, s) for t, s in zip(titles, sources, strict=True) if s is not None)
    return [_shown(n, source in names) for n, source in zip(nodes, sources, strict=True)]


def _source(node: BaseNode) -> str | None:
    source = next((node.metadata[k] for k in SOURCE_KEYS if isinstance(node.metadata.get(k), str)), None)
    return source or node.ref_doc_id


def _shown(scored: NodeWithScore, with_source: bool) -> NodeWithScore:
    node = scored.node
    hidden = node.excluded_llm_metadata_keys
    show = {TITLE_KEY, PATH_KEY}
    if with_source:
        known = [key for key in SOURCE_KEYS if key in node.metadata]
        # One is enough: a path in every form takes tokens from the passages.
        show |= set() if any(key not in hidden for key in known) else set(known[:1])
    if not show.intersection(hidden, node.metadata):
        return scored
    # The list is replaced, not changed: the copy would share it with the caller's node.
    update = {"excluded_llm_metadata_keys": [key for key in hidden if key not in show]}
    return NodeWithScore(node=node.model_copy(update=update), score=scored.score)
