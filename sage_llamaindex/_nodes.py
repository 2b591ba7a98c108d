"""From one LlamaIndex node to its chunk nodes, whatever kind of node it is."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from llama_index.core.schema import (
    BaseNode,
    Document,
    ImageDocument,
    ImageNode,
    IndexNode,
    MediaResource,
    MetadataMode,
    Node,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)

from sage_core.errors import InputError
from sage_core.text.spans import Span
from sage_core.text.tokens import TokenCounter


def text_of(node: BaseNode) -> str:
    """The node's own text, without metadata.

    Raises:
        InputError: For a kind of node that carries no text.
    """
    if not isinstance(node, Node | TextNode):
        raise InputError(f"cannot split a {type(node).__name__}: pass Document, Node or TextNode objects")
    return node.get_content(metadata_mode=MetadataMode.NONE)


def has_media(node: BaseNode) -> bool:
    """Whether the node carries an image, a sound or a video beside its text."""
    if isinstance(node, ImageNode):
        return any((node.image, node.image_path, node.image_url))
    if isinstance(node, Node):
        return any((node.image_resource, node.audio_resource, node.video_resource))
    return False


def metadata_tokens(nodes: Sequence[BaseNode], counter: TokenCounter) -> list[int]:
    """Tokens that metadata and template add to each chunk of ``nodes``, when embedded or shown to an LLM."""
    # One letter stands for the chunk, so that separators between metadata and text are counted.
    filled: list[str] = []
    for node in nodes:
        for mode in (MetadataMode.EMBED, MetadataMode.LLM):
            metadata = node.get_metadata_str(mode=mode).strip()
            template = node.text_template if isinstance(node, Node | TextNode) else ""
            filled.append(template.format(content="x", metadata_str=metadata).strip() if metadata else "x")
    counts = counter.count_many(filled)
    letter = counter.count("x")
    return [max(counts[i], counts[i + 1]) - letter for i in range(0, len(counts), 2)]


def source_of(node: BaseNode) -> RelatedNodeInfo:
    """What chunks of ``node`` name as their source: its own source if it is itself a part, else the node."""
    info = node.source_node or node.as_related_node_info()
    return info.model_copy(update={"metadata": copy.deepcopy(info.metadata)})


def offset_of(node: BaseNode, text: str) -> int | None:
    """Where ``text`` starts in the source that its chunks name; None where that cannot be known."""
    if node.source_node is None:
        return 0
    start, end = getattr(node, "start_char_idx", None), getattr(node, "end_char_idx", None)
    if start is None or end is None or end - start != len(text):
        return None
    return int(start)


def chunk_node(
    parent: BaseNode,
    text: str,
    node_id: str,
    source: RelatedNodeInfo,
    span: Span | None,
    include_metadata: bool,
) -> BaseNode:
    """One chunk of ``parent``, of the kind that keeps what the parent carries.

    Args:
        parent: The node that was split.
        text: The chunk's text.
        node_id: Its id.
        source: See `source_of`.
        span: Where the chunk lies in the source, if known.
        include_metadata: Whether the chunk gets a copy of the parent's metadata.
    """
    shared: dict[str, Any] = {
        "id_": node_id,
        "relationships": {NodeRelationship.SOURCE: source},
        "metadata": copy.deepcopy(parent.metadata) if include_metadata else {},
        "excluded_embed_metadata_keys": list(parent.excluded_embed_metadata_keys),
        "excluded_llm_metadata_keys": list(parent.excluded_llm_metadata_keys),
        "metadata_separator": parent.metadata_separator,
        "metadata_template": parent.metadata_template,
    }
    if isinstance(parent, Node | TextNode):
        shared["text_template"] = parent.text_template
    if isinstance(parent, Node) and has_media(parent) and not isinstance(parent, ImageDocument):
        return Node(
            text_resource=MediaResource(text=text),
            image_resource=parent.image_resource,
            audio_resource=parent.audio_resource,
            video_resource=parent.video_resource,
            **shared,
        )
    shared |= {
        "text": text,
        "start_char_idx": span.start if span else None,
        "end_char_idx": span.end if span else None,
    }
    if isinstance(parent, ImageDocument | ImageNode) and has_media(parent):
        return ImageNode(
            image=parent.image,
            image_path=parent.image_path,
            image_url=parent.image_url,
            image_mimetype=parent.image_mimetype,
            **shared,
        )
    if isinstance(parent, IndexNode):
        return IndexNode(index_id=parent.index_id, obj=parent.obj, **shared)
    if isinstance(parent, TextNode) and not isinstance(parent, Document):
        shared["mimetype"] = parent.mimetype
    return TextNode(**shared)


def link(nodes: Sequence[BaseNode]) -> None:
    """Set PREVIOUS and NEXT between neighbours that have the same source. Metadata must be final by now."""
    infos = [node.as_related_node_info() for node in nodes]
    sources = [node.ref_doc_id for node in nodes]
    for i in range(1, len(nodes)):
        if sources[i] is not None and sources[i] == sources[i - 1]:
            nodes[i].relationships[NodeRelationship.PREVIOUS] = infos[i - 1]
            nodes[i - 1].relationships[NodeRelationship.NEXT] = infos[i]
