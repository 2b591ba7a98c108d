"""Which features of two sentence vectors tell whether they belong together (SAGE, Table X).

Four feature sets, two protocols: negatives drawn from other documents (what the paper's accuracies can be
compared with), and neighbors across a paragraph break (the task at run time). Classes are balanced, so that
chance is 50 %. Trains on some documents, measures on others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from sage_train.corpus import Corpus, Document, index_corpus, read_corpus
from sage_train.fitting import loss_of
from sage_train.mining import NegativeMix, mine_pairs
from sage_train.networks import Linear, SentenceNet, sentence_batch
from sage_train.tables import (
    pretrained_features,
    principal_components,
    start_weights,
    token_shares,
)
from torch import Tensor, nn

from sage_app.models import named_embedder
from sage_core.embedding import DEFAULT_EMBEDDER
from sage_core.errors import InputError
from sage_core.segmentation.models.encoder import EncoderConfig
from sage_core.text.sentences import split_sentences
from sage_eval.datasets.load import dev_folder
from sage_eval.plan import DEVELOPMENT, choose_data
from sage_eval.records import EvalDocument
from sage_eval.runner import Outcome, Progress

if TYPE_CHECKING:
    from sage_eval.plan import MethodMaker, Plan
    from sage_eval.run_folder import RunFolder

PROTOCOLS = {"random": NegativeMix(1, 0, 0), "neighbors": NegativeMix(0, 0, 1)}
FEATURES: dict[str, Callable[[Tensor, Tensor], list[Tensor]]] = {
    "x1, x2": lambda a, b: [a, b],
    "x1, x2, x1-x2": lambda a, b: [a, b, a - b],
    "x1, x2, x1*x2": lambda a, b: [a, b, a * b],
    "x1, x2, x1-x2, x1*x2": lambda a, b: [a, b, a - b, a * b],
}
STATIC = EncoderConfig(mean_size=96, edge_size=32, size=160)

Pairs = tuple[NDArray[np.int64], NDArray[np.float32]]
Encode = Callable[[NDArray[np.int64], bool], Tensor]
"""Sentence numbers, and whether this is training, to vectors."""


@dataclass(frozen=True, slots=True)
class Text:
    """A corpus and its sentences as strings."""

    corpus: Corpus
    sentences: list[str]


@dataclass(frozen=True, slots=True)
class Training:
    """How an MLP, and an encoder where it has parameters, are trained.

    Attributes:
        epochs: Passes over the pairs.
        batch: Pairs a step.
        rate: Highest learning rate of the encoder; the MLP's is 0.002.
        loss: ``"bce"`` or ``"mse"`` (Algorithm 1).
        seed: Of the first weights and of the order of the pairs.
    """

    epochs: int
    batch: int
    rate: float = 0.0
    loss: str = "bce"
    seed: int = 0


class Judge(nn.Module):
    """An MLP over features of two vectors."""

    def __init__(self, size: int, features: str, hidden: int = 256, dropout: float = 0.1) -> None:
        super().__init__()
        self._features = FEATURES[features]
        self.layers = nn.Sequential(
            nn.Dropout(dropout),
            Linear(size * features.count(",") + size, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            Linear(hidden, 1),
        )

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """(p,) logits."""
        scores: Tensor = self.layers(torch.cat(self._features(left, right), -1))[:, 0]
        return scores


class TransformerEncoder:
    """An embedding model as an encoder of sentences.

    Args:
        name_or_path: ``"all-MiniLM-L6-v2"``, which is bundled, or a name or folder of sentence-transformers.
        device: As in torch; None chooses.

    Raises:
        MissingExtraError: For another model than the bundled one, without sentence-transformers.
        ModelError: Where the model cannot be loaded.
    """

    def __init__(self, name_or_path: str = DEFAULT_EMBEDDER, *, device: str | None = None) -> None:
        self.name = name_or_path
        self.model = named_embedder(str(name_or_path), device=device)

    @property
    def size(self) -> int:
        """Width of the vectors."""
        return int(self.model.embed_documents([]).shape[1])

    def encode(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """(n, size) vectors of n sentences, each distinct one encoded once."""
        distinct = list(dict.fromkeys(sentences))
        place = {text: i for i, text in enumerate(distinct)}
        return self.model.embed_documents(distinct)[[place[text] for text in sentences]]


def read_text(documents: Sequence[Document], *, limit: int | None = None) -> Text:
    """Documents to mine; with a limit, about so many of them, evenly spaced."""
    if limit:
        documents = documents[:: max(1, len(documents) // limit)]
    return Text(index_corpus(documents), [s for d in documents for p in d.paragraphs for s in p])


def take(text: Text, chosen: NDArray[np.int64]) -> tuple[Text, NDArray[np.int64]]:
    """Some documents of a text, and the numbers of their sentences in it."""
    edges = text.corpus.documents
    rows = np.concatenate([np.arange(edges[d], edges[d + 1]) for d in chosen])
    return Text(text.corpus.take(chosen), [text.sentences[i] for i in rows]), rows


def mine(text: Text, protocol: str, count: int, seed: int) -> Pairs:
    """Balanced pairs, at most ``count``."""
    rng = np.random.default_rng(seed)
    pairs, labels = mine_pairs(text.corpus, PROTOCOLS[protocol], rng, positive_share=0.5)
    if not len(labels):
        raise InputError(
            f"no pairs of kind {protocol!r} in {len(text.sentences)} sentences: give more documents, with "
            "several paragraphs of several sentences each"
        )
    return pairs[:count], labels[:count]


def fit(
    encode: Encode, encoder: Sequence[nn.Parameter], judge: Judge, pairs: Pairs, training: Training
) -> None:
    """Algorithm 1: update the MLP and, where it has parameters, the encoder."""
    groups = [{"params": list(judge.parameters()), "lr": 2e-3}]
    if encoder:
        groups.append({"params": list(encoder), "lr": training.rate})
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    steps = training.epochs * -(-len(pairs[1]) // training.batch)
    rates = [g["lr"] for g in optimizer.param_groups]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rates, total_steps=steps)
    rng = np.random.default_rng(training.seed)
    judge.train()
    for _ in range(training.epochs):
        order = rng.permutation(len(pairs[1]))
        for start in range(0, len(order), training.batch):
            rows = order[start : start + training.batch]
            vectors = encode(pairs[0][rows].T.ravel(), True)
            logits = judge(vectors[: len(rows)], vectors[len(rows) :])
            loss = loss_of(logits, torch.from_numpy(pairs[1][rows]), training.loss)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()


def judged(encode: Encode, judge: Judge, pairs: Pairs, batch: int) -> NDArray[np.bool_]:
    """Whether each pair is judged rightly at 0.5."""
    judge.eval()
    right = []
    with torch.inference_mode():
        for start in range(0, len(pairs[1]), batch):
            some = pairs[0][start : start + batch]
            vectors = encode(some.T.ravel(), False)
            same = judge(vectors[: len(some)], vectors[len(some) :]).numpy() > 0
            right.append(same == (pairs[1][start : start + batch] > 0))
    return np.concatenate(right)


def static_row(
    train: Text,
    test: Text,
    features: str,
    mined: tuple[Pairs, Pairs],
    start: NDArray[np.float32],
    training: Training = Training(2, 512, 3e-3),
) -> NDArray[np.bool_]:
    """`judged` with our encoder, trained end to end from ``start`` (`pretrained_features`)."""
    torch.manual_seed(training.seed)
    net, judge = SentenceNet(STATIC, 0.1), Judge(STATIC.size, features)
    assert net.mean.weight is not None
    shares = token_shares(train.corpus.ids, STATIC.vocabulary)
    with torch.no_grad():
        net.mean.weight.copy_(torch.from_numpy(start_weights(shares)))
        for table in (net.mean.table, net.edge.table):
            table.copy_(torch.from_numpy(principal_components(start, table.shape[1])))
    rng = np.random.default_rng(training.seed)

    def encode(text: Text) -> Encode:
        def run(rows: NDArray[np.int64], learning: bool) -> Tensor:
            net.train(learning)
            batch = sentence_batch(text.corpus, rows, STATIC, drop=0.1 if learning else 0.0, rng=rng)
            vectors: Tensor = net(batch)[0]
            return vectors

        return run

    fit(encode(train), list(net.parameters()), judge, mined[0], training)
    return judged(encode(test), judge, mined[1], 1024)


def frozen_row(
    vectors: dict[str, Tensor],
    features: str,
    mined: tuple[Pairs, Pairs],
    training: Training = Training(12, 256),
) -> NDArray[np.bool_]:
    """`judged` over fixed vectors of the distinct sentences (``train``, ``test``); only the MLP learns."""
    torch.manual_seed(training.seed)
    judge = Judge(vectors["train"].shape[1], features)

    def encode(part: str) -> Encode:
        return lambda rows, training: vectors[part][torch.from_numpy(rows)]

    fit(encode("train"), [], judge, mined[0], training)
    return judged(encode("test"), judge, mined[1], 1024)


def frozen_cells(
    train: Text,
    test: Text,
    mined: tuple[Pairs, Pairs],
    embed: Callable[[Sequence[str]], NDArray[np.float32]],
) -> list[float]:
    """`frozen_row` for each feature set, with unit vectors made by ``embed``, once a sentence."""
    (texts, first), (others, second) = compact(train, mined[0]), compact(test, mined[1])
    vectors = {}
    for part, some in (("train", texts), ("test", others)):
        rows = embed(some)
        vectors[part] = torch.from_numpy(rows * rows.shape[1] ** 0.5)  # entries of about 1
    return [float(frozen_row(vectors, name, (first, second)).mean()) for name in FEATURES]


def compact(text: Text, pairs: Pairs) -> tuple[list[str], Pairs]:
    """The distinct sentences of the pairs, and the pairs renumbered to them."""
    rows, renumbered = np.unique(pairs[0], return_inverse=True)
    return [text.sentences[i] for i in rows], (renumbered.reshape(-1, 2), pairs[1])


_BLANK_LINE = re.compile(r"\n\s*\n")
_TRAINING = "train/train_expository.jsonl.gz"
_TRAINING_SHARE = 0.8


def measure(
    plan: Plan, folder: RunFolder, maker: MethodMaker, progress: Callable[[Progress], None] | None
) -> Outcome:
    """Accuracy of every feature set, with a trained and a frozen encoder, for both kinds of negatives.

    Options: ``pairs`` (to learn from and to tell, by encoder), ``documents`` (to learn from, at most), and
    ``frozen_documents`` (of those, for the frozen encoder, which is slow).
    """
    done = {name for line in folder.lines() if line["kind"] == "measured" for name in line["figures"]}
    train, test, about = texts(plan)
    # Where there are no pairs this fails at once, and not after the models have been loaded.
    mine(train, next(iter(PROTOCOLS)), 1, 0)
    start = pretrained_features()
    encoder = TransformerEncoder(device="cpu")
    few = int(plan.experiment.options.get("frozen_documents", 0)) or None
    count = len(train.corpus.documents) - 1
    known: dict[str, NDArray[np.float32]] = {}

    def embed(sentences: Sequence[str]) -> NDArray[np.float32]:
        new = [s for s in dict.fromkeys(sentences) if s not in known]
        known.update(zip(new, encoder.encode(new), strict=True))
        return np.stack([known[s] for s in sentences])

    jobs = [(kind, p, sizes) for p in PROTOCOLS for kind, sizes in plan.experiment.options["pairs"].items()]
    answered = 0
    for number, (kind, protocol, (training, tested)) in enumerate(jobs):
        label = "accuracy" if (kind, protocol) == ("trained", "random") else f"{kind}, {protocol}"
        if label in done:
            continue
        if progress is not None:
            progress(Progress(f"{kind}, {protocol}", "preparing", number, len(jobs), 0))
        source = train
        if kind == "frozen" and few:
            source, _ = take(train, np.arange(0, count, max(1, count // few)))
        mined = mine(source, protocol, training, 0), mine(test, protocol, tested, 1)
        if kind == "trained":
            cells = [float(static_row(source, test, name, mined, start).mean()) for name in FEATURES]
        else:
            cells = frozen_cells(source, test, mined, embed)
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
