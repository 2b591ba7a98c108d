"""Sizes and reasons: the mean that was asked for, why texts are cut, how many vectors an index needs.

    python benchmarks/chunk_sizes.py [--documents 40] [--reasons]

For every development set (``SAGE_DATA``) and every target: mean and largest chunk in tokens of our counter,
over the documents that are at least twice the target long. Then, for the default and the presets: the share
of cuts without a blank line or a heading that lie below the segmenter's threshold (0.55) and below the one
stored with the model (0.70, of best F1 on held-out training documents), how many of them lie at the weakest
place within reach (the lowest P(same) to which that cut alone can be moved, both chunks staying within the
limits) and how much higher P(same) is in the mean than there, how many part a sentence that begins by
pointing back from the one before, the reasons of all cuts, and vectors per 1,000 words.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import sys
from bisect import bisect_left
from collections import Counter
from pathlib import Path

from sage_app.documents.reader import read_document
from sage_core.segmentation import Segmenter
from sage_core.segmentation.limits import SIZES, Size
from sage_core.text.blocks import points_back

DATA = Path(os.environ.get("SAGE_DATA", "../shared/data")) / "dev"
DEMO = Path(__file__).parents[1] / "demo" / "documents"
QUESTION_SETS = (
    "squad2_dev16", "clapnq_dev", "onestopqa", "cuad_leval", "hotpot_sample", "nq_leval", "quality_leval",
    "qasper_leval", "fairytaleqa",
)  # fmt: skip
BOUNDARY_SETS = ("seg_wikipedia_valid", "seg_openstax_philosophy", "seg_gum")
TARGETS: tuple[int | Size | None, ...] = (None, "sentence", 50, "passage", 100, 200, "section", 400)
OWN_THRESHOLD = 0.70


def main() -> None:
    """Measure and print Markdown tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=40, help="the first so many of each set; 0 for all")
    parser.add_argument("--reasons", action="store_true", help="only why and where, without the means")
    options = parser.parse_args()
    if not DATA.is_dir():
        sys.exit(f"no {DATA}: set SAGE_DATA to the folder that holds dev/")
    sets = {"demo": [read_document(path).text for path in sorted(DEMO.iterdir())]}
    sets |= {name: documents(name) for name in (*QUESTION_SETS, *BOUNDARY_SETS)}
    if options.documents:
        sets = {name: texts[: options.documents] for name, texts in sets.items()}
    if not options.reasons:
        print_means(sets)
    print_reasons(sets)


def documents(name: str) -> list[str]:
    """The texts of a set; paragraphs of the boundary sets stand apart, as on a page."""
    file = DATA / (f"{name}.jsonl.gz" if name in BOUNDARY_SETS else f"{name}_docs.jsonl.gz")
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    if name not in BOUNDARY_SETS:
        return [row["text"] for row in rows]
    return ["\n\n".join(blocks(row)) for row in rows]


def blocks(row: dict[str, list[dict[str, object]]]) -> list[str]:
    """Headings and paragraphs of a document; of some sets a paragraph is a list of sentences."""
    found: list[str] = []
    for section in row["sections"]:
        found += [str(section["heading"])] if section.get("heading") else []
        paragraphs = section["paragraphs"]
        assert isinstance(paragraphs, list)
        found += [p if isinstance(p, str) else " ".join(p) for p in paragraphs]
    return found


def print_means(sets: dict[str, list[str]]) -> None:
    """Mean and largest chunk by set and target."""
    heads = [f"{t} ({SIZES[t]})" if isinstance(t, str) else str(t or "default") for t in TARGETS]
    print("| set | " + " | ".join(heads) + " |\n|---" + "|---" * len(heads) + "|")
    for name, texts in sets.items():
        cells = []
        for target in TARGETS:
            segmenter = Segmenter(target_tokens=target)
            least = 2 * (segmenter.target_tokens or 0)
            long = [text for text in texts if segmenter.counter.count(text) >= least]
            sizes = [
                segmenter.counter.count(chunk.of(text))
                for text, chunks in zip(long, segmenter.segment_many(long), strict=True)
                for chunk in chunks
            ]
            cells.append(f"{sum(sizes) / len(sizes):.0f} ({max(sizes)})" if sizes else "")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def print_reasons(sets: dict[str, list[str]]) -> None:
    """Why texts are cut, for the default and by topic for each set, and for the presets over all."""
    print(
        "\n| set | setting | cuts without blank line or heading | below 0.55 | below 0.70 "
        "| weakest in reach | above it | before a back-reference "
        "| topic, paragraph, heading, limit, size | vectors per 1,000 words |"
        "\n|---|---|---|---|---|---|---|---|---|---|"
    )
    rows: list[tuple[str, Size | None, dict[str, list[str]]]] = [
        (name, None, {name: texts}) for name, texts in sets.items()
    ]
    development = {name: texts for name, texts in sets.items() if name != "demo"}
    presets: list[Size | None] = [None, "topic", "sentence", "passage", "section"]
    for name, target, chosen in [
        *rows,
        *((name, "topic", {name: texts}) for name, texts in sets.items()),
        *(("all development sets", preset, development) for preset in presets),
    ]:
        print(
            f"| {name} | {target or 'default'} | {reasons(Segmenter(target_tokens=target), chosen)} |",
            flush=True,
        )


def reasons(segmenter: Segmenter, sets: dict[str, list[str]]) -> str:
    """The cells of one line."""
    why: Counter[str] = Counter()
    within = below = below_own = back = chunks = words = 0
    above: list[float] = []
    for text in (text for texts in sets.values() for text in texts):
        view = segmenter.explain(text)
        said = {boundary.position: boundary.probability for boundary in view.boundaries}
        why.update(view.reasons)
        chunks += len(view.spans)
        words += len(text.split())
        places = [0, *(boundary.position for boundary in view.boundaries), len(text)]
        counts = segmenter.counter.count_many([text[a:b] for a, b in itertools.pairwise(places)])
        ends = dict(zip(places, itertools.accumulate(counts, initial=0), strict=True))
        stops = [*(span.start for span in view.spans[2:]), len(text)]
        for before, chunk, reason, stop in zip(view.spans, view.spans[1:], view.reasons, stops, strict=False):
            probability = said.get(chunk.start)
            if probability is None or reason == "heading" or "\n\n" in text[before.end : chunk.start]:
                continue
            within += 1
            below += probability < segmenter.threshold
            below_own += probability < OWN_THRESHOLD
            back += points_back(text, chunk)
            left, right = ends.get(before.start), ends.get(stop)
            if left is None or right is None:
                continue  # beside a sentence that was cut
            reach = [
                said[p]
                for p in places[bisect_left(places, before.start) + 1 : bisect_left(places, stop)]
                if max(ends[p] - left, right - ends[p]) <= segmenter.max_tokens
                and min(ends[p] - left, right - ends[p]) >= segmenter.min_tokens
            ]
            above.append(probability - min([*reach, probability]))
    shares = " | ".join(f"{count / max(1, within):.2f}" for count in (below, below_own))
    count = max(1, len(above))
    weakest = f"{sum(a == 0 for a in above) / count:.2f} | {sum(above) / count:.3f}"
    reasons_ = ", ".join(str(why[reason]) for reason in ("topic", "paragraph", "heading", "limit", "size"))
    return f"{within} | {shares} | {weakest} | {back} | {reasons_} | {1000 * chunks / words:.1f}"


if __name__ == "__main__":
    main()
