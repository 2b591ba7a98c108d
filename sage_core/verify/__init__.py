"""Check without an LLM: do passages support an answer?"""

from sage_core.feedback.types import AnswerMark
from sage_core.llm.abstentions import abstains
from sage_core.verify.judge import LocalJudge, shared_judge, split_claims
from sage_core.verify.model_judge import ModelJudge
from sage_core.verify.passages import Source
from sage_core.verify.verdict import (
    LocalCritic,
    check,
    correct_citations,
    local_check,
    mark_answer,
    settled,
    support,
    unsure_statements,
)

__all__ = [
    "AnswerMark",
    "LocalCritic",
    "LocalJudge",
    "ModelJudge",
    "Source",
    "abstains",
    "check",
    "correct_citations",
    "local_check",
    "mark_answer",
    "settled",
    "shared_judge",
    "split_claims",
    "support",
    "unsure_statements",
]
