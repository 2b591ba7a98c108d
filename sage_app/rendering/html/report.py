"""The whole story of one question on one page."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from sage_app.pipeline.results import Answer, Retrieval
from sage_app.rendering.html.charts import score_curve_svg
from sage_app.rendering.html.markup import Child, Markup, foreign, tag
from sage_app.rendering.html.page import made_now, note, page, section, settings_html, tile, tiles
from sage_app.rendering.rows import Row, citations, retrieval_rows, score_text
from sage_app.rendering.wording import (
    BOLD,
    FLAGS,
    answer_support,
    claims_nothing,
    grade_words,
    support_words,
)
from sage_core._checks import counted
from sage_core.feedback.types import ASKED, FeedbackResult, Round, Verdict, short_grade
from sage_core.selection import Scale, Selection
from sage_core.text.sanitize import one_line
from sage_core.verify import AnswerMark

_EXCERPT = 160
_LONG = 160  # characters of a question that is no headline any more


def answer_report(answer: Answer, *, made: datetime | None = None) -> str:
    """One page: question, answer, its source; folded, the other passages and every detail."""
    listed = section("Settings", settings_html(_settings(answer.retrieval, answer, made)))
    return page(f"{answer.question} – sage-rag", *answer_head(answer), *answer_parts(answer, listed))


def retrieval_report(retrieval: Retrieval, *, error: str | None = None, made: datetime | None = None) -> str:
    """One page for a retrieval without an answer; ``error`` says why there is none."""
    return page(
        f"{retrieval.question} – sage-rag",
        _heading(retrieval.question),
        tag("p", "No answer: ", foreign(error), class_="warning") if error else None,
        *retrieval_parts(retrieval, retrieval.selection),
        section("Settings", settings_html(_settings(retrieval, None, made))),
    )


def verdict_report(verdict: Verdict, *, name: str) -> str:
    """One page for a checked answer: each statement with its word, its sentence, and where that stands."""
    rows = [
        tag(
            "tr",
            tag("td", tag("span", mark.support, class_=mark.support.replace(" ", "-"))),
            tag("td", foreign(mark.text.strip())),
            tag("td", foreign(mark.sentence) if mark.support != "not found" else None),
            tag("td", foreign(", ".join(filter(None, [mark.heading, mark.page and f"page {mark.page}"])))),
            tag("td", foreign("" if mark.support == "supported" else mark.reason)),
        )
        for mark in verdict.marks
        if mark.support != "nothing claimed"
    ]
    heads = ("Word", "Statement", "The documents say", "Where", "Why")
    table = tag("table", tag("tr", *(tag("th", head) for head in heads)), *rows)
    words = support_words(verdict.marks)
    return page(f"{name} – sage-rag", tag("h1", foreign(name)), note(words), table)


def answer_head(answer: Answer) -> list[Markup]:
    """Question, answer, how sure it is."""
    marks = answer.marks()
    text = answer_text(answer, marks) if answer.text else tag("p", "(no answer)", class_="dim")
    words = answer_support(answer, marks)
    support = tag("p", words, ".", class_="note support") if words else None
    badge = grade_badge(answer.feedback)
    by = tag("p", badge, tag("span", "answered by ", foreign(answer.answerer)), class_="by")
    return [
        _heading(answer.question),
        tag("section", text, support, by, class_="panel answer"),
        *_warnings(answer),
    ]


def answer_text(answer: Answer, marks: Sequence[AnswerMark]) -> Markup:
    """The answer; each supported part links its passage, the others are underlined and say why."""
    texts = answer.retrieval.texts(answer.feedback.selection)
    parts: list[Child] = []
    for mark, number in zip(marks, citations(answer, marks), strict=True):
        kind = mark.support if mark.support in FLAGS else None
        parts.append(
            tag(
                "span",
                *_emphasized(mark.text),
                class_=kind and kind.replace(" ", "-"),
                title=mark.reason or None,
            )
        )
        if number is not None and mark.passage is not None and mark.evidence is not None:
            quote = one_line(mark.evidence.of(texts[mark.passage]))
            link = f"#{anchor(answer.retrieval, number)}"
            parts.append(tag("a", f"[{number}]", href=link, class_="cite", title=f"“{quote}”"))
        elif kind is not None:
            parts.append(tag("span", f"[{FLAGS[kind]}]", class_="flag"))
    return tag("p", *parts, class_="text", dir="auto")


def _emphasized(text: str) -> list[Child]:
    """Text whose ``**bold**`` stretches, as `ExtractiveAnswerer` and LLMs write them, are elements."""
    pieces = BOLD.split(text)  # every second piece stood between asterisks
    return [tag("strong", piece) if i % 2 else piece for i, piece in enumerate(pieces)]


def anchor(retrieval: Retrieval, number: int) -> str:
    """Name of a passage's place on the page: its own, though a notebook may hold several results."""
    parts = (retrieval.question, *(c.chunk.id for c in retrieval.candidates))
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return f"sage-{digest[:10]}-{number}"


