"""Who reads the context in an evaluation, and how the record names it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sage_core.answering import Answerer
from sage_core.feedback.types import Verdict
from sage_core.llm import ChatModel
from sage_core.llm.usage import NO_USAGE, TokenUsage

LLM = "llm"
EXTRACTIVE = "extractive"
NOBODY = "none"
SCRIPTED = "scripted"

PLAINLY = {
    LLM: "Answers come from the LLM named above.",
    EXTRACTIVE: (
        "No LLM answered. The extractive answerer quotes sentences that share words and meaning with the "
        "question; its scores say little about what an LLM would make of the same context, and none of them "
        "compares with a paper's."
    ),
    NOBODY: "Nobody answered: this table is about retrieval alone.",
    SCRIPTED: (
        "No LLM answered. A scripted server on this machine gave made-up answers after a fixed delay: only "
        "times, calls and tokens mean something, and quality is that of chance."
    ),
}
"""What a report says about each kind of reader."""


@dataclass(frozen=True, slots=True)
class Reader:
    """An answerer, and what the record says of it.

    Attributes:
        kind: One of `LLM`, `EXTRACTIVE`, `NOBODY`, `SCRIPTED`.
        answerer: Answers and grades.
        chat: The LLM behind it, for summaries and judging; None where there is none.
        server: Where it is: ``"default"``, ``"given"``, ``"scripted"`` or empty. Never an address.
    """

    kind: str
    answerer: Answerer
    chat: ChatModel | None = None
    server: str = ""

    def record(self) -> dict[str, object]:
        """A JSON-ready form."""
        return {"kind": self.kind, "label": self.answerer.label, "server": self.server}


class NoReader:
    """Answers nothing, at once: for tables about retrieval alone."""

    label = "nobody, retrieval only"

    def generate(
        self, question: str, context: Sequence[str], *, options: Sequence[str] | None = None
    ) -> tuple[str, TokenUsage]:
        """See `Answerer.generate`."""
        return "", NO_USAGE

    def judge(
        self, question: str, context: Sequence[str], answer: str, *, options: Sequence[str] | None = None
    ) -> tuple[Verdict, TokenUsage]:
        """See `Answerer.judge`: the highest grade, so that no loop goes on."""
        return Verdict(10), NO_USAGE

    async def agenerate(
        self, question: str, context: Sequence[str], *, options: Sequence[str] | None = None
    ) -> tuple[str, TokenUsage]:
        """See `Answerer.agenerate`."""
        return self.generate(question, context, options=options)

    async def ajudge(
        self, question: str, context: Sequence[str], answer: str, *, options: Sequence[str] | None = None
    ) -> tuple[Verdict, TokenUsage]:
        """See `Answerer.ajudge`."""
        return self.judge(question, context, answer, options=options)
