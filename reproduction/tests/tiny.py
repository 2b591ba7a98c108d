"""The tokenizer of tiny models with random weights."""

from importlib import resources
from typing import Any


def tiny_tokenizer(**marks: str) -> Any:
    """The packaged vocabulary, with the marks that BERT puts around one text or two."""
    from tokenizers import Tokenizer, processors
    from transformers import PreTrainedTokenizerFast

    source = resources.files("sage_core.text").joinpath("tokenizer.json").read_text(encoding="utf-8")
    backend = Tokenizer.from_str(source)
    cls, sep = backend.token_to_id("[CLS]"), backend.token_to_id("[SEP]")
    backend.post_processor = processors.BertProcessing(("[SEP]", sep), ("[CLS]", cls))
    names = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=128, **names, **marks)
