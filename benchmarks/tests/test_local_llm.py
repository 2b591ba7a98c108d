"""The model's likelihoods and answers are those of a plain reading, whatever is reused."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import local_llm

ASKED = [{"role": "user", "content": "An old man walked into the wood with a stick. What did he carry?"}]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def llm():
    if local_llm.missing():
        pytest.skip(local_llm.missing())
    return local_llm.LocalLLM(dtype="float32")


def plain(llm, prompt, answer):
    import torch

    with torch.inference_mode():
        logits = llm.model(torch.tensor([prompt + answer])).logits[0].log_softmax(-1)
    return [float(logits[len(prompt) + i - 1, token]) for i, token in enumerate(answer)]


def test_a_shared_prompt_changes_no_likelihood(llm):
    answers = ["a stick", "a", "a golden mirror of the king"]
    prompt = llm.prompt(ASKED)
    scores = llm.loglikelihoods(ASKED, answers)
    for answer, found in zip(answers, scores, strict=True):
        assert found == pytest.approx(plain(llm, prompt, llm.encode(answer)), abs=1e-3)
    assert sum(scores[0]) > sum(scores[2])


def test_several_prompts_at_once_are_scored_and_answered_as_each_alone(llm):
    prompts = [
        llm.prompt(ASKED),
        llm.prompt([{**ASKED[0], "content": ASKED[0]["content"].replace("stick", "cloth")}]),
    ]
    assert len(prompts[0]) == len(prompts[1])
    both, answer = llm.read(prompts), llm.encode("a cloth bag")
    first = llm.greedy(both, 8)
    scores = llm.score(both, [answer, answer])
    assert llm.greedy(both, 8) == first  # the cache is as it was
    begun = llm.read([p[9:] for p in prompts], llm.read([prompts[0][:9]]))
    assert llm.score(begun, [answer, answer])[1] == pytest.approx(scores[1], abs=1e-3)
    for prompt, found, text in zip(prompts, scores, first, strict=True):
        alone = llm.read([prompt])
        assert found == pytest.approx(plain(llm, prompt, answer), abs=1e-3)
        assert llm.greedy(alone, 8) == [text]


def test_generation_ends_with_the_turn(llm):
    answer = llm.generate([{"role": "user", "content": "Answer with one word: yes or no. Is snow cold?"}], 40)
    assert answer and "<|im" not in answer
