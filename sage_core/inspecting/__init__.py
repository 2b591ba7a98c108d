"""What a retriever did with a question: plain data, one page, one text; made by `inspect` of the adapters."""

from sage_core.inspecting.compare import Comparison, Survey
from sage_core.inspecting.record import Inspection, Record, Recorder
from sage_core.inspecting.steps import TOP_K, Mark, Passage, Step
from sage_core.inspecting.traces import inspection_of_spans

__all__ = [
    "TOP_K",
    "Comparison",
    "Inspection",
    "Mark",
    "Passage",
    "Record",
    "Recorder",
    "Step",
    "Survey",
    "inspection_of_spans",
]
