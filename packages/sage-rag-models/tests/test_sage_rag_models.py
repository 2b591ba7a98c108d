"""The weights are found where this distribution is installed."""

from pathlib import Path

import sage_rag_models

from sage_core import CrossEncoderReranker

README = Path(__file__).parents[1] / "README.md"


def test_the_weights_and_their_card_are_there() -> None:
    folder = Path(sage_rag_models.__file__).parent / "sage-minilm"
    assert {path.name for path in folder.iterdir()} == {"model.safetensors", "config.json", "MODEL_CARD.md"}


def test_it_ranks_what_answers_first() -> None:
    scores = CrossEncoderReranker("sage-minilm").score(
        "When does the ferry leave?", ["Bees fly.", "The ferry leaves at seven."]
    )
    assert scores[1] > scores[0]


def test_the_example_runs() -> None:
    code = README.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    names: dict[str, list[float]] = {}
    exec(code, names)
    assert len(names["scores"]) == 2
