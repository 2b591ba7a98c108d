"""The whole story of one question on one page."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sage_core.feedback.types import STOP_MEANINGS, FeedbackResult
from sage_core.llm.pricing import CostReport
from sage_core.pipeline.results import Answer, Retrieval
from sage_core.rendering.html.curve import Mark
from sage_core.rendering.html.markup import Markup, foreign, tag
from sage_core.rendering.html.page import made_now, page, section, settings_html, tile, tiles
from sage_core.rendering.html.ranking import candidates_html, curve_html, passages_html
from sage_core.rendering.html.rounds import grade_badge, rounds_html, usage_html
from sage_core.rendering.rows import retrieval_rows
from sage_core.rendering.wording import grade_words, saving_words
from sage_core.selection.cut import Selection

_NO_LLM = "extractive"
_LONG = 160  # characters of a question that is no headline any more


def answer_report(
    answer: Answer,
    *,
    cost: CostReport | None = None,
    settings: Mapping[str, object] | None = None,
    made: datetime | None = None,
) -> str:
    """One page: question, answer and grade, the passages behind it, the cut, the rounds, what it took.

    Args:
        answer: What `sage_core.Sage.ask` returned.
        cost: `Answer.cost` with a price, to show money.
        settings: Further settings to list, by name.
        made: When it was made; now where None.

    Returns:
        A self-contained HTML page; see `sage_core.rendering.html.page.page`.
    """
    return page(
        f"{answer.question} – sage-rag",
        *answer_head(answer),
        *answer_parts(answer, cost),
        section("Settings", settings_html(_settings(answer.retrieval, answer, settings, made))),
    )


def retrieval_report(
    retrieval: Retrieval,
    *,
    error: str | None = None,
    settings: Mapping[str, object] | None = None,
    made: datetime | None = None,
) -> str:
    """One page for a retrieval without an answer; ``error`` says why there is none.

    Args:
        retrieval: What `sage_core.Sage.retrieve` returned.
        error: Shown as a warning.
        settings: Further settings to list, by name.
        made: When it was made; now where None.
    """
    return page(
        f"{retrieval.question} – sage-rag",
        _heading(retrieval.question),
        tag("p", "No answer: ", foreign(error), class_="warning") if error else None,
        *retrieval_parts(retrieval, retrieval.selection),
        section("Settings", settings_html(_settings(retrieval, None, settings, made))),
    )


def answer_head(answer: Answer) -> list[Markup]:
    """Question, answer, grade."""
    result = answer.feedback
    text = foreign(answer.text, "p", class_="text") if answer.text else tag("p", "(no answer)", class_="dim")
    by = tag(
        "p", grade_badge(result.verdict), tag("span", "answered by ", foreign(answer.answerer)), class_="by"
    )
    reason = result.verdict.reason if result.verdict is not None else ""
    grade = tag("p", grade_words(result.verdict), ": " if reason else None, foreign(reason), class_="note")
    return [
        _heading(answer.question),
        tag("section", text, by, grade if result.verdict is not None else None, class_="panel answer"),
        *_warnings(answer),
    ]


def answer_parts(answer: Answer, cost: CostReport | None = None, *, most: int | None = None) -> list[Markup]:
    """Everything below the answer, but for the settings."""
    result, retrieval = answer.feedback, answer.retrieval
    sizes = [c.tokens for c in retrieval.candidates]
    return [
        _figures(retrieval, result.selection, result),
        *retrieval_parts(retrieval, result.selection, result, most=most),
        section(_rounds_title(result), Markup(rounds_html(result, sizes=sizes))),
        section("What it took", Markup(usage_html(result.usage_by_role, cost))),
    ]


def retrieval_parts(
    retrieval: Retrieval,
    selection: Selection,
    result: FeedbackResult | None = None,
    *,
    most: int | None = None,
) -> list[Markup]:
    """Tokens, the curve with the cut, the passages kept, all candidates."""
    if not retrieval.candidates:
        return [section("Retrieval", tag("p", "Nothing was found for this question.", class_="note"))]
    rows = retrieval_rows(retrieval)
    scores = [c.score for c in retrieval.candidates]
    marks = _round_marks(result) if result is not None else []
    curve = curve_html(scores, selection, retrieval.scale, top_k=retrieval.top_k, marks=marks)
    found = f"All {len(rows)} candidates"
    return [
        _figures(retrieval, selection, None) if result is None else Markup(""),
        section("Where the scores were cut", curve),
        section("Tokens of context", token_bars(retrieval, selection)),
        section("Passages behind the answer" if result else "Passages kept", passages_html(rows, selection)),
        section(found, tag("p", "Open one to read it.", class_="note"),
                candidates_html(rows, selection, most=most)),
    ]  # fmt: skip


def token_bars(retrieval: Retrieval, selection: Selection) -> Markup:
    """What was sent against what plain top-k and all candidates would be."""
    sent = sum(c.tokens for c in retrieval.chosen(selection))
    k = min(retrieval.top_k, len(retrieval.candidates))
    bars = [("sent", sent, "bar kept"), (f"plain top-{k}", retrieval.tokens_top_k, "bar")]
    if len(retrieval.candidates) > k:
        bars.append((f"all {len(retrieval.candidates)} candidates", retrieval.tokens_all, "bar"))
    most = max(tokens for _, tokens, _ in bars) or 1
    lines = []
    for name, tokens, kind in bars:
        bar = tag("span", tag("div", class_=kind, style=f"width:{100 * tokens / most:.1f}%"), class_="track")
        lines.append(tag("div", tag("span", name), bar, tag("span", f"{tokens:,}", class_="num")))
    return tag("div", *lines, class_="bars")


def _heading(question: str) -> Markup:
    size = "long" if len(question) > _LONG else None
    return tag("header", tag("p", "sage-rag", class_="eyebrow"), foreign(question, "h1", class_=size))


def _figures(retrieval: Retrieval, selection: Selection, result: FeedbackResult | None) -> Markup:
    sent = sum(c.tokens for c in retrieval.chosen(selection))
    k = min(retrieval.top_k, len(retrieval.candidates))
    saving = saving_words(sent, retrieval.tokens_top_k)
    compared = f"{saving} against plain top-{k}" if saving else ""
    parts = [
        tile("passages", f"{selection.cut} of {len(retrieval.candidates)}", "kept of the candidates"),
        tile("tokens of context", f"{sent:,}", compared),
    ]
    if result is not None:
        usage = result.usage
        about = "about " if usage.estimated else ""
        calls = f"{about}{usage.total:,} tokens in all" if usage.calls else "nothing to pay"
        best = f"the answer is from round {result.best_round}" if len(result.rounds) > 1 else ""
        parts += [
            tile("rounds", str(len(result.rounds)), best or result.stop_reason),
            tile("LLM calls", str(usage.calls), calls),
        ]
    return tiles(*parts)


def _rounds_title(result: FeedbackResult) -> str:
    return f"{len(result.rounds)} round{'s'[: len(result.rounds) != 1]} of answer and grade"


def _round_marks(result: FeedbackResult) -> list[Mark]:
    """Cuts of other rounds than the one whose answer was returned."""
    chosen = result.selection.cut
    return [Mark(r.selection.cut, f"round {r.number}") for r in result.rounds if r.selection.cut != chosen]


def _warnings(answer: Answer) -> list[Markup]:
    found = []
    if answer.answerer.startswith(_NO_LLM):
        found.append("These are sentences quoted from the documents: no LLM wrote or checked them.")
    if answer.feedback.stop_reason in ("critic_failed", "answer_failed"):
        found.append(f"{STOP_MEANINGS[answer.feedback.stop_reason].capitalize()}.")
    return [tag("p", words, class_="warning") for words in found]


def _settings(
    retrieval: Retrieval,
    answer: Answer | None,
    more: Mapping[str, object] | None,
    made: datetime | None,
) -> dict[str, object]:
    own: dict[str, object] = {} if answer is None else {"answered by": answer.answerer}
    own |= {
        "reranker": retrieval.reranker,
        "scores": retrieval.scale,
        "tokens counted by": retrieval.counter,
        "compared with": f"plain top-{retrieval.top_k} by similarity",
    }
    return {**own, **(more or {}), **made_now(made)}
