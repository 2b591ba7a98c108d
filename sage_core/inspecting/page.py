"""An inspection as one HTML page without scripts, and as text for a terminal."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from sage_core.errors import InputError
from sage_core.inspecting.steps import Passage, Run, Step

# Steers a terminal or turns the text around: C0 but tab and line break, DEL, C1, overrides, surrogates.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LONGEST = 110
"""Characters of a passage in a line."""

_STYLE = """
.sage-i{--ink:#1b2420;--muted:#55615b;--line:#d8dfdb;--bar:#9fd2bb;--good:#d9efe4;--bad:#fbe6e1;--warn:#fff3d6;
font:14px/1.45 system-ui,sans-serif;color:var(--ink);max-width:1200px}
@media(prefers-color-scheme:dark){.sage-i{--ink:#e7ecea;--muted:#a5b1ac;--line:#344044;--bar:#2f6d54;--good:#1d3a2f;
--bad:#43221c;--warn:#3a2e14}}
.sage-i h2,.sage-i h3{margin:1.2em 0 .3em;font-size:1.1em}.sage-i h2{font-size:1.3em}
.sage-i table{border-collapse:collapse;width:100%}.sage-i th{text-align:left;font-weight:600}
.sage-i th,.sage-i td{padding:.2em .5em;border-bottom:1px solid var(--line);vertical-align:top}
.sage-i .m{color:var(--muted)}.sage-i .e td{background:var(--good)}
.sage-i .bar{display:block;height:.35em;background:var(--bar);border-radius:2px}
.sage-i pre{white-space:pre-wrap;border:1px solid var(--line);padding:.6em}
.sage-i .two{display:grid;gap:1.5em;grid-template-columns:repeat(auto-fit,minmax(26em,1fr))}
.sage-i .supported{background:var(--good)}
.sage-i .unsupported{background:var(--bad)}.sage-i .unsure{background:var(--warn)}
"""


def safe(text: str) -> str:
    """Text of a document or an LLM with every character replaced that could steer a terminal."""
    return _UNSAFE.sub("\ufffd", text.replace("\r\n", "\n"))


def line(text: str, longest: int = _LONGEST) -> str:
    """`safe` on one line, cut at ``longest`` characters."""
    flat = " ".join(safe(text).split())
    return flat if len(flat) <= longest else f"{flat[: longest - 1]}…"


def escape(text: str) -> str:
    """`safe` as HTML."""
    return html.escape(safe(text))


def write(path: str | Path, text: str) -> Path:
    """Write a file and return its path.

    Raises:
        InputError: Where the folder does not exist or cannot be written to.
    """
    try:
        Path(path).write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    return Path(path)


def whole_page(title: str, body: str) -> str:
    """A page that needs no other file."""
    head = f'<meta charset="utf-8"><title>{escape(line(title))}</title>'
    color = '<meta name="color-scheme" content="light dark">'
    return f"<!doctype html><html><head>{head}{color}</head><body>{body}</body></html>"


def framed(*parts: str) -> str:
    """Parts of a page with their style."""
    return f'<div class="sage-i"><style>{_STYLE}</style>{"".join(parts)}</div>'


def table(head: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> str:
    """A table; each row has a class, and its cells are HTML."""
    titles = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(
        f'<tr class="{kind}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>' for kind, cells in rows
    )
    return f"<table><tr>{titles}</tr>{body}</table>"


def headline(run: Run) -> str:
    """How much was found and sent, and what a fixed k would send."""
    fixed = run.fixed_k
    words = f"{run.subject}: {len(run.candidates)} different passages found, {len(run.sent)} sent"
    words += f", {run.tokens:,} tokens"
    if run.steps and run.steps[0].passages:
        words += f"; {fixed.subject}: {len(fixed.sent)} passages, {fixed.tokens:,} tokens"
    for text in run.evidence:
        words += f'; evidence "{line(text, 40)}" {"sent" if run.holds(text) else "NOT sent"}'
    return words


def _heading(number: int, step: Step) -> str:
    parts = [f"{number}. {step.name}", f"({step.settings})" if step.settings else "", f"{step.summary}"]
    parts += [
        f"asked: {line(step.question)}" if step.question else "",
        f"cut: {step.reason}" if step.reason else "",
    ]
    return "; ".join(part for part in (" ".join(filter(None, parts[:2])), *parts[2:]) if part)


def _score(passage: Passage) -> str:
    return "" if passage.score is None else f"{passage.score:.4g}"


def _place(passage: Passage) -> str:
    return " | ".join(dict.fromkeys(filter(None, (passage.source, passage.title))))


# Text


def text_of(run: Run) -> str:
    """All of a run for a terminal."""
    rows = [f"question: {line(run.question, 400)}", headline(run)]
    for i, step in enumerate(run.steps, start=1):
        rows += ["", safe(_heading(i, step)), *_step_lines(step, run)]
    if run.hidden:
        rows += ["", f"hidden by filters: {len(run.hidden)}", *(_row(p) for p in run.hidden[: run.top_k])]
    rows += ["", f"sent: {len(run.sent)} passages, {run.tokens:,} tokens", *(_row(p) for p in run.sent)]
    if run.answer is not None:
        rows += ["", f"answer: {safe(run.answer)}"]
        for mark in run.marks:
            if mark.support != "nothing claimed":
                where = "" if mark.passage is None else f" by [{run.sent[mark.passage].number}]"
                rows.append(f"  {mark.support}{where}: {line(mark.text)}")
    return "\n".join(rows)


def _row(passage: Passage, before: str = "", after: str = "") -> str:
    parts = (
        f"[{passage.number}]",
        before,
        _score(passage),
        f"{passage.tokens} tokens",
        line(_place(passage), 40),
    )
    return "  " + "  ".join(filter(None, (*parts, line(passage.text), after)))


def _step_lines(step: Step, run: Run) -> list[str]:
    first = slice(run.top_k)
    reasons, places = run.reasons(step), step.places()
    rows = [_row(*row) for row in [*zip(step.passages, places, reasons, strict=True)][first]]
    more = len(step.passages) - len(rows)
    rows += [f"  ... {more} more"] if more > 0 else []
    dropped = step.dropped
    names = " ".join(f"[{n}]" for n in dropped[first]) + (" ..." if len(dropped) > run.top_k else "")
    return [*rows, f"  not returned: {names}"] if dropped else rows


# HTML


def html_of(run: Run) -> str:
    """All of a run as a piece of a page."""
    return framed(f"<h2>{escape(run.question)}</h2><p>{escape(headline(run))}</p>", *body_of(run))


def body_of(run: Run) -> list[str]:
    """The steps, the passages sent, the prompt and the answer."""
    parts = []
    if run.answer is not None:
        sent = [f"[{p.number}]" for p in run.sent]
        marked = "".join(
            f'<span class="{mark.support.split()[0]}" title="{escape(mark.reason)}">{escape(mark.text)}'
            f"{'' if mark.passage is None else f' <sup>{sent[mark.passage]}</sup>'}</span>"
            for mark in run.marks
        )
        parts.append(f"<h3>Answer</h3><p>{marked or escape(run.answer)}</p>")
    parts.append(f"<h3>Sent: {len(run.sent)} passages, {run.tokens:,} tokens</h3>")
    parts.append(_passage_table(run.sent, run))
    for i, step in enumerate(run.steps, start=1):
        shown = " open" if i == len(run.steps) else ""
        dropped = " ".join(f"[{n}]" for n in step.dropped)
        parts.append(f"<details{shown}><summary><b>{escape(_heading(i, step))}</b></summary>")
        parts.append(_passage_table(step.passages, run, step))
        parts.append(f"{f'<p>Not returned: {dropped}</p>' if dropped else ''}</details>")
    if run.hidden:
        parts += [f"<h3>Hidden by filters: {len(run.hidden)}</h3>", _passage_table(run.hidden, run)]
    for prompt in run.prompts:
        parts.append(
            f"<details><summary>What the LLM was sent</summary><pre>{escape(prompt)}</pre></details>"
        )
    return parts


def _passage_table(passages: Sequence[Passage], run: Run, step: Step | None = None) -> str:
    scores = [p.score for p in passages if p.score is not None]
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    low = min(low, 0.0) if step is None or step.scale == "probability" else low
    sent = {p.number for p in run.sent}
    reasons = [""] * len(passages) if step is None else run.reasons(step)
    places = [""] * len(passages) if step is None else step.places()
    rows = []
    for i, passage in enumerate(passages):
        share = 0 if passage.score is None or high <= low else 100 * (passage.score - low) / (high - low)
        bar = f'<span class="bar" style="width:{share:.0f}%"></span>' if passage.score is not None else ""
        read = f"<pre>{escape(passage.prompt or passage.text)}</pre>"
        whole = f"<details><summary>{escape(line(passage.text))}</summary>{read}</details>"
        cells = [
            str(i + 1),
            f"[{passage.number}]",
            f"{_score(passage)}{bar}",
            escape(places[i]),
            str(passage.tokens),
        ]
        cells += [escape(_place(passage)), whole + f'<span class="m">{escape(reasons[i])}</span>']
        rows.append(("e" if step is not None and passage.number in sent else "", cells))
    scale = f"score ({step.scale})" if step is not None and step.scale else "score"
    return table(
        ("rank", "no.", scale, "moved", "tokens", "from", "text, and what it shares with the question"), rows
    )
