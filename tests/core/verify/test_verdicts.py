"""Verdicts on short answers over ten documents, graded by a critic that approves everything."""

import json

import pytest

from sage_core.feedback import FeedbackConfig, Verdict
from sage_core.llm import Message
from sage_core.verify import check, settled

DOCUMENTS = [
    "# Staff guide\n\n## Expenses\n\nMeals on business trips are refunded up to 45 euros a day. Receipts are handed in within 14 days of the trip.",
    "# Orchard lease\n\n## Rent\n\nThe rent is 1,250 euros a month and is due on the first working day. Either party may terminate with six weeks' notice.",
    "# Board minutes, 4 May 2023\n\nPresent: Ines Calder, Tom Okafor and Ruth Lindqvist.\n\nTom Okafor was elected treasurer. Ruth Lindqvist will write to the insurers by Friday.",
    "# Pool rules\n\nChildren under eight must be accompanied by an adult. Diving from the edge is forbidden. Lockers do not need a coin.",
    "# Router X2\n\n| Model | Ports | Weight | Price |\n| --- | --- | --- | --- |\n| X2 Mini | 4 | 310 g | 59 € |\n| X2 Pro | 8 | 640 g | 129 € |\n\nThe X2 Pro supports power over Ethernet. The X2 Mini does not.",
    "# Choir\n\nRehearsals are held every Tuesday at 19:30 in the parish hall. The spring concert takes place on 12 April. Tickets cost 15 euros, 8 euros for students.",
    "# Warranty\n\nThe battery is covered for two years, the frame for ten. Damage caused by water is not covered.",
    "# Seeds\n\nSow the peas in March, two centimetres deep. Water them twice a week. Harvest begins after about 70 days.",
    "# History\n\nThe mill was built in 1764 by the Hansen family. It was closed in 1931 after a fire and reopened as a museum in 1988.",
    "# Support\n\nTickets are answered within four hours on working days. Priority tickets are answered within 30 minutes, around the clock. Contact: Dana Whitfield.",
]
WRONG = [
    ("How much is refunded for meals a day?", "Meals are refunded up to 65 euros a day."),
    ("How much is refunded for meals a day?", "65 euros"),
    ("Within how many days are receipts handed in?", "Within 30 days."),
    ("What is the rent?", "The rent is 1,520 euros a month."),
    ("With what notice may the lease be terminated?",
     "Either party may terminate the lease with six months' notice."),
    ("Do lockers need a coin?", "Yes, the lockers need a coin."),
    ("Do lockers need a coin?", "Yes, you will need a coin for the lockers."),
    ("How many ports does the X2 Mini have?", "The X2 Mini has 8 ports."),
    ("What does the X2 Pro cost?", "The X2 Pro costs 59 €."),
    ("When is the spring concert?", "The spring concert takes place on 21 April."),
    ("Is water damage covered?", "Yes, water damage is covered."),
    ("How deep are the peas sown?", "The peas are sown five centimetres deep."),
    ("How fast are priority tickets answered?", "Priority tickets are answered within four hours."),
    ("How fast are tickets answered?", "Tickets are answered within 4 days."),
    ("When was the mill built, and by whom?",
     "The mill was built in 1764 by the Hansen family. It was closed in 1941 after a fire."),
]  # fmt: skip
RIGHT = [
    ("How much is refunded for meals a day?", "Meals are refunded up to 45 euros a day."),
    ("How much is refunded for meals a day?", "45 euros"),
    ("How much is refunded for meals a day?", "Up to €45 per day."),
    ("What is the rent?", "The rent is 1,250 euros a month, due on the first working day."),
    ("With what notice may the lease be terminated?",
     "The lease can be terminated by either party with six weeks' notice."),
    ("Who was elected treasurer?", "Tom Okafor was elected treasurer."),
    ("Who was elected treasurer?", "Tom Okafor"),
    ("Who will write to the insurers?", "Ruth Lindqvist will write to the insurers by Friday."),
    ("Is diving from the edge allowed?", "No, diving from the edge is forbidden."),
    ("Is diving from the edge allowed?", "No."),
    ("Is diving from the edge allowed?", "No, diving from the edge is not allowed."),
    ("Do lockers need a coin?", "No, the lockers do not need a coin."),
    ("How many ports does the X2 Mini have?", "The X2 Mini has 4 ports."),
    ("What does the X2 Pro cost?", "The X2 Pro costs 129 €."),
    ("What does the X2 Pro cost?", "129 €"),
    ("Does the X2 Mini support power over Ethernet?",
     "No, the X2 Mini does not support power over Ethernet."),
    ("When are rehearsals?", "Rehearsals are held every Tuesday at 19:30 in the parish hall."),
    ("When are rehearsals?", "Rehearsals are on Tuesdays at 7:30 pm."),
    ("When is the spring concert?", "The spring concert is on April 12."),
    ("What do tickets cost for students?", "Tickets cost 8 euros for students."),
    ("What do tickets cost for students?", "Students pay 8 euros."),
    ("How long is the frame covered?", "The frame is covered for ten years."),
    ("Is water damage covered?", "No, damage caused by water is not covered."),
    ("How deep are the peas sown?", "The peas are sown two centimetres deep."),
    ("How deep are the peas sown?", "2 cm deep."),
    ("When was the mill built?", "The mill was built in 1764."),
    ("Who built the mill?", "The Hansen family built the mill."),
    ("When was the mill closed?", "It was closed in 1931."),
    ("How fast are priority tickets answered?", "Priority tickets are answered within 30 minutes."),
    ("Who is the contact?", "The contact is Dana Whitfield."),
    ("When was the mill built, and by whom?",
     "The mill was built in 1764 by the Hansen family [9]. It was closed in 1931 after a fire [9]."),
]  # fmt: skip

