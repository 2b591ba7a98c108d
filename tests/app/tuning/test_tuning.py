"""Tuning: quotations found whatever was done to them, and no recommendation that noise could have made."""

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sage_app import SageSettings
from sage_app.cli.tune import cheaper
from sage_app.documents.reader import Document
from sage_app.tuning import tuner as tuning
from sage_app.tuning.quotations import QuotedQuestion, locate, read_questions
from sage_app.tuning.tuner import BUDGETS, TuneOptions, tune
from sage_core import InputError, SelectionConfig
from sage_core.selection import FixedK
from tests.fakes.models import HashEmbedder


def document(text: str, name: str = "/docs/a.md") -> Document:
    return Document(name, text, "markdown", digest=str(hash(text)))


def place(quote: str, text: str, source: str = "") -> str:
    """What a quotation is taken for, or why it is not found."""
    located, missing = locate([QuotedQuestion("Why?", (quote,), source)], [document(text)])
    if missing:
        return missing[0].reason
    [[evidence]] = located[0].evidence
    return evidence.span.of(text)


@pytest.mark.parametrize(
    ("quote", "text", "found"),
    [
        ("leaves at seven", "The ferry leaves at seven.", "leaves at seven"),
        (
            "THE FERRY  leaves\nat seven",
            "A: The ferry\r\n   leaves at\tseven.",
            "The ferry\r\n   leaves at\tseven",
        ),
        ('He said "no" - twice', "He said “no” — twice.", "He said “no” — twice"),
        ("it's so", "Perhaps it’s so.", "it’s so"),
        ("wait...", "They wait… and go", "wait…"),
        ("a cooperative", "It is a coop\u00aderative here.", "a coop\u00aderative"),
        ("the ferry leaves at seven", "the **ferry** leaves at _seven_", "the **ferry** leaves at _seven"),
        ("Straße", "in der STRASSE dort", "STRASSE"),
        ("art", "heart and cart", "not found"),
        ("  ferry ", "The ferry.", "ferry"),
        ("ferry", "The boat.", "not found"),
        ("one", "one " * 30, "stands in 11 places: quote more, or name the source"),
        ("\U0001f600 yes", "so \U0001f600  yes!", "\U0001f600  yes"),
    ],
)
def test_a_quotation_is_found_whatever_was_done_to_it(quote: str, text: str, found: str) -> None:
    assert place(quote, text) == found


def test_any_of_several_places_will_do_and_a_source_names_one() -> None:
    documents = [
        document("It opens at nine.", "/docs/a.md"),
        document("Well, it opens at nine.", "/docs/b.md"),
    ]
    [both], _ = locate([QuotedQuestion("When?", ("it opens at nine",))], documents)
    assert len(both.evidence[0]) == 2
    [one], _ = locate([QuotedQuestion("When?", ("it opens at nine",), "b.md")], documents)
    assert [e.document for e in one.evidence[0]] == ["/docs/b.md"]
    _, [missing] = locate([QuotedQuestion("When?", ("it opens at nine",), "c.md")], documents)
    assert missing.reason == "there is no document 'c.md'"


def test_questions_are_read_and_a_wrong_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    lines = [
        {"question": " Why? ", "quote": "Because.", "question_id": 7, "note": "of last week"},
        {"question": "Who?", "quotes": ["She", "and he"], "source": "a.md"},
        {
            "qid": "1",
            "doc_id": "d",
            "question": "When?",
            "answers": [],
            "evidence": [{"start": 0, "end": 3, "text": "Now"}],
        },
    ]
    path.write_text("\n\n".join(map(json.dumps, lines)))
    assert read_questions(path) == [
        QuotedQuestion("Why?", ("Because.",)),
        QuotedQuestion("Who?", ("She", "and he"), "a.md"),
        QuotedQuestion("When?", ("Now",)),
    ]
    for line, message in (
        ('{"question": "Why?", "qoute": "x"}', "did you mean 'quote'?"),
        ('{"question": "Why?", "quote": "x", "sources": "a.md"}', "did you mean 'source'?"),
        ('{"question": "Why?"}', "'quote' must be what answers"),
        ('{"question": " ", "quote": "x"}', "the question is blank"),
        ('{"question": "Why?", "quote": ""}', "'quote' must be what answers"),
        ('{"question": "1.5", "quote": 3}', "'quote'"),
        ("[1]", "line 1"),
        ("{", "line 1"),
        ("", "holds no questions"),
    ):
        path.write_text(line)
        with pytest.raises(InputError) as raised:
            read_questions(path)
        assert message in str(raised.value) and "q.jsonl" in str(raised.value)


