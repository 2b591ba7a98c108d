"""Readers of a row's own, on real, tiny models with random weights; the paper's critic; answers without context."""

from __future__ import annotations

import pytest
from sage_eval.local_readers import LocalReader
from sage_eval.methods import make_method
from sage_eval.options import chosen_option
from sage_eval.readers import PAPER_COIN, PaperCritic
from sage_eval.records import EvalDocument, EvalQuestion, Evidence

from reproduction.tests.tiny import tiny_tokenizer
from sage_app.answers import ExtractiveAnswerer, LLMAnswerer
from sage_app.models import OpenAIChat
from sage_core.errors import InputError, ModelError
from sage_core.text.spans import Span
from tests.fakes.llm_server import LLMServer
from tests.fakes.models import HashEmbedder

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

QUESTION = "Who built the lighthouse?"
PASSAGES = ["Maren Tolk built the lighthouse.", "Seals sleep on the rocks. " * 60]
OPTIONS = ["Maren Tolk", "a seal", "nobody"]


def save_model(folder, kind):
    tokenizer = tiny_tokenizer(eos_token="[SEP]")
    torch.manual_seed(5)
    if kind == "t5":
        config = transformers.T5Config(
            vocab_size=len(tokenizer), d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4,
            pad_token_id=0, decoder_start_token_id=0, eos_token_id=tokenizer.eos_token_id,
        )  # fmt: skip
        net = transformers.T5ForConditionalGeneration(config)
    else:
        config = transformers.BertConfig(
            vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=64, max_position_embeddings=128, initializer_range=0.5,
        )  # fmt: skip
        heads = {"choice": "BertForMultipleChoice", "span": "BertForQuestionAnswering", "plain": "BertModel"}
        net = getattr(transformers, heads[kind])(config)
    net.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def reader(folder, **settings):
    return LocalReader(folder, critic=ExtractiveAnswerer(), device="cpu", **settings)


def test_a_sequence_to_sequence_reader_gets_unifiedqas_format(tmp_path, monkeypatch):
    made = reader(save_model(tmp_path, "t5"), max_length=64)
    seen = []
    encoded = made._encoded
    monkeypatch.setattr(
        made, "_encoded", lambda *texts, **k: seen.append(texts[0][0]) or encoded(*texts, **k)
    )
    answer, usage = made.generate("Who built\n the Lighthouse?", PASSAGES, options=OPTIONS)
    assert isinstance(answer, str) and usage.calls == 1 and usage.prompt == 64  # cut to its longest input
    assert seen[0].startswith(
        r"who built the lighthouse? \n (a) maren tolk (b) a seal (c) nobody \n maren tolk"
    )
    assert made.generate("Who built\n the Lighthouse?", PASSAGES, options=OPTIONS)[0] == answer


def test_a_multiple_choice_reader_names_the_option_its_model_scores_highest(tmp_path):
    made = reader(save_model(tmp_path, "choice"))
    answer, usage = made.generate(QUESTION, PASSAGES, options=OPTIONS)
    picked = chosen_option(answer, OPTIONS)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    net = transformers.AutoModelForMultipleChoice.from_pretrained(tmp_path).eval()
    inputs = tokenizer(
        ["\n".join(PASSAGES)] * 3, [f"{QUESTION} {o}" for o in OPTIONS],
        truncation="only_first", max_length=128, padding=True, return_tensors="pt",
    )  # fmt: skip
    with torch.inference_mode():
        logits = net(**{k: v.unsqueeze(0) for k, v in inputs.items()}).logits[0]
    assert picked == int(logits.argmax()) and usage.prompt > 100
    with pytest.raises(InputError, match="chooses between options"):
        made.generate(QUESTION, PASSAGES)


def test_an_extractive_reader_quotes_a_span_of_any_window(tmp_path):
    made = reader(save_model(tmp_path, "span"))
    answer, usage = made.generate(QUESTION, PASSAGES)
    assert answer and answer in "\n".join(PASSAGES) and len(answer.split()) <= 30
    assert usage.prompt > 300  # the long passage is read in several windows
    assert made.generate(QUESTION, [])[0] == ""


def test_what_is_no_reader(tmp_path):
    with pytest.raises(ModelError, match="BertModel, no reader"):
        reader(save_model(tmp_path / "plain", "plain")).generate(QUESTION, PASSAGES)
    with pytest.raises(ModelError, match="cannot load"):
        reader(tmp_path / "nowhere").generate(QUESTION, PASSAGES)
    headless = save_model(tmp_path / "headless", "plain")
    config = headless / "config.json"
    config.write_text(config.read_text().replace('"BertModel"', '"BertForQuestionAnswering"'))
    with pytest.raises(ModelError, match="lacks the weights"):
        reader(headless).generate(QUESTION, PASSAGES)
    with pytest.raises(InputError):
        reader("  ")
    with pytest.raises(InputError):
        reader("model", max_length=3)


def test_a_local_reader_grades_by_its_critic(tmp_path):
    made = reader(tmp_path)
    verdict, _ = made.judge(QUESTION, PASSAGES, "Maren Tolk built the lighthouse.")
    assert verdict == ExtractiveAnswerer().judge(QUESTION, PASSAGES, "Maren Tolk built the lighthouse.")[0]
    assert "graded by extractive" in made.label