# A critic that approves everything has these accepted: "unsure" is all that the check says.
UNSURE = [
    ("How long is the frame covered?", "The frame is covered for two years."),
    ("What do tickets cost for students?", "Tickets cost 15 euros for students."),
    ("When was the mill closed?", "The mill was closed in 1988."),
    ("Who was elected treasurer?", "Ines Calder was elected as the treasurer at the meeting."),
    ("Does the X2 Mini support power over Ethernet?", "Yes, the X2 Mini supports power over Ethernet."),
]  # fmt: skip


@pytest.mark.parametrize(("question", "answer"), WRONG)
def test_no_critic_has_a_wrong_answer_accepted(question: str, answer: str) -> None:
    verdict = settled(Verdict(9), question, answer, DOCUMENTS)
    assert not verdict.accepted and verdict.score <= 3 and verdict.vetoed_by == "local judge"
    assert any(m.support == "contradicted" for m in verdict.marks), "the marks say why"
    assert not check(question, DOCUMENTS, answer).accepted


@pytest.mark.parametrize(("question", "answer"), RIGHT)
def test_every_right_answer_keeps_its_grade(question: str, answer: str) -> None:
    verdict = settled(Verdict(9), question, answer, DOCUMENTS)
    assert verdict.accepted and verdict.score == 9
    assert not any(m.support in ("not found", "contradicted") for m in verdict.marks)


@pytest.mark.parametrize(("question", "answer"), UNSURE)
def test_what_is_not_known_is_not_called_supported(question: str, answer: str) -> None:
    assert not check(question, DOCUMENTS, answer).accepted
    assert {m.support for m in settled(Verdict(9), question, answer, DOCUMENTS).marks} <= {
        "unsure", "contradicted", "not found", "nothing claimed",
    }  # fmt: skip


HOTEL = (
    "The limit for a hotel is 140 euros a night in most cities. In London, Zurich and Geneva it is 210 euros."
)
KILN = """| Item | Member | Non-member |
|---|---:|---:|
| Glaze firing, per kg | 6.20 | 7.80 |
| Porcelain clay, 10 kg | 31.00 | 34.00 |"""