WORDS = [f"{a}{b}{c}" for a in "bdfgklmn" for b in "aeiou" for c in ("rt", "sk", "nd", "lt")]


def corpus(documents: int = 12, paragraphs: int = 8, seed: int = 1) -> list[Document]:
    """Texts of made-up words, so that a hashed bag of words can find a sentence again."""
    chance = random.Random(seed)

    def sentence() -> str:
        return " ".join(chance.choices(WORDS, k=11)).capitalize() + "."

    return [
        document(
            "\n\n".join(" ".join(sentence() for _ in range(4)) for _ in range(paragraphs)), f"/docs/{i}.txt"
        )
        for i in range(documents)
    ]


def asked(documents: list[Document], count: int, seed: int = 2) -> list[QuotedQuestion]:
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        text = chance.choice(documents).text
        sentence = chance.choice([s for s in text.replace("\n\n", " ").split(". ") if len(s) > 20]).rstrip(
            "."
        )
        found.append(QuotedQuestion(" ".join(chance.sample(sentence.split(), 5)) + "?", (sentence,)))
    return found


QUICK = TuneOptions(targets=(20, 200), rerankers=("none",))


@pytest.fixture(scope="module")
def found() -> tuning.Tuning:
    documents = corpus()
    return tune(documents, asked(documents, 40), HashEmbedder(), QUICK)


@pytest.mark.slow
def test_every_stage_is_measured_against_what_it_began_with(found: tuning.Tuning) -> None:
    stages = {stage: [c for c in found.comparisons if c.variant.stage == stage] for stage in tuning.STAGES}
    assert all(rows[0].difference is None for rows in stages.values())
    assert [c.variant.name for c in stages["chunks"]] == [
        "as it stands",
        "chunks of 20 tokens",
        "chunks of 200 tokens",
    ]
    assert [c.variant.name for c in stages["ranking"]] == ["as it stands", "no reranker", "without context"]
    assert all(sum(c.chosen for c in rows) == 1 for rows in stages.values())
    assert found.finished and found.planned == 2 + 2 + 3
    for rows in stages.values():
        for comparison in rows:
            assert comparison.figures.at_budgets.shape == (40, len(BUDGETS))
            assert (np.diff(comparison.figures.at_budgets, axis=1) >= -1e-9).all()


@pytest.mark.slow
def test_small_chunks_win_clearly_where_the_evidence_is_one_sentence(found: tuning.Tuning) -> None:
    small = next(c for c in found.comparisons if c.variant.name == "chunks of 20 tokens")
    large = next(c for c in found.comparisons if c.variant.name == "chunks of 200 tokens")
    assert small.figures.score("chunks").mean() > large.figures.score("chunks").mean()
    assert not large.clear and not large.chosen


@pytest.mark.slow
def test_a_rule_is_compared_at_no_more_tokens(found: tuning.Tuning) -> None:
    rows = [c for c in found.comparisons if c.variant.stage == "selection"]
    limit = rows[0].figures.tokens.mean()
    assert len(rows) > 1
    for row in rows[1:]:
        assert 0.85 * limit <= row.figures.tokens.mean() <= limit
        kept = row.variant.settings.selection
        assert isinstance(kept, SelectionConfig) and not isinstance(kept.rule, str)


