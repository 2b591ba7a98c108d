"""Settings of the pipeline, also from a file: chosen by hand or written by `sage-rag calibrate`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from sage_core._checks import check_int, near_match, shortened
from sage_core.errors import InputError
from sage_core.feedback import FeedbackConfig
from sage_core.paths import as_path
from sage_core.segmentation import Segmenter
from sage_core.selection import SelectionConfig, rule_from_data, rule_to_data

_SEGMENTER = ("model", "target_tokens", "max_tokens", "min_tokens", "strategy", "threshold", "coarse_tokens")


@dataclass(frozen=True, slots=True)
class SageConfig:
    """Settings of `Sage`.

    Examples:
        >>> config = SageConfig(candidates=50, feedback=FeedbackConfig(max_rounds=2))
        >>> config.feedback.max_rounds
        2

    Attributes:
        candidates: Chunks that the vector search gives to the reranker (paper: N). The keyword search
            gives up to half as many more.
        feedback: Settings of the selection and the feedback loop. Chunks count whole for
            ``selection.max_context_tokens``, and with the title and headings that the prompt shows.
        context: Chunks know where they stand: their title and headings are embedded and indexed with them, a
            keyword search proposes candidates too, and neighbors vouch for each other
            (`sage_core.ranking.vouch`). False: each chunk by its own text alone. A store is made with or
            without; the text that is stored or sent is the same.
        links: Documents that the question or the best chunks name join the candidates, and who named them
            vouches for them (`sage_core.ranking.links`). Only with ``context``, in a store that knows names.

    Raises:
        InputError: Where a number is no whole number, or below 1.
    """

    candidates: int = 60
    feedback: FeedbackConfig = field(default_factory=FeedbackConfig)
    context: bool = True
    links: bool = True

    def __post_init__(self) -> None:
        check_int("candidates", self.candidates, minimum=1)
        for name in ("context", "links"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} is True or False, not {getattr(self, name)!r}")
        if not isinstance(self.feedback, FeedbackConfig):
            raise InputError(f"feedback is a FeedbackConfig, not {self.feedback!r}")


@dataclass(frozen=True, slots=True)
class SageSettings:
    """Everything that shapes chunks and selections, as plain values that a JSON file can hold.

    `Sage.from_settings` and ``--settings`` of the command line load such a file. A setting that is left out
    has its default.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> settings = SageSettings(segmenter={"target_tokens": 60}, context=False)
        >>> path = settings.save(Path(tempfile.mkdtemp()) / "settings.json")
        >>> SageSettings.load(path) == settings
        True
        >>> settings.make_segmenter().target_tokens
        60

    Attributes:
        segmenter: Keywords of `Segmenter`: ``model`` (a name or a folder), ``target_tokens``, ``max_tokens``,
            ``min_tokens``, ``strategy``, ``threshold`` and ``coarse_tokens``.
        embedder: Name of the embedding model; see `sage_app.models.named_embedder`.
        context: See `SageConfig`.
        candidates: See `SageConfig`.
        selection: Settings of the selection. A rule of your own cannot be saved.
        made_by: Versions that wrote the file; information only.
        measured: Figures on which the settings rest; information only.

    Raises:
        InputError: For an unknown setting, or a value out of its range.
    """

    segmenter: Mapping[str, Any] = field(default_factory=dict)
    embedder: str = "all-MiniLM-L6-v2"
    context: bool = True
    candidates: int = 60
    selection: SelectionConfig = field(default_factory=SelectionConfig)
    made_by: Mapping[str, Any] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.embedder, str) or not self.embedder.strip():
            raise InputError(f"embedder is the name of a model, not {self.embedder!r}")
        if not isinstance(self.context, bool):
            raise InputError(f"context is true or false, not {self.context!r}")
        check_int("candidates", self.candidates, minimum=1)
        _known("setting of the segmenter", self.segmenter, _SEGMENTER)
        if not isinstance(self.selection, SelectionConfig):
            raise InputError(f"selection is a SelectionConfig, not {self.selection!r}")
        self.make_segmenter()  # a wrong value fails now; the model is not loaded

    @classmethod
    def load(cls, path: str | Path) -> SageSettings:
        """Read a file.

        Raises:
            InputError: Where there is no such file, it is no JSON object, or a setting in it is not known or
                out of its range; the message names the file.
        """
        path = as_path(path)
        try:
            if path.exists() and not path.is_file():  # a pipe would be waited for, a device read forever
                raise InputError(f"the settings file {path} is not a regular file")
            text = path.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise InputError(f"there is no settings file {path}: `sage-rag calibrate` writes one") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read the settings file {path}: {error}") from None
        try:
            data = json.loads(text)
            # Infinity, NaN and half a surrogate pair are read, but could not be written again.
            json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError) as error:
            raise InputError(f"the settings file {path} is not valid JSON: {error}") from None
        try:
            return cls.from_dict(data)
        except InputError as error:
            raise InputError(f"settings file {path}: {error}") from None

    @classmethod
    def from_dict(cls, data: Any) -> SageSettings:
        """Settings from what `to_dict` gave, or a file holds.

        Raises:
            InputError: For an unknown setting, or an invalid value.
        """
        if not isinstance(data, Mapping):
            raise InputError(f"settings are an object of names and values, not {shortened(data)}")
        names = tuple(field.name for field in fields(cls))
        _known("setting", data, (*names, "format"))
        settings = {name: data[name] for name in names if name in data}
        selection = settings.pop("selection", {})
        if not isinstance(selection, Mapping) or not isinstance(selection.get("rule", ""), str | Mapping):
            raise InputError(f"selection is an object; its rule a name or an object: {shortened(selection)}")
        return cls(**settings, selection=SelectionConfig.from_dict(selection))

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form.

        Raises:
            InputError: For a rule of your own, which no file can hold.
        """
        rule = rule_to_data(self.selection.rule)
        try:
            rule_from_data(rule)
        except InputError:
            name = type(self.selection.rule).__name__
            raise InputError(
                f"the rule {name} is your own: settings hold those of sage_core.selection"
            ) from None
        return {
            "segmenter": dict(self.segmenter),
            "embedder": self.embedder,
            "context": self.context,
            "candidates": self.candidates,
            "selection": self.selection.to_dict(),
            **({"made_by": dict(self.made_by)} if self.made_by else {}),
            **({"measured": dict(self.measured)} if self.measured else {}),
        }

    def save(self, path: str | Path) -> Path:
        """Write the file, in the place of one that is there, and return its path.

        Raises:
            InputError: Where it cannot be written.
        """
        path = as_path(path)
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror or error}") from error
        return path

    def make_segmenter(self) -> Segmenter:
        """A segmenter with these settings; its model is loaded on first use."""
        return Segmenter(**self.segmenter)


def load_settings(settings: SageSettings | str | Path) -> SageSettings:
    """Settings as they are, or from a file.

    Raises:
        InputError: As `SageSettings.load`.
    """
    return settings if isinstance(settings, SageSettings) else SageSettings.load(settings)


def _known(what: str, data: Any, names: tuple[str, ...]) -> None:
    if not isinstance(data, Mapping):
        raise InputError(f"the {what}s are an object of names and values, not {shortened(data)}")
    for name in data:
        if name not in names:
            hint = near_match(str(name), names)
            raise InputError(f"there is no {what} {name!r}{hint or '; there are ' + ', '.join(names)}")
