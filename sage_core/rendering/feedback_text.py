"""A feedback result as plain text."""

from __future__ import annotations

from sage_core.feedback.types import FeedbackResult, Round
from sage_core.llm.usage import TokenUsage
from sage_core.rendering.sanitize import one_line
from sage_core.rendering.wording import ASKED, counted, short_grade


def _tokens(usage: TokenUsage) -> str:
    about = "about " if usage.estimated else ""
    return f"{about}{usage.prompt} + {usage.completion} tokens in {counted(usage.calls, 'call')}"


def _short(text: str, width: int) -> str:
    flat = one_line(text)
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def _grade(round_: Round) -> str:
    verdict = round_.verdict
    if verdict is None:
        return "not graded"
    if verdict.score is None:
        return "grade could not be read"
    by = "" if verdict.source in ("critic", "heuristic") else f" by {verdict.source}"
    by += f", vetoed by {verdict.vetoed_by}" if verdict.vetoed_by else ""
    why = f": {verdict.reason}" if verdict.reason else ""
    return f"{short_grade(verdict).removesuffix(' of 10')}{by}, {ASKED[verdict.adjust]}{why}"


def format_round(round_: Round, *, best: bool = False, width: int = 80) -> str:
    """One round in two to four lines."""
    chosen = round_.selection
    lines = [
        f"round {round_.number}: {chosen.cut} of {chosen.candidates} chunks ({one_line(chosen.reason)})"
        + ("  <- returned" if best else "")
    ]
    if round_.searched:
        lines.append(f"  searched for: {_short(round_.searched, width)}")
    if round_.answer is not None:
        lines.append(f"  answer: {_short(round_.answer, width)}")
        lines.append(f"  {_short(_grade(round_), width + 40)}")
    if round_.error:
        lines.append(f"  failed: {_short(round_.error, width)}")
    return "\n".join(lines)


def format_trace(result: FeedbackResult, *, width: int = 80) -> str:
    """Every round, why the loop stopped, and what it took; ``width`` characters of each answer."""
    lines = [format_round(r, best=r.number == result.best_round, width=width) for r in result.rounds]
    lines.append(f"stopped: {result.stop_meaning} ({result.stop_reason})")
    roles = "; ".join(f"{role} {_tokens(u)}" for role, u in result.usage_by_role.items() if u.calls)
    lines.append(f"used: {roles or 'no LLM call'}")
    return "\n".join(lines)
