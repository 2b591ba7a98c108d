"""The gate: evidence of any retriever against a baseline."""

import json
from types import SimpleNamespace

import pytest
from sage_eval.gate import (
    Outcome,
    as_search,
    compare,
    load_baseline,
    load_retriever,
    measure,
    save_baseline,
)

from sage_app.tuning import QuotedQuestion
from sage_core.errors import InputError

FILLER = "Nothing of what was said that evening was ever written down by anyone. " * 20
QUESTIONS = [
    QuotedQuestion(f"Who keeps lamp {i}?", (f"The lamp number {i} is kept by keeper {i}.",))
    for i in range(40)
]


def answers(question: str) -> list[str]:
    number = question.split()[-1][:-1]
    return [f"Before. The LAMP number {number}\nis kept by  keeper {number}. After."]


def test_evidence_counts_where_it_stands_and_tokens_what_is_returned() -> None:
    first = measure(answers, QUESTIONS)["Who keeps lamp 3?"]
    assert first.evidence == (1.0, 1.0, 1.0, 1.0) and first.tokens > 5
    late = measure(lambda q: [FILLER, *answers(q)], QUESTIONS)["Who keeps lamp 3?"]
    assert late.evidence == (0.0, 1.0, 1.0, 1.0)
    assert measure(lambda q: [], QUESTIONS)["Who keeps lamp 3?"] == Outcome((0.0,) * 4, 0)


def test_a_quotation_that_is_cut_in_two_counts_by_its_words() -> None:
    quote = QuotedQuestion("q", ("one two three four five six seven eight nine ten",))
    (half,) = measure(lambda q: ["one two three four five"], [quote]).values()
    (both,) = measure(lambda q: ["one two three four five", "six seven eight nine ten"], [quote]).values()
    assert half.evidence[0] == 0.5 and both.evidence[0] == 1.0
    (scattered,) = measure(lambda q: ["one ten two nine three"], [quote]).values()
    assert scattered.evidence[0] == 0.0


def test_the_same_is_never_worse_and_a_loss_is() -> None:
    before = measure(answers, QUESTIONS)
    assert not compare(before, before).worse
    after = measure(lambda q: [] if q.endswith("7?") or q.endswith("8?") else answers(q), QUESTIONS)
    found = compare(before, after)
    assert found.worse and len(found.lost) == 5
    assert found.overall.value == pytest.approx(-0.2)
    assert not compare(after, before).worse  # a gain
    assert json.loads(json.dumps(found.to_dict()))["worse"] is True


def test_few_questions_in_common_are_refused() -> None:
    before = measure(answers, QUESTIONS[:20])
    with pytest.raises(InputError):
        compare(before, measure(answers, QUESTIONS[15:]))


def test_a_baseline_is_read_as_it_was_written(tmp_path) -> None:
    before = measure(answers, QUESTIONS)
    save_baseline(before, tmp_path / "b.json")
    assert load_baseline(tmp_path / "b.json") == before
    assert (tmp_path / "b.json").read_text().count("\n") >= len(QUESTIONS)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"format": 9, "budgets": []}', "\x00", '{"format": 1, "questions": 3}']
)
def test_another_file_is_no_baseline(tmp_path, content) -> None:
    (tmp_path / "b.json").write_text(content)
    with pytest.raises(InputError, match=r"b\.json"):
        load_baseline(tmp_path / "b.json")


@pytest.mark.parametrize(
    "retriever",
    [
        lambda q: [q],
        lambda q: [SimpleNamespace(page_content=q)],
        SimpleNamespace(invoke=lambda q: [SimpleNamespace(page_content=q)]),
        SimpleNamespace(invoke=lambda q: {"context": [SimpleNamespace(page_content=q)]}),
        SimpleNamespace(retrieve=lambda q: [SimpleNamespace(text=q, node=object())]),
        SimpleNamespace(
            retrieve=lambda q: SimpleNamespace(hits=[SimpleNamespace(chunk=SimpleNamespace(text=q))])
        ),
        SimpleNamespace(query=lambda q: SimpleNamespace(source_nodes=[SimpleNamespace(text=q)])),
    ],
)
def test_retrievers_of_any_make(retriever) -> None:
    assert as_search(retriever)("a question") == ["a question"]


@pytest.mark.parametrize("result", [None, 3, "a text", [None], [3]])
def test_what_holds_no_texts_is_an_error(result) -> None:
    with pytest.raises(InputError, match="retriever"):
        as_search(lambda q: result)("a question")
    with pytest.raises(InputError):
        as_search(3)


def test_a_retriever_by_import_path(tmp_path, monkeypatch) -> None:
    (tmp_path / "my_app.py").write_text(
        "def search(question):\n    return [question]\n\ndef make():\n    return search\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert load_retriever("my_app:make")("q") == load_retriever("my_app:search")("q") == ["q"]
    for wrong in ("my_app", ":make", "my_app:missing", "no_such_module_here:x"):
        with pytest.raises(InputError):
            load_retriever(wrong)
