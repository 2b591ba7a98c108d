"""A feedback loop driven by scripted grades."""

from sage_core.feedback import FeedbackConfig, FeedbackLoop, FeedbackResult, Verdict, run_loop
from sage_core.llm.usage import TokenUsage
from tests.fakes.paper_figures import FIGURE_8

# Three that stand out and a flat rest, of which 3, 6, 12 and 24 are kept in turn.

CLIFF: list[float | None] = [10.0, 9.0, 8.0, *[1.0] * 21]
ONE_CALL = TokenUsage(prompt=100, completion=10, calls=1)


def grade(score: float, adjust: int = 0) -> Verdict:
    return Verdict(score, adjust)


UNREADABLE = Verdict(None, raw="I would rather not say.")


def drive(
    verdicts: list[Verdict],
    config: FeedbackConfig | None = None,
    scores: list[float | None] | None = None,
    sizes: list[int] | None = None,
    usage: TokenUsage = ONE_CALL,
) -> FeedbackResult:
    """Run a loop whose answers name their cut and whose verdicts are given in order."""
    given = iter(verdicts)
    loop = FeedbackLoop(FIGURE_8 if scores is None else scores, "unbounded", config, sizes=sizes)
    return run_loop(loop, lambda s: (f"from {s.cut}", usage), lambda s, a: (next(given), usage))


def cuts(result: FeedbackResult) -> list[int]:
    return [r.selection.cut for r in result.rounds]
