"""Settings in a file: what is written is what every part gets."""

import json
from pathlib import Path

import pytest

from sage_app import Sage, SageConfig, SageSettings
from sage_core import FeedbackConfig, InputError, SelectionConfig
from sage_core.ranking import HybridReranker
from sage_core.selection import Earliest, Gradient, RelativeToTop
from tests.fakes.models import HashEmbedder

FULL = SageSettings(
    segmenter={"model": "pair", "target_tokens": 60, "max_tokens": 140, "min_tokens": 10},
    embedder="all-MiniLM-L6-v2",
    context=False,
    candidates=40,
    selection=SelectionConfig(rule=Earliest((Gradient(0.2), RelativeToTop(0.3))), min_k=3, max_k=9),
    made_by={"sage_rag": "0.2.0"},
    measured={"questions": 120, "recall": [0.81, 0.84]},
)


@pytest.mark.parametrize("settings", [SageSettings(), FULL], ids=["defaults", "everything"])
def test_a_file_gives_back_what_was_saved(tmp_path: Path, settings: SageSettings) -> None:
    path = settings.save(tmp_path / "settings.json")
    assert SageSettings.load(path) == settings
    assert SageSettings.load(str(path)) == settings
    assert [p.name for p in tmp_path.iterdir()] == ["settings.json"]


def test_what_is_left_out_has_its_default(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('\ufeff{"candidates": 7}', encoding="utf-8")
    assert SageSettings.load(path) == SageSettings(candidates=7)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"embeddr": "x"}, "no setting 'embeddr'; did you mean 'embedder'?"),
        ({"segmenter": {"target_token": 60}}, "'target_token'; did you mean 'target_tokens'?"),
        ({"selection": {"mink": 1}}, "'mink'; did you mean 'min_k'?"),
        ({"quux": 1}, "no setting 'quux'; there are segmenter,"),
        ({"segmenter": {"target_tokens": 0}}, "target_tokens must be at least 1, not 0"),
        ({"segmenter": []}, "are an object"),
        ({"selection": {"rule": "steepest"}}, "unknown rule 'steepest'"),
        ({"selection": {"rule": 3}}, "its rule a name or an object"),
        ({"selection": {"rule": {"rule": "FixedK", "j": 1}}}, "settings of the rule FixedK"),
        ({"selection": {"min_k": 5, "max_k": 2}}, "max_k must be at least min_k"),
        ({"candidates": True}, "candidates"),
        ({"candidates": 0}, "candidates must be at least 1"),
        ({"context": "yes"}, "context is true or false"),
        ({"embedder": " "}, "embedder is the name of a model"),
        ([1], "settings are an object"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong_in_it(tmp_path: Path, data: object, message: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InputError) as raised:
        SageSettings.load(path)
    assert "mine.json" in str(raised.value) and message in str(raised.value)


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe\x00", b"[" * 100_000, b""])
def test_what_is_no_json_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"mine\.json"):
        SageSettings.load(path)


def test_sage_takes_them(tmp_path: Path) -> None:
    path = FULL.save(tmp_path / "settings.json")
    with Sage.from_settings(path, tmp_path / "store") as sage:
        assert sage.config == SageConfig(
            candidates=40, context=False, feedback=FeedbackConfig(selection=FULL.selection)
        )
        assert sage.segmenter.fingerprint == FULL.make_segmenter().fingerprint
    base = SageConfig(links=False, feedback=FeedbackConfig(max_rounds=1, selection=SelectionConfig(min_k=2)))
    with Sage.from_settings(
        FULL, tmp_path / "store", config=base, embedder=HashEmbedder(), reranker=HybridReranker()
    ) as sage:
        assert sage.config.links is False and sage.config.feedback.max_rounds == 1
        assert sage.config.feedback.selection == FULL.selection
        assert isinstance(sage.reranker, HybridReranker)


@pytest.mark.parametrize(
    "text",
    [
        '{"embedder": "\\ud800"}',
        '{"selection": {"gradient": ' + "9" * 400 + "}}",
        '{"segmenter": {"max_tokens": ' + "9" * 400 + "}}",
        '{"candidates": ' + "9" * 400 + "}",
        '{"selection": {"min_k": Infinity}}',
        '{"measured": {"value": 1e999}}',
        *('{"selection": {"rule": {"rule": ' + rule + "}}}" for rule in ("[]", "{}", "1", "null")),
        '{"selection": {"rule": {"rule": "Earliest", "rules": 5}}}',
    ],
)
def test_values_that_no_setting_has_are_input_errors(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"settings\.json"):
        SageSettings.load(path)
