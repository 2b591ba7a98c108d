"""A retrieval and an answer for people: the score curve with its cut, what it saved, the grade."""

from __future__ import annotations

from pathlib import Path

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sage_core.feedback import STOP_MEANINGS, Round
from sage_core.results import Answer, Candidate, Retrieval
from sage_core.selection import to_ratio_scale

_BAR_WIDTH = 12
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_GRADERS = {
    "critic": "the critic",
    "heuristic": "a heuristic, no LLM",
    "no answer": "the loop: no answer needs no grading",
    "local": "a look at question and context, no LLM",
}
_LEVELS = "▁▂▃▄▅▆▇█"


def retrieval_view(retrieval: Retrieval, *, most: int = 12, beyond: int = 4) -> RenderableType:
    """The candidates with their scores, the cut among them, and the tokens.

    Args:
        retrieval: What to show.
        most: How many of the candidates that were kept to show.
        beyond: How many of those that were left out to show.
    """
    if not retrieval.candidates:
        return Text("nothing was found", style="yellow")
    curve = _curve(retrieval)
    cut = retrieval.selection.cut
    shown = min(len(curve), cut + beyond)
    table = Table(box=None, pad_edge=False, header_style="dim", expand=True)
    table.add_column("#", justify="right", min_width=2)
    table.add_column("score", justify="right", min_width=5)
    table.add_column("relative", min_width=_BAR_WIDTH, no_wrap=True)
    table.add_column("tok", justify="right", min_width=3)
    table.add_column("from", no_wrap=True, min_width=16, max_width=28)
    table.add_column("chunk", no_wrap=True, overflow="ellipsis", ratio=1)
    for rank, candidate in enumerate(retrieval.candidates[:shown], start=1):
        kept = rank <= cut
        if most <= rank < cut:
            if rank == most:
                table.add_row("", "", "", "", "", f"… {cut - most} more", style="dim")
            continue
        table.add_row(
            str(rank),
            "none" if candidate.score is None else f"{candidate.score:.3f}",
            Text(_bar(curve[rank - 1]), style="green" if kept else "red"),
            str(candidate.tokens),
            _place(candidate),
            Text(" ".join(candidate.chunk.text.split())),
            style=None if kept else "dim",
            end_section=rank == cut,
        )
        if rank == cut and cut < len(curve):
            table.add_row("", Text("cut", style="bold red"), "─" * _BAR_WIDTH, "", "", "", style="red")
    return Group(table, _curve_line(curve, cut), _cut_line(retrieval), _token_line(retrieval))


def answer_view(answer: Answer) -> RenderableType:
    """The answer, its grade, the rounds, and why they ended."""
    feedback = answer.feedback
    title = Text(f"Answer ({answer.answerer})")
    parts: list[RenderableType] = [
        Panel(Text(answer.text or "(no answer)"), title=title, title_align="left", border_style="cyan")
    ]
    lines = Text()
    lines.append("grade   ", style="bold")
    lines.append(f"{_grade(answer)}\n")
    lines.append("rounds  ", style="bold")
    lines.append(f"{len(feedback.rounds)}")
    if len(feedback.rounds) > 1:
        lines.append(f", the answer is from round {feedback.best_round}")
    for round_ in feedback.rounds if len(feedback.rounds) > 1 else ():
        lines.append(f"\n          {_round(round_)}", style="dim")
    lines.append("\nstopped ", style="bold")
    lines.append(f"{feedback.stop_reason}: {STOP_MEANINGS[feedback.stop_reason]}")
    lines.append("\ncontext ", style="bold")
    lines.append(f"{len(answer.sources)} chunks, {answer.tokens:,} tokens; {_usage(answer)}")
    return Group(*parts, lines)


def _curve(retrieval: Retrieval) -> list[float]:
    """Scores on the ratio scale, the best as 1; 0 where there is no score."""
    scores = [c.score for c in retrieval.candidates]
    known = to_ratio_scale([s for s in scores if s is not None], retrieval.scale)
    best = max(known, default=0.0) or 1.0
    values = iter(known)
    return [0.0 if s is None else next(values) / best for s in scores]


def _bar(share: float) -> str:
    eighths = round(min(max(share, 0.0), 1.0) * _BAR_WIDTH * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _curve_line(curve: list[float], cut: int) -> Text:
    line = Text("curve   ", style="bold")
    for rank, share in enumerate(curve):
        if rank == cut:
            line.append("│", style="bold red")
        level = _LEVELS[min(int(share * len(_LEVELS)), len(_LEVELS) - 1)]
        line.append(level, style="not bold green" if rank < cut else "not bold dim red")
    return line


def _cut_line(retrieval: Retrieval) -> Text:
    chosen = retrieval.selection
    line = Text("kept    ", style="bold")
    return line.append(f"{chosen.cut} of {chosen.candidates} chunks: {chosen.reason}", style="not bold")


def _token_line(retrieval: Retrieval) -> Text:
    k = min(retrieval.top_k, len(retrieval.candidates))
    line = Text("tokens  ", style="bold")
    text = f"{retrieval.tokens:,} sent; plain top-{k} would send {retrieval.tokens_top_k:,}"
    if retrieval.tokens_top_k:
        text += f" ({retrieval.tokens / retrieval.tokens_top_k - 1:+.0%})"
    if len(retrieval.candidates) > k:
        text += f", all {len(retrieval.candidates)} candidates {retrieval.tokens_all:,}"
    return line.append(text, style="not bold")


def _place(candidate: Candidate) -> str:
    chunk = candidate.chunk
    where = f"p. {chunk.page}" if chunk.page else str(chunk.start)
    return f"{Path(chunk.source).name}:{where}"


def _grade(answer: Answer) -> str:
    verdict = answer.feedback.verdict
    if verdict is None:
        return "not graded"
    if verdict.score is None:
        return "the grade could not be read"
    by = _GRADERS.get(verdict.source, verdict.source)
    reason = f": {' '.join(verdict.reason.split())}" if verdict.reason else ""
    return f"{verdict.score:g} of 10 by {by}{reason}"


def _round(round_: Round) -> str:
    grade = "not graded" if round_.score is None else f"grade {round_.score:g}"
    asked = {1: ", asked for more", -1: ", asked for less"}
    change = asked.get(round_.verdict.adjust, "") if round_.verdict is not None else ""
    failed = f", failed: {round_.error}" if round_.error else ""
    return f"{round_.number}: {round_.selection.cut} chunks, {grade}{change}{failed}"


def _usage(answer: Answer) -> str:
    usage = answer.feedback.usage
    if not usage.calls:
        return "no LLM call"
    about = "about " if usage.estimated else ""
    calls = f"{usage.calls} LLM call{'s'[: usage.calls != 1]}"
    return f"{calls}, {about}{usage.prompt:,} tokens sent and {usage.completion:,} received"
