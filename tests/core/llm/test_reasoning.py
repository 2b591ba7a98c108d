"""What a model thinks aloud is no part of its answer."""

import pytest

from sage_core.llm.reasoning import answer_pieces, blanked_reasoning, without_reasoning
from sage_core.verify import check, mark_answer

NINE = "The ferry leaves at nine on weekdays."
THINKS = "<think>Is it ten on Sundays?\n It costs 12 pounds.</think>\n\n"


@pytest.mark.parametrize(
    ("written", "answer", "streamed"),
    [
        (f"{THINKS}{NINE}", NINE, NINE),
        (f"[THINK]Ten?[/THINK]{NINE}", NINE, NINE),
        (f"<seed:think>Ten?</seed:think>{NINE}", NINE, NINE),
        (f"Ten?\n</think>\n{NINE}", NINE, f"Ten?\n\n{NINE}"),
        ("<think>Ten, or", "", ""),
        (f"{THINKS}One.<THINK>Hm.</THINK>Two.", "One.\nTwo.", "One.Two."),
        ("A <think> tag opens it.", "A <think> tag opens it.", "A <think> tag opens it."),
        ("Is 3 < 4 [1]?", "Is 3 < 4 [1]?", "Is 3 < 4 [1]?"),
    ],
)
@pytest.mark.parametrize("size", [1, 4, 500])
def test_reasoning_is_told_from_the_answer(written: str, answer: str, streamed: str, size: int) -> None:
    pieces = (written[i : i + size] for i in range(0, len(written), size))
    assert (without_reasoning(written), "".join(answer_pieces(pieces))) == (answer, streamed)
    assert len(blanked_reasoning(written)) == len(written)


def test_the_check_does_not_read_it() -> None:
    written, passages = f"{THINKS}{NINE}", [f"{NINE} Tickets are sold on board."]
    verdict = check("When does the ferry leave?", passages, written)
    assert verdict.accepted and "".join(mark.text for mark in verdict.marks) == written
    assert [m.support for m in mark_answer(written, passages)] == ["nothing claimed", "supported"]
