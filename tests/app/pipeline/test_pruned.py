"""`SageConfig(prune=True)`: what is sent, counted, judged and shown are slices of the chunks."""

import asyncio
import io
from dataclasses import replace
from pathlib import Path

import pytest

from sage_app import Sage, SageConfig
from sage_app.pipeline.results import Answer
from sage_core import FeedbackConfig, select
from sage_core.errors import InputError
from sage_core.feedback import Verdict
from sage_core.llm.usage import NO_USAGE
from sage_core.selection import SelectionConfig

QUESTION = "When does the ferry leave for the island?"
TEXTS = {
    "ferry.md": "# Ferry\n\nThe ferry leaves for the island at seven. Painters came to the coast in 1890. They liked "
    "the light of the evening very much.\n",
    "seals.md": "# Seals\n\nSeals rest on the banks near the harbor. A fisherman counted forty of them in May. The "
    "ferry passes the banks slowly.\n",
    "rules.md": "# Rules\n\nNobody may swim here. The rules are:\n\n- No dogs.\n- No fires.\n",
}


class Recorder:
    """Answers in order, and keeps what it was shown."""

    label = "recorder"

    def __init__(self, *grades: Verdict) -> None:
        self.grades = iter(grades)
        self.shown: list[list[str]] = []
        self.judged: list[list[str]] = []

    def generate(self, question, context, *, options=None):
        self.shown.append(list(context))
        return f"Answer {len(self.shown)}.", NO_USAGE

    def judge(self, question, context, answer, *, options=None):
        self.judged.append(list(context))
        return next(self.grades), NO_USAGE

    async def agenerate(self, question, context, *, options=None):
        return self.generate(question, context, options=options)

    async def ajudge(self, question, context, answer, *, options=None):
        return self.judge(question, context, answer, options=options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pruned")
    for name, text in TEXTS.items():
        (folder / name).write_text(text, encoding="utf-8")
    with Sage(folder / "store") as sage:
        sage.ingest([folder / name for name in TEXTS])
    return folder


def sage(folder: Path, answerer: Recorder, **settings: object) -> Sage:
    made = Sage(folder / "store", answerer=answerer, config=SageConfig(prune=True, **settings))
    made._pruner.threshold = 0.3  # So that much is dropped of few sentences.
    return made


def check(answer: Answer, shown: list[str], folder: Path) -> None:
    """What was sent is exact, counted and in the result."""
    retrieval, selection = answer.retrieval, answer.feedback.selection
    passages = retrieval.passages(selection)
    assert [p.text for p in passages] == shown
    for passage in passages:
        source = (folder / Path(str(passage.document)).name).read_text(encoding="utf-8")
        assert passage.span.of(source) == passage.text
    sent = retrieval.chosen(selection)
    assert all(c.pruned is None or c.pruned.kept for c in sent)
    assert any(c.pruned is not None for c in sent)
    assert answer.tokens == retrieval.tokens_of(selection) < sum(c.tokens for c in sent)
    assert {i for p in passages for i in p.members} == set(selection.indices)


def test_what_is_sent_judged_and_counted_is_pruned(folder: Path):
    recorder = Recorder(Verdict(9, 0))
    with sage(folder, recorder) as pruning:
        answer = pruning.ask(QUESTION)
    (shown,) = recorder.shown
    assert recorder.judged == [shown]
    check(answer, shown, folder)
    joined = "\n".join(shown)
    assert "leaves for the island at seven" in joined
    assert "Painters" not in joined
    assert "- No dogs.\n- No fires." in joined
    found = answer.to_dict()["retrieval"]
    assert found["tokens"]["pruned"] > 0
    assert any("pruned" in c for c in found["candidates"])


def test_later_rounds_are_pruned_too_and_the_result_is_that_of_the_best(folder: Path):
    recorder = Recorder(Verdict(3, 1), Verdict(9, 0, passage=1))
    with sage(
        folder, recorder, feedback=FeedbackConfig(selection=SelectionConfig(min_k=1, gradient=0.99))
    ) as pruning:
        answer = pruning.ask(QUESTION)
    assert len(recorder.shown) == 2
    assert len(recorder.shown[0]) < len(recorder.shown[1])
    assert recorder.judged == recorder.shown
    check(answer, recorder.shown[1], folder)


def test_what_a_later_search_found_keeps_what_was_pruned_for_its_own_question(folder: Path):
    with sage(folder, Recorder()) as pruning:
        pruning.config = replace(pruning.config, prune=False)
        whole = pruning.retrieve(QUESTION)
        pruning.config = replace(pruning.config, prune=True)
        selection = select([c.score for c in whole.candidates][:2], min_k=2)
        both = pruning._pruned(whole, selection)
        one = pruning._pruned(replace(whole, found_first=1), selection)
    assert one.candidates[0] == both.candidates[0] != whole.candidates[0]
    assert one.candidates[1] == whole.candidates[1] != both.candidates[1]


def test_async_sends_the_same(folder: Path):
    one, two = Recorder(Verdict(9, 0)), Recorder(Verdict(9, 0))
    with sage(folder, one) as pruning:
        first = pruning.ask(QUESTION)
        pruning.answerer = two
        second = asyncio.run(pruning.aask(QUESTION))
    assert one.shown == two.shown
    assert first.to_dict() == second.to_dict()


def test_off_by_default_and_checked(folder: Path):
    recorder = Recorder(Verdict(9, 0))
    with Sage(folder / "store", answerer=recorder) as plain:
        answer = plain.ask(QUESTION)
    assert all(c.pruned is None and c.tokens_sent == c.tokens for c in answer.retrieval.candidates)
    assert "Painters" in "\n".join(recorder.shown[0])
    with pytest.raises(InputError, match="prune"):
        SageConfig(prune="yes")


def test_pages_and_terminals_show_what_was_left_out(folder: Path):
    from rich.console import Console

    with sage(folder, Recorder(Verdict(9, 0))) as pruning:
        answer = pruning.ask(QUESTION)
    page = answer.to_html()
    assert '<s class="pruned" title="not sent">Painters came to the coast in 1890.' in page
    assert "struck through were left out" in page
    assert f">{answer.tokens:,}<" in page
    out = io.StringIO()
    Console(file=out, width=160, color_system=None).print(answer)
    dropped = answer.retrieval.dropped_tokens(answer.retrieval.selection)
    assert f"({dropped:,} in other sentences left out)" in out.getvalue()
