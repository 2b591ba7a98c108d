"""Answer a question from passages: with an LLM, or by quoting sentences without one."""

from sage_core.answering.answerers import Answerer, LLMAnswerer
from sage_core.answering.checkers import ModelJudge, checker
from sage_core.answering.extractive import ExtractiveAnswerer
from sage_core.answering.judge import (
    Claim,
    LocalJudge,
    Located,
    abstains,
    claims_or_unsure,
    split_claims,
    support,
)
from sage_core.answering.local_check import LocalCritic, local_check, shared_judge, vetoed
from sage_core.answering.marks import AnswerMark, mark_answer
from sage_core.answering.pruning import Pruned, SentencePruner
from sage_core.answering.streaming import StreamMarks, amarked_stream, marked_stream
from sage_core.llm.prompting import NO_ANSWER, is_abstention
from sage_core.llm.prompts import (
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
    "AnswerMark",
    "Answerer",
    "Claim",
    "ExtractiveAnswerer",
    "LLMAnswerer",
    "LocalCritic",
    "LocalJudge",
    "Located",
    "ModelJudge",
    "Pruned",
    "SentencePruner",
    "StreamMarks",
    "abstains",
    "amarked_stream",
    "answer_fields",
    "answer_messages",
    "checker",
    "chosen_option",
    "claims_or_unsure",
    "is_abstention",
    "local_check",
    "mark_answer",
    "marked_stream",
    "shared_judge",
    "split_claims",
    "support",
    "vetoed",
]
