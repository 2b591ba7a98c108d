"""What a retriever did with a question, as plain data and one text; made by `inspect` of the adapters."""

from sage_core.inspecting.record import Record, Recorder
from sage_core.inspecting.steps import Inspection, Passage, Step

__all__ = ["Inspection", "Passage", "Record", "Recorder", "Step"]