def answer_parts(answer: Answer, *more: Markup, most: int | None = None) -> list[Markup]:
    """The answer's source with its sentence highlighted; folded, the other passages and the details."""
    result, retrieval = answer.feedback, answer.retrieval
    if not retrieval.candidates:
        stopped = note(f"{result.stop_meaning.capitalize()}.")
        return [*retrieval_parts(retrieval, result.selection), stopped, *more]
    rows, quotes = retrieval_rows(retrieval), quoted_sentences(answer)
    sent = [rows[i] for i in result.selection.indices]
    sources = [row for row in sent if row.index in quotes] or sent[:1]
    others = [row for row in sent if row not in sources]
    parts = [_passage(row, retrieval, quotes.get(row.index, ())) for row in sources]
    details = [
        _figures(retrieval, result.selection, result),
        *_rankings(retrieval, result.selection, result, most),
    ]
    if len(result.rounds) > 1 or result.usage.calls or result.stop_reason.endswith("failed"):
        sizes = [c.tokens for c in retrieval.candidates]
        title = f"{counted(len(result.rounds), 'round')} of answer and grade"
        details.append(section(title, Markup(rounds_html(result, sizes=sizes))))
    elif result.verdict is not None and result.verdict.reason and not claims_nothing(result.answer):
        details.append(section("Grade", note(foreign(result.verdict.reason))))
    return [
        section("Source" if len(parts) == 1 else "Sources", *parts),
        folded(f"{counted(len(others), 'other passage')} sent",
               *(_passage(row, retrieval) for row in others)) if others else Markup(""),
        folded("Details", *details, *more),
    ]  # fmt: skip


def quoted_sentences(answer: Answer) -> dict[int, list[str]]:
    """By position of the candidate, the sentences that support the answer."""
    result: dict[int, list[str]] = {}
    texts = answer.retrieval.texts(answer.feedback.selection)
    for mark in answer.marks():
        place = answer.candidate_of(mark) if mark.support == "supported" else None
        if place is not None and mark.passage is not None and mark.evidence is not None:
            result.setdefault(place, []).append(mark.evidence.of(texts[mark.passage]).strip())
    return result


def folded(title: str, *body: Child, unfolded: bool = False) -> Markup:
    """A part of a page that is closed at first, or ``unfolded``."""
    return tag("details", tag("summary", title), *body, class_="fold", open="" if unfolded else None)


def retrieval_parts(retrieval: Retrieval, selection: Selection, *, most: int | None = None) -> list[Markup]:
    """Tokens, the curve with the cut, the passages kept, all candidates."""
    if not retrieval.candidates:
        return [section("Retrieval", note("Nothing was found for this question."))]
    curve, ranking = _rankings(retrieval, selection, None, most)
    kept = section("Passages kept", passages_html(retrieval_rows(retrieval), selection, retrieval))
    return [_figures(retrieval, selection, None), curve, kept, ranking]


def _rankings(
    retrieval: Retrieval, selection: Selection, result: FeedbackResult | None, most: int | None
) -> list[Markup]:
    """The curve with the cut, all candidates."""
    rows = retrieval_rows(retrieval)
    scores = [c.score for c in retrieval.candidates]
    curve = curve_html(scores, selection, retrieval.scale)
    return [
        section("Where the scores were cut", curve),
        section(f"All {len(rows)} candidates", note("Open one to read it."),
                candidates_html(rows, selection, most=most)),
    ]  # fmt: skip


