"""A sentence transformer of two small random layers, as a folder."""


def save_transformer(folder, size=32):
    from sentence_transformers import SentenceTransformer, models
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    from sage_core.text.wordpiece import TOKENIZER_FILE

    sizes = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 2 * size}
    BertModel(BertConfig(hidden_size=size, **sizes)).save_pretrained(folder / "bert")
    marks = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(TOKENIZER_FILE), model_max_length=64, **marks)
    tokenizer.save_pretrained(folder / "bert")
    modules = [models.Transformer(str(folder / "bert")), models.Pooling(size), models.Normalize()]
    SentenceTransformer(modules=modules, device="cpu").save(str(folder / "model"))
    return folder / "model"
