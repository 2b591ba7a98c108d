"""`sage-rag train-support` on ten claims of three sources."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from sage_train.support import PRIOR, app
from typer.testing import CliRunner

pytestmark = pytest.mark.slow

TEXT = "The ferry takes 40 minutes. Seals live in the harbor. The mill was built in 1764 by Ann."
RIGHT = ["The ferry takes 40 minutes.", "The mill was built by Ann."]
WRONG = ["Nine bears own the submarine.", "Tickets to the moon cost 12 crowns."]


def save(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def test_what_people_found_supported_is_told_from_the_rest(tmp_path: Path) -> None:
    claims = [(claim, claim in RIGHT) for claim in (*RIGHT, *WRONG)]
    save(
        tmp_path / "train" / "grounding.jsonl.gz",
        [
            {"kind": kind, "claim": claim, "context": TEXT, "supported": label, "group": f"{kind}{i}"}
            for kind in ("begin_wow", "fever")
            for i, (claim, label) in enumerate(claims)
        ],
    )
    rows = [(RIGHT[0], "supported"), (WRONG[0], "not_supported")]
    save(
        tmp_path / "dev" / "wice_dev.jsonl.gz",
        [{"claim": c, "evidence": [TEXT], "label": label} for c, label in rows],
    )
    result = CliRunner().invoke(app, [str(tmp_path)])
    assert result.exit_code == 0, result.output
    fitted = json.loads(result.output)
    assert len(fitted["support"]) == len(PRIOR) + 1
    assert fitted["support"][0] > 0 > fitted["support"][4]  # words, names missing
    assert 0 < fitted["supported_from"] < 1
