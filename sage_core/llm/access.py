"""Where an OpenAI-compatible server is, and the key for it: as given, else from the environment."""

from __future__ import annotations

import base64
import os
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from sage_core.errors import InputError
from sage_core.llm.failures import check_url

OPENAI_URL = "https://api.openai.com/v1"


def server_url(value: str | None) -> str:
    """The address given, else OPENAI_BASE_URL, else OpenAI's own; InputError for what is no address."""
    url = value or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
    check_url(url)
    parts = urlsplit(url)
    if parts.query or parts.fragment:  # logs and pickles would hold it, and paths be joined to it
        host = parts.netloc.rpartition("@")[2]
        raise InputError(
            f"the address of {host} ends in a query (after '?' or '#'), where a key would show in logs: "
            "leave it out, and give the key as api_key or OPENAI_API_KEY"
        )
    return url


def without_login(url: str) -> tuple[str, str | None]:
    """An address without its user and password, and these as an Authorization header; None where it has none.

    An address ends up in logs, errors and pickles; a header does not.

    Examples:
        >>> without_login("http://ann:secret@localhost:8000/v1")
        ('http://localhost:8000/v1', 'Basic YW5uOnNlY3JldA==')
    """
    parts = urlsplit(url)
    login, _, host = parts.netloc.rpartition("@")
    if not login:
        return url, None
    user, _, password = login.partition(":")
    header = base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), f"Basic {header}"


def login_secrets(header: str | None) -> tuple[str, ...]:
    """What no message may repeat of an Authorization header: the password too, plain and as in an address."""
    sent = (header or "").rpartition(" ")[2]
    try:
        password = base64.b64decode(sent, validate=True).decode().partition(":")[2]
    except ValueError:  # A token.
        password = ""
    # To blot out fewer characters would blot out the message.
    return tuple(text for text in (sent, password, quote(password, safe="")) if len(text) >= 4)


def api_key(value: str | None) -> str | None:
    """The key given, else OPENAI_API_KEY; None where there is none. InputError for what can be no key."""
    key = (value or os.environ.get("OPENAI_API_KEY") or "").strip()  # files end in a newline
    if not (key.isascii() and key.isprintable()):
        raise InputError("the API key holds characters no key has: copy it anew into OPENAI_API_KEY")
    return key or None