@pytest.mark.slow
def test_fewer_tokens_are_named_where_they_keep_the_evidence(found: tuning.Tuning) -> None:
    fewer = found.fewer_tokens
    assert fewer is not None, "one sentence answers, and the default sends several"
    assert fewer.tokens.high < 0 and fewer.evidence.low >= -tuning.LEAST_GAIN
    base = [c for c in found.comparisons if c.chosen][-1]
    options = replace(QUICK, base=replace(base.variant.settings, selection=fewer.selection))
    documents = corpus()
    again = tune(documents, asked(documents, 40), HashEmbedder(), options)
    first = again.comparisons[0]
    saved = first.figures.tokens.mean() - base.figures.tokens.mean()
    assert saved == pytest.approx(fewer.tokens.value)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["fewer_tokens"]["tokens"]["value"] < 0
    assert "SelectionConfig(" in cheaper(fewer)


@pytest.mark.slow
def test_no_fewer_tokens_where_all_of_them_are_needed() -> None:
    words = random.Random(3).sample(WORDS, 60)
    documents = [document("\n\n".join(f"The {word} is kept in {word[::-1]} rooms." for word in words))]
    asking = [QuotedQuestion(f"{w}?", tuple(f"The {v} is kept" for v in words)) for w in words[:20]]
    assert tune(documents, asking, HashEmbedder(), QUICK).fewer_tokens is None


@pytest.mark.slow
def test_the_file_holds_the_settings_and_what_they_rest_on(found: tuning.Tuning, tmp_path: Path) -> None:
    path = found.settings.save(tmp_path / "settings.json")
    loaded = SageSettings.load(path)
    assert loaded.to_dict() == json.loads(path.read_text()) == found.settings.to_dict()
    chosen = [c for c in found.comparisons if c.chosen][-1].variant.settings
    assert loaded.segmenter == chosen.segmenter and loaded.selection == chosen.selection
    assert loaded.measured["questions"] == 40 and loaded.measured["comparisons_planned"] == found.planned
    assert len(loaded.measured["comparisons"]) == len(found.comparisons)
    assert loaded.made_by["sage_rag"]


@pytest.mark.slow
def test_the_same_run_gives_the_same_file() -> None:
    documents = corpus(4)
    one, other = (tune(documents, asked(documents, 10), HashEmbedder(), QUICK) for _ in range(2))
    assert one.settings == other.settings and len(one.comparisons) > 4


