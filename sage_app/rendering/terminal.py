"""Results in a terminal: answers, rankings with the cut among them, chunks of a text in colors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatch

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sage_app.pipeline.results import Answer, Retrieval
from sage_app.rendering.rows import (
    Row,
    chunk_pieces,
    citations,
    place_of,
    reason_counts,
    retrieval_rows,
    score_text,
)
from sage_app.rendering.wording import BOLD, FLAGS, answer_support, claims_nothing, grade_words
from sage_core._checks import counted
from sage_core.feedback import FeedbackResult, Round
from sage_core.feedback.types import ASKED, short_grade
from sage_core.inspecting import Inspection
from sage_core.segmentation.view import SegmentationView
from sage_core.selection import Selection
from sage_core.text.sanitize import one_line, terminal_safe
from sage_core.verify import AnswerMark

_BAR_WIDTH = 12
_EIGHTHS = " ▏▎▍▌▋▊▉█"
# More of a text than any terminal shows on one line.
_EXCERPT = 1000
# Candidates below the cut that are shown.
_BEYOND = 4


def retrieval_view(retrieval: Retrieval, *, most: int = 12) -> RenderableType:
    """The candidates with their scores, the cut among them, and the tokens."""
    if not retrieval.candidates:
        return Text("nothing was found", style="yellow")
    rows = retrieval_rows(retrieval)
    table = _table(rows, retrieval.selection.cut, most)
    return Group(table, _cut_line(retrieval.selection), _token_line(retrieval))


def _table(rows: Sequence[Row], cut: int, most: int) -> Table:
    """One line for each candidate; columns that hold nothing are left out."""
    table = Table(box=None, pad_edge=False, header_style="dim", expand=True)
    table.add_column("#", justify="right", min_width=2)
    table.add_column("score", justify="right", min_width=5)
    table.add_column("relative", min_width=_BAR_WIDTH, no_wrap=True)
    counted, placed = any(r.tokens is not None for r in rows), any(r.place for r in rows)
    if counted:
        table.add_column("tok", justify="right", min_width=3)
    if placed:
        table.add_column("from", no_wrap=True, min_width=16, max_width=28)
    table.add_column("chunk", no_wrap=True, overflow="ellipsis", ratio=1)
    spare = [""] * (counted + placed)
    for row in rows[: cut + _BEYOND]:
        selected = row.rank <= cut
        if most <= row.rank < cut:
            if row.rank == most:
                table.add_row("", "", "", *spare, f"… {cut - most} more", style="dim")
            continue
        cells = list(_cells(row, selected, counted, placed))
        table.add_row(*cells, style=None if selected else "dim", end_section=row.rank == cut)
        if row.rank == cut and cut < len(rows):
            table.add_row("", Text("cut", style="bold red"), "─" * _BAR_WIDTH, *spare, "", style="red")
    return table


def _cells(row: Row, selected: bool, counted: bool, placed: bool) -> Iterator[Text]:
    """As `Text`, because rich reads a plain string as markup: a file may be called ``[red].txt``."""
    yield Text(str(row.rank))
    yield Text(score_text(row.score))
    yield Text(_bar(row.share), style="green" if selected else "red")
    if counted:
        yield Text("" if row.tokens is None else str(row.tokens))
    if placed:
        yield Text(row.place)
    text = Text(f"{row.because}: " if row.because else "", style="italic")
    yield text.append(one_line(row.text[:_EXCERPT]), style="not italic")


def _bar(share: float) -> str:
    eighths = round(min(max(share, 0.0), 1.0) * _BAR_WIDTH * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _cut_line(selection: Selection) -> Text:
    line = Text("kept    ", style="bold")
    words = f"{selection.cut} of {selection.candidates} chunks: {selection.reason}"
    return line.append(one_line(words), style="not bold")


def _token_line(retrieval: Retrieval) -> Text:
    line = Text("tokens  ", style="bold")
    text = f"{retrieval.tokens:,} sent; all {len(retrieval.candidates)} candidates {retrieval.tokens_all:,}"
    return line.append(text, style="not bold")


# --- Chunks of a text ------------------------------------------------------------------

_COLORS = ("cyan", "magenta")


def segments_view(view: SegmentationView) -> RenderableType:
    """Chunks one below the other; ``┆0.83┆`` marks a joint that was kept, with its P(same).

    Above each chunk stands why the text was cut there (`sage_core.segmentation.view.BoundaryReason`).
    """
    count = len(view.spans)
    mean = f", {sum(view.tokens) / count:.0f} tokens each on average" if count else ""
    reasons = ", ".join(f"{reason} {n}" for reason, n in reason_counts(view).items())
    cuts = f"; cuts by {reasons}" if view.reasons else ""
    summary = f"{counted(count, 'chunk')}{mean}{cuts}; numbers are P(same topic)"
    return Group(*_chunk_lines(view), Text(summary, style="bold"))


def _chunk_lines(view: SegmentationView) -> Iterator[RenderableType]:
    chunks = chunk_pieces(view.text, view.boundaries, view.spans)
    rows = zip(view.spans, view.tokens, chunks, strict=True)
    for i, (span, tokens, (before, pieces)) in enumerate(rows):
        cut = f"  cut: {_why(view, i, before)}" if i else ""
        yield Text(f"── chunk {i + 1}  {span.start}–{span.end}  {tokens} tokens{cut} ──", style="dim")
        line = Text()
        for text, same in pieces:
            if same is not None:
                line.append(f"┆{same:.2f}┆ ", style="dim")
            line.append(terminal_safe(text), style=_COLORS[i % 2])
        yield line


def _why(view: SegmentationView, number: int, probability: float | None) -> str:
    """Why the text was cut before a chunk, and the model's word on it where it was asked."""
    probability_words = "within a sentence" if probability is None else f"P(same) {probability:.2f}"
    return f"{view.reasons[number - 1]}, {probability_words}" if view.reasons else probability_words


