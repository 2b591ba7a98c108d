"""Which language a text is in."""

from sage_core.text.language import is_english


def test_a_name_said_twice_makes_no_other_language() -> None:
    assert is_english("Does TrailMate run on Wear OS watches? TrailMate runs on Wear OS watches.", 12)
    assert not is_english("Os barcos chegam com os turistas e os carros da ilha.", 8)
