"""The experiment about SAGE's Table X: trains on some documents, measures on others."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sage_core.errors import InputError
from sage_core.evaluation.data_choice import DEVELOPMENT, choose_data
from sage_core.evaluation.datasets.dev import dev_folder
from sage_core.evaluation.pair_features import (
    FEATURES,
    PROTOCOLS,
    STATIC,
    Text,
    frozen_cells,
    mine,
    read_text,
    static_row,
)
from sage_core.evaluation.records import EvalDocument
from sage_core.evaluation.runner import Outcome, Progress
from sage_core.segmentation.models.transformer import TransformerEncoder
from sage_core.segmentation.training.corpus import Document, read_corpus
from sage_core.segmentation.training.tables import pretrained_features
from sage_core.text.sentences import split_sentences

if TYPE_CHECKING:
    from sage_core.evaluation.plan import MethodMaker, Plan
    from sage_core.evaluation.run_folder import RunFolder

_BLANK_LINE = re.compile(r"\n\s*\n")
_TRAINING = "train/train_expository.jsonl.gz"
_TRAINING_SHARE = 0.8


def measure(
    plan: Plan, folder: RunFolder, maker: MethodMaker, progress: Callable[[Progress], None] | None
) -> Outcome:
    """Accuracy of every feature set, with a trained and a frozen encoder, for both kinds of negatives.

    Options: ``training_pairs``, ``test_pairs`` (for each encoder, by its name) and ``documents`` (training
    documents, at most).
    """
    done = {name for line in folder.lines() if line["kind"] == "measured" for name in line["figures"]}
    train, test, about = texts(plan)
    start = pretrained_features("all-MiniLM-L6-v2", STATIC.vocabulary)
    encoder = TransformerEncoder(device="cpu", batch_size=64)
    jobs = [(kind, p, sizes) for p in PROTOCOLS for kind, sizes in plan.experiment.options["pairs"].items()]
    answered = 0
    for number, (kind, protocol, (training, tested)) in enumerate(jobs):
        label = "accuracy" if (kind, protocol) == ("trained", "random") else f"{kind}, {protocol}"
        if label in done:
            continue
        if progress is not None:
            progress(Progress(f"{kind}, {protocol}", "preparing", number, len(jobs), 0))
        mined = mine(train, protocol, training, 0), mine(test, protocol, tested, 1)
        if kind == "trained":
            cells = [static_row(train, test, name, mined, start) for name in FEATURES]
        else:
            cells = frozen_cells(train, test, mined, encoder.encode)
        note = f"{label}: {kind} encoder, {protocol} negatives, {len(mined[0][1]):,} training and "
        note += f"{len(mined[1][1]):,} test pairs. {about}."
        for name, cell in zip(FEATURES, cells, strict=True):
            line = {"kind": "measured", "row": name, "figures": {label: 100 * cell}, "note": note}
            folder.append(line)
            note = ""
        answered += len(FEATURES)
    return Outcome(answered, len(done) * len(FEATURES))


def texts(plan: Plan) -> tuple[Text, Text, str]:
    """Text to train on, text to measure on, and what they are.

    Raises:
        InputError: Where they are not there.
    """
    limit = int(plan.experiment.options.get("documents", 0)) or None
    if plan.options.data == DEVELOPMENT:
        folder = dev_folder()
        tested = [folder / f"{name}.jsonl.gz" for name in plan.experiment.development]
        training = folder.parent / _TRAINING
        _need([training, *tested])
        train, test = list(read_corpus([training])), list(read_corpus(tested))
        about = f"Trained on {_TRAINING}, measured on {' and '.join(plan.experiment.development)}"
    else:
        (dataset, *_) = choose_data(plan.experiment, plan.options.data)
        documents = [_paragraphs(d) for d in dataset.documents]
        cut = round(_TRAINING_SHARE * len(documents))
        if not 0 < cut < len(documents):
            raise InputError(f"data set {dataset.name!r} has too few documents to hold some out")
        train, test = documents[:cut], documents[cut:]
        about = f"Trained on the first {cut} documents of {dataset.name}, measured on the others"
    return read_text(train, limit=limit), read_text(test), about


def _paragraphs(document: EvalDocument) -> Document:
    blocks = [block for block in _BLANK_LINE.split(document.text) if block.strip()]
    sentences = (tuple(span.of(block) for span in split_sentences(block)) for block in blocks)
    return Document(document.id, tuple(found for found in sentences if found))


def _need(paths: Sequence[Path]) -> None:
    for path in paths:
        if not path.is_file():
            raise InputError(f"{path} is not there: set SAGE_DATA to the folder that holds dev/ and train/")
