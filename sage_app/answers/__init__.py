"""Answer a question from passages: with an LLM, or by quoting sentences without one."""

from sage_app.answers.answerers import (
    Answerer,
    Capabilities,
    LLMAnswerer,
    StreamingAnswerer,
    capabilities_of,
)
from sage_app.answers.extractive import ExtractiveAnswerer

__all__ = [
    "Answerer",
    "Capabilities",
    "ExtractiveAnswerer",
    "LLMAnswerer",
    "StreamingAnswerer",
    "capabilities_of",
]
