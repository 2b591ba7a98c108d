"""Answer a question from passages: with an LLM, or by quoting sentences without one."""

from sage_app.answers.answerers import Answerer, LLMAnswerer
from sage_app.answers.extractive import ExtractiveAnswerer

__all__ = ["Answerer", "ExtractiveAnswerer", "LLMAnswerer"]