def _heading(question: str) -> Markup:
    size = "long" if len(question) > _LONG else None
    return tag("header", tag("p", "sage-rag", class_="eyebrow"), foreign(question, "h1", class_=size))


def _figures(retrieval: Retrieval, selection: Selection, result: FeedbackResult | None) -> Markup:
    sent = retrieval.tokens_of(selection)
    parts = [
        tile("passages", f"{selection.cut} of {len(retrieval.candidates)}", "kept of the candidates"),
        tile("tokens of context", f"{sent:,}"),
    ]
    if result is not None and (usage := result.usage).calls:
        about = "about " if usage.estimated else ""
        tokens = f"{about}{usage.prompt:,} tokens sent, {usage.completion:,} received"
        best = f"the answer is from round {result.best_round}" if len(result.rounds) > 1 else ""
        parts += [
            tile("rounds", str(len(result.rounds)), best or result.stop_reason),
            tile("LLM calls", str(usage.calls), tokens),
        ]
    return tiles(*parts)


def _warnings(answer: Answer) -> list[Markup]:
    failed = answer.feedback.stop_reason in ("critic_failed", "answer_failed")
    return [tag("p", f"{answer.feedback.stop_meaning.capitalize()}.", class_="warning")] if failed else []


def _settings(retrieval: Retrieval, answer: Answer | None, made: datetime | None) -> dict[str, object]:
    own: dict[str, object] = {} if answer is None else {"answered by": answer.answerer}
    own |= {
        "reranker": retrieval.reranker,
        "scores": retrieval.scale,
        "tokens counted by": retrieval.counter,
    }
    return {**own, **made_now(made)}


def curve_html(scores: Sequence[float | None], selection: Selection, scale: Scale) -> Markup:
    """`score_curve_svg` as a figure of a page."""
    picture = score_curve_svg(scores, selection, scale=scale)
    return tag("figure", Markup(picture), class_="curve")


def passages_html(rows: Sequence[Row], selection: Selection, retrieval: Retrieval | None = None) -> Markup:
    """The passages selected, in full, with where they are from; answers link those of a retrieval."""
    by_index = {row.index: row for row in rows}
    selected = [by_index[i] for i in selection.indices if i in by_index]
    if not selected:
        return note("No passage was kept.")
    parts = [_passage(row, retrieval) for row in selected]
    return tag("div", *parts)


def candidates_html(rows: Sequence[Row], selection: Selection, *, most: int | None = None) -> Markup:
    """The candidates, one line each, opening to the full text; the cut is a line among them."""
    if not rows:
        return note("Nothing was found.")
    selected = set(selection.indices)
    shown = rows if most is None else rows[:most]
    bare = all(not r.place and r.tokens is None for r in rows)
    items: list[Markup] = []
    for at, row in enumerate(shown):
        if at == selection.cut and at > 0 and row.index not in selected:
            items.append(tag("li", f"cut: {selection.reason}", class_="cutline"))
        items.append(_item(row, row.index in selected, bare))
    more = len(rows) - len(shown)
    return tag(
        "div", tag("ol", *items, class_="rows"), note(f"… and {more} more candidates.") if more else None
    )


def _passage(row: Row, retrieval: Retrieval | None, quotes: Sequence[str] = ()) -> Markup:
    header = tag(
        "header",
        tag("b", f"{row.rank}"),
        tag("b", row.place) if row.place else None,
        tag("span", f"because {row.because}") if row.because else None,
        tag("span", f"score {score_text(row.score)}", class_="num"),
        tag("span", f"{row.tokens} tokens", class_="num") if row.tokens is not None else None,
    )
    name = anchor(retrieval, row.rank) if retrieval is not None else None
    return tag("article", header, _text(row, quotes), class_="panel passage", id=name)


def _text(row: Row, quotes: Sequence[str] = ()) -> Markup:
    """The text in full, quotes highlighted."""
    if not quotes:
        return foreign(row.text.strip(), "p", class_="text")
    return tag("p", *_highlighted(row.text, quotes), class_="text", dir="auto")


