"""Values of the wrong kind in the Python API: each is told by its name, none is a raw error of Python's."""

import asyncio
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sage_app import ExtractiveAnswerer, LLMAnswerer, Sage, SageConfig
from sage_app.models import OpenAIChat
from sage_core import FeedbackConfig, Layout, Segmenter, select
from sage_core.errors import InputError
from sage_core.llm.prompting import question_text
from sage_core.ranking import score_candidates
from sage_core.ranking.protocol import checked_scores
from sage_core.selection import SelectionConfig
from sage_core.selection.scales import rank_order
from tests.fakes.models import BlankLineSegmenter, HashEmbedder


@pytest.mark.parametrize("part", ["segmenter", "embedder", "reranker", "answerer", "counter", "config"])
@pytest.mark.parametrize("wrong", ["all-MiniLM-L6-v2", 3, HashEmbedder, {"min_k": 3}], ids=str)
def test_a_part_that_is_none_says_what_goes_there(part: str, wrong: object, tmp_path: Path) -> None:
    if part in ("reranker", "embedder") and isinstance(wrong, str):
        return  # these may be named
    with pytest.raises(InputError, match=rf"{part} is an? .*not "):
        Sage(tmp_path / "store", **{part: wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    ["abc", 3, {"a": 1}, ["a", 3], ["a", " "], iter(["a", "b"])],
    ids=["text", "number", "mapping", "mixed", "blank", "iterator"],
)
def test_options_are_a_list_of_texts(options: Any, tmp_path: Path) -> None:
    sage = Sage(tmp_path / "store", embedder=HashEmbedder(), segmenter=BlankLineSegmenter())
    uses: list[Callable[[], object]] = [
        lambda: sage.ask("Which?", options),  # before the store, which is not there, is looked for
        lambda: asyncio.run(sage.aask("Which?", options)),
        lambda: question_text("Which?", options),
        lambda: ExtractiveAnswerer().generate("Which?", ["North."], options=options),
    ]
    for use in uses:
        with pytest.raises(InputError, match=r"options? (is|are) a"):
            use()


@pytest.mark.parametrize("value", [math.nan, math.inf, "1", None, True])
def test_settings_of_a_layout(value: Any) -> None:
    with pytest.raises(InputError, match="blank_line"):
        Layout(blank_line=value)


def test_numbers_of_numpy_are_numbers() -> None:
    one = Segmenter(max_tokens=np.int64(50), threshold=np.float32(0.5))  # type: ignore[arg-type]
    assert one.fingerprint == Segmenter(max_tokens=50, threshold=0.5).fingerprint
    assert FeedbackConfig(selection=SelectionConfig(min_k=np.int32(3))).selection.effective_min_k == 3  # type: ignore[arg-type]
    assert SageConfig(candidates=np.int64(9)).candidates == 9  # type: ignore[arg-type]


class Scores:
    """A reranker that gives what it was made with."""

    name, scale = "scores", "probability"

    def __init__(self, scores: Any) -> None:
        self.scores = scores

    def score(self, query: str, texts: object) -> Any:
        return self.scores


class TestScoresOfARerankerOfOnesOwn:
    @pytest.mark.parametrize(
        "scores", [np.array([0.1, np.nan, 0.9]), [0.1, None, 0.9], (0.1, math.nan, np.float32(0.9))], ids=repr
    )
    def test_may_be_an_array_or_hold_none(self, scores: Any) -> None:
        found = score_candidates(Scores(scores), "q", ["a", "b", "c"])  # type: ignore[arg-type]
        assert found == pytest.approx([0.1, math.nan, 0.9], nan_ok=True)
        assert select(scores, min_k=1).indices == (2,)
        assert rank_order(scores) == [2, 0, 1]

    @pytest.mark.parametrize("scores", ["abc", [0.1, "x", 0.3], None, [[1], [2, 3], [4]], {"a": 1}], ids=repr)
    def test_are_told_where_they_are_none(self, scores: Any) -> None:
        with pytest.raises(InputError, match="reranker 'scores': score"):
            checked_scores("scores", scores, 3)

    def test_reach_sage(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("One.\n\nTwo.\n\nThree.")
        plain = SageConfig(context=False)  # so that no neighbor changes a score
        parts = {"embedder": HashEmbedder(), "segmenter": BlankLineSegmenter(), "config": plain}
        with Sage(tmp_path / "store", reranker=Scores(np.array([0.1, np.nan, 0.9])), **parts) as sage:  # type: ignore[arg-type]
            sage.ingest(tmp_path / "a.txt")
            assert [c.score for c in sage.retrieve("Which?").candidates] == [0.9, 0.1, None]
        with (
            Sage(tmp_path / "store", reranker=Scores([0.1, "x", 0.9]), **parts) as sage,  # type: ignore[arg-type]
            pytest.raises(InputError, match="score 1 is 'x'"),
        ):
            sage.retrieve("Which?")


@pytest.mark.parametrize(
    "make",
    [
        lambda: LLMAnswerer("gpt-4o-mini"),
        lambda: LLMAnswerer(None),
        lambda: LLMAnswerer(OpenAIChat("m"), critic="gpt-4o"),
    ],
)
def test_the_name_of_a_model_is_no_model(make: Callable[[], object]) -> None:
    with pytest.raises(InputError, match=r"judge|chat|critic"):
        make()
