"""A BERT that reads pairs of texts: the bundled cross-encoder and the local judge. Needs torch.

Written out here rather than taken from transformers: importing that takes seconds; where no span is wanted,
the last layer computes the first position alone; and matrices can be held in bfloat16 where the processor
computes with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SIZES = {
    "embeddings.word_embeddings.weight": ("vocab_size", "hidden_size"),
    "embeddings.position_embeddings.weight": ("max_position_embeddings", "hidden_size"),
    "embeddings.token_type_embeddings.weight": ("type_vocab_size", "hidden_size"),
    "embeddings.LayerNorm.weight": ("hidden_size",),
    "pooler.dense.weight": ("hidden_size", "hidden_size"),
}
_LAYER_SIZES = {
    "attention.self.query.weight": ("hidden_size", "hidden_size"),
    "attention.self.key.weight": ("hidden_size", "hidden_size"),
    "attention.self.value.weight": ("hidden_size", "hidden_size"),
    "attention.output.dense.weight": ("hidden_size", "hidden_size"),
    "attention.output.LayerNorm.weight": ("hidden_size",),
    "intermediate.dense.weight": ("intermediate_size", "hidden_size"),
    "output.dense.weight": ("hidden_size", "intermediate_size"),
    "output.LayerNorm.weight": ("hidden_size",),
}


def _check_sizes(tensors: Mapping[str, NDArray[Any]], config: Mapping[str, Any]) -> None:
    """Raise where a tensor is missing or of another shape than the configuration says."""
    sizes = dict(_SIZES)
    for i in range(int(config["num_hidden_layers"])):
        sizes.update({f"encoder.layer.{i}.{name}": of for name, of in _LAYER_SIZES.items()})
    for name, of in sizes.items():
        expected = tuple(int(config[size]) for size in of)
        if tensors[f"bert.{name}"].shape != expected:
            raise ValueError(f"{name} is {tensors[f'bert.{name}'].shape}, not {expected}")
        if "_embeddings" not in name and f"bert.{name.removesuffix('weight')}bias" not in tensors:
            raise ValueError(f"{name} has no bias")
    heads = int(config["num_attention_heads"])
    if heads < 1 or int(config["hidden_size"]) % heads:
        raise ValueError(f"{heads} heads do not divide {config['hidden_size']}")


def computes_bfloat16() -> bool:
    """Whether this processor multiplies matrices of bfloat16; others are slower with it than with float32."""
    import torch

    # Processors with AMX have this too. Of 2.13 `get_capabilities` is public; older releases have the other.
    capabilities = getattr(torch.cpu, "get_capabilities", None)
    supported = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    if capabilities is not None:
        return bool(capabilities().get("avx512_bf16", False))
    return bool(supported()) if supported is not None else False


class Bert:
    """The network, for inference.

    Layer normalization, the sums between layers, the pooler and all heads are computed in float32, whatever
    the matrices of the layers are held in: logits are not rounded to ties.

    Args:
        tensors: By the names of transformers, heads included.
        config: ``num_hidden_layers``, ``hidden_size`` and so on.
        device: Where to compute; None for the CPU.
        bfloat16: Hold the layers' matrices so: logits differ by some 0.01, and by 0.005 with what else is in
            the batch. See `computes_bfloat16`.

    Raises:
        ValueError: Where the tensors do not fit the configuration.
        KeyError: Where a tensor or a setting is missing.
    """

    def __init__(
        self,
        tensors: Mapping[str, NDArray[np.float32]],
        config: Mapping[str, Any],
        *,
        device: Any = None,
        bfloat16: bool = False,
    ) -> None:
        import torch

        _check_sizes(tensors, config)
        if config.get("hidden_act", "gelu") != "gelu":
            raise ValueError(f"hidden_act is {config['hidden_act']!r}, not 'gelu'")
        self.device = torch.device(device or "cpu")
        self._layers = int(config["num_hidden_layers"])
        self._heads = int(config["num_attention_heads"])
        self._epsilon = float(config["layer_norm_eps"])
        half = torch.bfloat16 if bfloat16 else torch.float32
        self._w = {
            name: torch.from_numpy(value).to(
                self.device, half if ".layer." in name and "LayerNorm" not in name else torch.float32
            )
            for name, value in tensors.items()
        }

    def read(self, encoded: Sequence[Any], *, whole: bool = False) -> tuple[Any, Any]:
        """One forward pass.

        Args:
            encoded: Encodings of the tokenizers library; padded here.
            whole: Whether the hidden states of all positions are wanted, or of the first only.

        Returns:
            The pooled first position, shape ``(n, size)``, and the last hidden states, ``(n, 1 or longest,
            size)``. Call within ``torch.inference_mode()``.
        """
        import torch

        lengths = [len(e.ids) for e in encoded]
        shape = (len(encoded), max(lengths))
        ids, kinds = (torch.zeros(shape, dtype=torch.long) for _ in range(2))
        mask = torch.zeros(shape, dtype=torch.bool)
        for row, one in enumerate(encoded):
            n = lengths[row]
            ids[row, :n] = torch.tensor(one.ids)
            kinds[row, :n] = torch.tensor(one.type_ids)
            mask[row, :n] = True
        seen = None if min(lengths) == shape[1] else mask[:, None, None].to(self.device)
        hidden = self._forward(ids.to(self.device), kinds.to(self.device), seen, whole)
        return torch.tanh(self.linear(hidden[:, 0], "bert.pooler.dense")), hidden

    def linear(self, x: Any, name: str) -> Any:
        """``x`` times the matrix of that name, plus its bias."""
        import torch

        weight = self._w[f"{name}.weight"]
        return torch.nn.functional.linear(x.to(weight.dtype), weight, self._w[f"{name}.bias"])

    def _norm(self, x: Any, name: str) -> Any:
        import torch

        return torch.nn.functional.layer_norm(
            x, x.shape[-1:], self._w[f"{name}.weight"], self._w[f"{name}.bias"], self._epsilon
        )

    def _forward(self, ids: Any, kinds: Any, seen: Any, whole: bool) -> Any:
        """Last hidden states; of the first position only unless ``whole``."""
        from torch.nn.functional import embedding, gelu, scaled_dot_product_attention

        at = "bert.embeddings"
        x = embedding(ids, self._w[f"{at}.word_embeddings.weight"])
        x = x + self._w[f"{at}.position_embeddings.weight"][: ids.shape[1]]
        x = x + embedding(kinds, self._w[f"{at}.token_type_embeddings.weight"])
        x = self._norm(x, f"{at}.LayerNorm")
        n, _, size = x.shape

        def split(y: Any) -> Any:
            return y.view(n, -1, self._heads, size // self._heads).transpose(1, 2)

        for i in range(self._layers):
            at = f"bert.encoder.layer.{i}"
            own = x if whole or i < self._layers - 1 else x[:, :1]
            attended = scaled_dot_product_attention(
                split(self.linear(own, f"{at}.attention.self.query")),
                split(self.linear(x, f"{at}.attention.self.key")),
                split(self.linear(x, f"{at}.attention.self.value")),
                attn_mask=seen,
            )
            mixed = self.linear(attended.transpose(1, 2).reshape(n, -1, size), f"{at}.attention.output.dense")
            # What the layers add is of their type, the sum float32.
            x = self._norm(mixed + own, f"{at}.attention.output.LayerNorm")
            inner = gelu(self.linear(x, f"{at}.intermediate.dense"))
            x = self._norm(self.linear(inner, f"{at}.output.dense") + x, f"{at}.output.LayerNorm")
        return x
