"""Warns, once, where a stock retriever returns its usual two of the parser's short nodes."""

from __future__ import annotations

import logging
from typing import Any

from llama_index.core.instrumentation.events.retrieval import RetrievalEndEvent
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.base import BaseEvent
from llama_index_instrumentation.event_handlers import BaseEventHandler

logger = logging.getLogger("sage_llamaindex.node_parser")

# What LlamaIndex's vector retrievers return unless told otherwise.
_STOCK_TOP_K = 2
# Of all nodes in this process, below which two may well be enough.
_MANY_NODES = 20
# Characters of a node that the parser makes by default, at most some 130 tokens.
_SHORT = 1_000


class FewNodesWarning(BaseEventHandler):
    """Sees what retrievers return, until the first warning."""

    nodes: int = 0
    warned: bool = False

    @classmethod
    def class_name(cls) -> str:
        """Name in serialized form."""
        return "FewNodesWarning"

    def watch(self, nodes: int) -> None:
        """Note that the parser made so many nodes."""
        self.nodes += nodes
        root = get_dispatcher()
        if not self.warned and self.nodes >= _MANY_NODES and self not in root.event_handlers:
            root.add_event_handler(self)

    def handle(self, event: BaseEvent, **_: Any) -> None:
        """Look at the end of a retrieval."""
        if not isinstance(event, RetrievalEndEvent) or self.warned or len(event.nodes) != _STOCK_TOP_K:
            return
        if not str(event.span_id or "").startswith("VectorIndexRetriever"):
            return
        if all(len(node.node.get_content()) <= _SHORT for node in event.nodes):
            self.warned = True
            logger.warning(
                "a retriever returned %d short nodes, a fraction of what two of 1,024 tokens hold: give it "
                "similarity_top_k=17 for as much text, or let SageRetriever.from_index(index) or "
                "SageQueryEngine.from_index(index) choose how many",
                len(event.nodes),
            )
            root = get_dispatcher()
            root.event_handlers = [handler for handler in root.event_handlers if handler is not self]


few_nodes = FewNodesWarning()
