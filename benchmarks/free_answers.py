"""What the check makes of 200 answers in free words: 100 right ones, 81 contradicted ones, 19 invented ones.

    python benchmarks/free_answers.py                # ten seconds
    python benchmarks/free_answers.py --show held    # each answer of one half that is not told rightly

Written by somebody who saw neither the rules nor the code, over one to four passages each: half of our sample
documents, half of others. The rules were changed with a look at the first half (``dev``); the second one
(``held``) was measured first and looked at then.

Printed by half and label: what `check` says, and how many answers a critic that approves everything has
accepted. Of the contradicted ones that are called so: how many with what the passages say in its place.
"""

from __future__ import annotations

import argparse
import collections
import json
from pathlib import Path
from typing import Any

from judge import with_interval

from sage_core.feedback import Verdict
from sage_core.verify import check, settled

SAVED = Path(__file__).with_name("data") / "free_answers.json"
RIGHT = {"supported": ("accepted",), "contradicted": ("contradicted",), "absent": ("not found", "unsure")}
"""What each label should get."""


def outcome(verdict: Verdict) -> str:
    """``accepted``, ``contradicted``, ``not found`` or ``unsure``."""
    if verdict.accepted:
        return "accepted"
    if any(mark.instead for mark in verdict.marks):
        return "contradicted"
    return (
        "not found"
        if any(mark.support in ("not found", "misattributed") for mark in verdict.marks)
        else "unsure"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--show", choices=("dev", "held"), help="print the answers of one half")
    arguments = parser.parse_args()
    saved = json.loads(SAVED.read_text(encoding="utf-8"))
    counts: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(collections.Counter)
    kinds: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    labels: list[bool] = []
    scores: list[float] = []
    for case in saved["cases"]:
        half, passages = case["id"].split("-")[0], [saved["passages"][i] for i in case["passages"]]
        plain = check(case["question"], passages, case["answer"])
        approved = settled(Verdict(9), case["question"], case["answer"], passages)
        said = outcome(plain)
        own = counts[half, case["label"]]
        own.update(["all", said, *(["approved"] if approved.accepted else [])])
        own["the right value"] += said == "contradicted" and _names(plain, case["instead"])
        kinds[f"{case['kind']}, {case['label']}"].update(["all", said])
        labels.append(case["label"] == "supported")
        scores.append(0.5 if plain.probability is None else plain.probability)
        if arguments.show == half and said not in RIGHT[case["label"]]:
            _show(case, plain)
    for (half, label), own in sorted(counts.items()):
        print(f"{half}, {label}: {dict(own)}")
    for kind, own in sorted(kinds.items()):
        print(f"{kind}: {dict(own)}")
    print(f"support, all {len(labels)}: AUROC {with_interval(labels, scores)}")


def _names(verdict: Verdict, instead: str) -> bool:
    said = [mark.instead.lower() for mark in verdict.marks if mark.instead]
    return bool(instead) and any(instead.lower() in own or own in instead.lower() for own in said)


def _show(case: dict[str, Any], verdict: Verdict) -> None:
    print(f"{case['id']}, {case['kind']}, {case['label']}: {case['question']} {case['answer']}")
    for mark in verdict.marks:
        print(f"    {mark.support}: {mark.reason}")


if __name__ == "__main__":
    main()
