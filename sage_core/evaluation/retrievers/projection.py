"""A trained projection of a frozen embedding ("Custom ADA" of The Chronicles of RAG, section 5.1.3)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.protocol import Embedder, unit_rows
from sage_core.errors import InputError, MissingExtraError, ModelError
from sage_core.evaluation.records import Dataset
from sage_core.pipeline.ingest import DocumentSegmenter

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """A vector times a matrix, through a hyperbolic tangent.

    Attributes:
        matrix: Shape ``(d, n)``, float32.
        embedder: Name of the embedding model it was trained on.
    """

    matrix: Floats
    embedder: str

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or not self.matrix.size or not np.isfinite(self.matrix).all():
            raise InputError("a projection is a matrix of finite numbers")

    @property
    def digest(self) -> str:
        """Tells two projections apart."""
        return hashlib.blake2b(np.ascontiguousarray(self.matrix, "<f4").tobytes(), digest_size=4).hexdigest()

    def __call__(self, vectors: Floats) -> Floats:
        """Unit rows of shape ``(n_vectors, n)`` for rows of shape ``(n_vectors, d)``.

        Raises:
            InputError: For vectors of another length than the matrix takes.
        """
        if vectors.shape[-1] != self.matrix.shape[0]:
            raise InputError(
                f"a projection of vectors of {self.matrix.shape[0]} numbers cannot take {vectors.shape[-1]}"
            )
        return unit_rows(np.tanh(vectors @ self.matrix))

    def save(self, path: str | Path) -> None:
        """Write a safetensors file."""
        from safetensors.numpy import save_file

        Path(path).parent.mkdir(parents=True, exist_ok=True)
        about = json.dumps({"embedder": self.embedder})
        save_file({"matrix": np.ascontiguousarray(self.matrix)}, path, metadata={"sage_projection": about})

    @classmethod
    def load(cls, path: str | Path) -> Projection:
        """Read what `save` wrote.

        Raises:
            ModelError: Where the file is missing, damaged or another thing.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                about = json.loads((file.metadata() or {})["sage_projection"])
                return cls(np.asarray(file.get_tensor("matrix"), np.float32), str(about["embedder"]))
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise ModelError(
                f"cannot use the projection {path} ({error}): make it with train_projection"
            ) from error


class ProjectedEmbedder:
    """An `Embedder`: another one's vectors through a `Projection`.

    Args:
        embedder: The frozen model.
        projection: Trained on it.

    Raises:
        InputError: Where the projection was trained on another model.
    """

    def __init__(self, embedder: Embedder, projection: Projection) -> None:
        if projection.embedder != embedder.name:
            raise InputError(
                f"the projection was trained on {projection.embedder!r}, not on {embedder.name!r}"
            )
        self.embedder = embedder
        self.projection = projection

    @property
    def name(self) -> str:
        """The frozen model and the projection."""
        return f"{self.embedder.name}+projection-{self.projection.digest}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def embed_documents(self, texts: Sequence[str]) -> Floats:
        """See `Embedder.embed_documents`."""
        if not texts:
            return np.zeros((0, self.projection.matrix.shape[1]), np.float32)
        return self.projection(self.embedder.embed_documents(texts))

    def embed_query(self, text: str) -> Floats:
        """See `Embedder.embed_query`."""
        row: Floats = self.projection(self.embedder.embed_query(text)[None])[0]
        return row


_MNR_SCALE = 20.0  # what cosines are multiplied by, as sentence-transformers has it


