"""Has retrieval become worse? Any retriever against figures committed before, on the same questions.

The measure is the share of the evidence's words that reach the LLM: within the first 250, 500 and 1,000
tokens of what the retriever returns, and in all of it. It needs texts alone, no ids and no offsets, so that
chunks of any make can be compared. The mean of the four is tested, paired by question.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sage_app.tuning.quotations import QuotedQuestion
from sage_app.tuning.statistics import Difference, paired_bootstrap
from sage_core.errors import InputError
from sage_core.text.tokens import TokenCounter, get_counter

BUDGETS = (250, 500, 1_000)
"""Tokens (word pieces of BERT) of what is ranked first."""

LEAST_QUESTIONS = 10
"""Fewer questions in common are no comparison."""

FALSE_ALARMS = 0.05
"""How often an equally good retriever is called worse, at most."""

Search = Callable[[str], Sequence[str]]
"""The texts that a retriever returns for a question, best first."""

_FORMAT = 1
_WORD = re.compile(r"\w+")
_RUN = 4  # Words in a row that a passage shares with a quotation: fewer are shared by chance.


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a retriever returned for one question.

    Attributes:
        evidence: Share of the evidence's words within each of `BUDGETS` and in all that was returned.
        tokens: Tokens of all that was returned.
    """

    evidence: tuple[float, ...]
    tokens: int

    @property
    def mean(self) -> float:
        """The figure that is tested: the mean of ``evidence``."""
        return sum(self.evidence) / len(self.evidence)


@dataclass(frozen=True)
class Comparison:
    """A retriever against a baseline.

    Attributes:
        names: Of the rows: a number of tokens each, and "all".
        before: The baseline's figure in each row, on the questions in common.
        after: The retriever's.
        differences: Paired, ``after`` less ``before``, with 90% intervals.
        overall: Of the mean of all rows, which is what is tested.
        tokens: Tokens a question before and after.
        n: Questions in common.
        lost: The questions that lost most, worst first, each with its figure before and after.
    """

    names: tuple[str, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]
    differences: tuple[Difference, ...]
    overall: Difference
    tokens: tuple[float, float]
    n: int
    lost: tuple[tuple[str, float, float], ...]

    @cached_property
    def worse(self) -> bool:
        """Whether the loss is more than chance: of retrievers as good as before, 5% are called so."""
        # Two-sided figures at 90% are one-sided ones at 95%.
        return self.overall.high < 0 and self.overall.p < 2 * FALSE_ALARMS

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready data."""
        rows = zip(self.names, self.before, self.after, self.differences, strict=True)
        return {
            "worse": self.worse,
            "questions": self.n,
            "difference": _figures(self.overall),
            "rows": [
                {"within": name, "before": b, "after": a, "difference": _figures(d)} for name, b, a, d in rows
            ],
            "tokens": {"before": self.tokens[0], "after": self.tokens[1]},
            "lost": [{"question": q, "before": b, "after": a} for q, b, a in self.lost],
        }


def _figures(difference: Difference) -> dict[str, float]:
    return {name: getattr(difference, name) for name in ("value", "low", "high", "p")}


def measure(
    search: Search,
    questions: Sequence[QuotedQuestion],
    *,
    counter: TokenCounter | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Outcome]:
    """What a retriever returns for each question, by the question's text.

    Args:
        search: The retriever; see `as_search`.
        questions: Questions with the words that answer them.
        counter: Of tokens; None for word pieces of BERT.
        progress: Called with the number of questions that are done.

    Raises:
        InputError: Where the retriever returns what holds no text.
    """
    counter = counter or get_counter("bert")
    outcomes: dict[str, Outcome] = {}
    for done, question in enumerate(questions, 1):
        outcomes[question.text] = _outcome(search(question.text), question.quotes, counter)
        if progress is not None:
            progress(done)
    return outcomes


def _outcome(texts: Sequence[str], quotes: Sequence[str], counter: TokenCounter) -> Outcome:
    quoted = [_words(quote) for quote in quotes]
    seen = [[False] * len(words) for words in quoted]
    total = sum(map(len, quoted)) or 1
    shares: list[float] = []
    spent = 0
    for text, tokens in zip(texts, counter.count_many(list(texts)), strict=True):
        words = _words(text)
        while len(shares) < len(BUDGETS) and spent + tokens > BUDGETS[len(shares)]:
            # The passage that the budget cuts off counts as far as it goes.
            part = words[: len(words) * (BUDGETS[len(shares)] - spent) // tokens]
            shares.append(sum(map(sum, _mark(seen, quoted, part))) / total)
        seen = _mark(seen, quoted, words)
        spent += tokens
    everything = sum(map(sum, seen)) / total
    shares += [everything] * (len(BUDGETS) + 1 - len(shares))
    return Outcome(tuple(shares), spent)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _mark(
    seen: Sequence[Sequence[bool]], quoted: Sequence[Sequence[str]], words: Sequence[str]
) -> list[list[bool]]:
    """Which words of each quotation are known, now that ``words`` were read as well."""
    marked = [list(row) for row in seen]
    for row, quote in zip(marked, quoted, strict=True):
        run = min(_RUN, len(quote))
        if all(row) or not run:
            continue
        runs = {tuple(words[i : i + run]) for i in range(len(words) - run + 1)}
        for i in range(len(quote) - run + 1):
            if tuple(quote[i : i + run]) in runs:
                row[i : i + run] = [True] * run
    return marked


def compare(
    before: Mapping[str, Outcome], after: Mapping[str, Outcome], *, seed: int = 0, lost: int = 5
) -> Comparison:
    """Compare two measurements on the questions that both have.

    Args:
        before: The baseline.
        after: The retriever as it is now.
        seed: Of the resampling.
        lost: How many of the questions that lost most are named.

    Raises:
        InputError: With fewer than 10 questions in common.
    """
    common = [text for text in before if text in after]
    if len(common) < LEAST_QUESTIONS:
        raise InputError(
            f"the baseline and these questions have {len(common)} questions in common, and {LEAST_QUESTIONS} "
            "are the least: save a baseline of these questions (--save)"
        )
    old, new = [before[t] for t in common], [after[t] for t in common]

    def tested(mine: Sequence[float], other: Sequence[float]) -> Difference:
        return paired_bootstrap(mine, other, confidence=1 - 2 * FALSE_ALARMS, seed=seed)

    columns = [([o.evidence[i] for o in old], [o.evidence[i] for o in new]) for i in range(len(BUDGETS) + 1)]
    changes = sorted((n.mean - o.mean, t, o.mean, n.mean) for t, o, n in zip(common, old, new, strict=True))
    return Comparison(
        names=(*(f"{b:,} tokens" for b in BUDGETS), "all"),
        before=tuple(_mean(o) for o, _ in columns),
        after=tuple(_mean(n) for _, n in columns),
        differences=tuple(tested(n, o) for o, n in columns),
        overall=tested([o.mean for o in new], [o.mean for o in old]),
        tokens=(_mean([o.tokens for o in old]), _mean([o.tokens for o in new])),
        n=len(common),
        lost=tuple((t, b, a) for change, t, b, a in changes[:lost] if change < 0),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


# --- Baselines ---------------------------------------------------------------------


def save_baseline(outcomes: Mapping[str, Outcome], path: str | Path) -> None:
    """Write figures to be committed: sorted, a line for each question, which reads well in a diff."""
    lines = [
        json.dumps({"question": text, "evidence": [round(e, 4) for e in o.evidence], "tokens": o.tokens})
        for text, o in sorted(outcomes.items())
    ]
    body = ",\n".join(lines)
    head = json.dumps({"format": _FORMAT, "budgets": BUDGETS})[1:-1]
    Path(path).write_text(f'{{{head}, "questions": [\n{body}\n]}}\n', encoding="utf-8")


def load_baseline(path: str | Path) -> dict[str, Outcome]:
    """Read figures that `save_baseline` wrote.

    Raises:
        InputError: Where the file cannot be read, or holds something else.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        if data["format"] != _FORMAT or tuple(data["budgets"]) != BUDGETS:
            raise ValueError("it was written by another version")
        outcomes = {
            str(row["question"]): Outcome(tuple(map(float, row["evidence"])), int(row["tokens"]))
            for row in data["questions"]
        }
        if any(len(o.evidence) != len(BUDGETS) + 1 for o in outcomes.values()):
            raise ValueError("a question has too few figures")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path} is no baseline ({error}): write one with --save") from error
    return outcomes