@pytest.mark.parametrize(
    ("passage", "question", "right", "wrong", "instead"),
    [
        (HOTEL, "What is the hotel limit in Zurich?", "210 euros", "140 euros", "210 euros"),
        (HOTEL, "Limit?", "The limit for a hotel is 140 euros a night in most cities.", "", ""),
        (HOTEL, "What is the limit?", "", "The limit in Zurich is 140 euros a night.", "210 euros"),
        (
            KILN,
            "What does a non-member pay for glaze firing?",
            "A non-member pays 7.80 per kg for glaze firing.",
            "A non-member pays 6.20 per kg for glaze firing.",
            "7.80",
        ),
        (
            KILN,
            "What does porcelain clay cost for members?",
            "Porcelain clay costs members 31.00 euros.",
            "Porcelain clay costs members 34.00 euros.",
            "31.00",
        ),
        (KILN, "Prices?", "Glaze firing costs members 6.20 and non-members 7.80.", "", ""),
    ],
)
def test_an_exception_and_a_column_have_their_own_numbers(
    passage: str, question: str, right: str, wrong: str, instead: str
) -> None:
    assert not right or check(question, [passage], right).accepted
    if wrong:
        verdict = check(question, [passage], wrong)
        assert not verdict.accepted and [m.instead for m in verdict.marks] == [instead]


MILL_OF_TWO = (
    "# History\n\nThe mill was built in 1764 by Josiah Hansen. It burned down in 1931. "
    "The mill was rebuilt by his daughter Hannah in 1935."
)
FILM = "The film was animated by the French studio Mac Guff, which was later sold to Holm."
BERTHS = """# Berths

| Class | Price per week | Power included | Dogs | Winter mooring |
| --- | --- | --- | --- | --- |
| A | 72.00 pounds | no | ✓ | 30.00 pounds |
| B | 108.00 pounds | yes | ✓ | not available |
| C | 155.00 pounds | yes | – | 40.00 pounds |
"""
PARTS = "The warranty is three years for the compressor and two for all other parts."


@pytest.mark.parametrize(
    ("passage", "question", "wrong"),
    [
        ("They may refuse without giving a reason.", "", "They must give a reason if they refuse."),
        (BERTHS, "What does class C cost?", "Class C costs 108.00 per week."),
        (BERTHS, "Is power included?", "Power is included in class A."),
        (BERTHS, "Are dogs allowed?", "Class B does not allow dogs."),
        (BERTHS, "Is there a mooring in winter?", "Class B has a winter mooring."),
    ],
)
def test_cells_denials_and_units_are_read(passage: str, question: str, wrong: str) -> None:
    verdict = settled(Verdict(9), question, wrong, [passage])
    assert not verdict.accepted and verdict.vetoed_by == "local judge"


@pytest.mark.parametrize(
    ("passage", "right", "support"),
    [
        (MILL_OF_TWO, "His daughter Hannah rebuilt the mill in 1935.", "supported"),
        (FILM, "The film was animated by the french studio Mac Guff.", ""),
        ("Amazon was founded by Bezos. Jeff Bezos lives in Seattle.", "Jeff founded Amazon.", ""),
        (
            "Visitors can park in the yard. Parking in the street is forbidden.",
            "Visitors may park there.",
            "",
        ),
        ("Visitors can enter. Entry is refused to dogs.", "Dogs may not enter.", ""),
        ("The deposit is 40% of the price.", "The deposit is 40 percent.", ""),
        (BERTHS, "A class C berth costs 155.00 pounds per week.", "supported"),
        (BERTHS, "Class B costs 108.00 per week.", "supported"),
        (BERTHS, "Class A does not include power.", "supported"),
        (BERTHS, "Dogs are not allowed in class C berths.", "supported"),
        ("Anna sold the boat to Ben in May.", "Ben bought the boat from Anna.", ""),
        ("Ruth, whom Tom hired in May, paid Ann.", "Tom hired Ruth.", ""),
        ("The film was written and directed by Roman Holm.", "Roman Holm directed the film.", ""),
        (
            "Kelly Holm acts. She starred in Blue Hour, Twins and Old Dogs.",
            "Kelly Holm starred in Old Dogs.",
            "",
        ),
        ("The machine spins at 1000 turns.", "The machine spins at 1000 turns a minute.", ""),
        ("Check whether the hose is not kinked.", "Check whether the hose is kinked.", ""),
        ("Ann Weber owes Ruth Holm 40 euros.", "Ruth Holm owes Ann Weber 40 euros.", "unsure"),
    ],
)
def test_the_same_in_other_order_is_supported_and_never_contradicted(
    passage: str, right: str, support: str
) -> None:
    (mark,) = check("", [passage], right).marks
    assert not mark.instead and mark.support == (support or mark.support)


