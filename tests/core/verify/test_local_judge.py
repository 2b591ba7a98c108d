"""The judge that needs no LLM: claims, evidence, what is not English, and its place in the loop."""

import pickle
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_app.answers import ExtractiveAnswerer
from sage_core.errors import InputError
from sage_core.feedback import FeedbackConfig, FeedbackLoop, Verdict, run_loop
from sage_core.llm.usage import TokenUsage
from sage_core.selection import SelectionConfig
from sage_core.verify import (
    LocalCritic,
    LocalJudge,
    abstains,
    check,
    local_check,
    mark_answer,
    split_claims,
    support,
)
from sage_core.verify.judge import Entailment

PASSAGES = [
    "The Kestrel Bridge was opened in 1932 by Jack Lang. It carries eight lanes of traffic over the harbor. "
    "Construction began in 1923 and cost the lives of sixteen workers.",
    "The harbor is home to many seals. They sleep on the rocks in the afternoon.",
]


@pytest.fixture(scope="module", params=[False, None], ids=["words", "model"])
def judge(request):
    return LocalJudge(model=request.param)


def only(judge, text, passages=PASSAGES):
    (claim,) = judge.claims("", text, passages)
    return claim


def test_what_the_passages_say_is_more_likely_than_what_they_do_not(judge):
    right = only(judge, "Jack Lang opened the Kestrel Bridge in 1932.").probability
    for wrong in (
        "Jack Lang opened the Kestrel Bridge in 1947.",
        "Ralph Freeman opened the Kestrel Tunnel in 1932.",
        "Trains cross the river on a wooden viaduct.",
    ):
        assert only(judge, wrong).probability < right
    assert right > 0.5


def test_word_for_word_and_a_false_quotation_are_decided_without_weighing(judge):
    said = only(judge, "It carries eight lanes of traffic over the harbor.")
    assert said.probability > 0.95 and "word for word" in said.reason
    quoted = only(judge, "Lang called it “the finest bridge of the age” that day.")
    assert quoted.probability < 0.1 and "quotation" in quoted.reason


def test_items_are_claims_of_their_own():
    answer = "- It carries eight lanes.\r\n- It opened in 1932.\n"
    claims = ["It carries eight lanes.", "It opened in 1932."]
    assert [answer[a:b] for a, b in split_claims(answer)] == claims


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  \n",
        "The documents do not say.",
        "# Bridges",
        "What is it?",
        "Here are the facts:",
        "I hope this helps!",
        "Unable to answer based on given passages.",
        "Based on the passages, the documents do not mention who painted the ceiling.",
        "Unfortunately, the provided context doesn't contain any information about the ceiling.",
        "I could not find the name of the painter in the passages.",
        "There is no information about the painter.",
    ],
)
def test_what_claims_nothing_is_no_claim(judge, text):
    assert judge.claims("", text, PASSAGES) == []
    assert support(judge.claims("", text, PASSAGES)) is None


def test_an_answer_that_abstains_in_its_own_words_asks_for_more_context():
    check = LocalCritic(QUESTION, judge=LocalJudge(model=False), alone=True)
    verdict = check.grade(PASSAGES, "The passages do not say when it was opened.")
    assert (verdict.score, verdict.adjust) == (1, 1)
    assert check.grade(PASSAGES, "The bridge does not have eight lanes of traffic.").score > 1
    mixed = "The passages do not name the painter. The bridge carries eight lanes of traffic."
    assert check.grade(PASSAGES, mixed).score > 1
    assert [mixed[a:b] for a, b in split_claims(mixed)] == ["The bridge carries eight lanes of traffic."]


@pytest.mark.parametrize(
    "answer",
    [
        "Die Brücke wurde im Jahr 1932 von Jack Lang eröffnet und ist seitdem eine Sehenswürdigkeit der Stadt.",
        "この橋は1932年に開通した。",
        "bridge " * 500 + ".",
    ],
)
def test_what_it_cannot_read_is_unsure_not_guessed(judge, answer):
    assert {c.probability for c in judge.claims("", answer, PASSAGES)} == {None}
    assert support(judge.claims("What?", answer, PASSAGES)) is None


