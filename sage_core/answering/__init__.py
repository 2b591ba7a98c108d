"""Answer a question from passages: with an LLM, or by quoting sentences without one."""

from sage_core.abstention import NO_ANSWER, says_no_answer
from sage_core.answering.answerers import Answerer, LLMAnswerer
from sage_core.answering.extractive import ExtractiveAnswerer
from sage_core.answering.local_check import LocalCheck
from sage_core.answering.prompts import (
    ANSWER_SYSTEM,
    ANSWER_SYSTEM_CHOICE,
    ANSWER_USER,
    answer_fields,
    answer_messages,
    chosen_option,
)

__all__ = [
    "ANSWER_SYSTEM",
    "ANSWER_SYSTEM_CHOICE",
    "ANSWER_USER",
    "NO_ANSWER",
    "Answerer",
    "ExtractiveAnswerer",
    "LLMAnswerer",
    "LocalCheck",
    "answer_fields",
    "answer_messages",
    "chosen_option",
    "says_no_answer",
]
