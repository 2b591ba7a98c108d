"""A check certifies no text that is cut out, turned or limited, and takes no side where a number is open."""

import time

import pytest

from sage_core.errors import InputError
from sage_core.verify import LocalJudge, check

BOTTLES = "Unopened bottles last a year, opened ones three weeks in the fridge."

# Said by none of the passages: cut out of what denies, limits or supposes it, exchanged, or of another unit.
FALSE = [
    ("Tom Reed taught Ann Weber to sail in May.", "Ann Weber taught Tom Reed to sail in May."),
    ("Do not take Velotan if you are allergic to ibuprofen. Ask your doctor.",
     "Take Velotan if you are allergic to ibuprofen.", "What if I am allergic?"),
    ("It is not true that the vaccine causes infertility in young women.",
     "The vaccine causes infertility in young women."),
    ("Photography is allowed in all rooms except the print cabinet.", "Photography is allowed in all rooms."),
    ("The main pump of the station failed. Twice the operator had been warned.",
     "The main pump of the station failed twice."),
    ("Never open the valve under pressure of more than two bar.",
     "Open the valve under pressure of more than two bar."),
    ("If delivery is late by more than 10 days, the Buyer may cancel the order.",
     "The Buyer may cancel the order."),
    ("Whether the filter removes lead from tap water is being tested.",
     "The filter removes lead from tap water."),
    ("Had the council approved the plan, the bridge would stand today.", "The council approved the plan."),
    ("The court rejected the claim that the firm hid the report.", "The firm hid the report."),
    ("Brown wrote wrongly that the castle was burned by the Swedes.", "The castle was burned by the Swedes."),
    ("Unopened bottles last a year, opened ones three weeks in the fridge.", "Opened bottles last a year."),
    ("4.2 Pets need the written consent of the Landlord. Consent for one cat has been given with this agreement. Dogs are not allowed because of the shared stairs.",
     "Yes, dogs are allowed with the written consent of the Landlord.", "Are dogs allowed?"),
    ("The launch was moved from 4 November to 2 December.", "The launch was moved to 4 November."),
    ("The risk is larger in women than in men.", "The risk is larger in men than in women."),
    ("It rained on fewer than ten days in May.", "It rained on more than ten days in May."),
    ("Leave is carried over only with the consent of the manager.", "Leave is carried over automatically."),
    ("Denning accused Lindqvist of theft.", "Denning was accused of theft by Lindqvist."),
    ("The deposit is 1,250 euros.", "The deposit is not 1,250 euros."),
    ("The limit is 5 mg.", "The limit is not 5 mg."),
    ("The wool went from the mill to the weavers.", "The wool went from the weavers to the mill."),
    ("The barge towed the raft across the lake.", "The raft towed the barge across the lake."),
    ("Some of the paths are closed to riders in winter.", "The paths are closed to riders in winter."),
    ("Members usually meet in the barn on Mondays.", "Members meet in the barn on Mondays."),
    ("The rooms on the ground floor have showers.", "All rooms on the ground floor have showers."),
    ("The seal might have eaten the herring.", "The seal ate the herring."),
    ("The northern lodge kept the bell. A fire destroyed the roof in May. Nobody was hurt. The southern lodge "
     "has a garden.", "The southern lodge kept the bell."),
]  # fmt: skip
# Said by the passage, perhaps in other words or numbers written otherwise.
TRUE = [
    ("Unopened bottles last a year, opened ones three weeks in the fridge.",
     "Opened bottles last three weeks in the fridge."),
    ("Unopened bottles last a year, opened ones three weeks in the fridge.", "Unopened bottles last a year."),
    ("One ticket costs €12.50.", "Two tickets cost €25.00."),
    ("The ferry does not run between November 1 and March 15.",
     "There is no ferry from November 1 to March 15."),
    ("Nobody has been permanently stationed there since 2001.", "The station has been empty since 2001."),
    ("The ferry leaves at seven and takes 40 minutes.", "The ferry takes 40 minutes."),
    ("The museum was founded in 1887 by Clara Voss. It holds 4,300 paintings.",
     "Clara Voss founded the museum in 1887."),
    ("The bridge was built by the town in 1932, not by that firm from Dorn. It has eight lanes.",
     "The bridge was built by the town in 1932.", "Who built?"),
    ("The ferry leaves at seven. Dogs are not allowed.", "The ferry leaves at seven."),
    ("The room is -5 °C cold.", "The room is −5 °C cold."),
    ("Ann Weber is the oldest keeper of the light.", "The oldest keeper of the light is Ann Weber."),
    ("In winter the barn is closed.", "The barn is closed in winter."),
]  # fmt: skip


@pytest.mark.parametrize("row", FALSE, ids=range(len(FALSE)))
def test_what_the_passages_do_not_say_is_not_accepted(row: tuple[str, ...]) -> None:
    passage, answer, *question = row
    verdict = check("".join(question), [passage], answer)
    assert not verdict.accepted and "word for word" not in verdict.marks[-1].reason


