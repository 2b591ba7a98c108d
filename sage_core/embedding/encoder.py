"""The forward pass of a BERT in numpy: of the bundled embedder and the local judge.

No padding is computed: the tokens of a pass stand one after the other through the dense layers, and texts
of one length attend together. Texts are sorted by length and a pass holds a bounded number of tokens, so
that memory does not grow with the batch.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from sage_core.embedding.ops import Floats, Tensors, layer_norm, linear
from sage_core.embedding.storage import CONFIG_FILE, MODEL_FILE, Rows, read_folder, require, restored
from sage_core.errors import ModelError

MINILM = Path(__file__).parent / "weights" / "all-MiniLM-L6-v2"
"""The bundled embedding model. The encoders beside it were trained from it, its table of words frozen."""

WORDS = "bert.embeddings.word_embeddings.weight"
_VOCABULARY = 30_522  # Of the bundled tokenizer.
_PASS_TOKENS = 2_048
_GROUP_TOKENS = 256  # Of texts of one length that attend together.
_DENSE_ROWS = 256  # Rows of the wide layer at once, and of its activation: what the caches hold.
_GELU_ROWS = 32
_MOST_THREADS = 8  # Each holds some 30 MB.

# With u = x * (a + b x**2 + c x**4), (1 + tanh(u)) / 2 is the normal distribution function, within 3e-5 of
# x times it; fitted up to x = 6. Beyond 7 it is 1 in float32, and the polynomial must not turn back.
_GELU = tuple(np.float32(c) for c in (0.7975052753821745, 0.037008019959891864, -0.00035190238861051434))
_GELU_END = np.float32(49.0)

_SIZES = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
    "max_position_embeddings", "type_vocab_size",
)  # fmt: skip

Pass = tuple[NDArray[np.intp], Floats, NDArray[np.intp]]


class _Blas:
    """Keeps the threads of BLAS out while passes run, each in a thread of its own, as many as BLAS has.

    The products are small, and threads that wait for each other within one cost ten times its time as soon as
    another process wants the processor, or a container has less of it than there are cores.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users, self._threads = 0, 1
        self._limit: Any = None
        self._found = ThreadpoolController().select(user_api="blas")  # Once: beside torch it takes 2 ms.

    @contextmanager
    def single(self) -> Iterator[int]:
        """While anybody is inside, BLAS has one thread; gives how many passes may run at once."""
        with self._lock:
            if not self._users:
                most = max((library.num_threads for library in self._found.lib_controllers), default=1)
                self._threads, self._limit = min(most, _MOST_THREADS), self._found.limit(limits=1)
            self._users += 1
        try:
            yield self._threads
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._limit.restore_original_limits()


_BLAS = _Blas()


