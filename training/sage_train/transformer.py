"""The transformer that Algorithm 1 starts from: any model of sentence-transformers, by folder or name."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from typing import Any

import torch
from tokenizers import Tokenizer

from sage_core.errors import ModelError
from sage_core.segmentation.models.transformer import TransformerEncoder, TransformerPairNet
from sage_train.options import TrainOptions

MAX_TOKENS = 128  # a sentence; longer ones are read up to here


def start_from(base: str, options: TrainOptions) -> TransformerPairNet:
    """The net of Algorithm 1 over a model of sentence-transformers, its MLP random.

    Args:
        base: Folder or name of the model.
        options: Width and dropout of the MLP, and whether the transformer is frozen.

    Raises:
        ModelError: If it cannot be loaded, or does more than to pool (mean, or the first token) and to scale.
    """
    from sentence_transformers import SentenceTransformer

    try:
        # In float32 whatever the folder holds: half precision trains to NaN, or not at all.
        model = SentenceTransformer(base, device="cpu", model_kwargs={"dtype": torch.float32})
    except Exception as error:  # what it raises for a wrong folder is not documented, and differs by version
        raise ModelError(f"{base!r} is no model of sentence-transformers that loads here: {error}") from error
    first, pool, *rest = list(model)
    mode = pool.get_config_dict().get("pooling_mode", "") if hasattr(pool, "get_config_dict") else ""
    names = [type(module).__name__ for module in (first, pool, *rest)]
    if names[:2] != ["Transformer", "Pooling"] or names[2:] not in ([], ["Normalize"]) or mode not in _MODES:
        raise ModelError(
            f"{base!r} is made of {', '.join(names)} ({mode or 'no pooling'}); what can be trained is a "
            "transformer with pooling 'mean' or 'cls', then Normalize or nothing"
        )
    tokenizer = model.tokenizer
    encoder = TransformerEncoder(
        first.auto_model,
        Tokenizer.from_str(tokenizer.backend_tokenizer.to_str()),
        pooling=mode,
        normalize=bool(rest),
        max_tokens=min(MAX_TOKENS, model.max_seq_length or MAX_TOKENS),
        pad=tokenizer.pad_token_id,
    )
    encoder.requires_grad_(not options.frozen)
    return TransformerPairNet(encoder, first.auto_model.config.hidden_size, options.hidden, options.dropout)


def config_of(net: TransformerPairNet) -> dict[str, Any]:
    """What `TransformerModel` reads beside the weights."""
    config: Any = net.encoder.transformer.config
    plain = json.loads(config.to_json_string(use_diff=False))
    own = ("dtype", "torch_dtype", "_name_or_path")  # of this machine, and of the folder that it came from
    return {
        "architecture": {name: value for name, value in plain.items() if name not in own},
        "encoder": net.encoder.settings,
        "size": net.hidden.in_features // 4,
        "hidden": net.hidden.out_features,
        "tokenizer": hashlib.sha256(net.encoder.tokenizer.to_str().encode()).hexdigest(),
        "versions": {name: importlib.metadata.version(name) for name in ("torch", "transformers")},
    }


_MODES = ("mean", "cls")
