"""The browser that the reports are tested in."""

from tests.browser.conftest import browser as browser