class Encoder:
    """A BERT, ready to read. Safe across threads: nothing changes after loading.

    Args:
        config: ``hidden_size``, ``num_hidden_layers`` and so on, as transformers names them.
        tensors: By the names of transformers, with ``bert.`` before them; those of heads are ignored.
        words: The table of words, shape ``(vocab_size, hidden_size)``.

    Raises:
        ModelError: Where a setting or a tensor is missing, or they do not fit each other.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        tensors: Mapping[str, Floats],
        words: Rows | Floats,
    ) -> None:
        size, layers, heads = _checked(config, tensors, words)
        self.size = size
        """Width of the hidden states."""
        self.max_tokens = int(config["max_position_embeddings"])
        """Most tokens of a text, marks included."""
        self._heads = heads
        self._epsilon = float(config.get("layer_norm_eps", 1e-12))
        self.words = words
        """Rows of the table of words, by ids."""
        self._positions = tensors["bert.embeddings.position_embeddings.weight"]
        self._kinds = tensors["bert.embeddings.token_type_embeddings.weight"]
        self._norm = _part(tensors, "bert.embeddings.LayerNorm")
        self.kinds = len(self._kinds)
        """How many texts of one input it tells apart."""
        self._pooler = _turned(tensors, "bert.pooler.dense") if "bert.pooler.dense.weight" in tensors else {}
        self._layers = [_layer(tensors, f"bert.encoder.layer.{i}", size // heads) for i in range(layers)]

    def passes(
        self,
        ids: Sequence[Sequence[int]],
        kinds: Sequence[Sequence[int]] | None = None,
        *,
        first_only: bool = False,
    ) -> Iterator[Pass]:
        """Forward passes of a bounded number of tokens, from short texts to long.

        Args:
            ids: Word pieces of each text, its marks included; none of them empty.
            kinds: Which of two texts each piece belongs to; 0 where None.
            first_only: Whether the state of the first token of each text is all that is wanted: the last
                layer computes no other.

        Yields:
            ``(rows, states, starts)``: positions in ``ids``; last hidden states, shape ``(tokens, size)``, or
            ``(len(rows), size)`` with ``first_only``; and where the states of each text start.
        """
        portions = list(_portions([len(text) for text in ids]))

        def read(rows: list[int]) -> Pass:
            lengths = [len(ids[i]) for i in rows]
            flat = np.concatenate([np.asarray(ids[i], np.intp) for i in rows])
            x = self.words[flat]
            x = x + self._positions[np.concatenate([np.arange(n) for n in lengths])]
            if kinds is None:
                x += self._kinds[0]
            else:
                x += self._kinds[np.concatenate([np.asarray(kinds[i], np.intp) for i in rows])]
            starts = np.cumsum([0, *lengths[:-1]])
            states = self._forward(x, lengths, starts, first_only)
            return np.asarray(rows, np.intp), states, np.arange(len(rows)) if first_only else starts

        with _BLAS.single() as threads, ThreadPoolExecutor(threads) as pool:
            for at in range(0, len(portions), threads):
                yield from pool.map(read, portions[at : at + threads])

    def pooled(self, first: Floats) -> Floats:
        """What classification heads read: the pooler over states of first tokens. ModelError without one."""
        if not self._pooler:
            raise ModelError("the model lacks the tensor 'bert.pooler.dense.weight': no heads can be read")
        return np.tanh(linear(first, self._pooler, "dense"))

    def _forward(
        self, x: Floats, lengths: Sequence[int], starts: NDArray[np.intp], first_only: bool
    ) -> Floats:
        x = layer_norm(x, self._norm, "norm", self._epsilon)
        for i, layer in enumerate(self._layers):
            narrow = first_only and i == len(self._layers) - 1
            projected = linear(x, layer, "attention")
            mixed = self._attend(projected, lengths, narrow)
            if narrow:
                x = x[starts]
            x = x + linear(mixed, layer, "mix")
            x = layer_norm(x, layer, "mix_norm", self._epsilon)
            x = layer_norm(x + self._dense(x, layer), layer, "out_norm", self._epsilon)
        return x

    def _attend(self, projected: Floats, lengths: Sequence[int], first_only: bool) -> Floats:
        """Values mixed by attention within each text; of its first token alone with ``first_only``."""
        width = self.size // self._heads
        parts, start = [], 0
        for length, group in groupby(lengths):
            count = sum(1 for _ in group)
            together = max(1, _GROUP_TOKENS // length)
            for begin in range(0, count, together):
                texts = min(together, count - begin)
                block = projected[start : start + texts * length]
                start += texts * length
                q, k, v = block.reshape(texts, length, 3, self._heads, width).transpose(2, 0, 3, 1, 4)
                weights = (q[:, :, :1] if first_only else q) @ k.swapaxes(-1, -2)
                weights -= weights.max(-1, keepdims=True)
                np.exp(weights, out=weights)
                mixed = weights @ v
                mixed /= weights.sum(-1, keepdims=True)
                parts.append(mixed.transpose(0, 2, 1, 3).reshape(-1, self.size))
        return np.concatenate(parts)

    def _dense(self, x: Floats, layer: Tensors) -> Floats:
        """The two wide layers with GELU between them, some rows at a time."""
        result = np.empty_like(x)
        for start in range(0, len(x), _DENSE_ROWS):
            inner = linear(x[start : start + _DENSE_ROWS], layer, "in")
            for at in range(0, len(inner), _GELU_ROWS):
                _double_gelu(inner[at : at + _GELU_ROWS])
            result[start : start + _DENSE_ROWS] = linear(inner, layer, "out")
        return result


def _double_gelu(x: Floats) -> None:
    """``2 x`` times the normal distribution function of ``x``, in place."""
    square = np.minimum(x * x, _GELU_END)
    u = square * _GELU[2]
    u += _GELU[1]
    u *= square
    u += _GELU[0]
    u *= x
    np.tanh(u, out=u)
    u += np.float32(1)
    x *= u


def _portions(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Positions of texts that share a pass, from short to long."""
    rows: list[int] = []
    tokens = 0
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if rows and tokens + lengths[i] > _PASS_TOKENS:
            yield rows
            rows, tokens = [], 0
        rows.append(i)
        tokens += lengths[i]
    if rows:
        yield rows