@pytest.mark.parametrize("row", TRUE, ids=range(len(TRUE)))
def test_what_they_say_is_not_contradicted(row: tuple[str, ...]) -> None:
    passage, answer, *question = row
    verdict = check("".join(question), [passage], answer)
    assert not verdict.vetoed_by and not any(mark.instead for mark in verdict.marks)


@pytest.mark.parametrize(
    ("passage", "claim", "quoted"),
    [
        (BOTTLES, "Unopened bottles last a year.", True),
        ("The mill is open. It grinds oats, and it is made of oak.", "It is made of oak.", True),
        ("The mill is open. It grinds oats for the island.", "It grinds oats.", False),
        ("Ann says: the mill is open.", "The mill is open.", False),
        ("The mill is open, but not in May.", "The mill is open.", False),
        ("The mill is open.", "The mill is open. It is not new.", True),
        ("The mill grinds.\n\nOats are ground there.", "The mill grinds oats.", False),
    ],
)
def test_a_quotation_fills_a_clause_whose_rest_takes_nothing_back(
    passage: str, claim: str, quoted: bool
) -> None:
    first, *_ = LocalJudge(model=False).claims("", claim, [passage])
    assert ("word for word" in first.reason) is quoted


def test_a_quotation_is_of_one_passage() -> None:
    (claim,) = LocalJudge(model=False).claims(
        "", "The mill is open.", ["Here stands the mill is", "open. It is."]
    )
    assert "word for word" not in claim.reason


LONG = {
    "brackets": ("The lamp costs 12 francs.", "The lamp " + "(" * 100_000 + "x costs 12 francs."),
    "full stops": ("The lamp costs 12 francs.", "The lamp " + "." * 100_000 + " costs"),
    "sentences": ("".join(f"X{i} hired a painter of the hall. " for i in range(400)), "Ann hired a painter."),
    "rows": ("|Item|Price|\n|---|---|\n" + "|lamp|12|\n" * 2_000, "The lamp costs 12 francs."),
    "names": (f"Present were {', '.join(f'A{i} B{i}' for i in range(1_500))}.", "Present was Ann Bell."),
    "a code": (f"E{'1' * 4_900}_ is a code. It is red.", f"Code E{'1' * 4_900}_ is red."),
    "a heading": ("# a" + " -" * 10_000 + "b\n\nThe lamp costs 12 francs.", "The lamp costs 13 francs."),
    "thoughts": ("The lamp costs 12 francs.", "<think>" * 15_000),
}


@pytest.mark.parametrize("kind", LONG)
def test_long_runs_take_linear_time(kind: str) -> None:
    passage, answer = LONG[kind]
    start = time.process_time()
    check("What does the lamp cost?", [passage], answer, judge=LocalJudge(model=False))
    assert time.process_time() - start < 4, "some tenths of a second on a quiet core"


@pytest.mark.parametrize(
    "wrong",
    [
        {"answer": None},
        {"question": 3},
        {"passages": "one text"},
        {"passages": [None]},
        {"sources": []},
        {"sources": ["x"]},
    ],
)
def test_wrong_arguments_are_told(wrong: dict[str, object]) -> None:
    given: dict[str, object] = {"question": "", "passages": ["It is blue."], "answer": "It is blue.", **wrong}
    with pytest.raises(InputError):
        check(**given)  # type: ignore[arg-type]


MEALS = "The allowance for meals is 28 pounds at home and 36 abroad."
POOL = "The pool is 25 metres long and 10 wide."
MEMBERS = "In 2019 the club had 300 members, in 2021 only 180."
TICKETS = "Tickets cost 9 euros for adults and 4 for children under twelve."


@pytest.mark.parametrize(
    ("passage", "answer", "support", "instead"),
    [
        (MEALS, "The allowance for meals abroad is 28 pounds.", "contradicted", "36 pounds"),
        (MEALS, "The allowance for meals abroad is 50 pounds.", "contradicted", "36 pounds"),
        (POOL, "The pool is 25 metres wide.", "contradicted", "10 metres"),
        (MEMBERS, "In 2021 the club had 300 members.", "unsure", ""),
        (MEMBERS, "In 2021 the club had 700 members.", "contradicted", "300 members or 180 members"),
        (TICKETS, "Children under twelve pay 4 euros.", "supported", ""),
        (TICKETS, "Tickets cost 4 euros for adults and 9 euros for children under twelve.", "unsure", ""),
        ("The hall has 420 seats and 36 lamps.", "The hall has 36 lamps.", "supported", ""),
        ("The pass lies at 1,850 m, the village at 1,200 m.", "The pass lies 650 m above it.", "unsure", ""),
        ("The kiln ran from May 3, 1901 to June 7, 1980.", "The kiln ran from May 3, 1901.", "supported", ""),
    ],
)
def test_each_of_several_numbers_goes_with_the_words_of_its_clause(
    passage: str, answer: str, support: str, instead: str
) -> None:
    (mark,) = check("", [passage, "Ask at the desk."], answer).marks
    assert (mark.support, mark.instead) == (support, instead)