# --- Answers ---------------------------------------------------------------------------

_STYLES = {**dict.fromkeys(FLAGS, "underline red"), "unsure": "underline yellow"}


def answer_view(answer: Answer) -> RenderableType:
    """The answer, its sources, how sure it is; the rounds, where there are several or calls."""
    retrieval, marks = answer.retrieval, answer.marks()
    sent = (
        f"{len(answer.sources)} of {counted(len(retrieval.candidates), 'passage')}, {answer.tokens:,} tokens"
    )
    numbers = citations(answer, marks)
    panel = _panel(_marked(marks, numbers), f"Answer ({one_line(answer.answerer)})")
    parts: list[RenderableType] = [panel, *_footnotes(answer, marks, numbers)]
    lines = _lines(answer.feedback).append("context ", style="bold").append(sent)
    if answer.feedback.usage.calls:
        lines.append("\nused    ", style="bold").append(_usage(answer.feedback))
    return Group(*parts, lines)


def watch_answer(events: Iterable[str | Round | Answer], console: Console) -> Answer:
    """Show what `Sage.stream` yields while it comes, and return the answer; nothing stays on the screen."""
    text, before = Text(), Text()
    with Live(console=console, transient=True, vertical_overflow="visible") as live:
        for event in events:
            if isinstance(event, Answer):
                return event
            if isinstance(event, Round):
                before, text = before.append(f"{_round(event)}\n", style="dim"), Text()
            else:
                text.append(terminal_safe(event))
            live.update(before + text)
    raise AssertionError("a stream ends with its answer")


def feedback_view(result: FeedbackResult) -> RenderableType:
    """A loop's result without its retrieval."""
    lines = _lines(result).append("used    ", style="bold").append(_usage(result))
    return Group(_panel(result.answer, "Answer"), lines)


def _panel(text: str | Text, title: str) -> Panel:
    body = Text(terminal_safe(text)) if isinstance(text, str) else text
    return Panel(body or Text("(no answer)"), title=Text(title), title_align="left", border_style="cyan")


