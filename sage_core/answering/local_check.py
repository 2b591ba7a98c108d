"""A look at answer and context without an LLM, before an LLM is asked to grade (off by default).

``benchmarks/feedback_cost.py`` measures what it saves and what it gets wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from sage_core.answering.words import all_words, question_words, sentences_of, share, stems, weigh
from sage_core.errors import InputError
from sage_core.feedback.types import Verdict
from sage_core.selection.cut import Selection


class LocalCheck:
    """Decides the plain cases of one question, as ``check`` of `sage_core.feedback.run_loop`.

    - The context holds less than ``widen_below`` of the question's content words, weighted by rarity among
      all candidates: more context.
    - One sentence with its neighbours holds the whole answer and at least ``accept_at`` of the question's
      words: accepted.

    Examples:
        >>> from sage_core import select
        >>> check = LocalCheck("When does the ferry leave?", ["Bees need flowers."], widen_below=0.5)
        >>> check(select([0.9]), "At seven.").adjust  # the context holds too few of the question's words
        1

    Args:
        question: The user's question.
        texts: Texts of all candidates, in the order of the scores.
        widen_below: Share from 0 to 1; 0 leaves this out.
        accept_at: Share from 0 to 1; None leaves this out.

    Raises:
        InputError: For a share out of its range.
    """

    def __init__(
        self, question: str, texts: Sequence[str], *, widen_below: float = 0.0, accept_at: float | None = None
    ) -> None:
        if not 0 <= widen_below <= 1 or not (accept_at is None or 0 < accept_at <= 1):
            raise InputError("widen_below and accept_at are shares between 0 and 1")
        self.widen_below = widen_below
        self.accept_at = accept_at
        self._texts = tuple(texts)
        self._weights = weigh(
            question_words(question), sentences_of(texts) if widen_below or accept_at else ()
        )

    def __call__(self, selection: Selection, answer: str) -> Verdict | None:
        """A verdict where the case is plain, else None."""
        if not self._weights:
            return None
        context = sentences_of([self._texts[i] for i in selection.indices])
        held = share(self._weights, all_words(context))
        if held < self.widen_below:
            return Verdict(
                2, 1, source="local", reason=f"the context holds {held:.0%} of the question's words"
            )
        wanted = stems(answer)
        if self.accept_at is None or not wanted:
            return None
        for i in range(len(context)):
            near = all_words(context[max(0, i - 1) : i + 2])
            if wanted <= near and share(self._weights, near) >= self.accept_at:
                return Verdict(10, 0, source="local", reason="question and answer stand side by side")
        return None
