"""A tiny data set and methods that are quick, fail on demand, or are killed half-way."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sage_eval.experiment import Row
from sage_eval.records import (
    Dataset,
    EvalDocument,
    EvalQuestion,
    Evidence,
    Hit,
    MethodResult,
    Piece,
)
from sage_eval.run_folder import RunFolder
from sage_eval.runner import Runner

from sage_core.errors import LLMError
from sage_core.llm.usage import TokenUsage
from sage_core.text.spans import Span

ROWS = (Row("first", {"method": "toy"}), Row("second", {"method": "toy"}))
CONFIGURATION: dict[str, object] = {
    "experiment": "toy",
    "metrics": ["f1"],
    "rows": {row.name: dict(row.method) for row in ROWS},
    "datasets": [],
    "seed": 0,
}


def toy_dataset(
    documents: int = 3, questions: int = 4, *, pooled: bool = False, name: str = "toy"
) -> Dataset:
    """Documents of short sentences; question j of a document is answered by its sentence j."""
    texts = [[f"Fact {i}.{j} is here." for j in range(questions)] for i in range(documents)]
    return Dataset(
        name,
        tuple(EvalDocument(f"d{i}", " ".join(text)) for i, text in enumerate(texts)),
        tuple(
            EvalQuestion(
                f"q{i}.{j}",
                f"d{i}",
                f"Where is fact {i}.{j}?",
                answers=("here",),
                evidence=(Evidence(f"d{i}", Span(j * 18, j * 18 + 17)),),
            )
            for i in range(documents)
            for j in range(questions)
        ),
        pooled,
        "toys",
    )


class ToyMethod:
    """Sends the first ``size`` characters of the first document; ``fails`` says which questions fail."""

    def __init__(
        self,
        name: str = "toy",
        *,
        size: int = 40,
        fails: Callable[[EvalQuestion], Exception | None] = lambda q: None,
        before: Callable[[EvalQuestion], None] = lambda q: None,
    ) -> None:
        self.name = name
        self.prepared: list[tuple[str, ...]] = []
        self.asked: list[str] = []
        self._size = size
        self._fails = fails
        self._before = before

    def settings(self) -> Mapping[str, object]:
        return {"method": "toy", "size": self._size}

    def prepare(self, documents: Sequence[EvalDocument]) -> Mapping[str, TokenUsage]:
        self.prepared.append(tuple(d.id for d in documents))
        self._text = documents[0].text
        self._document = documents[0].id
        return {"summary": TokenUsage(10, 1, 1)}

    def answer(self, question: EvalQuestion) -> MethodResult:
        self._before(question)
        self.asked.append(question.id)
        error = self._fails(question)
        if error is not None:
            raise error
        piece = Piece(self._text[: self._size], self._document, Span(0, self._size))
        return MethodResult(
            answer="here",
            choice=None,
            context=(piece,),
            ranked=(Hit(piece, 1.0),),
            usage={"answer": TokenUsage(20, 2, 1), "critic": TokenUsage(30, 3, 1)},
            seconds={"retrieve": 0.25, "generate": 0.5},
            context_tokens=9,
        )


def score(question: EvalQuestion, result: MethodResult, documents: object) -> dict[str, float | None]:
    return {"f1": float(result.answer in question.answers)}


def llm_down(question: EvalQuestion) -> Exception | None:
    return LLMError("the LLM is down", retryable=True)


def killed_run(folder: Path, after: int) -> None:
    """Run, and be killed by SIGKILL while question number ``after`` is answered."""
    dataset, count = toy_dataset(), 0

    def die(question: EvalQuestion) -> None:
        nonlocal count
        count += 1
        if count == after:
            # What a kill in the middle of a write leaves: half a line.
            with (folder / "results.jsonl").open("a") as file:
                file.write('{"kind": "answer", "row": "fir')
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(10)

    with RunFolder(folder, CONFIGURATION) as opened:
        Runner(opened, lambda row: ToyMethod(row.name, before=die), score).run(ROWS, [dataset])


if __name__ == "__main__":
    killed_run(Path(sys.argv[1]), int(sys.argv[2]))
