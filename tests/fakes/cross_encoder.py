"""A tiny cross-encoder with random weights, as a folder."""

from importlib import resources


def save_model(folder, labels=1, dtype=None):
    import torch
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    source = resources.files("sage_core.text").joinpath("tokenizer.json")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_tokenizer(source),
        unk_token="[UNK]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        mask_token="[MASK]",
        model_max_length=128,
    )
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
        num_labels=labels,
        initializer_range=0.4,
    )
    BertForSequenceClassification(config).to(dtype or torch.float32).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _tokenizer(source):
    from tokenizers import Tokenizer, processors

    tokenizer = Tokenizer.from_str(source.read_text(encoding="utf-8"))
    cls, sep = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", sep), ("[CLS]", cls))
    return tokenizer
