"""Settings, requests and results of the feedback loop: plain frozen data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, cast, get_args

from sage_core._checks import check_float, check_int, check_optional_int, counted
from sage_core._display import Displayable
from sage_core.errors import InputError
from sage_core.llm.prompting import NO_ANSWER
from sage_core.llm.usage import NO_USAGE, TokenUsage, total_usage
from sage_core.selection import Selection, SelectionConfig
from sage_core.text.sanitize import one_line
from sage_core.text.spans import Span

Policy = Literal["adaptive", "paper"]
CriticChoice = Literal["llm", "auto", "local"]
Support = Literal["supported", "contradicted", "misattributed", "not found", "unsure", "nothing claimed"]
StopReason = Literal[
    "accepted",
    "max_rounds",
    "unchanged",
    "budget",
    "critic_failed",
    "answer_failed",
    "no_candidates",
    "nothing_relevant",
]

STOP_MEANINGS: dict[StopReason, str] = {
    "accepted": "the grade reached accept_score",
    "max_rounds": "all rounds allowed were used",
    "unchanged": "no other selection was left to try, or the critic asked for none",
    "budget": "the next step would exceed max_calls or max_llm_tokens",
    "critic_failed": "the critic failed or its reply could not be read",
    "answer_failed": "a later answer failed; an earlier one is returned",
    "no_candidates": "there were no candidates: the search found nothing",
    "nothing_relevant": "what the search found does not bear on the question",
}


@dataclass(frozen=True, slots=True)
class AnswerMark:
    """A part of an answer, and whether the passages support it.

    Examples:
        >>> from sage_core.verify import mark_answer
        >>> passages = ["The ferry leaves at seven. It is blue."]
        >>> (mark,) = mark_answer("The ferry leaves at seven.", passages)
        >>> mark.support, mark.passage, mark.evidence.of(passages[mark.passage])
        ('supported', 0, 'The ferry leaves at seven.')

    Attributes:
        span: Where the part stands in the answer.
        text: ``answer[span.start:span.end]``.
        support: ``"supported"``; ``"contradicted"``, with what the passages say ``instead``;
            ``"misattributed"``: another passage than the cited one says it; ``"not found"``: hardly a word of
            it stands in any passage; ``"unsure"`` where the judge does not know; ``"nothing claimed"`` for
            the rest: openings such as "The documents say:", headings, white space, "The documents do not
            say."
        probability: That the passages support it, from 0 to 1; None if it is not known, or nothing is
            claimed.
        passage: Position of the passage that supports it best; None if none has a word of it.
        evidence: Where the best supporting sentence stands in that passage.
        sentence: That sentence.
        reason: What decided, in words; empty where nothing is claimed.
        instead: What the passages say in the place of a part of it; empty where they do not contradict it.
        cited: Numbers of passages, from 1, that the answer cites in this part, as "[2]"; right where
            ``passage`` plus 1 is among them. See `sage_core.verify.correct_citations`.
        heading: The first and the last heading above the evidence, as "Handbook, Backups"; empty for none.
        page: The page of the passage, as its loader numbers it; empty where it is not known.
    """

    span: Span
    text: str
    support: Support = "unsure"
    probability: float | None = None
    passage: int | None = None
    evidence: Span | None = None
    reason: str = ""
    instead: str = ""
    cited: tuple[int, ...] = ()
    heading: str = ""
    page: str = ""
    sentence: str = ""

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready form."""
        evidence = None if self.evidence is None else list(self.evidence)
        return {**asdict(self), "span": list(self.span), "evidence": evidence, "cited": list(self.cited)}

    @classmethod
    def from_dict(cls, item: Mapping[str, Any]) -> AnswerMark:
        """The mark that `to_dict` wrote."""
        evidence = item.get("evidence")
        spans = {"span": Span(*item["span"]), "evidence": None if evidence is None else Span(*evidence)}
        return cls(**{**_known(AnswerMark, item), **spans, "cited": tuple(item.get("cited", ()))})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of an answer and of its context: a critic's grade, and which parts the passages support.

    Critics fill the first fields; `sage_core.verify.settled` makes one verdict of theirs and of the marks.

    Examples:
        >>> Verdict(6, adjust=+1, reason="the year is missing").parsed
        True
        >>> Verdict(None, raw="I would rather not say.").parsed
        False

    Attributes:
        score: Grade from 1 to 10; None if none could be read.
        adjust: +1 asks for more context, -1 for less, 0 for neither.
        raw: The reply as it came, for the trace.
        reason: The critic's own short reason, where it gave one.
        source: Who graded: ``"critic"`` (an LLM), ``"local judge"``, ``"heuristic"`` (word counts),
            ``"no answer"`` (the answer itself said so) or another label.
        probability: A calibrated probability that the answer is right, from 0 to 1, where the grader has one
            (the local judge); else None.
        statements: The critic's word on each statement that it was shown, in their order: a `Support`, or
            empty if it has none.
        vetoed_by: Who lowered the grade since the passages contradict the answer, such as ``"local judge"``;
            empty if nobody did. ``score`` is the lower grade then, and ``raw`` the critic's reply.
        marks: The parts of the answer, and whether the passages support them, in their order.
        accepted: Whether the grade reached ``accept_score`` and was not vetoed.

    Raises:
        InputError: Where a field is out of its range.
    """

    score: float | None
    adjust: int = 0
    raw: str = ""
    reason: str = ""
    source: str = "critic"
    probability: float | None = None
    statements: tuple[str, ...] = ()
    vetoed_by: str = ""
    marks: tuple[AnswerMark, ...] = ()
    accepted: bool = False

    def __post_init__(self) -> None:
        if self.adjust not in (-1, 0, 1):
            raise InputError(f"adjust must be -1, 0 or 1, not {self.adjust!r}")
        if self.score is not None and not (math.isfinite(self.score) and 1 <= self.score <= 10):
            raise InputError(f"a score lies between 1 and 10, not {self.score!r}")
        if self.probability is not None and not 0 <= self.probability <= 1:
            raise InputError(f"a probability lies between 0 and 1, not {self.probability!r}")

    @property
    def parsed(self) -> bool:
        """Whether a grade was read. False is a state of its own, never a low grade."""
        return self.score is not None

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready form."""
        lists = {"marks": [m.to_dict() for m in self.marks], "statements": list(self.statements)}
        return {**asdict(self), **lists, "parsed": self.parsed}

    @classmethod
    def from_dict(cls, item: Mapping[str, Any]) -> Verdict:
        """The verdict that `to_dict` wrote, such as one of a graph's checkpoint."""
        marks = tuple(AnswerMark.from_dict(mark) for mark in item.get("marks", ()))
        return cls(
            **{**_known(Verdict, item), "marks": marks, "statements": tuple(item.get("statements", ()))}
        )

    def report(self) -> str:
        """Each statement with its word, and the sentence that decided with its place, as a text."""
        lines = ["accepted" if self.accepted else "not accepted"]
        for mark in (m for m in self.marks if m.support != "nothing claimed"):
            lines.append(f"{mark.support}: {one_line(mark.text)}")
            page = mark.page and f"page {mark.page}"
            place = [] if mark.passage is None else [f"passage {mark.passage + 1}", mark.heading, page]
            if mark.sentence and mark.support != "not found":
                lines.append(f"  {', '.join(filter(None, place))}: “{one_line(mark.sentence)}”")
            if mark.support not in ("supported", "not found"):
                lines.append(f"  {one_line(mark.reason)}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackConfig:
    """Settings of one feedback loop.

    Examples:
        >>> config = FeedbackConfig(selection=SelectionConfig(min_k=3), max_rounds=2)
        >>> config.selection.min_k, config.accept_score
        (3, 9)

    Attributes:
        accept_score: An answer graded at least this is returned at once (paper: fs).
        max_rounds: Most rounds of answer and grade.
        policy: ``"adaptive"`` moves until the selection really differs; ``"paper"`` is the literal
            ``min_k`` plus or minus 1, which often repeats the very same context.
        max_calls: Most LLM calls; None for no limit. 1 answers without a grade.
        max_llm_tokens: Tokens sent and received over all calls; None for no limit. The first answer is always
            asked for; after it nothing is begun that is expected to go over.
        no_answer: Answers that mean "not in this context". Under ``"adaptive"`` such an answer counts as
            graded 1 and asks for more context; the critic, whose instructions say the same, is not asked.
        selection: Settings of the first selection, whose ``max_k`` and ``max_context_tokens`` hold for every
            round.
        critic: Who grades. ``"llm"``: the LLM, always. ``"auto"``: the local judge where it is sure, the LLM
            where it is not. ``"local"``: the local judge alone, without a call. See
            `sage_core.verify.LocalJudge`.
        correct: Whether to correct the numbers of passages in the answer, see
            `sage_core.verify.correct_citations`; not where it was streamed. The rounds and the marks have it
            as it was written.

    Raises:
        InputError: Where a value is out of its range.
    """

    accept_score: float = 9
    max_rounds: int = 3
    policy: Policy = "adaptive"
    max_calls: int | None = None
    max_llm_tokens: int | None = None
    no_answer: tuple[str, ...] = (NO_ANSWER,)
    selection: SelectionConfig = field(default_factory=SelectionConfig)
    critic: str = "llm"
    correct: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.selection, SelectionConfig):
            raise InputError(f"selection is a SelectionConfig, not {self.selection!r}")
        check_float("accept_score", self.accept_score, minimum=1, maximum=10)
        check_int("max_rounds", self.max_rounds, minimum=1)
        choices = (("policy", self.policy, Policy), ("critic", self.critic, CriticChoice))
        for name, value, known in choices:
            if value not in get_args(known):
                raise InputError(f"unknown {name} {value!r}: one of {', '.join(get_args(known))}")
        check_optional_int("max_calls", self.max_calls, minimum=1)
        check_optional_int("max_llm_tokens", self.max_llm_tokens, minimum=1)
        # A text is a sequence of its letters: "no" would make every "n" an abstention.
        if isinstance(self.no_answer, str) or not all(isinstance(text, str) for text in self.no_answer):
            raise InputError(f"no_answer is a tuple of texts, not {self.no_answer!r}")


