"""No key of the user's own."""

import pytest


@pytest.fixture(autouse=True)
def no_key_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
