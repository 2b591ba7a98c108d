"""The feedback loop round by round: what was shown, answered and graded, and why it stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sage_core.feedback.types import STOP_MEANINGS, FeedbackResult, Round, Verdict
from sage_core.llm.pricing import CostReport
from sage_core.llm.usage import TokenUsage, total_usage
from sage_core.rendering.html.markup import Child, Markup, foreign, tag
from sage_core.rendering.wording import ASKED, ROLES, grade_words


def rounds_html(result: FeedbackResult, *, sizes: Sequence[int] | None = None) -> str:
    """Every round of the loop, and why it ended.

    Args:
        result: The loop's result.
        sizes: Tokens of each candidate, by the positions that selections name; adds the tokens of each
            round's context.

    Returns:
        Markup for the inside of a page.
    """
    rounds = [_round(r, r.number == result.best_round, sizes) for r in result.rounds]
    if not rounds:
        rounds = [tag("p", "No round was begun.", class_="note")]
    meaning = STOP_MEANINGS[result.stop_reason]
    stop = tag("p", "Stopped: ", tag("b", result.stop_reason), f" ({meaning}).", class_="note")
    return tag("div", *rounds, stop, class_="rounds")


def usage_html(usage: Mapping[str, TokenUsage], cost: CostReport | None = None) -> str:
    """Calls and tokens by role, and money where a price is known.

    Args:
        usage: Tokens by role, as `FeedbackResult.usage_by_role`.
        cost: What they cost; None, or one without prices, shows no money.

    Returns:
        Markup for the inside of a page.
    """
    total = total_usage(usage.values())
    if not total.calls:
        return tag("p", "No LLM was called.", class_="note")
    money = cost.money if cost is not None else None
    names = ["", "calls", "tokens sent", "tokens received", *(["money"] if money is not None else [])]
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in names)))
    body = []
    for role, used in [*usage.items(), ("total", total)]:
        cells: list[Child] = [used.calls, f"{used.prompt:,}", f"{used.completion:,}"]
        if money is not None and cost is not None:
            paid = cost.total if role == "total" else money.get(role)
            cells.append("" if paid is None else f"{paid:.6f}")
        title = tag("th", ROLES.get(role, role), scope="row")
        body.append(tag("tr", title, *(tag("td", cell, class_="num") for cell in cells)))
    table = tag("div", tag("table", head, tag("tbody", *body)), class_="scroll")
    note = "Some of these were estimated, as the server did not report them." if total.estimated else None
    return tag("div", table, tag("p", note, class_="note") if note else None)


def grade_badge(verdict: Verdict | None) -> Markup:
    """The grade as a badge, coloured by whether it could be given."""
    if verdict is None:
        return tag("span", "not graded", class_="badge dim")
    if verdict.score is None:
        return tag("span", "the grade could not be read", class_="badge bad")
    good = verdict.score >= 7 and verdict.source == "critic"  # what a word count says is no praise
    kind = "badge solid" if good else "badge bad" if verdict.score < 4 else "badge dim"
    return tag("span", f"grade {verdict.score:g} of 10", class_=kind)


def _round(round_: Round, best: bool, sizes: Sequence[int] | None) -> Markup:
    chosen = round_.selection
    tokens = None
    if sizes is not None:
        tokens = f"{sum(sizes[i] for i in chosen.indices if i < len(sizes)):,} tokens of context"
    header = tag(
        "header",
        tag("b", f"Round {round_.number}"),
        tag("span", f"{chosen.cut} of {chosen.candidates} passages"),
        tag("span", tokens) if tokens else None,
        grade_badge(round_.verdict) if round_.answer is not None else None,
        tag("span", "returned", class_="badge good") if best else None,
    )
    parts: list[Markup] = [header]
    if round_.answer is not None:
        parts.append(foreign(round_.answer or "(empty)", "p", class_="text"))
    parts.append(tag("p", f"Why these passages: {chosen.reason}", class_="note"))
    parts += _verdict(round_.verdict)
    if round_.error:
        parts.append(tag("p", "Failed: ", foreign(round_.error), class_="warning"))
    return tag("section", *parts, class_="round best" if best else "round")


def _verdict(verdict: Verdict | None) -> list[Markup]:
    if verdict is None:
        return []
    if not verdict.parsed:
        reply = foreign(verdict.raw or "(nothing)", "p", class_="text mono")
        return [tag("details", tag("summary", "What the critic replied", class_="note"), reply)]
    parts = [tag("p", f"{grade_words(verdict)}; {ASKED[verdict.adjust]}", class_="note")]
    if verdict.reason:
        parts.append(tag("p", "“", foreign(verdict.reason), "”", class_="note"))
    return parts