def test_odd_input_has_a_defined_result(judge):
    assert only(judge, "The bridge \ud800 was opened 🙂 in 1932.").probability is not None
    with pytest.raises(InputError, match="list"):
        judge.claims("", "It opened.", "It opened.")


def test_the_same_words_give_the_same_numbers_and_survive_pickling(judge):
    answer = "Jack Lang opened the bridge in 1932. It has ten lanes."
    first = judge.claims("", answer, PASSAGES)
    assert pickle.loads(pickle.dumps(judge)).claims("", answer, PASSAGES) == first
    assert first[0].to_dict()["span"] == [0, 36]


def test_one_weak_claim_pulls_the_whole_answer_down(judge):
    good = "Jack Lang opened the Kestrel Bridge in 1932. It carries eight lanes of traffic."
    bad = "Jack Lang opened the Kestrel Bridge in 1932. Emperors hunted wild boars in its towers."
    assert support(judge.claims("", good, PASSAGES)) > support(judge.claims("", bad, PASSAGES))
    assert support(judge.claims("When was the Kestrel Bridge opened?", "1947", PASSAGES)) < 0.3


# In the loop

QUESTION = "When was the Kestrel Bridge opened?"


def drive(answer, passages=PASSAGES, **settings):
    """The loop over two candidates with one answer; what the LLM critic was asked."""
    asked = []

    def judge(selection, text):
        asked.append(text)
        return Verdict(9), TokenUsage(10, 1, 1)

    config = FeedbackConfig(selection=SelectionConfig(min_k=2), **settings)
    loop = FeedbackLoop([0.9, 0.8], "probability", config)
    check = local_check(config, QUESTION, lambda s: [passages[i] for i in s.indices], LocalJudge(model=False))
    result = run_loop(loop, lambda _: (answer, TokenUsage(10, 1, 1)), judge, check=check)
    return result, asked


def test_auto_asks_the_llm_where_it_is_unsure():
    critic = LocalCritic(QUESTION, judge=LocalJudge(model=False))
    assert critic.grade(PASSAGES, "Sailors cheered as it was made ready in spring.") is None
    assert critic.grade(PASSAGES, "It was opened in 1947.").vetoed_by
    accepted = critic.grade(PASSAGES, "The Kestrel Bridge was opened in 1932 by Jack Lang.")
    assert accepted.score == 10 and accepted.accepted
    assert drive("Der Bau wurde nach vielen Jahren endlich eröffnet, sagt die Chronik.", critic="auto")[1]


@pytest.mark.parametrize(
    "answer", ["It was opened in 1932.", "In 1947.", "Emperors hunted here.", "この橋は1932年に開通した。"]
)
@pytest.mark.parametrize("budget", [None, 1])
def test_local_never_calls(answer, budget):
    result, asked = drive(answer, critic="local", max_calls=budget)
    assert asked == [] and 1 <= result.score <= 10


def test_without_a_call_left_auto_does_not_ask():
    result, asked = drive(
        "Der Bau wurde nach vielen Jahren endlich eröffnet, sagt er.", critic="auto", max_calls=1
    )
    assert asked == [] and result.stop_reason == "budget"


# Quoting

FOOTBRIDGE = ["The footbridge is closed in winter. It was built of oak in 1871.", "Seals sleep on the rocks."]


def test_what_was_graded_is_shown_without_reading_it_again(monkeypatch):
    judge = LocalJudge(model=True)
    question, answer = "When was the footbridge built?", "The bridge of oak was built in 1871."
    LocalCritic(question, judge=judge, alone=True).grade(FOOTBRIDGE, answer)
    monkeypatch.setattr(Entailment, "logits", lambda *_: pytest.fail("the model was asked again"))
    assert [m.passage for m in mark_answer(answer, FOOTBRIDGE, question=question, judge=judge)] == [0]


@pytest.mark.parametrize(
    ("question", "passages"),
    [
        ("Which licence does numpy have?", ["NumPy has arrays. It has a version for every platform."]),
        ("When does the mill open?", ["# Opening hours of the mill\n\nVisitors are welcome."]),
        ("When does the mill open?", ["The mill grinds oats for the whole island. Its door is green."]),
    ],
)
def test_what_only_shares_the_words_of_the_question_is_never_praised(question, passages):
    answerer = ExtractiveAnswerer()
    text, _ = answerer.generate(question, passages)
    # The passages themselves are shown; what is marked says something.
    marked = " ".join(re.findall(r"\*\*.+?\*\*", text))
    assert "Opening hours" not in marked