@pytest.mark.slow
def test_noise_is_never_recommended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures drawn by chance alone, many times over: the rate of false alarms stays below the level."""
    rng = np.random.default_rng(0)
    run = object.__new__(tuning._Run)
    run.options, run.groups = TuneOptions(), list(range(60))
    alarms = 0
    for _ in range(40):
        drawn = [
            tuning.Figures(rng.random((60, 3)).round(), rng.random(60).round(), np.ones(60), 1, 0.0)
            for _ in range(6)
        ]
        variants = [tuning.Variant("chunks", str(i), SageSettings()) for i in range(6)]
        alarms += any(
            run._compared(v, f, drawn[0], 5).clear for v, f in zip(variants[1:], drawn[1:], strict=True)
        )
    assert alarms <= 5  # 40 families at 5 %, one side of it: 1 is expected


def test_a_clear_gain_is_recommended_and_a_tiny_one_is_not() -> None:
    run = object.__new__(tuning._Run)
    run.options, run.groups = TuneOptions(), list(range(100))
    rng = np.random.default_rng(0)
    base = 0.5 * rng.random((100, 3))
    variant = tuning.Variant("chunks", "x", SageSettings())

    def clear(gain: float) -> bool:
        figures = [tuning.Figures(f, f[:, 0], np.ones(100), 1, 0.0) for f in (base + gain, base)]
        return run._compared(variant, *figures, 13).clear

    assert clear(0.1) and not clear(0.005) and not clear(0.0) and not clear(-0.1)


def test_few_questions_are_said_to_be_few_and_what_is_not_found_is_listed() -> None:
    documents = corpus(4)
    questions = [*asked(documents, 5), QuotedQuestion("Where?", ("nowhere to be found in any of it",))]
    found = tune(documents, questions, HashEmbedder(), TuneOptions(targets=(), rerankers=("none",)))
    assert found.questions == 5 and "only 5 questions" in found.warnings[0]
    assert [(u.text, u.reason) for u in found.unlocated] == [("Where?", "not found")]
    assert not found.changed or all(c.clear for c in found.comparisons if c.chosen and c.difference)
    with pytest.raises(InputError, match="1 question"):
        tune(documents, questions[-1:], HashEmbedder())


def test_questions_about_one_passage_are_drawn_together() -> None:
    documents = [document("Aa bb cc dd ee ff. Gg hh ii jj kk ll.")]
    located, _ = locate(
        [
            QuotedQuestion("1", ("Aa bb cc dd",)),
            QuotedQuestion("2", ("hh ii",)),
            QuotedQuestion("3", ("cc dd ee",)),
        ],
        documents,
    )
    first, second, third = tuning._passages(located)
    assert first == third != second


def test_more_documents_than_time_are_sampled_and_said_so() -> None:
    documents = corpus(30)
    questions = asked(documents[:3], 6)
    options = TuneOptions(minutes=0.2, targets=(), rerankers=("none",))
    sampled = tuning._sampled(documents, locate(questions, documents)[0], options)
    assert {
        d.source for d in documents[:3] if any(q.quotes[0] in d.text.replace("\n\n", " ") for q in questions)
    } <= {d.source for d in sampled.documents}
    assert len(sampled.documents) < 30 and "of 30 documents" in sampled.warnings[0]
    assert sampled == tuning._sampled(documents, locate(questions, documents)[0], options)


def test_what_there_is_no_time_for_is_left_out_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = corpus(4)
    started = tuning.time.monotonic()
    ticks = iter(range(10_000_000))
    monkeypatch.setattr(tuning.time, "monotonic", lambda: started + 100.0 * next(ticks))
    found = tune(documents, asked(documents, 5), HashEmbedder(), QUICK)
    assert set(found.left_out) >= {"chunks of 20 tokens", "no reranker"} and found.finished
    assert "no time" in found.left_out["no reranker"]
    assert found.settings.segmenter == {}


def test_slow_chunks_leave_time_for_the_other_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = corpus(4)
    clock = [1000.0]
    monkeypatch.setattr(tuning.time, "monotonic", lambda: clock[0])

    def note(state: tuning.TuneProgress) -> None:
        if state.stage == "chunks" and state.variant != "as it stands":
            clock[0] = 1000.0 + 60 * 0.6  # of one minute

    options = TuneOptions(minutes=1, targets=(20,), rerankers=("none",))
    found = tune(documents, asked(documents, 5), HashEmbedder(), options, progress=note)
    assert "chunks of 20 tokens" in found.left_out
    assert {"no reranker", "without context"} <= {c.variant.name for c in found.comparisons}


def test_an_interrupt_keeps_what_was_compared() -> None:
    documents = corpus(4)
    seen: list[str] = []

    def interrupt(state: tuning.TuneProgress) -> None:
        assert 0 <= state.done <= 1
        seen.append(state.variant)
        if state.variant == "chunks of 200 tokens":
            raise KeyboardInterrupt

    found = tune(documents, asked(documents, 5), HashEmbedder(), QUICK, progress=interrupt)
    assert not found.finished and found.settings.measured["finished"] is False
    assert [c.variant.name for c in found.comparisons] == ["as it stands", "chunks of 20 tokens"]
    assert any("interrupted" in warning for warning in found.warnings)

    def at_once(state: tuning.TuneProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(documents, asked(documents, 5), HashEmbedder(), QUICK, progress=at_once)


def test_it_begins_with_settings_of_your_own() -> None:
    documents = corpus(4)
    base = SageSettings(
        segmenter={"target_tokens": 40}, reranker="none", selection=SelectionConfig(rule=FixedK(2))
    )
    found = tune(
        documents,
        asked(documents, 5),
        HashEmbedder(),
        TuneOptions(base=base, targets=(40,), rerankers=("none",)),
    )
    names = [c.variant.name for c in found.comparisons]
    assert (
        "chunks of 40 tokens" not in names and "chunks as by default" in names and "no reranker" not in names
    )
    first = found.comparisons[0].figures
    assert first.tokens.mean() < 160


@pytest.mark.parametrize("wrong", [{"minutes": 0}, {"seed": -1}, {"minutes": float("nan")}])
def test_options_out_of_range(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        TuneOptions(**wrong)
