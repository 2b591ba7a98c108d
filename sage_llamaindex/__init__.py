"""sage-rag for LlamaIndex: a node parser, a retriever, a node postprocessor and a query engine.

    from sage_llamaindex import SageNodeParser, SageQueryEngine, SageRetriever

Names are loaded when first used, so that importing this package alone costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sage_llamaindex.embedding import MiniLMEmbedding
    from sage_llamaindex.evaluator import LocalContextRelevancyEvaluator, LocalFaithfulnessEvaluator
    from sage_llamaindex.events import SageFeedbackEvent, SageMarkEvent
    from sage_llamaindex.grounded import SageGroundedEngine, verdict_of
    from sage_llamaindex.inspection import inspect, inspect_many
    from sage_llamaindex.node_parser import SageNodeParser
    from sage_llamaindex.postprocessor import SageNodePostprocessor
    from sage_llamaindex.pruner import SagePruner
    from sage_llamaindex.query_engine import SageQueryEngine, feedback_of, marks_of
    from sage_llamaindex.retriever import SageRetriever
    from sage_llamaindex.workflow import SageQueryEvent, SageRoundEvent, SageSentenceEvent, SageWorkflow

__all__ = [
    "LocalContextRelevancyEvaluator",
    "LocalFaithfulnessEvaluator",
    "MiniLMEmbedding",
    "SageFeedbackEvent",
    "SageGroundedEngine",
    "SageMarkEvent",
    "SageNodeParser",
    "SageNodePostprocessor",
    "SagePruner",
    "SageQueryEngine",
    "SageQueryEvent",
    "SageRetriever",
    "SageRoundEvent",
    "SageSentenceEvent",
    "SageWorkflow",
    "feedback_of",
    "inspect",
    "inspect_many",
    "marks_of",
    "verdict_of",
]

_HOMES = {
    "LocalContextRelevancyEvaluator": "evaluator",
    "LocalFaithfulnessEvaluator": "evaluator",
    "MiniLMEmbedding": "embedding",
    "SageFeedbackEvent": "events",
    "SageGroundedEngine": "grounded",
    "SageMarkEvent": "events",
    "SageNodeParser": "node_parser",
    "SageNodePostprocessor": "postprocessor",
    "SagePruner": "pruner",
    "SageQueryEngine": "query_engine",
    "SageQueryEvent": "workflow",
    "SageRetriever": "retriever",
    "SageRoundEvent": "workflow",
    "SageSentenceEvent": "workflow",
    "SageWorkflow": "workflow",
    "feedback_of": "query_engine",
    "inspect": "inspection",
    "inspect_many": "inspection",
    "marks_of": "query_engine",
    "verdict_of": "grounded",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_HOMES[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "llama_index":
            raise
        from sage_core.errors import MissingExtraError

        raise MissingExtraError("sage_llamaindex", "llamaindex") from error
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