CODES = [
    "Error E17 means that the thermocouple is disconnected. Error E22 means that gas pressure fell under 18 mbar."
]


SURVEY = [
    "Puffins nest in the turf above the cliffs of the island, and rats ate their eggs for many years.",
    "| Species | 2018 | 2021 |\n|---|---:|---:|\n| Kittiwake, nests | 2,740 | 2,210 |\n"
    "| Puffin, burrows | 1,610 | 1,890 |\n| Fulmar \\| petrel | | 420 |",
]


@pytest.mark.parametrize(
    "row",
    [
        "Species: Kittiwake, nests; 2018: 2,740; 2021: 2,210",
        "Species: Puffin, burrows; 2018: 1,610; 2021: 1,890",
        "Species: Fulmar | petrel; 2021: 420",
    ],
)
def test_a_row_of_a_table_is_read_together_with_its_header(judge, row):
    (claim,) = judge.claims("", row, SURVEY)
    assert claim.passage == 1
    assert claim.probability > 0.5


HARBOR = [
    "Sales of tickets rose in 2020. Sales of tickets fell in 2021. The crossing to the outer island takes 11 "
    "hours. The way back takes 18 hours.",
    "Dogs are not allowed on deck. A licence is required for visitors who fish. The shop is closed on Sundays. "
    "The museum was opened in 1932 by Jack Lang; bees eat nectar, not pollen.",
    "The chapel was built before the war. The tower was finished in 1947. The village is unknown to tourists.",
]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("In 2020 the sales of tickets rose.", "In 2020 the sales of tickets fell."),
        ("In 2021 sales of tickets fell.", "In 2021 sales of tickets rose."),
        ("On deck dogs are not allowed.", "On deck dogs are allowed."),
        ("The museum opened in 1932.", "The museum opened in 1947."),
        ("The crossing to the island takes 11 hours.", "The crossing to the island takes 18 hours."),
        ("The bees do not eat pollen.", "The bees do not eat nectar."),
    ],
)
def test_a_claim_turned_into_its_opposite_is_not_supported(judge, right, wrong):
    (denied,) = judge.claims("", wrong, HARBOR)
    assert denied.instead, denied.reason
    assert denied.probability <= 0.3
    assert denied.evidence is not None
    assert "the passages say" in denied.reason
    (kept,) = judge.claims("", right, HARBOR)
    assert kept.probability > denied.probability
    assert "the passages say" not in kept.reason
    check = LocalCritic("What is true?", judge=judge, alone=True)
    assert check.grade(HARBOR, wrong).score < 5


def counting_reads(monkeypatch):
    """The pairs that an entailment model reads from now on."""
    read = []
    logits = Entailment.logits

    def counted(self, pairs):
        read.extend(pairs)
        return logits(self, pairs)

    monkeypatch.setattr(Entailment, "logits", counted)
    return read


def test_the_model_reads_a_claim_once_and_only_where_counts_leave_it_open(monkeypatch):
    read, judge = counting_reads(monkeypatch), LocalJudge()
    said, apart = "It carries eight lanes of traffic over the harbor.", "Quantum physics puzzles poets."
    first = judge.claims("", f"{said} {apart} The animals sleep on rocks by the harbor.", PASSAGES)
    assert [claim for claim, _ in read] == ["The animals sleep on rocks by the harbor."]
    assert judge.claims("", f"{said} {apart} The animals sleep on rocks by the harbor.", PASSAGES) == first
    LocalJudge(model=False).claims("", "Seals are red.", PASSAGES)
    assert len(read) == 1


def test_of_a_long_sentence_the_part_that_shares_the_claims_words_is_read(monkeypatch):
    read = counting_reads(monkeypatch)
    filler = " ".join(f"item{i}" for i in range(200))
    passage = f"The list names {filler} and the grey heron nests in the reeds near {filler}."
    LocalJudge().claims("", "A grey heron has its nest in the reeds.", [passage])
    ((_, evidence),) = read
    assert "the grey heron nests in the reeds" in evidence and len(evidence.split()) == 60


