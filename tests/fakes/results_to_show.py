"""Results with texts of the tests' choosing, made by the real loop and the real selection."""

from collections.abc import Sequence

from sage_app import Answer, Candidate, Retrieval
from sage_app.store.chunks import Chunk
from sage_core import FeedbackConfig, TokenUsage, Verdict
from sage_core.errors import LLMError
from sage_core.feedback import FeedbackLoop, run_loop
from sage_core.selection import SelectionConfig
from sage_core.selection.cut import Selection, select
from sage_core.selection.rules import Earliest, Gradient, RelativeToTop, Rule

HOSTILE = (
    "<script>window.hacked = 1</script>",
    '"><img src="https://evil.invalid/x.png" onerror="window.hacked = 1">',
    "</style></title></textarea></script><svg onload=window.hacked=1>",
    "<!-- </details><iframe srcdoc='<script>parent.hacked=1</script>'></iframe>",
    "<a href=javascript:window.hacked=1>click</a><form action=https://evil.invalid><button>go</button></form>",
    "<style>*{display:none}</style><link rel=stylesheet href=https://evil.invalid/a.css><meta http-equiv=refresh content=0>",
    "' onmouseover='window.hacked=1' x='",
    "\x1b]0;title\x07\x1b[2J\x00\x9b31m &lt;b&gt; &#60;script&#62;",
)


def retrieval(
    scores: Sequence[float | None],
    texts: Sequence[str] | None = None,
    *,
    question: str = "When does the ferry leave?",
    sources: Sequence[str] | None = None,
    min_k: int = 2,
    scale: str = "probability",
    rule: Rule | str = "auto",
) -> Retrieval:
    """Candidates in the order of ``scores``, which must be descending."""
    candidates = []
    for i, score in enumerate(scores):
        text = texts[i % len(texts)] if texts else f"Passage {i + 1} about ferries and their timetable."
        source = sources[i % len(sources)] if sources else f"/home/somebody/docs/file-{i % 4}.md"
        chunk = Chunk(f"c{i}", text, source, 100 * i, 100 * i + len(text), page=3 if i == 1 else None)
        candidates.append(Candidate(chunk, score, 0.9 - i / 1000, 20 + i % 7))
    selection = select(list(scores), scale=scale, min_k=min_k, rule=rule)
    return Retrieval(question, tuple(candidates), selection, scale, "hybrid(test)", "bert")


def answer(
    found: Retrieval,
    answers: Sequence[str] = ("At seven.", "At half past seven.", "At eight."),
    verdicts: Sequence[Verdict | Exception] = (
        Verdict(4, 1, reason="the return trip is missing"),
        Verdict(7, -1, reason="one passage is beside the point"),
        Verdict(9, 0, reason="complete"),
    ),
    *,
    answerer: str = "some-model",
    config: FeedbackConfig | None = None,
) -> Answer:
    """What the real loop makes of scripted answers and grades."""
    given, graded = iter(answers), iter(verdicts)

    def generate(selection: Selection) -> tuple[str, TokenUsage]:
        return next(given), TokenUsage(400 + 20 * selection.cut, 12, 1)

    def judge(selection: Selection, text: str) -> tuple[Verdict, TokenUsage]:
        verdict = next(graded)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict, TokenUsage(450 + 20 * selection.cut, 25, 1, estimated=True)

    loop = FeedbackLoop(
        [c.score for c in found.candidates],
        found.scale,
        config or FeedbackConfig(selection=SelectionConfig(min_k=2)),
        sizes=[c.tokens for c in found.candidates],
    )
    result = run_loop(loop, generate, judge)
    return Answer(result.answer, answerer, found, result)


def usual() -> Answer:
    """Three rounds over twenty candidates."""
    rule = Earliest((Gradient(), RelativeToTop(0.08)))  # many passages
    scores = [0.93, 0.88, 0.8, 0.41, 0.33] + [0.1 - i / 200 for i in range(15)]
    return answer(
        retrieval(scores, rule=rule), config=FeedbackConfig(selection=SelectionConfig(min_k=2, rule=rule))
    )


def marked() -> Answer:
    """A supported statement, one that is made up, one that is half right."""
    texts = ["The ferry leaves at seven. It carries forty cars.", "Seals live in the harbor.", "Bees."]
    said = "The ferry leaves at seven. Tickets cost nine crowns on Sundays. It carries forty cars and some lorries."
    return answer(retrieval([0.9, 0.8, 0.1], texts), [said], [Verdict(9, 0, reason="ok")])


def hostile(texts: Sequence[str] = HOSTILE) -> Answer:
    """The same texts everywhere where a text can come from outside."""
    wild = " ".join(texts)
    found = retrieval(
        [0.9 - i / 20 for i in range(12)],
        texts,
        question=wild,
        sources=[f"/docs/{text.replace('/', '|')}.md" for text in texts],
    )
    verdicts = (Verdict(None, raw=wild), Verdict(8, 0, reason=wild))
    return answer(found, [wild, wild], verdicts, answerer=wild)


def failed_critic() -> Answer:
    """An answer that nobody could grade."""
    return answer(retrieval([0.9, 0.8, 0.2]), ["At seven."], [LLMError("the critic timed out")])


def nothing_found() -> Answer:
    """No candidates at all."""
    return answer(retrieval([]))
