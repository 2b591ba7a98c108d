"""Settings of the doors, so that a table of cases can name them one by one."""

from dataclasses import fields
from typing import Any

from sage_core.feedback import FeedbackConfig
from sage_core.selection import SelectionConfig

_SELECTION = {field.name for field in fields(SelectionConfig)}
_LOOP = {field.name for field in fields(FeedbackConfig)} - {"selection", "critic"}


def at_door(**settings: Any) -> dict[str, Any]:
    """Fields of a `SelectionConfig` as ``selection``, those of a `FeedbackConfig` as ``loop``."""
    selection = {name: settings.pop(name) for name in _SELECTION & settings.keys()}
    loop = {name: settings.pop(name) for name in _LOOP & settings.keys()}
    if selection:
        settings["selection"] = SelectionConfig(**selection)
    if loop:
        settings["loop"] = FeedbackConfig(**loop)
    return settings