def _highlighted(text: str, quotes: Sequence[str]) -> Iterator[Child]:
    """A text whose parts that are quotes are marked."""
    wanted = "|".join(re.escape(quote) for quote in sorted(set(quotes), key=len, reverse=True) if quote)
    # With a group, every second piece is a match.
    for i, piece in enumerate(re.split(f"({wanted})", text) if wanted else [text]):
        if piece:
            yield tag("mark", piece) if i % 2 else tag("span", piece)


def _item(row: Row, selected: bool, bare: bool) -> Markup:
    width = f"width:{100 * min(max(row.share, 0.0), 1.0):.0f}%"
    cells = [
        tag("span", row.rank, class_="num"),
        tag("span", score_text(row.score), class_="num"),
        tag("span", tag("span", style=width), class_="meter"),
        None if bare else tag("span", "" if row.tokens is None else f"{row.tokens} tok", class_="num"),
        None if bare else foreign(row.place, class_="clip"),
        foreign(one_line(row.text[: 4 * _EXCERPT])[:_EXCERPT], class_="clip"),
    ]
    name, kind = "row bare" if bare else "row", None if selected else "drop"
    if not row.text:
        return tag("li", tag("div", *cells, class_=name), class_=kind)
    cosine = "" if row.similarity is None else f"cosine similarity to the question {row.similarity:.3f}"
    about = " · ".join(filter(None, (row.source, cosine)))
    full = tag("div", _text(row), note(foreign(about)) if about else None, class_="full")
    summary = tag("summary", tag("span", *cells, class_=name))
    return tag("li", tag("details", summary, full), class_=kind)


def rounds_html(result: FeedbackResult, *, sizes: Sequence[int] | None = None) -> str:
    """Every round of the loop, and why it ended; ``sizes`` are the tokens of each candidate."""
    rounds = [_round(r, r.number == result.best_round, sizes) for r in result.rounds]
    stop = note("Stopped: ", tag("b", result.stop_reason), f" ({result.stop_meaning}).")
    return tag("div", *(rounds or [note("No round was begun.")]), stop, class_="rounds")


def grade_badge(graded: FeedbackResult | Round) -> Markup | None:
    """The grade as a badge, colored by whether it could be given; None for what claims nothing."""
    if claims_nothing(graded.answer):
        return None
    if (verdict := graded.verdict) is None:
        return tag("span", "not graded", class_="badge dim")
    if verdict.score is None:
        return tag("span", "the grade could not be read", class_="badge bad")
    good = verdict.score >= 7 and verdict.source == "critic"  # what a word count says is no praise
    kind = "badge solid" if good else "badge bad" if verdict.score < 4 else "badge dim"
    return tag("span", short_grade(verdict), class_=kind)


def _round(round_: Round, best: bool, sizes: Sequence[int] | None) -> Markup:
    shown = round_.selection
    tokens = sum(sizes[i] for i in shown.indices if i < len(sizes)) if sizes is not None else None
    parts: list[Markup] = [
        tag(
            "header",
            tag("b", f"Round {round_.number}"),
            tag("span", f"{shown.cut} of {shown.candidates} passages"),
            tag("span", f"{tokens:,} tokens of context") if tokens is not None else None,
            grade_badge(round_) if round_.answer is not None else None,
            tag("span", "returned", class_="badge good") if best else None,
        )
    ]
    if round_.answer is not None:
        parts.append(foreign(round_.answer or "(empty)", "p", class_="text"))
    parts.append(note(f"Why these passages: {shown.reason}"))
    parts += _verdict(round_.verdict, claims_nothing(round_.answer))
    if round_.error:
        parts.append(tag("p", "Failed: ", foreign(round_.error), class_="warning"))
    return tag("section", *parts, class_="round best" if best else "round")


def _verdict(verdict: Verdict | None, ungraded: bool) -> list[Markup]:
    if verdict is None:
        return []
    if not verdict.parsed:
        reply = foreign(verdict.raw or "(nothing)", "p", class_="text mono")
        return [tag("details", tag("summary", "What the critic replied", class_="note"), reply)]
    parts = [note("" if ungraded else f"{grade_words(verdict)}; ", ASKED[verdict.adjust])]
    return [*parts, note("“", foreign(verdict.reason), "”")] if verdict.reason else parts
