"""Rerankers that write a word: monoT5, and mT5 of The Chronicles of RAG's best row."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sage_app.models.embedders import LOADING_ERRORS, quiet_loading
from sage_core.errors import MissingExtraError, ModelError
from sage_core.ranking.protocol import check_request
from sage_core.selection import Scale
from sage_core.text.tokens import without_lone_surrogates

_BATCH = 16


class Seq2SeqReranker:
    """A sequence-to-sequence model trained to write one of two words (monoT5; Nogueira et al., 2020).

    Gives log P(yes) - log P(no) of the first word after "Query: ... Document: ... Relevant:". Only documents
    are cut to the length that the model reads. Loads on first use, in float32: half precision overflows.

    Args:
        name_or_path: A model's name on the Hugging Face hub, or a folder.
        words: What it writes for relevant and irrelevant: monoT5's; published mT5 models have "yes" and "no".
        max_tokens: Length of the model's input.
        device: As in torch; None takes a GPU where there is one.

    Raises:
        MissingExtraError: On first use, without transformers.
        ModelError: On first use, if the model cannot be loaded whole, or a word is not one token of it.
    """

    scale: Scale = "logit"

    def __init__(
        self,
        name_or_path: str | Path,
        *,
        words: tuple[str, str] = ("true", "false"),
        max_tokens: int = 512,
        device: str | None = None,
    ) -> None:
        self.name = str(name_or_path)
        self._words, self._longest, self._device = words, max_tokens, device
        self._net: Any = None
        self._lock = threading.Lock()

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One logit per text; see `sage_core.ranking.Reranker.score`."""
        check_request(query, texts)
        scores: list[float] = []
        with self._lock:
            if texts:
                self._load()
            for start in range(0, len(texts), _BATCH):
                scores += self._scored(query, texts[start : start + _BATCH])
        return scores

    def _scored(self, query: str, texts: Sequence[str]) -> list[float]:
        import torch

        def ids(text: str) -> list[int]:
            found: list[int] = self._tokenizer(
                without_lone_surrogates(text), add_special_tokens=False
            ).input_ids
            return found

        before, after = ids(f"Query: {query} Document:"), [*ids("Relevant:"), self._tokenizer.eos_token_id]
        room = max(0, self._longest - len(before) - len(after))
        rows = [[*before, *ids(text)[:room], *after] for text in texts]
        inputs = np.full((len(rows), max(map(len, rows))), self._tokenizer.pad_token_id)
        for i, row in enumerate(rows):
            inputs[i, : len(row)] = row
        encoded = torch.from_numpy(inputs).to(self._net.device)
        mask = (torch.arange(inputs.shape[1])[None] < torch.tensor([[len(row)] for row in rows])).long()
        start = torch.full((len(rows), 1), self._net.config.decoder_start_token_id)
        with torch.inference_mode():
            logits = self._net(
                input_ids=encoded,
                attention_mask=mask.to(encoded.device),
                decoder_input_ids=start.to(encoded.device),
            ).logits[:, 0]
        two = torch.log_softmax(logits[:, list(self._ids)].float(), -1)
        return [float(x) for x in (two[:, 0] - two[:, 1]).cpu()]

    def _load(self) -> None:
        """Load the model once. Hold the lock."""
        if self._net is not None:
            return
        try:
            import torch
            import transformers
        except ImportError as error:
            raise MissingExtraError("a sequence-to-sequence reranker", "models") from error
        try:
            with quiet_loading():
                self._tokenizer = transformers.AutoTokenizer.from_pretrained(self.name)
                net, info = transformers.AutoModelForSeq2SeqLM.from_pretrained(
                    self.name, dtype=torch.float32, trust_remote_code=False, output_loading_info=True
                )
        except LOADING_ERRORS as error:
            raise ModelError(f"cannot load the reranker {self.name!r} ({error})") from error
        if missing := sorted(info["missing_keys"]):
            raise ModelError(
                f"{self.name!r} lacks the weights {', '.join(missing[:3])}: scores would be random"
            )
        self._check_head(net)
        found = [self._tokenizer(word, add_special_tokens=False).input_ids for word in self._words]
        if any(len(pieces) != 1 for pieces in found):
            raise ModelError(
                f"{' and '.join(self._words)} are no single tokens of {self.name!r}: give words="
            )
        self._ids = tuple(pieces[0] for pieces in found)
        device = self._device or ("cuda" if torch.cuda.is_available() else "cpu")
        self._net = net.to(device).eval()

    def _check_head(self, net: Any) -> None:
        """Raise ModelError if the output layer is not the stored one.

        transformers 4 ties the head of a T5 that transformers 5 stored untied, and says nothing.
        """
        from safetensors import safe_open

        file = Path(self.name, "model.safetensors")
        if not file.is_file():
            return
        with safe_open(str(file), framework="pt") as stored:
            names = set(stored.keys())
            if "lm_head.weight" not in names:
                return
            same = bool((stored.get_tensor("lm_head.weight").float() == net.lm_head.weight.cpu()).all())
        if not same:
            raise ModelError(
                f"this transformers reads {self.name!r} with another output layer than is stored"
            )
