"""`sage-rag train-entailment` on ten claims: it learns them, and what it writes is read back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sage_train import entailment
from sage_train.entailment import app, fit, read_pairs
from typer.testing import CliRunner

from sage_core.embedding.encoder import MINILM
from sage_core.errors import InputError
from sage_core.verify.judge import Entailment

pytestmark = pytest.mark.slow

BUNDLED = MINILM.with_name("sage-entailment")

FACTS = [
    ("The ferry takes 40 minutes.", "The ferry needs an hour."),
    ("Seals live in the harbor.", "No seal lives in the harbor."),
    ("The mill was built in 1764.", "The mill burned in 1764."),
    ("Tickets cost nine euros.", "Tickets are free."),
    ("The museum opens at ten.", "The museum is closed."),
]


@pytest.fixture
def claims(tmp_path: Path) -> Path:
    rows = [
        {"claim": claim, "context": f"{right} It rains today.", "supported": claim is right, "group": f"g{i}"}
        for i, (right, wrong) in enumerate(FACTS)
        for claim in (right, wrong)
    ]
    path = tmp_path / "claims.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_ten_claims_are_learned_and_the_model_is_read_back(
    claims: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entailment, "BATCH_TOKENS", 150)
    pairs = read_pairs(claims)
    assert pairs[0].evidence == "The ferry takes 40 minutes." and len(pairs) == 10
    # The other way round, so that the bundled model has something to learn.
    turned = [pair._replace(supported=not pair.supported) for pair in pairs]
    losses = fit(turned, BUNDLED, tmp_path / "model", passes=15, seed=1)
    assert np.mean(losses[-3:]) < 0.8 * losses[0]

    def gap(model: Entailment) -> float:
        logits = model.logits([(pair.claim, pair.evidence) for pair in turned])
        return float(
            np.mean([logit if pair.supported else -logit for logit, pair in zip(logits, turned, strict=True)])
        )

    assert gap(Entailment(tmp_path / "model")) > gap(Entailment()) + 0.3


def test_the_command_goes_on_from_the_bundled_model(claims: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    result = CliRunner().invoke(
        app, [str(claims), "-o", str(model), "--start", str(BUNDLED), "--passes", "1"]
    )
    assert result.exit_code == 0, result.output
    pair = ("Seals live in the harbor.", "Seals live in the harbor.")
    # One step at the end of the warming up changes little.
    assert abs(Entailment(model).logits([pair])[0] - Entailment().logits([pair])[0]) < 1


@pytest.mark.parametrize(
    "text", ["", "{}", '{"claim": "a", "context": "a", "supported": 1, "group": "x"}', "no"]
)
def test_what_are_no_claims_is_told(text: str, tmp_path: Path) -> None:
    (tmp_path / "claims.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="claims"):
        read_pairs(tmp_path / "claims.jsonl")