def test_the_papers_critic_has_its_own_prompt_and_reply():
    with LLMServer(["Evaluation Score: 8\nContext Adjustment: -1"]) as server:
        answerer = LLMAnswerer(OpenAIChat("m", base_url=server.base_url, api_key="k"))
        for coin in (False, True):
            verdict, usage = PaperCritic(answerer, coin=coin).judge(QUESTION, PASSAGES, "Maren Tolk.")
            assert (verdict.score, verdict.adjust, usage.calls) == (8, -1, 1)
            assert (PAPER_COIN in server.requests[-1].system) == coin
        assert PASSAGES[0] in server.requests[0].user and "Maren Tolk." in server.requests[0].user
        assert "response_format" not in server.requests[0].body
    plain = ExtractiveAnswerer()
    assert PaperCritic(plain).judge(QUESTION, PASSAGES, "x") == plain.judge(QUESTION, PASSAGES, "x")


def llm_method(server, spec):
    chat = OpenAIChat("m", base_url=server.base_url, api_key="k")
    return make_method(spec, reader=LLMAnswerer(chat), embedder=HashEmbedder())


TEXT = " ".join(f"Sentence number {i} says that thing {i} is {i * i}." for i in range(400))
ASKED = EvalQuestion(
    "q",
    "d",
    "What is thing 200?",
    ("40000",),
    (Evidence("d", Span(TEXT.index("Sentence number 200"), TEXT.index("Sentence number 201") - 1)),),
)


def test_without_context_the_llm_may_say_what_it_knows():
    with LLMServer(["Forty thousand."]) as server:
        method = llm_method(server, "no-context")
        method.prepare([EvalDocument("d", TEXT)])
        result = method.answer(ASKED)
        assert result.answer == "Forty thousand." and result.context == () and result.context_tokens == 0
        assert "from what you know" in server.requests[0].system
        assert "do not hold the answer" not in server.requests[0].system


def test_the_gold_chunk_is_one_of_the_rows_own_chunks():
    with LLMServer(["40000"]) as server:
        method = llm_method(server, {"method": "gold-context", "chunks": {"kind": "fixed", "tokens": 100}})
        method.prepare([EvalDocument("d", TEXT)])
        (piece,) = method.answer(ASKED).context
        assert "thing 200 is 40000" in piece.text and 50 < method.answer(ASKED).context_tokens <= 100
        assert piece.span.of(TEXT) == piece.text
        with pytest.raises(InputError, match="no evidence"):
            method.answer(EvalQuestion("r", "d", "Why?"))


@pytest.mark.parametrize("depth", [0.0, 0.3, 1.0])
def test_lost_in_the_middle_places_the_gold_chunk(depth):
    spec = {
        "method": "gold-context",
        "chunks": {"kind": "fixed", "tokens": 100},
        "tokens": 1200,
        "depth": depth,
    }
    with LLMServer(["40000"]) as server:
        method = llm_method(server, spec)
        method.prepare([EvalDocument("d", TEXT)])
        result = method.answer(ASKED)
    place = next(i for i, piece in enumerate(result.context) if "thing 200 is" in piece.text)
    assert place == round(depth * (len(result.context) - 1))
    assert 1000 < result.context_tokens <= 1200 and len(set(result.context)) == len(result.context)
    assert len(result.ranked) == 1


def test_a_placement_needs_both_numbers():
    answerer = ExtractiveAnswerer()
    for wrong in ({"tokens": 100}, {"depth": 0.5}, {"tokens": 100, "depth": 2.0}):
        with pytest.raises(InputError):
            make_method({"method": "gold-context", **wrong}, reader=answerer, embedder=HashEmbedder())


def test_options_can_be_searched_with():
    spec = {"method": "naive", "index": "bm25", "chunks": "sentences", "top_k": 1}
    text = "The harbour is old. Maren Tolk drew the plans. Seals sleep."
    question = EvalQuestion("q", "d", "Which of these did it?", options=("Maren Tolk", "An owl"), gold=0)
    found = {}
    for with_options in (False, True):
        method = make_method(
            {**spec, "with_options": with_options},
            reader=ExtractiveAnswerer(),
            embedder=HashEmbedder(),
        )
        method.prepare([EvalDocument("d", text)])
        found[with_options] = method.answer(question).context[0].text
    assert "Maren Tolk" in found[True] and found[True] != found[False]


def test_algorithm_two_as_printed_keeps_min_k():
    def chosen(**more):
        method = make_method(
            {"method": "sage-paper", "feedback": False, **more},
            reader=ExtractiveAnswerer(), embedder=HashEmbedder(),
        )  # fmt: skip
        method.prepare([EvalDocument("d", "\n".join(TEXT.split(". ")))])
        return len(method.answer(ASKED).context)

    assert chosen(printed=True) == 7
    assert chosen() > 7  # the fourteen sentences' scores fall smoothly
    with pytest.raises(InputError, match="sage-paper"):
        make_method({"method": "sage", "coin": True}, reader=ExtractiveAnswerer())