@dataclass(frozen=True, slots=True)
class ProjectionOptions:
    """Settings of the training.

    Attributes:
        size: Columns of the matrix; None for 4/3 of the embedding's (the paper: 2,048 for 1,536).
        negatives: Wrong chunks for each right one, drawn anew in every epoch (the paper: 3).
        epochs: Passes over the pairs.
        batch_size: Questions in a step.
        learning_rate: Of Adam.
        dropout: Share of the embedding's entries left out in training.
        held_out: Share of the questions that tell how well it went, and which epoch is kept.
        seed: Of the split, the negatives, the dropout and the start.
        loss: ``"mse"``: the cosine of a pair is pulled to 1 or -1 (the paper). ``"mnr"``: Multiple Negatives
            Ranking, the right chunk among those of the other questions of its step.

    Raises:
        InputError: Where a value is out of its range.
    """

    size: int | None = None
    negatives: int = 3
    epochs: int = 30
    batch_size: int = 32
    learning_rate: float = 1e-4
    dropout: float = 0.2
    held_out: float = 0.2
    seed: int = 0
    loss: Literal["mse", "mnr"] = "mse"

    def __post_init__(self) -> None:
        if self.loss not in ("mse", "mnr"):
            raise InputError(f"loss is 'mse' or 'mnr', not {self.loss!r}")
        if min(self.size or 1, self.negatives, self.epochs, self.batch_size) < 1:
            raise InputError("size, negatives, epochs and batch_size must be at least 1")
        if not self.learning_rate > 0 or not 0 <= self.dropout < 1 or not 0 < self.held_out < 1:
            raise InputError("learning_rate must be above 0, dropout from 0 to below 1, held_out within 0..1")


@dataclass(frozen=True, slots=True)
class TrainedProjection:
    """A projection and how it went. The figures are of the held-out questions, which chose the epoch.

    Attributes:
        projection: The projection.
        accuracy_before: Share of held-out pairs told right from wrong by the best threshold on the cosine of
            the frozen embedding.
        accuracy_after: The same after the projection.
        mrr_before: Mean reciprocal rank of the right chunk among the held-out ones, frozen embedding.
        mrr_after: The same after the projection; never below the start's, as it chose the epoch.
        epoch: The epoch kept; 0 is the start, which leaves cosines as they were, up to the tangent.
        pairs: Questions trained on, and held out.
    """

    projection: Projection
    accuracy_before: float
    accuracy_after: float
    mrr_before: float
    mrr_after: float
    epoch: int
    pairs: tuple[int, int]


def train_projection(
    embedder: Embedder,
    questions: Sequence[str],
    chunks: Sequence[str],
    options: ProjectionOptions | None = None,
) -> TrainedProjection:
    """Learn a matrix that brings questions to their chunks and away from others'.

    As in the paper: the cosine of question and chunk, both through dropout, matrix and tangent, is pulled
    to 1 for a pair and to -1 for a question with the chunk of another, by a mean squared error. The start
    has orthonormal rows, so that it keeps the embedding's cosines, where the paper starts at random.

    Args:
        embedder: The model, which stays as it is.
        questions: The questions.
        chunks: The right chunk of each. Equal chunks are never each other's negative.
        options: Settings.

    Returns:
        The same, to the last bit on one machine, for the same seed.

    Raises:
        InputError: For fewer than 10 pairs, lists of different lengths, or fewer than two different chunks
            among those trained on or held out.
        MissingExtraError: Where torch is not installed.
    """
    options = options or ProjectionOptions()
    if len(questions) != len(chunks) or len(questions) < 10:
        raise InputError(
            f"a projection is learnt from at least 10 questions, each with its chunk; "
            f"not from {len(questions)} and {len(chunks)}"
        )
    _torch()
    asked = np.stack([embedder.embed_query(question) for question in questions])
    different = list(dict.fromkeys(chunks))
    number = {chunk: i for i, chunk in enumerate(different)}
    rows = embedder.embed_documents(different)
    right = np.array([number[chunk] for chunk in chunks])
    order = np.random.default_rng(options.seed).permutation(len(questions))
    held = max(1, round(options.held_out * len(order)))
    parts = (order[held:], order[:held])
    if any(len(set(right[part].tolist())) < 2 for part in parts):
        raise InputError(
            "a projection needs two different chunks in training and two held out: give more pairs"
        )
    return _fit(embedder.name, asked, rows, right, parts, options)


