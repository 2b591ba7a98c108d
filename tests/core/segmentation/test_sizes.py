"""Sizes that were asked for, cuts that follow the meaning, and limits that hold in every script."""

import gzip
import itertools
import json
from pathlib import Path

import pytest

from sage_app.documents.reader import read_document
from sage_core.segmentation import Layout, Segmenter
from sage_core.segmentation.chunker import english_trust
from sage_core.segmentation.long_sentences import fit_window
from sage_core.text.spans import check_tiling
from sage_core.text.tokens import CallableCounter, PieceCounter, get_counter
from tests.fakes.models import ConstantModel
from tests.fakes.scripts import PROSE, SCRIPTS

DEMO = sorted((Path(__file__).parents[3] / "demo" / "documents").iterdir())
ENGLISH = (
    "The harbour was built in three stages. The first wall kept the swell out of the basin. It was of dressed "
    "stone. A second wall followed forty years later, when the ships had outgrown the old entrance."
)
GERMAN = (
    "Die Fähre legt jeden Morgen um sieben Uhr ab. Fahrgäste sollten zehn Minuten vorher da sein. Karten gibt es "
    "an Bord. Kinder unter fünf Jahren fahren kostenlos mit. Im Winter fällt die Fahrt bei Sturm aus."
)


@pytest.fixture(scope="session")
def essays(sage_data: Path) -> list[str]:
    with gzip.open(sage_data / "dev" / "quality_leval_docs.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in itertools.islice(lines, 3)]


@pytest.mark.parametrize("target", ["sentence", 50, "passage", 100, 200, "section", 400])
def test_the_mean_is_the_one_asked_for(target, essays: list[str]) -> None:
    segmenter = Segmenter(target_tokens=target)
    chunks = zip(essays, segmenter.segment_many(essays), strict=True)
    sizes = [segmenter.counter.count(span.of(text)) for text, spans in chunks for span in spans]
    assert sum(sizes) / len(sizes) == pytest.approx(segmenter.target_tokens, rel=0.1)
    assert max(sizes) <= segmenter.max_tokens


def _cuts_below_threshold(segmenter: Segmenter) -> float:
    """Of the demo's cuts without a blank line or a heading, the share where the model says "apart"."""
    within = below = 0
    for path in DEMO:
        text = read_document(path).text
        view = segmenter.explain(text)
        said = {boundary.position: boundary.probability for boundary in view.boundaries}
        for before, chunk, reason in zip(view.spans, view.spans[1:], view.reasons, strict=False):
            if "\n\n" not in text[before.end : chunk.start] and reason != "heading":
                within += 1
                below += said[chunk.start] < segmenter.threshold
    return below / within


def test_by_topic_meaning_decides_where_the_demo_is_cut() -> None:
    assert _cuts_below_threshold(Segmenter(target_tokens="topic", max_tokens=130)) >= 0.8


def test_a_paragraph_is_cut_where_the_model_sees_a_change() -> None:
    """More of the default's cuts lie there with the weight on what the model keeps together than without."""
    assert _cuts_below_threshold(Segmenter()) > _cuts_below_threshold(Segmenter(layout=Layout(together=0.0)))


@pytest.mark.parametrize("most", [100, 130, 400])
def test_the_default_mean_is_half_of_the_limit_or_less(most, essays: list[str]) -> None:
    segmenter = Segmenter(max_tokens=most)
    for text in essays:
        sizes = [segmenter.counter.count(chunk.of(text)) for chunk in segmenter.segment(text)]
        assert sum(sizes) / len(sizes) <= 1.05 * most / 2


def test_no_mean_parts_a_heading_a_table_or_a_sentence() -> None:
    rows = "\n".join(f"| part {i} | a shelf in the long store behind the mill | {i} |" for i in range(6))
    text = f"# Stock\n\n{'All parts are counted once a year, in the last week of June, ' * 6}by two people.\n\n{rows}\n"
    chunks = [chunk.of(text) for chunk in Segmenter(ConstantModel(0.9)).segment(text)]
    assert len(chunks) == 2 and chunks[0].startswith("# Stock\n\nAll parts") and chunks[1].count("\n") == 5
    asked = [
        chunk.of(text)
        for chunk in Segmenter(ConstantModel(0.9), target_tokens=5, max_tokens=130).segment(text)
    ]
    assert asked[0].startswith("# Stock\n\nAll parts")


def test_every_cut_has_a_reason() -> None:
    text = (
        f"{ENGLISH}\n\n# Bread\n\nBread is baked before dawn in the town of Senna. {'word ' * 200}end.\n\n"
        "The dough rests overnight in wooden troughs. Bakers like it sour."
    )
    view = Segmenter(ConstantModel(0.9, mark="A second", other=0.05), max_tokens=40).explain(text)
    starts = [chunk.of(text)[:8] for chunk in view.spans[1:]]
    reasons = dict(zip(starts, view.reasons, strict=True))
    assert {"A second": "topic", "# Bread\n": "heading", "The doug": "paragraph"}.items() <= reasons.items()
    assert "limit" in view.reasons
    assert view.to_dict()["chunks"][1]["reason"] == view.reasons[0]  # type: ignore[index]


def test_a_sentence_that_points_back_stays_with_what_it_points_to() -> None:
    text = (
        "Murdo Raine came as an assistant. His diaries fill thirty volumes. Bread is baked early. It is sour."
    )
    model = ConstantModel(0.3)
    chunks = [c.of(text) for c in Segmenter(model, min_tokens=0).segment(text)]
    assert chunks == [text[: text.index(" Bread")], text[text.index("Bread") :]]
    without = Segmenter(model, min_tokens=0, layout=Layout(reference=0.0))
    assert len(without.segment(text)) == 4


def test_a_numbered_heading_and_a_directive_stay_with_what_follows() -> None:
    prose = "Members pay on the first of the month, in cash or by transfer. " * 2
    text = f"2. Members\n\n{prose}\n\n3. Dues\n\n{prose}\n\n.. note::\n\n   Late payers are told twice and no more.\n"
    for chunk in Segmenter(ConstantModel(0.4), max_tokens=45).segment(text):
        last = chunk.of(text).splitlines()[-1]
        assert last not in ("2. Members", "3. Dues", ".. note::")


@pytest.mark.parametrize("counter", ["bert", PieceCounter()], ids=str)
@pytest.mark.parametrize("script", sorted(SCRIPTS))
def test_the_limit_holds_in_every_script(tiktoken_cache: None, script: str, counter: str) -> None:
    text = " ".join([SCRIPTS[script]] * 8) if script in PROSE else SCRIPTS[script]
    segmenter = Segmenter(max_tokens=100, counter=counter)
    chunks = segmenter.segment(text)
    assert check_tiling(text, chunks) == chunks
    pieces = [chunk.of(text) for chunk in chunks]
    assert max(segmenter.counter.count_many(pieces)) <= 100
    if counter != "bert" or script not in PROSE:  # "bert" counts what there is to read in prose
        assert max(get_counter("cl100k_base").count_many(pieces)) <= 130


@pytest.mark.parametrize("script", ["thai", "khmer", "burmese", "lao"])
def test_phrases_of_scripts_without_stops_stay_whole(script: str) -> None:
    text = PROSE[script]
    chunks = [chunk.of(text) for chunk in Segmenter(max_tokens=120, counter=PieceCounter()).segment(text)]
    assert len(chunks) > 1
    assert " ".join(chunks) == text  # cut at spaces only


def test_words_are_cut_only_where_nothing_else_is_left() -> None:
    text = "a lighthouse-keeper of considerable reputation remembered extraordinarily stormy nights"
    chunks = [
        chunk.of(text)
        for chunk in Segmenter(max_tokens=20, counter=CallableCounter(len, "chars")).segment(text)
    ]
    assert " ".join(chunks) == text
    assert max(map(len, chunks)) <= 20


def test_the_english_model_has_less_to_say_about_other_languages() -> None:
    assert english_trust(ENGLISH) == 1.0
    assert 0.25 <= english_trust(GERMAN) < 0.5
    assert english_trust(PROSE["thai"]) == english_trust(PROSE["japanese"]) == 0.25
    assert english_trust("Short.") == english_trust("") == 1.0
    assert english_trust("短い。") == 0.25


def test_chunks_are_within_what_an_embedding_model_reads() -> None:
    text = " ".join([PROSE["hindi"]] * 8)
    chunks = Segmenter().segment(text)
    pieces = PieceCounter()
    assert max(pieces.count_many([chunk.of(text) for chunk in chunks])) > 254
    fitted = fit_window(text, chunks, pieces, 254)
    assert check_tiling(text, fitted) == fitted
    assert max(pieces.count_many([chunk.of(text) for chunk in fitted])) <= 254
    english = "The ferry leaves at seven. " * 80
    assert fit_window(english, Segmenter().segment(english), pieces, 254) == Segmenter().segment(english)
