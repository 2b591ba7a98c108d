"""Reading models of transformers, run on this machine: sequence-to-sequence, multiple choice, extractive.

The baselines of the SAGE paper that have a trained reader (UnifiedQA; Longformer, DeBERTa behind DPR, CoLISA;
BiDAF) are such models over some method's context.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sage_app.answers import Answerer
from sage_app.models.embedders import LOADING_ERRORS, quiet_loading
from sage_core.errors import InputError, MissingExtraError, ModelError
from sage_core.feedback.types import Verdict
from sage_core.llm.prompting import option_letter
from sage_core.llm.usage import TokenUsage
from sage_core.text.tokens import without_lone_surrogates

logger = logging.getLogger(__name__)

UNIFIEDQA_TOKENS = 512
"""Longest input of UnifiedQA, as it was trained; the end of a longer context is not read."""

_KINDS = {
    "ForConditionalGeneration": ("AutoModelForSeq2SeqLM", "sequence-to-sequence"),
    "ForMultipleChoice": ("AutoModelForMultipleChoice", "multiple choice"),
    "ForQuestionAnswering": ("AutoModelForQuestionAnswering", "extractive"),
}
_LONGEST_ANSWER = 30  # tokens of an extracted span
_ANSWER_TOKENS = 64  # most tokens generated
_STRIDE = 128  # tokens that two windows of a long context share


class LocalReader:
    """An `Answerer` over a reading model of transformers, told apart by the head its configuration names.

    - A sequence-to-sequence model reads UnifiedQA's format: question, lettered options and context, in lower
      case, parted by a backslash and an n, cut after 512 tokens.
    - A multiple-choice model scores each option with the question behind the context; it needs options.
    - An extractive model marks the best span of at most 30 tokens, over windows of a long context.

    None of them can grade an answer: ``critic`` does. Loads on first use; safe across threads.

    Args:
        name_or_path: A model's name on the Hugging Face hub, or a folder.
        critic: Grades answers, where a method asks for grades.
        device: ``"cpu"``, ``"cuda"``, ...; None takes a GPU where there is one.
        max_length: Most tokens of an input; None: 512 for sequence-to-sequence models, else the model's own.

    Raises:
        InputError: For an empty name, or a ``max_length`` below 16; when answering, for a question without
            options where the model scores options.
        MissingExtraError: On first use, where transformers is not installed.
        ModelError: On first use, where the model cannot be loaded or has no head that reads.
    """

    def __init__(
        self,
        name_or_path: str | Path,
        *,
        critic: Answerer,
        device: str | None = None,
        max_length: int | None = None,
    ) -> None:
        if not str(name_or_path).strip():
            raise InputError("a reader needs the name or the folder of its model")
        if max_length is not None and max_length < 16:
            raise InputError(f"max_length must be at least 16, not {max_length}")
        self.name = str(name_or_path)
        self._critic = critic
        self._device = device
        self._max_length = max_length
        self._lock = threading.Lock()
        self._kind = ""
        self._net: Any = None
        self._tokenizer: Any = None

    @property
    def label(self) -> str:
        """The model's name, and who grades."""
        return f"{self.name}, read on this machine; graded by {self._critic.label}"

    def generate(
        self, question: str, context: Sequence[str], *, options: Sequence[str] | None = None
    ) -> tuple[str, TokenUsage]:
        """See `Answerer.generate`. Tokens are the model's own."""
        question = without_lone_surrogates(question)
        passages = without_lone_surrogates("\n".join(context))
        with self._lock:
            self._load()
            if self._kind == "sequence-to-sequence":
                return self._written(question, passages, options)
            if self._kind == "multiple choice":
                return self._chosen(question, passages, options)
            return self._extracted(question, passages)

    def judge(
        self, question: str, context: Sequence[str], answer: str, *, options: Sequence[str] | None = None
    ) -> tuple[Verdict, TokenUsage]:
        return self._critic.judge(question, context, answer, options=options)

    async def agenerate(
        self, question: str, context: Sequence[str], *, options: Sequence[str] | None = None
    ) -> tuple[str, TokenUsage]:
        return await asyncio.to_thread(self.generate, question, context, options=options)

    async def ajudge(
        self, question: str, context: Sequence[str], answer: str, *, options: Sequence[str] | None = None
    ) -> tuple[Verdict, TokenUsage]:
        return await self._critic.ajudge(question, context, answer, options=options)

    def _load(self) -> None:
        """Load the model once. Hold the lock."""
        if self._net is not None:
            return
        try:
            import torch
            import transformers
        except ImportError as error:
            raise MissingExtraError("a reader of one's own", "models") from error
        logger.info("loading reader %s", self.name)
        try:
            with quiet_loading():
                config = transformers.AutoConfig.from_pretrained(self.name, trust_remote_code=False)
                head = str((config.architectures or [""])[0])
                kinds = [kind for ending, kind in _KINDS.items() if head.endswith(ending)]
                if not kinds:
                    raise ModelError(
                        f"{self.name!r} is a {head or 'model without a named head'}, no reader: give a model "
                        f"whose class ends in {', '.join(_KINDS)}"
                    )
                loader, kind = kinds[0]
                tokenizer = transformers.AutoTokenizer.from_pretrained(self.name, trust_remote_code=False)
                net, info = getattr(transformers, loader).from_pretrained(
                    self.name, trust_remote_code=False, output_loading_info=True
                )
        except LOADING_ERRORS as error:
            raise ModelError(f"cannot load the reader {self.name!r} ({error})") from error
        if missing := sorted(info["missing_keys"]):
            raise ModelError(
                f"{self.name!r} lacks the weights {', '.join(missing[:3])}: answers would be random"
            )
        device = self._device or ("cuda" if torch.cuda.is_available() else "cpu")
        own = min(int(tokenizer.model_max_length), getattr(config, "max_position_embeddings", 0) or 1 << 20)
        self._longest = self._max_length or (UNIFIEDQA_TOKENS if kind == "sequence-to-sequence" else own)
        self._kind, self._tokenizer, self._net = kind, tokenizer, net.float().to(device).eval()

    def _written(self, question: str, passages: str, options: Sequence[str] | None) -> tuple[str, TokenUsage]:
        import torch

        lettered = " ".join(f"({option_letter(i)}) {option}" for i, option in enumerate(options or ()))
        parts = [question, *([lettered] if lettered else []), passages]
        text = " \\n ".join(" ".join(part.split()) for part in parts).lower()
        inputs = self._encoded([text], truncation=True)
        with torch.inference_mode():
            ids = self._net.generate(**inputs, max_new_tokens=_ANSWER_TOKENS, do_sample=False)[0]
        answer = self._tokenizer.decode(ids, skip_special_tokens=True).strip()
        return answer, _usage(inputs, len(ids))

    def _chosen(self, question: str, passages: str, options: Sequence[str] | None) -> tuple[str, TokenUsage]:
        import torch

        if not options:
            raise InputError(f"the reader {self.name!r} chooses between options, and this question has none")
        pairs = [f"{question} {option}" for option in options]
        inputs = self._encoded([passages] * len(options), pairs, truncation="only_first")
        with torch.inference_mode():
            logits = self._net(**{name: row.unsqueeze(0) for name, row in inputs.items()}).logits[0]
        best = int(logits.argmax())
        return f"{option_letter(best)}. {options[best]}", _usage(inputs, 1)

    def _extracted(self, question: str, passages: str) -> tuple[str, TokenUsage]:
        import torch

        if not passages.strip():
            return "", TokenUsage()
        windows = self._tokenizer(
            question,
            passages,
            truncation="only_second",
            max_length=self._longest,
            stride=min(_STRIDE, self._longest // 4),
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            padding=True,
            return_tensors="pt",
        )
        offsets = windows.pop("offset_mapping").tolist()
        windows.pop("overflow_to_sample_mapping")
        inputs = {name: row.to(self._net.device) for name, row in windows.items()}
        with torch.inference_mode():
            found = self._net(**inputs)
        best: tuple[float, int, int] = (float("-inf"), 0, 0)
        for number, place in enumerate(offsets):
            inside = [i for i, s in enumerate(windows.sequence_ids(number)) if s == 1]
            starts, ends = found.start_logits[number].tolist(), found.end_logits[number].tolist()
            for i in inside:
                for j in range(i, min(i + _LONGEST_ANSWER, inside[-1] + 1)):
                    if starts[i] + ends[j] > best[0]:
                        best = (starts[i] + ends[j], place[i][0], place[j][1])
        return passages[best[1] : best[2]], _usage(inputs, 1)

    def _encoded(self, *texts: Sequence[str], truncation: bool | str) -> dict[str, Any]:
        made = self._tokenizer(
            *map(list, texts),
            truncation=truncation,
            max_length=self._longest,
            padding=True,
            return_tensors="pt",
        )
        return {name: row.to(self._net.device) for name, row in made.items()}


def _usage(inputs: dict[str, Any], written: int) -> TokenUsage:
    return TokenUsage(int(inputs["attention_mask"].sum()), written, 1)
