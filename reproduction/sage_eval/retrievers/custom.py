"""A matrix trained over any embedding model (The Chronicles of RAG, section 5.1.3: "Custom ADA-002")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sage_core.embedding.protocol import Embedder
from sage_core.errors import InputError, ModelError

NEGATIVES = 3  # of each positive; the paper's 1:3
Floats = NDArray[np.float32]


class CustomEmbedder:
    """An `Embedder`: tanh of another one's vectors times a trained matrix, of length 1.

    Args:
        base: The other embedder, the one that the matrix was trained over.
        file: What `train_matrix` wrote.

    Raises:
        ModelError: If the file is no matrix, or of another embedder.
    """

    def __init__(self, base: Embedder, file: str | Path) -> None:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(str(file), framework="numpy") as stored:
                trained_over = (stored.metadata() or {}).get("embedder")
                self._matrix: Floats = stored.get_tensor("matrix")
        except (OSError, SafetensorError) as error:
            raise ModelError(f"{file} holds no matrix ({error}): write one with train-embedding") from error
        if trained_over != base.name:
            raise ModelError(f"the matrix in {file} was trained over {trained_over!r}, not {base.name!r}")
        self._base = base
        self.name = f"custom({base.name}, {Path(file).name}, {abs(float(self._matrix.sum())):.6f})"

    def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Vectors of passages, shape ``(len(texts), size)``."""
        return _projected(self._base.embed_documents(texts), self._matrix)

    def embed_query(self, text: str) -> Floats:
        """Vector of a question, shape ``(size,)``."""
        vector: Floats = _projected(self._base.embed_query(text)[None], self._matrix)[0]
        return vector


@dataclass(frozen=True, slots=True)
class MatrixReport:
    """Share of held-out pairs on the right side of the best threshold, without and with the matrix.

    Attributes:
        before: Of the embedder's own cosines (the paper: 69.5%).
        after: Of those after the matrix (the paper: 84.3%).
        pairs: How many held-out pairs.
    """

    before: float
    after: float
    pairs: int


def train_matrix(
    pairs: Sequence[tuple[str, str]],
    embedder: Embedder,
    file: str | Path,
    *,
    size: int = 2048,
    epochs: int = 20,
    dropout: float = 0.2,
    learning_rate: float = 1e-3,
    held_out: float = 0.2,
    seed: int = 0,
) -> MatrixReport:
    """Train a matrix, and write it.

    The cosine of question and chunk shall be 1, and -1 with each of three chunks of other questions; the loss
    is the squared error, with dropout before the matrix and tanh behind it.

    Args:
        pairs: Questions, each with the chunk that answers it.
        embedder: The embedding model.
        file: Where the matrix goes (safetensors).
        size: Columns of the matrix (the paper: 2,048).
        epochs: Passes over the pairs.
        dropout: Share of the embedding's numbers hidden in each step.
        learning_rate: Of Adam.
        held_out: Share of the questions that are measured, not learned.
        seed: Of every random choice.

    Raises:
        InputError: For fewer than ten pairs.
    """
    if len(pairs) < 10:
        raise InputError(f"a matrix is trained on ten questions or more, not {len(pairs)}")
    import torch
    from safetensors.numpy import save_file

    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    chunks = list(dict.fromkeys(chunk for _, chunk in pairs))
    place = {chunk: i for i, chunk in enumerate(chunks)}
    asked = np.stack([embedder.embed_query(question) for question, _ in pairs])
    told = embedder.embed_documents(chunks)
    order = rng.permutation(len(pairs))
    cut = max(1, round(held_out * len(pairs)))
    rows = {"held": [], "learned": []}  # type: dict[str, list[tuple[int, int, float]]]
    for rank, i in enumerate(order):
        right = place[pairs[i][1]]
        others = rng.choice([n for n in range(len(chunks)) if n != right] or [right], NEGATIVES)
        part = rows["held" if rank < cut else "learned"]
        part += [(int(i), right, 1.0), *((int(i), int(n), -1.0) for n in others if n != right)]
    matrix = torch.nn.Parameter(torch.randn(asked.shape[1], size) * asked.shape[1] ** -0.5)
    optimizer = torch.optim.Adam([matrix], lr=learning_rate)
    left, right_, labels = (np.array(column) for column in zip(*rows["learned"], strict=True))
    vectors, others_ = torch.from_numpy(asked), torch.from_numpy(told)
    for _ in range(epochs):
        for batch in np.array_split(rng.permutation(len(labels)), max(1, len(labels) // 64)):
            a, b = (
                torch.tanh(torch.nn.functional.dropout(rows_, dropout) @ matrix)
                for rows_ in (vectors[left[batch]], others_[right_[batch]])
            )
            cosine = torch.nn.functional.cosine_similarity(a, b)
            loss = torch.nn.functional.mse_loss(cosine, torch.tensor(labels[batch], dtype=torch.float32))
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
    trained = matrix.detach().numpy()
    save_file({"matrix": trained}, file, metadata={"embedder": embedder.name})
    left, right_, labels = (np.array(column) for column in zip(*rows["held"], strict=True))
    before = np.einsum("ij,ij->i", asked[left], told[right_])
    after = np.einsum("ij,ij->i", _projected(asked[left], trained), _projected(told[right_], trained))
    return MatrixReport(_accuracy(before, labels > 0), _accuracy(after, labels > 0), len(labels))


def _projected(vectors: Floats, matrix: Floats) -> Floats:
    found = np.tanh(vectors @ matrix)
    length: Floats = np.linalg.norm(found, axis=1, keepdims=True)
    result: Floats = found / np.maximum(length, np.float32(1e-12))
    return result


def _accuracy(cosines: Floats, positive: NDArray[np.bool_]) -> float:
    """Of the best threshold."""
    return max(float(((cosines >= t) == positive).mean()) for t in [*cosines, np.inf])