def _fit(
    name: str,
    asked: Floats,
    rows: Floats,
    right: NDArray[np.int64],
    parts: tuple[NDArray[np.int64], NDArray[np.int64]],
    options: ProjectionOptions,
) -> TrainedProjection:
    """The loop: the epoch that ranks the held-out chunks best is kept, the first of several.

    Not the one of least loss: pulling every wrong pair to -1 goes on lowering the loss long after the order
    of the chunks has begun to suffer.
    """
    torch = _torch()
    train, held = parts
    rng = np.random.default_rng([options.seed, 1])
    generator = torch.Generator().manual_seed(options.seed)
    d = asked.shape[1]
    start = np.linalg.qr(rng.normal(size=(max(options.size or -(-4 * d // 3), d), d)))[0].T
    matrix = torch.tensor(start[:, : options.size or None], dtype=torch.float32, requires_grad=True)
    q, c = torch.from_numpy(np.array(asked)), torch.from_numpy(np.array(rows))
    tested = _pairs(held, right, options.negatives, np.random.default_rng([options.seed, 2]))
    optimizer = torch.optim.Adam([matrix], lr=options.learning_rate)

    def cosines(pairs: _Pairs, dropout: float) -> Any:
        left, other = q[pairs.questions], c[pairs.chunks]
        if dropout:
            left, other = (_dropped(torch, x, dropout, generator) for x in (left, other))
        return torch.cosine_similarity(torch.tanh(left @ matrix), torch.tanh(other @ matrix), dim=1)

    def ranking_loss(some: NDArray[np.int64]) -> Any:
        """Cross-entropy of the right chunk among the different chunks of a step, by cosine times 20."""
        chosen = np.unique(right[some])
        left, other = (_dropped(torch, x, options.dropout, generator) for x in (q[some], c[chosen]))
        left, other = (torch.nn.functional.normalize(torch.tanh(x @ matrix), dim=1) for x in (left, other))
        targets = torch.from_numpy(np.searchsorted(chosen, right[some]))
        return torch.nn.functional.cross_entropy(_MNR_SCALE * left @ other.T, targets)

    def now() -> Projection:
        return Projection(matrix.detach().numpy().copy(), name)

    kept, epoch = now(), 0
    best = held_mrr(kept(asked[held]), kept(rows), right[held])
    for number in range(1, options.epochs + 1):
        shuffled = rng.permutation(train)
        for step in range(0, len(train), options.batch_size):
            pairs = _pairs(shuffled[step : step + options.batch_size], right, options.negatives, rng, train)
            if options.loss == "mnr":
                loss = ranking_loss(shuffled[step : step + options.batch_size])
            else:
                loss = ((cosines(pairs, options.dropout) - torch.from_numpy(pairs.labels)) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        trained = now()
        mrr = held_mrr(trained(asked[held]), trained(rows), right[held])
        if mrr > best:
            best, kept, epoch = mrr, trained, number
    before = np.einsum("nd,nd->n", asked[tested.questions], rows[tested.chunks])
    after = np.einsum("nd,nd->n", kept(asked[tested.questions]), kept(rows[tested.chunks]))
    return TrainedProjection(
        kept,
        best_accuracy(before, tested.labels > 0),
        best_accuracy(after, tested.labels > 0),
        held_mrr(asked[held], rows, right[held]),
        best,
        epoch,
        (len(train), len(held)),
    )


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Questions and chunks by number, and 1 or -1 for each pair."""

    questions: NDArray[np.int64]
    chunks: NDArray[np.int64]
    labels: Floats


def _pairs(
    some: NDArray[np.int64],
    right: NDArray[np.int64],
    negatives: int,
    rng: np.random.Generator,
    pool: NDArray[np.int64] | None = None,
) -> _Pairs:
    """Each question with its chunk, and with wrong ones out of the chunks of ``pool``."""
    chunks = np.unique(right[pool if pool is not None else some])
    own = np.searchsorted(chunks, right[some])
    # One of the other chunks: a step of 1 to n - 1 from the right one, around the list.
    steps = rng.integers(1, len(chunks), size=(negatives, len(some)))
    wrong = chunks[(own[None] + steps) % len(chunks)]
    labels = np.concatenate([np.ones(len(some)), -np.ones(wrong.size)]).astype(np.float32)
    return _Pairs(np.tile(some, negatives + 1), np.concatenate([right[some], wrong.ravel()]), labels)


def held_mrr(asked: Floats, rows: Floats, right: NDArray[np.int64]) -> float:
    """Mean reciprocal rank of each question's chunk, by cosine among all chunks that are somebody's."""
    scores = asked @ rows[np.unique(right)].T
    own = np.einsum("nd,nd->n", asked, rows[right])
    # The product and the sum of products differ in the last bits.
    return float((1 / (1 + (scores > own[:, None] + 1e-6).sum(axis=1))).mean())


def best_accuracy(scores: NDArray[np.floating[Any]], right: NDArray[np.bool_]) -> float:
    """Share told rightly by the best threshold: those above it are called right."""
    order = np.argsort(-scores, kind="stable")
    ranked, truth = scores[order], right[order]
    hits = np.concatenate([[0], np.cumsum(truth)]) + np.concatenate([np.cumsum(~truth[::-1])[::-1], [0]])
    # A threshold cannot fall between equal scores.
    places = np.concatenate([[True], ranked[1:] < ranked[:-1], [True]])
    return float(hits[places].max() / len(scores))


def _dropped(torch: Any, rows: Any, share: float, generator: Any) -> Any:
    """Rows with a share of their entries set to 0 and the rest scaled up."""
    keep = torch.rand(rows.shape, generator=generator) >= share
    return rows * keep / (1 - share)


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("training a projection", "models") from error
    return torch


def question_chunks(
    dataset: Dataset, chunker: DocumentSegmenter, *, part: str = "all"
) -> tuple[list[str], list[str]]:
    """Questions, and for each the chunk that holds the most of its evidence: what a projection learns from.

    Args:
        dataset: The questions; those without evidence are left out.
        chunker: Cuts the documents.
        part: ``"all"``, or the questions about the ``"even"`` or ``"odd"`` documents.
    """
    kept = [d for i, d in enumerate(dataset.documents) if part == "all" or (i % 2 == 1) == (part == "odd")]
    spans = dict(zip([d.id for d in kept], chunker.segment_many([d.text for d in kept]), strict=True))
    texts = {d.id: d.text for d in kept}
    questions, chunks = [], []
    for question in dataset.questions:
        places = [e for e in question.evidence if e.document in texts]
        if places:
            first = places[0]
            best = max(
                spans[first.document],
                key=lambda s: min(s.end, first.span.end) - max(s.start, first.span.start),
            )
            questions.append(question.text)
            chunks.append(best.of(texts[first.document]))
    return questions, chunks


def draw_cosines(
    embedder: Embedder, projection: Projection, questions: Sequence[str], chunks: Sequence[str], path: Path
) -> tuple[float, float]:
    """Histograms of the cosines of right and wrong pairs, before and after (Chronicles, figures 6 and 7).

    Returns:
        Mean cosine of right pairs less that of wrong ones, before and after.

    Raises:
        MissingExtraError: Where matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("drawing plots", "eval") from error
    asked = np.stack([embedder.embed_query(question) for question in questions])
    rows = embedder.embed_documents(list(chunks))
    # A wrong chunk for each question: that of one half-way through the list, unless it is the same.
    shift = len(chunks) // 2
    wrong = [(i + shift) % len(chunks) for i in range(len(chunks))]
    differ = np.array([chunks[i] != chunks[w] for i, w in enumerate(wrong)])
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    gaps = []
    for place, name in enumerate(("before", "after")):
        left, right = (asked, rows) if name == "before" else (projection(asked), projection(rows))
        good, bad = (left * right).sum(1), (left * right[wrong]).sum(1)[differ]
        gaps.append(float(good.mean() - bad.mean()))
        axes = figure.add_subplot(1, 2, place + 1)
        axes.hist([good, bad], bins=40, label=["right chunk", "another chunk"], density=True)
        axes.set_title(f"{name} training", fontsize=9)
        axes.set_xlabel("cosine of question and chunk")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", fontsize=8)
    figure.savefig(path, dpi=130, metadata={"Software": None})
    return gaps[0], gaps[1]
