"""Another model in the place of the bundled judge."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from sage_core._checks import check_int
from sage_core.errors import InputError, ModelError
from sage_core.feedback.types import AnswerMark, Support
from sage_core.text.keywords import UNSPACED
from sage_core.text.spans import Span
from sage_core.verify.judge import SUPPORTED_FROM, VERBATIM_REASON, LocalJudge

Pair = tuple[str, str]
Scorer = Callable[[Sequence[Pair]], Sequence[float]]
"""From pairs of passages and claim to the probability that the former support the latter."""

_UNSPACED = UNSPACED.pattern.removesuffix("+")
_WORD = re.compile(rf"(?:{_UNSPACED}{{1,2}}|(?:(?!{_UNSPACED})\S)+) ?")


class ModelJudge(LocalJudge):
    """A `LocalJudge` whose support is decided by another model; goes wherever a `LocalJudge` does.

    Claims, their evidence and contradictions are found as by `LocalJudge`. A claim that stands in the
    passages word for word keeps a probability of at least .97.

        model = CrossEncoder("cross-encoder/nli-deberta-v3-base")  # of sentence-transformers
        judge = ModelJudge(lambda pairs: model.predict(pairs, apply_softmax=True)[:, 1])

    Examples:
        >>> judge = ModelJudge(lambda pairs: [float(claim in text) for text, claim in pairs])
        >>> passages = ["The ferry leaves at seven."]
        >>> [c.probability for c in judge.claims("", "The ferry leaves at seven. It is a ship.", passages)]
        [1.0, 0.0]

    Args:
        score: From (passages, claim) pairs to probabilities.
        max_words: Most words of the passages that are read with a claim at once. Passages are joined up to
            that many, and the best window counts.

    Raises:
        InputError: For what is no function, and ``max_words`` below 1.
        ModelError: When it is asked, if it does not give one probability from 0 to 1 a pair.
    """

    name = "model"

    def __init__(self, score: Scorer, *, max_words: int = 300) -> None:
        super().__init__(model=False)  # its own model reads
        if not callable(score):
            raise InputError(f"score is a function from pairs to probabilities, not {type(score).__name__}")
        self._score = score
        self._words = check_int("max_words", max_words, minimum=1)

    def claims_at(self, answer: str, spans: Sequence[Span], passages: tuple[str, ...]) -> list[AnswerMark]:
        """As `LocalJudge.claims_at`, with the model's probabilities, in whatever language the claims are."""
        claims = super().claims_at(answer, spans, passages)
        windows = _windows(passages, self._words)
        if not claims or not windows:
            return claims
        scores = self._scores([(window, claim.text) for claim in claims for window in windows])
        best = [max(scores[i : i + len(windows)]) for i in range(0, len(scores), len(windows))]
        return [_by_model(claim, score) for claim, score in zip(claims, best, strict=True)]

    def _scores(self, pairs: Sequence[Pair]) -> list[float]:
        scores = [float(score) for score in self._score(pairs)]
        if len(scores) != len(pairs) or not all(0 <= score <= 1 for score in scores):
            raise ModelError(f"{self._score!r} gives one probability from 0 to 1 a pair, which these are not")
        return scores


def _by_model(claim: AnswerMark, score: float) -> AnswerMark:
    # Models give a true quotation 0.01 now and then; what stands there word for word is there.
    if claim.reason == VERBATIM_REASON:
        return replace(claim, probability=max(score, claim.probability or 0.0))
    if score >= 0.5:
        word: Support = "supported" if score >= SUPPORTED_FROM else "unsure"
        return replace(claim, support=word, probability=score, instead="", reason="")
    # That nothing is measured in the claim's language is said of the local judge.
    word = "unsure" if claim.support == "supported" else claim.support
    reason = "" if claim.probability is None else claim.reason
    return replace(claim, support=word, probability=score, reason=reason)


def _windows(passages: Sequence[str], most: int) -> list[str]:
    """The passages joined up to so many words (without spaces two characters are one); longer ones parted."""
    result: list[list[str]] = []
    for passage in passages:
        words = _WORD.findall(" ".join(passage.split()) + " ")
        for part in (words[i : i + most] for i in range(0, len(words), most)):
            if result and len(result[-1]) + len(part) <= most:
                result[-1] += part
            else:
                result.append(list(part))
    return ["".join(words).strip() for words in result]
