"""A passage is taken apart once, whoever asks of it."""

from collections import Counter

import pytest

from sage_core.text import blocks
from sage_core.verify import LocalCritic, LocalJudge, mark_answer


def test_lines_of_a_passage_are_classified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    passages = [
        "# Lamps\n\nThe blue lamp of the pier was built in 1911. It shines for nine miles.",
        "| Lamp | Built |\n|---|---|\n| blue lamp | 1911 |\n| red lamp | 1954 |",
        "Bring to the pier:\n\n- a torch\n- warm clothes\n\nIt is cold. However, the lamp is not.",
    ]
    read: Counter[str] = Counter()
    classify = blocks.classify

    def counted(text: str) -> object:
        read[text] += 1
        return classify(text)

    monkeypatch.setattr(blocks, "classify", counted)
    judge, question = LocalJudge(), "When was the blue lamp built?"
    LocalCritic(question, lambda _: passages, judge=judge).grade(passages, "The blue lamp was built in 1911.")
    mark_answer("The blue lamp shines for nine miles.", passages, judge=judge)
    judge.grounding("The red lamp is cold.", passages[1:])
    assert [read[passage] for passage in passages] == [1, 1, 1]
