"""Rerankers that generate: the score of one word ("true") against another ("false")."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sage_core._microbatch import MicroBatcher
from sage_core.embedding.sentence_transformer import LOADING_ERRORS, quiet_loading
from sage_core.errors import InputError, MissingExtraError, ModelError
from sage_core.ranking.protocol import Request
from sage_core.selection.cut import Scale
from sage_core.text.tokens import without_lone_surrogates

logger = logging.getLogger(__name__)

SEQUENCE_TO_SEQUENCE = "Query: {query} Document: {text} Relevant:"
"""The input of monoT5 (Nogueira et al., 2020) and of the multilingual mT5 rerankers."""

CAUSAL = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
    'Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
    "<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {text}<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n"
)
"""The input that the Qwen3 rerankers were trained on: the model's interface, to the letter."""

INSTRUCTION = "Given a question, retrieve the passages that answer it"

_LONGEST = {True: 512, False: 8_192}  # tokens, by whether the model is an encoder and a decoder
_WORDS = {True: ("true", "false"), False: ("yes", "no")}
_MULTILINGUAL = ("yes", "no")  # mT5 and umT5 rerankers were trained on these


class GenerativeReranker:
    """A language model that says whether a text answers a question. Gives the log-odds of its two words.

    Sequence-to-sequence rerankers (monoT5, mT5) and causal ones (Qwen3-Reranker) are told apart by their
    configuration. Loads on first use, pickles without its weights, safe across threads.

        >>> GenerativeReranker("castorini/monot5-base-msmarco")
        GenerativeReranker('castorini/monot5-base-msmarco')
        >>> GenerativeReranker("Qwen/Qwen3-Reranker-0.6B", device="cuda").scale
        'logit'

    Args:
        name_or_path: A model's name on the Hugging Face hub, or a folder.
        template: The input, with the fields ``{query}``, ``{text}`` and, where wanted, ``{instruction}``.
            None: `SEQUENCE_TO_SEQUENCE` or `CAUSAL`.
        words: The word for relevant and the word for not, each one token of the model. None: "true" and
            "false"; "yes" and "no" for mT5 and for causal models.
        instruction: What the template says in ``{instruction}``.
        device: ``"cpu"``, ``"cuda"``, ...; None takes a GPU where there is one.
        batch_size: Pairs in one forward pass.
        max_length: Most tokens of an input; the end of a longer text is not read. None: 512 for
            sequence-to-sequence models, 8,192 for causal ones.

    Raises:
        InputError: For an empty name, a template without its fields, or sizes below 1.
        MissingExtraError: On first use, where transformers is not installed.
        ModelError: On first use, where the model cannot be loaded, cannot generate, or has no single token
            for a word.
    """

    scale: Scale = "logit"

    def __init__(
        self,
        name_or_path: str | Path,
        *,
        template: str | None = None,
        words: tuple[str, str] | None = None,
        instruction: str = INSTRUCTION,
        device: str | None = None,
        batch_size: int = 16,
        max_length: int | None = None,
    ) -> None:
        if not str(name_or_path).strip():
            raise InputError("a reranker needs a name or a folder")
        if template is not None and not ("{query}" in template and "{text}" in template):
            raise InputError("a template has the fields {query} and {text}")
        if words is not None and (len(words) != 2 or words[0] == words[1]):
            raise InputError(f"words are two different words, not {words!r}")
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, not {batch_size}")
        if max_length is not None and max_length < 16:
            raise InputError(f"max_length must be at least 16, not {max_length}")
        self.name = str(name_or_path)
        self._template = template
        self._words = words
        self._instruction = instruction
        self._device = device
        self._batch_size = batch_size
        self._max_length = max_length
        self._init_runtime_state()

    def _init_runtime_state(self) -> None:
        """Create locks and the batcher; called again after unpickling."""
        self._model: _Model | None = None
        self._lock = threading.Lock()
        self._batcher: MicroBatcher[Request, list[float]] = MicroBatcher(
            self.score_many, weight=lambda request: len(request.texts), limit=256, delay=0.002
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_model": None, "_lock": None, "_batcher": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._init_runtime_state()

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One log-odds per text; see `Reranker.score`. Simultaneous calls share batches."""
        return self._batcher(Request(query, texts))

    def score_many(self, requests: Sequence[Request]) -> list[list[float]]:
        """Score the candidates of several questions in shared batches; see `BatchReranker.score_many`."""
        pairs = [(request.query, text) for request in requests for text in request.texts]
        with self._lock:
            scores = iter(self._scores(pairs) if pairs else ())
        return [[next(scores) for _ in request.texts] for request in requests]

    def _scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Log-odds of each pair; pairs of similar length share a forward pass. Hold the lock."""
        if self._model is None:
            logger.info("loading reranker %s", self.name)
            self._model = _Model(
                self.name, self._template, self._words, self._instruction, self._device, self._max_length
            )
        inputs = [self._model.encode(query, text) for query, text in pairs]
        order = sorted(range(len(inputs)), key=lambda i: len(inputs[i]))
        found = np.zeros(len(inputs), np.float32)
        for start in range(0, len(order), self._batch_size):
            part = order[start : start + self._batch_size]
            found[part] = self._model.log_odds([inputs[i] for i in part])
        return [float(x) for x in found]


class _Model:
    """A loaded model with its tokenizer, its template and its two words."""

    def __init__(
        self,
        name: str,
        template: str | None,
        words: tuple[str, str] | None,
        instruction: str,
        device: str | None,
        max_length: int | None,
    ) -> None:
        try:
            import torch
            import transformers
        except ImportError as error:
            raise MissingExtraError("a generative reranker", "models") from error
        self._torch = torch
        try:
            with quiet_loading():
                config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
                self._encoder_decoder = bool(config.is_encoder_decoder)
                kind = "AutoModelForSeq2SeqLM" if self._encoder_decoder else "AutoModelForCausalLM"
                self._tokenizer = transformers.AutoTokenizer.from_pretrained(name, trust_remote_code=False)
                self._net, info = getattr(transformers, kind).from_pretrained(
                    name, trust_remote_code=False, output_loading_info=True
                )
        except LOADING_ERRORS as error:
            raise ModelError(
                f"cannot load the generative reranker {name!r} ({error}). Give the folder of a "
                "sequence-to-sequence or causal language model, or a name that can be downloaded."
            ) from error
        if missing := sorted(info["missing_keys"]):
            raise ModelError(
                f"{name!r} lacks the weights {', '.join(missing[:3])}: it cannot generate; for a "
                " sequence classifier use CrossEncoderReranker"
            )
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self._net = self._net.float().to(device).eval()
        self._device = device
        self._template = template or (SEQUENCE_TO_SEQUENCE if self._encoder_decoder else CAUSAL)
        self._instruction = instruction
        self._limit = max_length or _LONGEST[self._encoder_decoder]
        multilingual = self._encoder_decoder and config.model_type in ("mt5", "umt5")
        chosen = words or (_MULTILINGUAL if multilingual else _WORDS[self._encoder_decoder])
        self._tokens = [self._token(name, word) for word in chosen]
        self._special = [
            t for t in {*self._tokenizer.all_special_tokens, *_control_tokens(self._tokenizer)} if t
        ]
        self._padding = self._tokenizer.pad_token_id
        if self._padding is None:
            self._padding = self._tokenizer.eos_token_id or 0

    def _token(self, name: str, word: str) -> int:
        found = self._tokenizer.encode(word, add_special_tokens=False)
        if len(found) != 1 or found[0] == self._tokenizer.unk_token_id:
            raise ModelError(
                f"{name!r} has no single token for {word!r}: name the two words it was trained on with words="
            )
        return int(found[0])

    def encode(self, query: str, text: str) -> list[int]:
        """Token ids of an input of at most the limit; of a text that is too long the end is left out."""
        query, text = self._plain(query), self._plain(text)
        ids = self._ids(query, text)
        if len(ids) > self._limit:
            room = self._limit - len(self._ids(query, ""))
            ids = self._ids(query, self._start_of(text, max(room, 0)))
        # The question alone is above the limit: keep the end, which asks for the answer.
        return ids if len(ids) <= self._limit else ids[-self._limit :]

    def log_odds(self, inputs: Sequence[list[int]]) -> Any:
        """The logit of the first word less that of the second, after each input; shape ``(n,)``."""
        torch = self._torch
        longest = max(map(len, inputs))
        rows, mask = [], []
        for ids in inputs:
            gap = longest - len(ids)
            # A decoder continues the last position, so its padding stands in front.
            rows.append(ids + [self._padding] * gap if self._encoder_decoder else [self._padding] * gap + ids)
            mask.append([1] * len(ids) + [0] * gap if self._encoder_decoder else [0] * gap + [1] * len(ids))
        arguments: dict[str, Any] = {
            "input_ids": torch.tensor(rows, device=self._device),
            "attention_mask": torch.tensor(mask, device=self._device),
        }
        if self._encoder_decoder:
            start = self._net.config.decoder_start_token_id
            start = self._padding if start is None else start
            arguments["decoder_input_ids"] = torch.full((len(rows), 1), start, device=self._device)
        else:
            arguments["position_ids"] = (arguments["attention_mask"].cumsum(-1) - 1).clamp(min=0)
        with torch.inference_mode():
            logits = self._net(**arguments).logits[:, -1]
        yes, no = self._tokens
        return (logits[:, yes] - logits[:, no]).float().cpu().numpy()

    def _ids(self, query: str, text: str) -> list[int]:
        # Not str.format: question and text may hold braces.
        fields = {"{query}": query, "{text}": text, "{instruction}": self._instruction}
        return list(
            self._tokenizer.encode(_filled(self._template, fields), add_special_tokens=self._encoder_decoder)
        )

    def _start_of(self, text: str, tokens: int) -> str:
        ids = self._tokenizer.encode(text, add_special_tokens=False)
        return str(self._tokenizer.decode(ids[:tokens])) if len(ids) > tokens else text

    def _plain(self, text: str) -> str:
        """The text without the model's own control tokens, which a document must not be able to set."""
        text = without_lone_surrogates(text)
        for token in self._special:
            text = text.replace(token, " ")
        return text


def _filled(template: str, fields: Mapping[str, str]) -> str:
    """The template with each field replaced once, from left to right."""
    parts: list[str] = []
    rest = template
    while found := [(rest.find(field), field) for field in fields if field in rest]:
        at, field = min(found)
        parts += [rest[:at], fields[field]]
        rest = rest[at + len(field) :]
    return "".join([*parts, rest])


def _control_tokens(tokenizer: Any) -> list[str]:
    """The tokens that steer a model: those with a role, and those that are marked as such."""
    added = getattr(tokenizer, "added_tokens_decoder", {}) or {}
    marked = (str(token.content) for token in added.values() if getattr(token, "special", False))
    return sorted({*map(str, tokenizer.all_special_tokens), *marked} - {""}, key=len, reverse=True)
