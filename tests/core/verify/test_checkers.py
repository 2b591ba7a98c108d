"""Other models in the place of word counts, here tiny ones with random weights."""

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sage_core import OpenAIChat
from sage_core.errors import InputError, ModelError
from sage_core.verify import LocalJudge, ModelJudge, checker, mark_answer
from tests.fakes.llm_server import LLMServer

pytestmark = pytest.mark.slow  # torch

PASSAGES = ["The ferry leaves at seven and carries twelve cars.", "Seals sleep on rocks."]
ANSWER = "At seven the ferry departs. Seals sleep on rocks all day."


def tiny(folder: Path, name: str, labels: dict[int, str] | None = None) -> str:
    """A BERT with random weights and the bundled tokenizer, saved in a folder."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from tests.fakes.cross_encoder import save_model

    save_model(folder, labels=len(labels or {0: "", 1: ""}))
    config = transformers.AutoConfig.from_pretrained(folder)
    if labels:
        config.id2label = labels
        config.label2id = {label: i for i, label in labels.items()}
    torch.manual_seed(3)
    getattr(transformers, name)(config).save_pretrained(folder)
    return str(folder)


def scores(judge: ModelJudge) -> list[float]:
    found = [claim.probability for claim in judge.grounding(ANSWER, PASSAGES)]
    assert len(found) == 2 and all(p is not None and 0 <= p <= 1 for p in found)
    return [p for p in found if p is not None]


def test_the_label_order_is_read_from_the_config(tmp_path: Path) -> None:
    first = {0: "entailment", 1: "neutral", 2: "contradiction"}
    last = {0: "contradiction", 1: "neutral", 2: "entailment"}
    one = scores(ModelJudge(tiny(tmp_path / "a", "BertForSequenceClassification", first), device="cpu"))
    other = scores(ModelJudge(tiny(tmp_path / "b", "BertForSequenceClassification", last), device="cpu"))
    assert one != other and all(a + b <= 1 + 1e-6 for a, b in zip(one, other, strict=True))


def test_two_labels_without_names_are_minicheck_s(tmp_path: Path) -> None:
    judge = ModelJudge(tiny(tmp_path, "BertForSequenceClassification"), device="cpu")
    assert scores(judge) == pytest.approx(scores(pickle.loads(pickle.dumps(judge))))


def test_a_model_of_sentiment_and_what_is_no_model_are_refused(tmp_path: Path) -> None:
    labels = {0: "bad", 1: "fair", 2: "good"}
    judge = ModelJudge(tiny(tmp_path / "a", "BertForSequenceClassification", labels))
    with pytest.raises(ModelError, match="entailment"):
        judge.grounding(ANSWER, PASSAGES)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError):
        ModelJudge(str(tmp_path)).grounding(ANSWER, PASSAGES)


def test_a_token_classifier_as_lettucedetect(tmp_path: Path) -> None:
    labels = {0: "supported", 1: "hallucinated"}
    judge = ModelJudge(tiny(tmp_path, "BertForTokenClassification", labels), device="cpu")
    assert len(set(scores(judge))) == 2


def tiny_t5(folder: Path, name: str) -> Any:
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    from tests.fakes.cross_encoder import save_model

    save_model(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.eos_token = "[SEP]"
    torch.manual_seed(3)
    size: dict[str, Any] = {"d_model": 32, "d_ff": 64, "d_kv": 8, "num_layers": 2, "num_heads": 2}
    config = transformers.T5Config(vocab_size=len(tokenizer), decoder_start_token_id=0, num_labels=2, **size)
    model = getattr(transformers, name)(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model


def test_minicheck_s_t5(tmp_path: Path) -> None:
    tiny_t5(tmp_path, "T5ForConditionalGeneration")
    assert len(set(scores(ModelJudge(str(tmp_path), device="cpu")))) == 2


def test_hhem_is_loaded_without_its_own_code(tmp_path: Path) -> None:
    model = tiny_t5(tmp_path / "t5", "T5ForTokenClassification")
    from safetensors.torch import save_file

    config = {"model_type": "HHEMv2", "foundation": str(tmp_path / "t5")}
    (tmp_path / "config.json").write_text(json.dumps(config))
    weights = {f"t5.{name}": value.clone() for name, value in model.state_dict().items()}
    save_file(weights, tmp_path / "model.safetensors")
    assert len(set(scores(ModelJudge(str(tmp_path), device="cpu")))) == 2
    del weights["t5.classifier.weight"]
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(ModelError):
        ModelJudge(str(tmp_path)).grounding(ANSWER, PASSAGES)


def test_an_llm_is_asked_once_a_claim() -> None:
    def script(request: Any) -> str:
        return "Yes." if "Statement: Seals" in request.user else "No, it leaves at six."

    with LLMServer(script) as server:
        chat = OpenAIChat("m", base_url=server.base_url, api_key="sk-test", backoff=0.0)
        assert scores(ModelJudge(chat)) == [0.0, 1.0]
        assert len(server.requests) == 2


def test_long_passages_are_read_in_windows_and_the_best_one_counts() -> None:
    seen: list[str] = []

    def score(pairs: Any) -> list[float]:
        seen.extend(text for text, _ in pairs)
        return [0.9 if "twelve" in text else 0.1 for text, _ in pairs]

    (claim,) = ModelJudge(score, max_words=4).grounding("It carries some twelve vehicles.", PASSAGES)
    assert claim.probability == 0.9 and all(len(text.split()) <= 4 for text in seen) and len(seen) == 4


def test_a_passage_without_spaces_is_read_in_windows_too() -> None:
    seen: list[str] = []
    passage = "渡轮早上九点一刻从码头出发。" * 20
    ModelJudge(lambda pairs: [seen.append(p[0]) or 0.4 for p in pairs], max_words=30).grounding(
        "渡轮早上九点一刻出发。", [passage]
    )
    assert "".join(seen) == passage and max(map(len, seen)) <= 60


@pytest.mark.parametrize(
    ("answer", "language"),
    [("Die Fähre fährt am Sonntag um 8:45 Uhr ab.", "German"), ("Feribot saat 8:45'te kalkar.", None)],
)
def test_in_any_language_the_model_is_asked_and_its_word_counts(answer: str, language: str | None) -> None:
    passage = (
        "Die Fähre fährt um 9:15 Uhr ab."
        if language
        else "Pazar günü ilk feribot saat 9:15'te bir kez kalkar."
    )
    (alone,) = LocalJudge(model=False).grounding(answer, [passage])
    assert alone.reason == f"unsure: not measured in {language or 'this language'}"
    for said, reason in ((0.9, ""), (0.1, "")):
        (claim,) = ModelJudge(lambda pairs, said=said: [said] * len(pairs)).grounding(answer, [passage])
        assert (claim.probability, claim.reason) == (said, reason)


def test_it_goes_where_a_local_judge_goes() -> None:
    judge = ModelJudge(lambda pairs: [float("departs" in claim) for _, claim in pairs])
    found = mark_answer(ANSWER, PASSAGES, judge=judge)
    assert [m.support for m in found if m.text.strip()] == ["supported", "unsupported"]
    assert checker(judge, None) is judge and checker(None, None) is None
    assert isinstance(checker(None, "minicheck"), ModelJudge)


@pytest.mark.parametrize("wrong", ["", "  ", 3, None])
def test_wrong_models(wrong: Any) -> None:
    with pytest.raises(InputError):
        ModelJudge(wrong)
    with pytest.raises(InputError):
        checker(ModelJudge("hhem"), "hhem")


@pytest.mark.parametrize("returned", [[0.5], [2.0, 0.5, 0.5, 0.5], [float("nan")] * 4])
def test_probabilities_that_are_none(returned: list[float]) -> None:
    with pytest.raises(ModelError):
        ModelJudge(lambda pairs: returned, max_words=8).grounding(ANSWER, PASSAGES)


@pytest.mark.parametrize(
    ("answer", "passage"),
    [
        ("Die Fähre fährt um sieben Uhr morgens ab.", "Die Fähre verlässt den Hafen um sieben Uhr."),
        ("渡轮早上七点离开。", "渡轮每天早上七点离开港口。"),
        ("नौका सुबह सात बजे निकलती है।", "नौका हर सुबह सात बजे बंदरगाह से निकलती है।"),
    ],
)
def test_a_model_is_asked_whatever_the_language(answer: str, passage: str) -> None:
    asked: list[tuple[str, str]] = []

    def score(pairs: Sequence[tuple[str, str]]) -> list[float]:
        asked.extend(pairs)
        return [0.9] * len(pairs)

    judge = ModelJudge(score)
    (claim,) = judge.grounding(answer, [passage])
    assert asked == [(passage, answer)]
    assert (claim.probability, claim.refuted) == (0.9, False)
    assert judge.supported("?", answer, [passage]) == pytest.approx(0.9)
    (mark,) = mark_answer(answer, [passage], judge=judge)
    assert mark.support == "supported"