@pytest.mark.parametrize(
    ("question", "wrong", "instead"),
    [
        ("Is alcohol reimbursed?", "Alcohol is reimbursed.", "Alcohol is never reimbursed"),
        ("Are meals reimbursed?", "Meals are not reimbursed.", "Meals are reimbursed up to 48 euros a day"),
    ],
)
def test_two_words_of_the_question_are_a_sentence(question: str, wrong: str, instead: str) -> None:
    verdict = check(
        question, ["Alcohol is never reimbursed. Meals are reimbursed up to 48 euros a day."], wrong
    )
    assert (verdict.accepted, verdict.marks[0].instead) == (False, instead)
    assert f"the passages say “{instead}”" in verdict.reason


# Right answers in free words, as a stranger wrote them: no guess of ours takes their grade.
@pytest.mark.parametrize(
    ("passage", "answer"),
    [
        ("The desk is staffed from nine to five on working days.", "You reach somebody during office hours."),
        ("Rehearsals are held in the parish hall.", "The singers meet at the church's community room."),
        ("Seals sleep on the rocks in the afternoon.", "After lunch the animals rest by the water."),
    ],
)
@pytest.mark.parametrize("score", [9, 10])
def test_an_answer_in_free_words_keeps_its_grade(passage: str, answer: str, score: int) -> None:
    verdict = settled(Verdict(score), "What happens there?", answer, [passage])
    assert (verdict.score, verdict.accepted, verdict.vetoed_by) == (score, True, "")


def test_the_place_is_named_by_its_heading() -> None:
    verdict = check("What is the rent?", DOCUMENTS, "The rent is 1,520 euros a month.")
    (mark,) = [m for m in verdict.marks if m.instead]
    assert mark.passage == 1 and mark.evidence is not None and mark.evidence.of(DOCUMENTS[1])
    assert "1,250" in mark.reason and "Orchard lease" in mark.reason


def test_what_is_merely_not_found_overrules_no_critic() -> None:
    question, answer = "Who sells tickets?", "Tickets are sold by the bakery in Elm Street."
    verdict = settled(Verdict(9), question, answer, DOCUMENTS)
    assert (verdict.score, verdict.accepted, verdict.vetoed_by) == (9, True, "")
    assert [m.support for m in verdict.marks] == ["not found"]
    assert not check(question, DOCUMENTS, answer).accepted


OPEN = "The front office opens early. Rehearsals happen at the hall of the parish at dusk. Seals eat lamps."
DESK = ["Somebody sits in the front office from nine to five.", "They rehearse in the hall of the parish."]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ('{"statements": ["supported", "contradicted"]}', ["supported", "contradicted", "not found"]),
        ('{"statements": ["supported"]}', ["supported", "unsure", "not found"]),
        ("I would rather not say.", ["unsure", "unsure", "not found"]),
        (None, ["unsure", "unsure", "not found"]),
    ],
)
def test_an_llm_is_asked_once_for_what_is_unsure(reply: str | None, words: list[str]) -> None:
    asked: list[str] = []

    def llm(messages: list[Message]) -> str:
        asked.append(messages[-1].content)
        if reply is None:
            raise RuntimeError("server gone")
        return reply

    verdict = check("When?", DESK, OPEN, llm=llm)
    assert [m.support for m in verdict.marks if m.text.strip()] == words
    assert len(asked) == 1 and "[2] Rehearsals happen" in asked[0] and "[3]" not in asked[0]
    assert check("When?", DESK, "Seals eat lamps.", llm=llm) and len(asked) == 1, "nothing is unsure"


