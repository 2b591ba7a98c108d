"""Lets an LLM see where each node is from."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index.core.schema import BaseNode, NodeWithScore

from sage_core.text.outline import PATH_KEY, TITLE_KEY, source_names

# What loaders call the file or page that a document came from.
SOURCE_KEYS = ("file_name", "source", "file_path", "url")


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