def test_a_code_that_does_not_mean_it_is_contradicted(judge):
    (claim,) = judge.claims("", "Error E17 does not mean that the thermocouple is disconnected.", CODES)
    assert claim.instead and claim.probability <= 0.3
    assert claim.reason == (
        "the passages say “Error E17 means that the thermocouple is disconnected” (passage 1) where it says "
        "“Error E17 does not mean that the thermocouple is disconnected”"
    )


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("Wann legt die Fähre am Nordpier ab?", False),
        ("Die Fähre legt um neun Uhr am Nordpier ab.", False),
        ("Quand part le ferry ?", False),
        ("¿Cuándo sale el ferry?", False),
        ("When does the ferry leave?", True),
        ("Who wrote Les Misérables?", True),
        ("Charles de Gaulle visited Montréal in 1967.", True),
        ("Los Angeles", True),
    ],
)
def test_a_short_question_of_another_language_is_told_by_its_small_words(judge, text, english):
    assert all((c.probability is not None) == english for c in judge.claims("", text, PASSAGES))


# What documents hold beside words: footnote marks, powers, circled numbers, signs, currency, fractions, line ends.
MARKS = st.sampled_from([*"0123456789²³₂①③½¼٣−-–+$€£%‰.,:;/<>≤ ", "\r\n", " ", "the lamp costs ", " francs"])


@given(st.lists(MARKS, max_size=25).map("".join), st.lists(MARKS, max_size=25).map("".join))
def test_marks_beside_numbers_are_no_error(one, other):
    words = LocalJudge(model=False)
    answer, passages = f"The lamp costs {one} francs.", [f"The lamp costs {other} francs. It is blue."]
    known = [c.probability for c in words.claims("", answer, passages) if c.probability is not None]
    assert all(0 <= probability <= 1 for probability in known)


# (passage, claim): one sign, currency, comparator, per cent or decimal mark apart.
OTHER_NUMBERS = [
    ("The mean temperature is 5 degrees.", "The mean temperature is -5 degrees."),
    ("The mean temperature is −5 degrees.", "The mean temperature is 5 degrees."),
    ("-5 degrees is the mean temperature.", "5 degrees is the mean temperature."),
    ("The mean temperature is - 5 degrees.", "The mean temperature is 5 degrees."),
    ("The fee is €50 a year.", "The fee is $50 a year."),
    ("The fee of a year is 50 €.", "The fee of a year is 50."),
    ("The club received 40 of all votes.", "The club received 40% of all votes."),
    ("The club received of all votes 40 %.", "The club received of all votes 40."),
    ("The factor is 1-5 in winter.", "The factor is 1.5 in winter."),
    ("The factor is 1,5 in winter.", "The factor is 1.5 in winter."),
    ("The factor in winter is .5.", "The factor in winter is 5."),
    ("The value has to be < 5 here.", "The value has to be > 5 here."),
    ("The value has to be ≥5 here.", "The value has to be 5 here."),
    ("The area is about 10² hectares.", "The area is about 10 hectares."),
    ("The yearly budget of it is 40 million.", "The yearly budget of it is 40."),
]


@pytest.mark.parametrize(("passage", "claim"), OTHER_NUMBERS)
def test_another_number_is_not_word_for_word(passage, claim):
    words = LocalJudge(model=False)
    assert "word for word" not in only(words, claim, [passage]).reason
    for text in (passage, claim):
        assert "word for word" in only(words, text, [f"{text} It is blue."]).reason


@pytest.mark.parametrize(
    ("answer", "passage", "accepted"),
    [
        ("The ticket costs $50 a day.", "The ticket costs €50 a day.", False),
        ("The ticket costs $50 a day.", "The ticket costs $50 a day.", True),
        ("Parcels of > 5 kg go by bike.", "Parcels of < 5 kg go by bike.", False),
        ("Parcels of < 5 kg go by bike.", "Parcels of <= 5 kg go by bike.", True),
    ],
)
def test_another_currency_or_comparison_is_not_accepted(answer, passage, accepted):
    verdict = check("How much?", [passage], answer)
    assert verdict.accepted is accepted


