"""Answer metrics against cases worked out by hand, and against the libraries' own functions."""

from __future__ import annotations

import math
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sage_eval.metrics.answers import (
    accuracy,
    bleu,
    exact_match,
    f1_match,
    meteor,
    normalize,
    rouge_l,
    words,
)

from sage_core.errors import InputError
from sage_core.llm.prompting import NO_ANSWER

PROSE = st.text(alphabet=string.ascii_letters + string.digits + " .,'-_", max_size=60)


def test_normalization_is_that_of_the_squad_scorer():
    assert normalize("The  Cat's -- A mat, an end!") == "cats mat end"
    assert normalize("A.B. the-way") == "ab theway"
    assert normalize("“Quoted” an’t") == "“quoted” ’t"  # as there: only ASCII punctuation goes first


def test_portuguese_normalization_drops_its_own_articles_and_all_punctuation():
    assert normalize("Os “dragões” e a água — uma!", language="pt") == "dragões e água"
    assert exact_match("a casa", ["Casa."], language="pt") == 1
    assert exact_match("a casa", ["Casa."], language="en") == 1  # 'a' is an article in both
    assert exact_match("o rio", ["rio"], language="en") == 0
    with pytest.raises(InputError, match="'xx'"):
        normalize("x", language="xx")


def test_exact_match_takes_the_best_reference():
    assert exact_match("the Seine", ["Loire", "Seine."]) == 1
    assert exact_match("the river Seine", ["Loire", "Seine"]) == 0


def test_f1_by_hand():
    # told: big red barn door; wanted: red barn -> 2 shared of 4 and 2: F1 = 2*2/6
    assert f1_match("the big red barn door", ["a red barn"]) == pytest.approx(4 / 6)
    # A word counts as often as both have it: "to" once of told's two.
    assert f1_match("to and to", ["to go"]) == pytest.approx(2 * 1 / 5)
    assert f1_match("nothing alike", ["something else"]) == 0
    assert f1_match("x y", ["a", "x", "x y"]) == 1


@pytest.mark.parametrize("reference", ["", "Unanswerable", "unanswerable."])
def test_no_answer_is_met_by_no_answer_only(reference):
    for said in ("", "Unanswerable", NO_ANSWER, f'"{NO_ANSWER}"'):
        assert f1_match(said, [reference]) == 1
        assert exact_match(said, [reference]) == 1
    assert f1_match("Paris", [reference]) == 0
    assert exact_match("Paris", [reference]) == 0
    assert f1_match(NO_ANSWER, ["Paris"]) == 0
    assert f1_match("", ["Paris"]) == 0


def test_accuracy():
    assert accuracy(2, 2) == 1
    assert accuracy(1, 2) == 0
    assert accuracy(None, 0) == 0


@pytest.mark.slow
@pytest.mark.parametrize("function", [exact_match, f1_match, rouge_l, bleu, meteor])
def test_references_are_a_list_of_at_least_one(function):
    with pytest.raises(InputError, match="reference"):
        function("x", [])
    with pytest.raises(InputError, match="reference"):
        function("x", "one text")


@given(PROSE)
def test_words_of_ascii_are_those_of_rouge_score(text):
    from rouge_score.tokenize import tokenize

    assert words(text) == tokenize(text, None)


def test_words_of_other_scripts_stay_whole():
    assert words("Ação, não!") == ["ação", "não"]
    assert words("हिन्दी भाषा") == ["हिन्दी", "भाषा"]
    assert words("東京タワー 2") == ["東", "京", "タ", "ワ", "ー", "2"]


def test_rouge_l_by_hand():
    # Longest common subsequence "the sat on mat": 4 of 6 told, 4 of 5 wanted.
    told, wanted = "the cat sat on a mat", "the dog sat on mat"
    precision, recall = 4 / 6, 4 / 5
    assert rouge_l(told, [wanted]) == pytest.approx(2 * precision * recall / (precision + recall))
    assert rouge_l(told, ["nothing", wanted]) == rouge_l(told, [wanted])
    assert rouge_l("não há", ["Não há!"]) == 1
    assert rouge_l("", ["x"]) == 0


@given(PROSE, PROSE)
def test_rouge_l_is_that_of_the_library(told, wanted):
    from rouge_score.rouge_scorer import RougeScorer

    expected = RougeScorer(["rougeL"]).score(wanted, told)["rougeL"].fmeasure
    assert rouge_l(told, [wanted]) == pytest.approx(expected)


def test_bleu_by_hand():
    # Unigrams: 'the' is clipped to the reference's 2 of 7.
    assert bleu("the the the the the the the", ["the cat is on the mat"], order=1) == pytest.approx(2 / 7)
    # 5 of 5 unigrams and 4 of 4 bigrams, but shorter than the reference: exp(1 - 7/5).
    assert bleu("he ran to the sea", ["he ran to the sea at once"], order=2) == pytest.approx(math.exp(-0.4))
    # 4 words: 4/4, 3/3, 2/2, 1/1.
    assert bleu("He ran to sea.", ["he ran to sea"], order=4) == pytest.approx(1)
    assert bleu("a rose", ["a rose"], order=4) == 0  # too short for a 4-gram, and not smoothed
    assert bleu("", ["a rose"], order=1) == 0
    # Counts are clipped by all references, lengths are compared with the nearest.
    assert bleu("red blue", ["red sky", "blue sea over there"], order=1) == pytest.approx(1)
    with pytest.raises(InputError, match="at least 1"):
        bleu("a", ["a"], order=0)


@pytest.mark.filterwarnings("ignore::UserWarning")
@given(
    st.lists(st.sampled_from("abcd"), min_size=4, max_size=12),
    st.lists(st.sampled_from("abcd"), min_size=4, max_size=12),
)
def test_bleu_is_nltks_where_that_is_not_smoothed(told, wanted):
    from nltk.translate.bleu_score import sentence_bleu

    expected = sentence_bleu([wanted], told)
    expected = expected if expected > 1e-50 else 0.0  # NLTK gives a tiny number for none
    assert bleu(" ".join(told), [" ".join(wanted)]) == pytest.approx(expected)


def test_meteor_by_hand():
    # 2 of 2 told match 2 of 3 wanted, in one chunk: P=1, R=2/3; F = PR/(0.9P + 0.1R); penalty 0.5*(1/2)^3.
    f = (2 / 3) / (0.9 * 1 + 0.1 * 2 / 3)
    # ... in NLTK's terms: fmean = P*R / (alpha*P + (1-alpha)*R)
    assert meteor("red barn", ["big red barn"]) == pytest.approx(f * (1 - 0.5 * (1 / 2) ** 3))
    assert meteor("running dogs", ["run dog"]) > 0.9  # stems match
    assert meteor("a car", ["an automobile"]) == 0  # synonyms do not
    assert meteor("", ["x"]) == 0
    assert meteor("x", ["y", "x"]) == meteor("x", ["x"])
    assert meteor("casas", ["casa"], language="pt") > 0


@given(PROSE, PROSE)
def test_scores_are_shares(told, wanted):
    for score in (
        f1_match(told, [wanted]),
        exact_match(told, [wanted]),
        rouge_l(told, [wanted]),
        bleu(told, [wanted], order=1),
        meteor(told, [wanted]),
    ):
        assert 0 <= score <= 1 + 1e-9
    assert f1_match(told, [told]) == 1
