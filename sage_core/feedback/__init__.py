"""Answer, grade, change the evidence, keep the best answer (paper, section VI)."""

from sage_core.feedback.drivers import LocalCheck, arun_loop, run_loop
from sage_core.feedback.loop import UNKNOWN_USAGE, FeedbackLoop
from sage_core.feedback.trace import format_round, format_trace
from sage_core.feedback.types import (
    STOP_MEANINGS,
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
    "STOP_MEANINGS",
    "UNKNOWN_USAGE",
    "Done",
    "FeedbackConfig",
    "FeedbackLoop",
    "FeedbackResult",
    "Generate",
    "Judge",
    "LocalCheck",
    "Policy",
    "Round",
    "Step",
    "StopReason",
    "Verdict",
    "arun_loop",
    "format_round",
    "format_trace",
    "run_loop",
]