def test_a_number_with_the_other_sign_is_contradicted():
    claim = only(
        LocalJudge(model=False), "The mean temperature is -5 degrees.", ["The mean temperature is 5 degrees."]
    )
    assert claim.instead and claim.instead == "5 degrees"


NUMBER_FORMS = st.from_regex(
    r"(-|−|\+|<|>|≤|~|±)?[$€£]?[1-9][0-9]{0,2}([.,:][0-9]{2})?(²|½)?( ?%| €)?", fullmatch=True
)
BESIDE = st.sampled_from(
    ["the lamp", "costs", "in winter", "ferry", "(", "“", "3", "F-16", "²", "①", "-", "%", "\r\n"]
)


@given(NUMBER_FORMS, NUMBER_FORMS, st.lists(BESIDE, max_size=4), st.lists(BESIDE, max_size=4))
def test_a_claim_with_another_number_is_never_word_for_word(one, other, before, after):
    def alike(number):
        return number.replace("−", "-").replace(" ", "")

    def said(number):
        return " ".join(["The lamp of the harbor costs", *before, number, *after, "francs in winter."])

    claims = LocalJudge(model=False).claims("", said(one), [said(other)])
    if alike(one) != alike(other):
        assert not any(
            "word for word" in claim.reason for claim in claims if one in claim.text.replace("F-16", "")
        )
    elif not before and not after:
        assert all("word for word" in claim.reason for claim in claims)


def test_runs_of_marks_take_linear_time():
    words, start = LocalJudge(model=False), time.process_time()
    for mark in ("<", "$ ", "- ", "-", "%", ".", "1-", "1.", "1 ", "1 million ", "² ", "5 francs, "):
        words.claims("", "The lamp costs 9 francs.", [f"The lamp costs {mark * 9_000} francs."])
    assert time.process_time() - start < 20


def test_openings_of_an_abstention_take_linear_time():
    start = time.process_time()
    for word in ("but ", "however but ", "sorry, but ", "unfortunately "):
        assert not abstains(word * 2_000)
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("answer", "claims"),
    [
        ("Great question! The mill is old [Doc 4, p. 7].", ["The mill is old [Doc 4, p. 7]."]),
        ("**Answer:** The mill is old (guide.pdf, page 12).", ["The mill is old (guide.pdf, page 12)."]),
        ("The mill is old.\n\nSources:\n- guide.pdf, page 12\n- [1] handbook.md", ["The mill is old."]),
        ("References\n[1] The guide of the mill\n[2] The book of oats", []),
        ("| Item | Price |\n|---|---|\n| Clay | 6 |", ["| Clay | 6 |"]),
        ("```\nlimit = 1\nprint(limit)\n```\nThe mill is old.", ["The mill is old."]),
        ("The price is not mentioned in the passages.", []),
        ("Breakfast is not included in the price.", ["Breakfast is not included in the price."]),
        ("The sources of the river lie in Dorn.", ["The sources of the river lie in Dorn."]),
    ],
)
def test_citations_labels_and_lists_of_sources_are_no_claims(answer, claims):
    assert [answer[a:b] for a, b in split_claims(answer)] == claims


@pytest.mark.parametrize(
    ("citation", "numbers"),
    [("[2]", (2,)), ("[Doc 2, p. 7]", (2,)), ("(document 2)", (2,)), ("[[2]](a.pdf#page=1)", (2,)),
     ("【2†source】", (2,)), ("[1, 2]", (1, 2)), ("(guide.pdf, page 12)", ()), ("(since 1932)", ())],
)  # fmt: skip
def test_a_citation_names_passages_in_any_of_its_shapes(citation, numbers):
    (mark,) = [m for m in mark_answer(f"It carries eight lanes {citation}.", PASSAGES) if m.text.strip()]
    assert mark.cited == numbers


def test_statements_beyond_those_that_the_model_reads_are_not_supported_by_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []
    monkeypatch.setattr(Entailment, "logits", lambda _, pairs: read.append(len(pairs)) or [4.0] * len(pairs))
    passage = " ".join(f"The old mill of Pond {i} was sold to the town in the spring." for i in range(100))
    claims = LocalJudge().claims("", passage.replace(" old", ""), [passage])
    assert read == [80] and [c.support for c in claims] == ["supported"] * 80 + ["unsure"] * 20