def _part(tensors: Mapping[str, Floats], name: str, to: str = "norm") -> Tensors:
    return {f"{to}.weight": tensors[f"{name}.weight"], f"{to}.bias": tensors[f"{name}.bias"]}


def _turned(tensors: Mapping[str, Floats], name: str, to: str = "dense") -> Tensors:
    """A layer with its matrix as `linear` wants it, ``(in, out)``."""
    return {
        f"{to}.weight": np.ascontiguousarray(tensors[f"{name}.weight"].T),
        f"{to}.bias": tensors[f"{name}.bias"],
    }


def _layer(tensors: Mapping[str, Floats], name: str, width: int) -> Tensors:
    """One layer: query, key and value in one matrix, and constant factors within the matrices."""
    scale = np.float32(width**-0.5)
    own = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
    factors = (scale, np.float32(1), np.float32(1))
    attention = {
        "attention.weight": np.concatenate(
            [tensors[f"{part}.weight"].T * f for part, f in zip(own, factors, strict=True)], axis=1
        ),
        "attention.bias": np.concatenate(
            [tensors[f"{part}.bias"] * f for part, f in zip(own, factors, strict=True)]
        ),
    }
    result = {
        **attention,
        **_turned(tensors, f"{name}.attention.output.dense", "mix"),
        **_part(tensors, f"{name}.attention.output.LayerNorm", "mix_norm"),
        **_turned(tensors, f"{name}.intermediate.dense", "in"),
        **_turned(tensors, f"{name}.output.dense", "out"),
        **_part(tensors, f"{name}.output.LayerNorm", "out_norm"),
    }
    result["out.weight"] *= np.float32(0.5)  # `_double_gelu` gives twice the value.
    return result


def _checked(
    config: Mapping[str, Any], tensors: Mapping[str, Floats], words: Rows | Floats
) -> tuple[int, int, int]:
    """Sizes of the network, once they fit the tensors."""
    sizes = []
    for name in _SIZES:
        value = config.get(name)
        if type(value) is not int or not 0 < value <= 2**20:
            raise ModelError(f"{CONFIG_FILE} says {name} = {value!r}; it is an integer above 0")
        sizes.append(value)
    vocabulary, size, layers, heads, inner, positions, kinds = sizes
    if size % heads:
        raise ModelError(f"{CONFIG_FILE} says {heads} heads, which do not divide {size}")
    if config.get("hidden_act", "gelu") != "gelu":
        raise ModelError(f"{CONFIG_FILE} says hidden_act = {config['hidden_act']!r}; only 'gelu' is known")
    epsilon = config.get("layer_norm_eps", 1e-12)
    if type(epsilon) not in (int, float) or not 0 < epsilon < 1:
        raise ModelError(f"{CONFIG_FILE} says layer_norm_eps = {epsilon!r}")
    shapes: dict[str, tuple[int, ...]] = {
        "bert.embeddings.position_embeddings.weight": (positions, size),
        "bert.embeddings.token_type_embeddings.weight": (kinds, size),
        **_with_bias("bert.embeddings.LayerNorm", size),
    }
    if "bert.pooler.dense.weight" in tensors:
        shapes.update(_with_bias("bert.pooler.dense", size, size))
    for i in range(layers):
        at = f"bert.encoder.layer.{i}"
        if f"{at}.output.dense.weight" not in tensors:
            raise ModelError(f"the model lacks the tensor '{at}.output.dense.weight' of its {layers} layers")
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes |= _with_bias(f"{at}.attention.{part}", size, size)
        shapes |= _with_bias(f"{at}.attention.output.LayerNorm", size)
        shapes |= _with_bias(f"{at}.output.LayerNorm", size)
        shapes |= _with_bias(f"{at}.intermediate.dense", inner, size)
        shapes |= _with_bias(f"{at}.output.dense", size, inner)
    require(tensors, shapes)
    if words.shape != (vocabulary, size):
        raise ModelError(f"the tensor {WORDS!r} has shape {words.shape}, not {(vocabulary, size)}")
    return size, layers, heads