def test_a_verdict_comes_back_from_its_dict() -> None:
    verdict = check("", DOCUMENTS, "The rent is 1,520 euros a month. Seals eat lamps.")
    assert Verdict.from_dict(json.loads(json.dumps(verdict.to_dict()))) == verdict
    report = verdict.report()
    assert (
        "contradicted: The rent is 1,520 euros a month.\n  passage 2, Orchard lease, Rent: “The rent is 1,250"
        in report
    )
    assert "the passages say “1,250 euros”" in report and report.endswith("not found: Seals eat lamps.")


def test_a_grade_is_lowered_and_never_raised() -> None:
    question, wrong = WRONG[3]
    assert settled(Verdict(None), question, wrong, DOCUMENTS).score is None
    assert settled(Verdict(5, 1), question, wrong, DOCUMENTS).score == 3
    low = settled(Verdict(2.5), question, wrong, DOCUMENTS, FeedbackConfig(accept_score=2))
    assert low.score == 2.5 and not low.accepted


def test_a_sentence_with_all_words_is_not_limited_by_one_with_some() -> None:
    passages = [
        "The ferry to Callow leaves at nine on weekdays.",
        "Ferries do not sail in gales above force nine.",
    ]
    [mark] = check("When does the ferry leave?", passages, "The ferry leaves at nine on weekdays.").marks
    assert "limits it" not in mark.reason


@pytest.mark.parametrize("answer", ["IDK", "N/A", "No idea.", "Not specified."])
def test_short_abstentions_claim_nothing(answer: str) -> None:
    assert {m.support for m in check("When?", ["It leaves at nine."], answer).marks} == {"nothing claimed"}


def test_an_answer_that_is_a_fence_is_judged() -> None:
    answer = "```\nThe ferry leaves at ten on weekdays.\n```"
    assert check("When?", ["The ferry leaves at nine on weekdays."], answer).marks[0].instead == "nine"


@pytest.mark.parametrize(
    ("question", "passage", "answer", "supported"),
    [
        (
            "How long does it take?",
            "The ferry leaves at seven and takes 40 minutes.",
            "It takes forty minutes.",
            True,
        ),
        ("How high is it?", "The tower is 40 m high.", "40 meters.", True),
        (
            "When did the works end?",
            "The works began on 2 May and ended on 9 June.",
            "The works ended on 2 May.",
            False,
        ),
        ("Who hired whom?", "Ann Lee hired Ben Fox in May.", "Ben Fox hired Ann Lee in May.", False),
        ("Who was hired?", "In May Ann Lee hired Ben Fox.", "Ann Lee hired Ben Fox in May.", True),
        ("What is there?", "Is there a bus to the harbor?", "There is a bus to the harbor.", False),
        (
            "Who keeps the mill?",
            "Ann Lee keeps the mill. Ben Fox is a smith.",
            "Ben Fox keeps the mill.",
            False,
        ),
    ],
)
def test_the_same_words_are_the_same_claim_only_in_their_places(
    question: str, passage: str, answer: str, supported: bool
) -> None:
    assert check(question, [passage], answer).accepted is supported


def test_what_a_table_counts_in_may_stand_elsewhere_than_in_its_cell() -> None:
    table = "| | 2019 | 2018 |\n|---|---|---|\n| Licenses | 136.2 | 120.6 |\n| Rate | 2.9 | 3.8 |\n\nLicenses as follows."
    for answer in (
        "Licenses were $136.2 million in 2019.",
        "The rate was 3.8% in 2018.",
        "Licenses rose by $15.6 million from 2018 to 2019.",
    ):
        assert not any(mark.instead for mark in check("", [table], answer).marks), answer
    assert check("", [table], "The rate was 2.9% in 2018.").marks[0].instead == "3.8"


@pytest.mark.parametrize("first", ["That is great!", "Its captain calls it the “queen of all lakes”."])
def test_praise_and_quotations_from_elsewhere_are_unsure_not_refused(first: str) -> None:
    passage = "The ferry has a captain, leaves the harbor at seven and takes 40 minutes."
    verdict = check("When does it leave?", [passage], f"{first} The ferry leaves the harbor at seven.")
    said = [mark.support for mark in verdict.marks if mark.support != "nothing claimed"]
    assert said == ["unsure", "supported"] and not verdict.accepted
