"""Answer, grade, change the evidence, keep the best answer (paper, section VI)."""

from sage_core.feedback.critic import (
    CRITIC_SYSTEM,
    CRITIC_SYSTEM_CHOICE,
    CRITIC_USER,
    VERDICT_SCHEMA,
    critic_fields,
    critic_messages,
)
from sage_core.feedback.drivers import (
    Check,
    arun_loop,
    run_loop,
)
from sage_core.feedback.loop import FeedbackLoop
from sage_core.feedback.parsing import parse_verdict
from sage_core.feedback.types import (
    DEFAULT_FEEDBACK,
    STOP_MEANINGS,
    CriticChoice,
    Done,
    FeedbackConfig,
    FeedbackResult,
    Generate,
    Judge,
    Policy,
    Round,
    Step,
    StopReason,
    Verdict,
)

__all__ = [
    "CRITIC_SYSTEM",
    "CRITIC_SYSTEM_CHOICE",
    "CRITIC_USER",
    "DEFAULT_FEEDBACK",
    "STOP_MEANINGS",
    "VERDICT_SCHEMA",
    "Check",
    "CriticChoice",
    "Done",
    "FeedbackConfig",
    "FeedbackLoop",
    "FeedbackResult",
    "Generate",
    "Judge",
    "Policy",
    "Round",
    "Step",
    "StopReason",
    "Verdict",
    "arun_loop",
    "critic_fields",
    "critic_messages",
    "parse_verdict",
    "run_loop",
]
