"""Questions made by rule."""

import pytest

from sage_app.documents.reader import parse_document
from sage_app.tuning import make_questions
from sage_core.errors import InputError

TEXT = b"""# Harbor rules

## Dues

Every boat of the island pays four pounds a night at the pier.

## Pilots

A pilot is a keeper who brings larger ships through the narrow western sound.

The western sound hides granite ledges, kelp forests and treacherous winter currents.
"""


def test_questions_are_made_of_headings_definitions_and_words() -> None:
    document = parse_document("rules.md", TEXT)
    made = make_questions([document], limit=10)
    texts = [q.text for q in made]
    assert "Harbor rules: Dues" in texts and "What is a pilot?" in texts
    assert all(q.quotes[0] in document.text for q in made)
    assert len({q.quotes for q in made}) == len(made)
    assert make_questions([document], limit=10) == made
    assert len(make_questions([document], limit=1)) == 1


def test_no_questions_of_nothing() -> None:
    with pytest.raises(InputError):
        make_questions([parse_document("a.md", b"Too short.")])
    with pytest.raises(InputError, match="limit"):
        make_questions([parse_document("rules.md", TEXT)], limit=0)
