"""The reader marks the words that answer."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from sage_core.errors import ModelError
from sage_core.verify import LocalJudge
from sage_core.verify.entailment import Entailment
from sage_core.verify.reader import FOLDER, Reader

PASSAGE = "The bridge was built by Ana Ruiz. It was opened in 1932 and carries eight lanes of traffic."


@pytest.mark.parametrize(
    ("question", "answer"), [("When was the bridge opened?", "1932"), ("Who built the bridge?", "Ana Ruiz")]
)
def test_the_answer_is_marked(question: str, answer: str) -> None:
    [read] = Reader().read(question, [PASSAGE])
    assert read is not None and PASSAGE[read.span.start : read.span.end] == answer
    assert 0 < read.probability <= 1
    located = LocalJudge().locate(question, ["Bees fly.", PASSAGE])
    assert located is not None and located.passage == 1
    assert PASSAGE[located.answer.start : located.answer.end] == answer


def test_what_is_known_otherwise_moves_the_answer() -> None:
    hints = np.zeros((len(PASSAGE), 2))
    at = PASSAGE.index("eight")
    hints[at, 0] = hints[at + len("eight") - 1, 1] = 40
    [read] = Reader().read("When was the bridge opened?", [PASSAGE], [hints])
    assert read is not None and PASSAGE[read.span.start : read.span.end] == "eight"


@pytest.mark.parametrize("text", ["", " \n", "\u200b"])
def test_a_text_without_words_has_no_answer(text: str) -> None:
    assert Reader().read("Who?", [text, PASSAGE])[0] is None


@pytest.mark.parametrize("question", ["Who built the bridge? " * 500, "Who built it" + "?" * 390, ""])
def test_long_and_odd_texts_are_read(question: str) -> None:
    answers = Reader().read(question, ["x" * 100_000, "🐝" * 5_000, PASSAGE])
    assert len(answers) == 3


def test_more_shared_layers_than_there_are_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "entailment"
    shutil.copytree(FOLDER.with_name("sage-entailment"), folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "shared_layers": 9}), encoding="utf-8")
    with pytest.raises(ModelError, match="shared_layers"):
        Entailment(folder)


def test_a_heading_is_not_quoted() -> None:
    passage = "# Opened in 1932 by Ana Ruiz\n\nThe bridge was opened with a feast. It carries eight lanes."
    [read] = Reader().read("When was the bridge opened?", [passage])
    assert read is not None and passage[read.span.start : read.span.end] == "1932"
    located = LocalJudge().locate("When was the bridge opened?", [passage])
    assert located is not None and located.sentence.start >= passage.index("The bridge")
