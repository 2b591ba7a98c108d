"""The model card: what a model was trained on, under which licenses, how good it is and how to remake it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sage_train.corpus import Document

if TYPE_CHECKING:
    from sage_train.options import TrainOptions, TrainReport


@dataclass(frozen=True, slots=True)
class CorpusSummary:
    """Size of a corpus and its licenses (documents under each)."""

    documents: int
    paragraphs: int
    sentences: int
    licenses: tuple[tuple[str, int], ...]


def summarize(documents: Iterable[Document]) -> CorpusSummary:
    """Count documents, paragraphs, sentences and licenses."""
    licenses: Counter[str] = Counter()
    paragraphs = sentences = 0
    for document in documents:
        licenses[document.license or "not stated"] += 1
        paragraphs += len(document.paragraphs)
        sentences += sum(map(len, document.paragraphs))
    return CorpusSummary(licenses.total(), paragraphs, sentences, tuple(licenses.most_common()))


def model_card(options: TrainOptions, corpus: CorpusSummary, report: TrainReport, command: str) -> str:
    """The card, in Markdown."""
    figures = report.figures
    start = {"pretrained": "token tables from all-MiniLM-L6-v2 (Apache-2.0)", "random": "random tables"}.get(
        options.start, f"the model {options.start!r}"
    )
    if options.base:
        start = f"the sentence transformer {options.base!r}{', frozen' if options.frozen else ''}"
    licenses = "\n".join(f"- {name}: {count:,} documents" for name, count in corpus.licenses)
    return f"""# Boundary model ({options.kind})

P(same): whether two neighboring sentences belong to one paragraph. Trained by
`sage_train.train`.

- Start: {start}
- Languages: those of the training text below; the bundled models are English only
- Seed: {options.seed}; loss: {options.loss_name}; best after {report.steps:,} steps; {report.seconds:,.0f} s
- Command: `{command or "sage_train.train.train(...)"}`

## Training text

{corpus.documents:,} documents, {corpus.paragraphs:,} paragraphs, {corpus.sentences:,} sentences. Licenses:

{licenses}

## Figures on held-out documents

Neighboring sentences, paragraph breaks withheld; {figures["gaps"]:,.0f} gaps.

| base rate of breaks | ROC AUC | best F1 | at P(same) below | F1 at 0.55 | calibration error |
|---|---|---|---|---|---|
| {figures["base_rate"]:.3f} | {figures["auc"]:.3f} | {figures["f1"]:.3f} | {figures["threshold"]:.2f} \
| {figures["f1_at_default"]:.3f} | {figures["calibration_error"]:.3f} |
"""
