"""Engines over fixed candidates."""

from typing import Any

from sage_core.selection import Gradient, SelectionConfig
from sage_llamaindex import SageNodePostprocessor, SageQueryEngine
from tests.fakes.doors import at_door
from tests.fakes.llamaindex import FixedRetriever, ScriptedLLM

LADDER = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.35, 0.3, 0.25, 0.2)


def engine(llm: ScriptedLLM, *scores: float | None, **options: Any) -> SageQueryEngine:
    """An engine over fixed candidates that selects at least two of them."""
    options.setdefault(
        "node_postprocessors",
        [SageNodePostprocessor(selection=SelectionConfig(min_k=2, rule=Gradient(0.99)), scale="probability")],
    )
    return SageQueryEngine.from_args(FixedRetriever(*(scores or LADDER)), llm=llm, **at_door(**options))


async def both(found: SageQueryEngine, question: str = "Why?") -> list[Any]:
    """The responses of the sync and of the async way."""
    return [found.query(question), await found.aquery(question)]