# --- Retrievers of any make --------------------------------------------------------


def load_retriever(path: str) -> Search:
    """The retriever at ``module:name``: an object, or a function without arguments that makes it.

    Raises:
        InputError: Where it is not there, or is no retriever.
    """
    module, _, name = path.partition(":")
    if not module or not name:
        raise InputError(f"a retriever is named as module:name, such as app:retriever, not {path!r}")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        value: Any = importlib.import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
    except ModuleNotFoundError as error:
        raise InputError(
            f"cannot import {module}: {error}; run from the folder where `import {module}` works"
        ) from error
    except AttributeError as error:
        raise InputError(f"{module} has no {name!r}") from error
    if inspect.isroutine(value) and not any(
        p.default is p.empty for p in inspect.signature(value).parameters.values()
    ):
        value = value()
    return as_search(value)


def as_search(retriever: object) -> Search:
    """A retriever's texts, whatever its make.

    Args:
        retriever: Anything with ``invoke(question)`` or ``retrieve(question)``, a query engine with
            ``query(question)``, or a function of the question. What it returns may be texts, documents or
            nodes, or hold them under ``hits``, ``source_nodes`` or ``context``.

    Raises:
        InputError: For anything else.
    """
    for name in ("retrieve", "invoke", "query"):
        method = getattr(retriever, name, None)
        if callable(method):
            break
    else:
        method = retriever
    if not callable(method):
        raise InputError(
            f"{type(retriever).__name__} is no retriever: it has neither invoke(question) nor "
            "retrieve(question), and is no function"
        )

    def search(question: str) -> list[str]:
        return [_text(item) for item in _items(method(question))]

    return search


def _items(result: Any) -> Iterable[Any]:
    if isinstance(result, Mapping):
        result = result.get("context", result)
    for name in ("hits", "source_nodes"):
        result = getattr(result, name, result)
    if isinstance(result, (str, Mapping)) or not isinstance(result, Iterable):
        raise InputError(f"the retriever returned {type(result).__name__}, and no list of texts or documents")
    return result


def _text(item: Any) -> str:
    item = getattr(item, "chunk", item)
    for name in ("page_content", "text"):
        value = getattr(item, name, None)
        if isinstance(value, str):
            return value
    if isinstance(item, str):
        return item
    raise InputError(f"the retriever returned {type(item).__name__}, which holds no text")