def _with_bias(name: str, *shape: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


class Loaded:
    """An encoder and the heads that its file holds.

    Attributes:
        config: The whole configuration.
        encoder: The network.
        heads: Other tensors of the file, such as ``classifier.weight``.
    """

    def __init__(self, folder: Path) -> None:
        self.config, stored = read_folder(folder)
        self._folder = folder
        settings = self.config.get("bert")
        if not isinstance(settings, dict):
            raise ModelError(f"{folder / CONFIG_FILE} has no settings 'bert'; copy or make the model again")
        try:
            if (vocabulary := settings.get("vocab_size")) != _VOCABULARY:
                raise ModelError(
                    f"{CONFIG_FILE} says vocab_size = {vocabulary!r}, the bundled tokenizer has {_VOCABULARY}"
                )
            words = _words_of(folder, self.config, stored)
            tensors = {n: restored(stored, n) for n in stored if n != WORDS and not n.endswith(".scale")}
            if self.config.get("difference_from") == MINILM.name:
                # A trained model is near the one it started from: the differences need few bits.
                start = read_folder(MINILM)[1]
                for name in tensors.keys() & start.keys():
                    if tensors[name].shape == start[name].shape:  # `Encoder` refuses the others.
                        tensors[name] += restored(start, name)
            self.encoder: Encoder = Encoder(settings, tensors, words)
            self.heads = {n: v for n, v in tensors.items() if not n.startswith("bert.")}
            require(self.heads, {n: v.shape for n, v in self.heads.items()})
        except ModelError as error:
            raise ModelError(f"{folder / MODEL_FILE}: {error}") from error

    def head(self, name: str, outputs: int) -> Tensors:
        """The linear head of that name and so many outputs, for `ops.linear`; ModelError without one."""
        try:
            require(self.heads, _with_bias(name, outputs, self.encoder.size))
        except ModelError as error:
            raise ModelError(f"{self._folder / MODEL_FILE}: {error}") from error
        return _turned(self.heads, name, name)


# Models and tables in use: the judge and the reranker share a network, all share the table of words.
_in_use: WeakValueDictionary[tuple[str, Path], Any] = WeakValueDictionary()
_loading = threading.RLock()


def load_encoder(folder: Path) -> Loaded:
    """The model of a folder; one object for all that use it at a time.

    Raises:
        ModelError: Where files are missing, damaged, or do not fit each other. It names file and tensor.
    """
    if folder.parent != MINILM.parent:  # Of a user: the files may change.
        return Loaded(folder)
    with _loading:
        model: Loaded | None = _in_use.get(("model", folder))
        if model is None:
            model = _in_use[("model", folder)] = Loaded(folder)
        return model


def _words_of(folder: Path, config: Mapping[str, Any], stored: Mapping[str, NDArray[Any]]) -> Rows | Floats:
    """The model's own table of words, or the bundled one where the configuration says so."""
    bundled = folder == MINILM or config.get("difference_from") == MINILM.name
    if not bundled:
        require(stored, {WORDS: None})
        return Rows.of(stored, WORDS) if f"{WORDS}.scale" in stored else restored(stored, WORDS)
    with _loading:
        table: Rows | None = _in_use.get(("words", MINILM))
        if table is None:
            own = stored if folder == MINILM else read_folder(MINILM, names=(WORDS, f"{WORDS}.scale"))[1]
            table = _in_use[("words", MINILM)] = Rows.of(own, WORDS)
        return table


def mean_of_texts(states: Floats, starts: NDArray[np.intp]) -> Floats:
    """Mean of the states of each text, shape ``(len(starts), size)``."""
    lengths = np.diff(starts, append=len(states)).astype(np.float32)
    sums: Floats = np.add.reduceat(states, starts, axis=0)
    sums /= lengths[:, None]
    return sums
