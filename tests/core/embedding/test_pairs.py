"""Models that read two texts together: a pair reads alike alone and among others."""

import numpy as np
import pytest

from sage_core.verify.judge import Entailment

PAIRS = [
    (question, text)
    for question in ("Who opened the bridge?", "Do seals sleep?")
    for text in (
        "Ana Ruiz opened it in 1932.",
        "Seals sleep in the water, and on land when it is warm.",
        "No.",
    )
]


def test_logits_come_in_the_order_of_the_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Entailment()
    together = model.logits(PAIRS)
    monkeypatch.setattr("sage_core.embedding.pairs._PAIRS", 1)
    np.testing.assert_allclose(together, model.logits(PAIRS), atol=1e-4)
    np.testing.assert_allclose(together, [model.logits([pair])[0] for pair in PAIRS], atol=1e-4)
    assert model.logits([]).shape == (0,)