def _marked(marks: Sequence[AnswerMark], numbers: Sequence[int | None]) -> Text:
    """The answer; after each part the number of its passage, or in words that there is none."""
    body = Text()
    for mark, number in zip(marks, numbers, strict=True):
        style = _STYLES.get(mark.support, "")
        for i, piece in enumerate(BOLD.split(mark.text)):  # every second piece stood between asterisks
            body.append(terminal_safe(piece), style=f"bold {style}".strip() if i % 2 else style)
        if number is not None:
            body.append(f" [{number}]", style="dim")
        elif mark.support in FLAGS:
            body.append(f" [{FLAGS[mark.support]}]", style="dim")
    return body


def _footnotes(answer: Answer, marks: Sequence[AnswerMark], numbers: Sequence[int | None]) -> list[Text]:
    """Where each cited passage is from with the sentence that supports, and a count of the parts."""
    texts = answer.retrieval.texts(answer.feedback.selection)
    lines: dict[int, Text] = {}
    for mark, number in zip(marks, numbers, strict=True):
        if number is None or number in lines or mark.passage is None or mark.evidence is None:
            continue
        chunk = answer.retrieval.candidates[number - 1].chunk
        line = Text(f"[{number}] ", style="bold", no_wrap=True, overflow="ellipsis")
        line.append(place_of(chunk), style="not bold cyan")
        quote = one_line(mark.evidence.of(texts[mark.passage]))
        lines[number] = line.append(f"  {quote}", style="not bold dim")
    footnotes = [lines[number] for number in sorted(lines)]
    if words := answer_support(answer, marks):
        footnotes.append(Text("support ", style="bold").append(words, style="not bold"))
    return footnotes


def _lines(feedback: FeedbackResult) -> Text:
    verdict, rounds = feedback.verdict, feedback.rounds
    by_model = verdict is not None and verdict.source == "critic"  # the local judge's reason is its figures
    reason = f": {one_line(verdict.reason)}" if verdict is not None and by_model and verdict.reason else ""
    lines = Text()
    if not claims_nothing(feedback.answer):
        lines.append("grade   ", style="bold").append(f"{one_line(grade_words(verdict))}{reason}\n")
    if len(rounds) == 1 and not feedback.usage.calls and not feedback.stop_reason.endswith("failed"):
        return lines
    lines.append("rounds  ", style="bold").append(f"{len(rounds)}")
    if len(rounds) > 1:
        lines.append(f", the answer is from round {feedback.best_round}")
        for round_ in rounds:
            lines.append(f"\n          {_round(round_)}", style="dim")
    lines.append("\nstopped ", style="bold")
    return lines.append(f"{feedback.stop_meaning} ({feedback.stop_reason})\n")


def _round(round_: Round) -> str:
    grade = "not graded" if round_.score is None else short_grade(round_.verdict)
    adjust = round_.verdict.adjust if round_.verdict is not None else 0
    change = f", {ASKED[adjust]}" if adjust else ""
    failed = f", failed: {one_line(round_.error)}" if round_.error else ""
    return f"{round_.number}: {counted(round_.selection.cut, 'chunk')}, {grade}{change}{failed}"


def _usage(feedback: FeedbackResult) -> str:
    usage = feedback.usage
    if not usage.calls:
        return "no LLM call"
    about = "about " if usage.estimated else ""
    calls = counted(usage.calls, "LLM call")
    return f"{calls}, {about}{usage.prompt:,} tokens sent and {usage.completion:,} received"


@singledispatch
def rich_form(result: object) -> RenderableType:
    """A result for ``rich.print``; control characters of documents are shown as signs.

    Raises:
        TypeError: For what has no form.
    """
    raise TypeError(f"no terminal form of a {type(result).__name__}")


@rich_form.register
def _answer(result: Answer) -> RenderableType:
    return Group(retrieval_view(result.retrieval), Text(), answer_view(result))


rich_form.register(Retrieval)(retrieval_view)
rich_form.register(Inspection)(lambda result: Text(result.text))
rich_form.register(SegmentationView)(segments_view)
rich_form.register(FeedbackResult)(feedback_view)
