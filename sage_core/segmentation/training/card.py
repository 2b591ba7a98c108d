"""The model card: what a model was trained on, under which licences, how good it is and how to remake it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sage_core.segmentation.training.corpus import Document

if TYPE_CHECKING:
    from sage_core.segmentation.training.options import TrainOptions, TrainReport


@dataclass(frozen=True, slots=True)
class CorpusSummary:
    """Size of a corpus and its licences (documents under each)."""

    documents: int
    paragraphs: int
    sentences: int
    licences: tuple[tuple[str, int], ...]


def summarize(documents: Iterable[Document]) -> CorpusSummary:
    """Count documents, paragraphs, sentences and licences."""
    licences: Counter[str] = Counter()
    paragraphs = sentences = 0
    for document in documents:
        licences[document.licence or "not stated"] += 1
        paragraphs += len(document.paragraphs)
        sentences += sum(map(len, document.paragraphs))
    return CorpusSummary(licences.total(), paragraphs, sentences, tuple(licences.most_common()))


def model_card(options: TrainOptions, corpus: CorpusSummary, report: TrainReport, command: str) -> str:
    """The card, in Markdown."""
    figures = report.figures
    start = {"pretrained": "token tables from all-MiniLM-L6-v2 (Apache-2.0)", "random": "random tables"}.get(
        options.start, f"the model {options.start!r}"
    )
    licences = "\n".join(f"- {name}: {count:,} documents" for name, count in corpus.licences)
    return f"""# Boundary model ({options.kind})

P(same): whether two neighbouring sentences belong to one paragraph. Trained by
`sage_core.segmentation.training.train`.

- Start: {start}
- Languages: those of the training text below; the bundled models are English only
- Seed: {options.seed}; loss: {options.loss}; best after {report.steps:,} steps; {report.seconds:,.0f} s
- Command: `{command or "sage_core.segmentation.training.train.train(...)"}`

## Training text

{corpus.documents:,} documents, {corpus.paragraphs:,} paragraphs, {corpus.sentences:,} sentences. Licences:

{licences}

## Figures on held-out documents

Neighbouring sentences, paragraph breaks withheld; {figures["gaps"]:,.0f} gaps.

| base rate of breaks | ROC AUC | best F1 | at P(same) below | F1 at 0.55 | calibration error |
|---|---|---|---|---|---|
| {figures["base_rate"]:.3f} | {figures["auc"]:.3f} | {figures["f1"]:.3f} | {figures["threshold"]:.2f} \
| {figures["f1_at_default"]:.3f} | {figures["calibration_error"]:.3f} |
"""