DEFAULT_FEEDBACK = FeedbackConfig()
"""The defaults, for signatures elsewhere that repeat the keywords."""


@dataclass(frozen=True, slots=True)
class Generate:
    """Request: answer from these candidates.

    Examples:
        >>> from sage_core.feedback import FeedbackLoop
        >>> step = FeedbackLoop([0.9]).start()
        >>> isinstance(step, Generate), step.selection.indices, step.round
        (True, (0,), 1)

    Attributes:
        selection: The candidates to show, best first.
        round: Number of the round, from 1.
    """

    selection: Selection
    round: int


@dataclass(frozen=True, slots=True)
class Judge:
    """Request: grade this answer, given these candidates.

    Examples:
        >>> from sage_core.feedback import FeedbackLoop
        >>> loop = FeedbackLoop([0.9, 0.1])
        >>> first = loop.start()
        >>> step = loop.answered("At seven.")
        >>> isinstance(step, Judge), step.answer
        (True, 'At seven.')

    Attributes:
        selection: The candidates that were shown.
        answer: The answer to grade.
        round: Number of the round, from 1.
    """

    selection: Selection
    answer: str
    round: int


@dataclass(frozen=True, slots=True)
class Round:
    """One round as it went.

    Examples:
        >>> from sage_core.feedback import run_loop, FeedbackLoop
        >>> answer, judge = lambda _: ("At seven.", None), lambda *_: (Verdict(9), None)
        >>> result = run_loop(FeedbackLoop([0.9]), answer, judge)
        >>> [(r.number, r.answer, r.score) for r in result.rounds]
        [(1, 'At seven.', 9)]

    Attributes:
        number: From 1.
        min_k: The least number of chunks asked of the selection in this round.
        selection: What was shown.
        answer: What was answered; None if answering failed.
        verdict: How it was graded; None if it was not.
        error: Why answering or grading failed, in words; None if nothing did.
        answer_usage: Tokens of the answer.
        grade_usage: Tokens of the grade.
    """

    number: int
    min_k: int
    selection: Selection
    answer: str | None = None
    verdict: Verdict | None = None
    error: str | None = None
    answer_usage: TokenUsage = NO_USAGE
    grade_usage: TokenUsage = NO_USAGE

    @property
    def score(self) -> float | None:
        """The grade, or None."""
        return self.verdict.score if self.verdict is not None else None

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready form."""
        return {
            "number": self.number,
            "min_k": self.min_k,
            "selection": self.selection.to_dict(),
            "answer": self.answer,
            "verdict": self.verdict.to_dict() if self.verdict is not None else None,
            "error": self.error,
            "usage": {"generate": self.answer_usage.to_dict(), "judge": self.grade_usage.to_dict()},
        }

    @classmethod
    def from_dict(cls, item: Mapping[str, Any]) -> Round:
        """The round that `to_dict` wrote."""
        return cls(
            number=item["number"],
            min_k=item["min_k"],
            selection=_selection(item["selection"]),
            answer=item["answer"],
            verdict=item["verdict"] and Verdict.from_dict(item["verdict"]),
            error=item["error"],
            answer_usage=_usage(item["usage"].get("generate")),
            grade_usage=_usage(item["usage"].get("judge")),
        )


@dataclass(frozen=True, slots=True)
class FeedbackResult(Displayable):
    """The best answer and how it came about.

    Examples:
        >>> from sage_core.feedback import run_loop, FeedbackLoop
        >>> answer, judge = lambda _: ("At seven.", None), lambda *_: (Verdict(9), None)
        >>> result = run_loop(FeedbackLoop([0.9]), answer, judge)
        >>> result.answer, result.score, result.stop_reason, result.usage.calls
        ('At seven.', 9, 'accepted', 2)
        >>> FeedbackResult.from_dict(result.to_dict()) == result
        True

    Attributes:
        answer: The best-graded answer; "The documents do not say." in its
            language where nothing was relevant, empty where
            there were no candidates.
        score: Its grade; None if it was never graded.
        verdict: Its verdict; None if it was never graded.
        selection: The candidates it was made from.
        rounds: Every round, in order.
        stop_reason: Why the loop ended; `stop_meaning` has the words.
        best_round: Number of the round the answer comes from; 0 where there was none.
    """

    answer: str
    score: float | None
    verdict: Verdict | None
    selection: Selection
    rounds: tuple[Round, ...]
    stop_reason: StopReason
    best_round: int
    usage_by_role: dict[str, TokenUsage] = field(init=False)

    def __post_init__(self) -> None:
        by_role = {
            "generate": total_usage(r.answer_usage for r in self.rounds),
            "judge": total_usage(r.grade_usage for r in self.rounds),
        }
        object.__setattr__(self, "usage_by_role", by_role)

    @property
    def stop_meaning(self) -> str:
        """Why the loop ended, in words."""
        if self.stop_reason == "unchanged" and self.rounds:
            verdict = self.rounds[-1].verdict
            if verdict is not None and not verdict.adjust:
                return "another round would use the same passages"
            return "every selection in the direction that the critic asked for was tried already"
        return STOP_MEANINGS[self.stop_reason]

    @property
    def usage(self) -> TokenUsage:
        """Tokens and calls of all rounds and roles."""
        return total_usage(self.usage_by_role.values())

    def to_dict(self) -> dict[str, object]:
        """The whole trace in a JSON-ready form."""
        return {
            "answer": self.answer,
            "score": self.score,
            "verdict": self.verdict.to_dict() if self.verdict is not None else None,
            "selection": self.selection.to_dict(),
            "rounds": [r.to_dict() for r in self.rounds],
            "stop_reason": self.stop_reason,
            "best_round": self.best_round,
            "usage": {
                "total": self.usage.to_dict(),
                **{role: usage.to_dict() for role, usage in self.usage_by_role.items()},
            },
        }

    @classmethod
    def from_dict(cls, trace: Mapping[str, Any]) -> FeedbackResult:
        """The result that `to_dict` wrote, such as the ``"sage"`` of a LangChain chain's output.

        Unknown keys are ignored.

        Raises:
            InputError: Where it is something else.
        """
        try:
            stop = trace["stop_reason"]
            if stop not in STOP_MEANINGS:
                raise ValueError(f"unknown stop reason {stop!r}")
            return cls(
                answer=trace["answer"],
                score=trace["score"],
                verdict=trace["verdict"] and Verdict.from_dict(trace["verdict"]),
                selection=_selection(trace["selection"]),
                rounds=tuple(Round.from_dict(item) for item in trace["rounds"]),
                stop_reason=cast("StopReason", stop),
                best_round=trace["best_round"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"this is no trace of a feedback loop (FeedbackResult.to_dict): {error!r}"
            ) from error

    def __str__(self) -> str:
        lines = [format_round(r, best=r.number == self.best_round) for r in self.rounds]
        lines.append(f"stopped: {self.stop_meaning} ({self.stop_reason})")
        roles = "; ".join(f"{role} {_tokens(u)}" for role, u in self.usage_by_role.items() if u.calls)
        lines.append(f"used: {roles or 'no LLM call'}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Done:
    """The loop has ended.

    Examples:
        >>> from sage_core.feedback import FeedbackLoop
        >>> step = FeedbackLoop([]).start()
        >>> isinstance(step, Done), step.result.stop_reason
        (True, 'no_candidates')
    """

    result: FeedbackResult


Step = Generate | Judge | Done


def _selection(item: Mapping[str, Any]) -> Selection:
    return Selection(
        tuple(item["indices"]),
        tuple(item["scores"]),
        item["candidates"],
        item["reason"],
        best_probability=item.get("best_probability"),
    )


def _usage(item: Mapping[str, Any] | None) -> TokenUsage:
    return NO_USAGE if item is None else TokenUsage(**_known(TokenUsage, item))


def _known(owner: type[Verdict | TokenUsage | AnswerMark], item: Mapping[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(owner) if field.init}
    return {name: value for name, value in item.items() if name in names}


ASKED = {1: "asked for more", -1: "asked for less", 0: "context left as it is"}


def short_grade(verdict: Verdict | None) -> str:
    """A grade in two or three words; a probability or a count of words is called what it is."""
    if verdict is None:
        return "not graded"
    if verdict.score is None:
        return "the grade could not be read"
    if verdict.vetoed_by:
        return "not accepted"
    if verdict.probability is not None:
        return f"likely right: {verdict.probability:.0%}"
    if verdict.source == "heuristic":
        return f"words covered: {(verdict.score - 1) / 9:.0%}"
    return f"grade {verdict.score:g} of 10"


def _tokens(usage: TokenUsage) -> str:
    about = "about " if usage.estimated else ""
    return f"{about}{usage.prompt} + {usage.completion} tokens in {counted(usage.calls, 'call')}"


def _short(text: str, width: int = 80) -> str:
    flat = one_line(text)
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def _grade(round_: Round) -> str:
    verdict = round_.verdict
    if verdict is None:
        return "not graded"
    if verdict.score is None:
        return "grade could not be read"
    by = "" if verdict.source in ("critic", "heuristic") else f" by {verdict.source}"
    by += f", vetoed by {verdict.vetoed_by}" if verdict.vetoed_by not in ("", verdict.source) else ""
    why = f": {verdict.reason}" if verdict.reason else ""
    return f"{short_grade(verdict).removesuffix(' of 10')}{by}, {ASKED[verdict.adjust]}{why}"


def format_round(round_: Round, *, best: bool) -> str:
    """One round in two to four lines."""
    chosen = round_.selection
    lines = [
        f"round {round_.number}: {chosen.cut} of {chosen.candidates} chunks ({one_line(chosen.reason)})"
        + ("  <- returned" if best else "")
    ]
    if round_.answer is not None:
        lines.append(f"  answer: {_short(round_.answer)}")
        lines.append(f"  {_short(_grade(round_), 120)}")
    if round_.error:
        lines.append(f"  failed: {_short(round_.error)}")
    return "\n".join(lines)
