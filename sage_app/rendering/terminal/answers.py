"""An answer in a terminal: the grade, the rounds, why they ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from sage_app.pipeline.results import Answer
from sage_app.rendering.rows import citations, place_of
from sage_app.rendering.wording import BOLD, FLAGS, answer_support, claims_nothing, grade_words
from sage_core._checks import counted
from sage_core.feedback import FeedbackResult, Round
from sage_core.feedback.types import ASKED, short_grade
from sage_core.text.sanitize import one_line, terminal_safe
from sage_core.verify import AnswerMark

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
