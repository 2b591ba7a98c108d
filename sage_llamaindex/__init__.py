"""sage-rag for LlamaIndex: a node parser, a retriever, a node postprocessor and a query engine.

    from sage_llamaindex import SageNodeParser, SageQueryEngine, SageRetriever

Names are loaded when first used, so that importing this package alone costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sage_core._lazy import lazy_names

if TYPE_CHECKING:
    from sage_llamaindex._question import MultipleChoice, SageFeedbackEvent
    from sage_llamaindex.embedding import MiniLMEmbedding
    from sage_llamaindex.grounded import SageGroundedEngine, verdict_of
    from sage_llamaindex.inspection import ainspect, inspect
    from sage_llamaindex.node_parser import SageNodeParser
    from sage_llamaindex.postprocessor import SageNodePostprocessor
    from sage_llamaindex.query_engine import SageQueryEngine, feedback_of
    from sage_llamaindex.retriever import SageRetriever

__all__ = [
    "MiniLMEmbedding",
    "MultipleChoice",
    "SageFeedbackEvent",
    "SageGroundedEngine",
    "SageNodeParser",
    "SageNodePostprocessor",
    "SageQueryEngine",
    "SageRetriever",
    "ainspect",
    "feedback_of",
    "inspect",
    "verdict_of",
]

_HOMES = {
    "_question": "MultipleChoice SageFeedbackEvent",
    "embedding": "MiniLMEmbedding",
    "grounded": "SageGroundedEngine verdict_of",
    "inspection": "ainspect inspect",
    "node_parser": "SageNodeParser",
    "postprocessor": "SageNodePostprocessor",
    "query_engine": "SageQueryEngine feedback_of",
    "retriever": "SageRetriever",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES, ("llama_index",), "llamaindex")
