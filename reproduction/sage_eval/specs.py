"""Reading configurations: a kind and its settings, with nothing unknown and nothing of the wrong type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, overload

from sage_core.errors import InputError

Spec = str | Mapping[str, object]
"""A name, or a mapping that has the name under ``kind`` (methods: ``method``) and its settings beside it."""

T = TypeVar("T")


class Settings:
    """One configuration while it is read: each setting is taken once, and what is left is an error.

    Args:
        spec: The configuration; a string is its kind alone.
        what: What it configures, for messages (``"index"``).
        key: Where the kind stands.

    Raises:
        InputError: Where it is neither a string nor a mapping with a kind.
    """

    def __init__(self, spec: Spec, what: str, *, key: str = "kind") -> None:
        found: object = {key: spec} if isinstance(spec, str) else spec
        if not isinstance(found, Mapping) or not isinstance(found.get(key), str):
            raise InputError(f"an {what} is a name or a mapping with {key!r}, not {spec!r}")
        self._left = {str(k): v for k, v in found.items() if k != key}
        self._what = what
        self.kind: str = found[key]

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def raw(self, name: str) -> object:
        """A setting whatever its type; None if it is left out."""
        return self._left.pop(name, None)

    @overload
    def take(self, name: str, kind: type[T], default: T) -> T: ...

    @overload
    def take(self, name: str, kind: type[T], default: None = None) -> T | None: ...

    def take(self, name: str, kind: type[T], default: T | None = None) -> T | None:
        """A setting of a type; ``default`` where it is left out or None.

        Raises:
            InputError: For a value of another type. A whole number is also a float, a bool is no number.
        """
        value = self._left.pop(name, None)
        if value is None:
            return default
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise InputError(f"{self._where()}: {name} is a {kind.__name__}, not {value!r}")
        return value

    def need(self, name: str, kind: type[T]) -> T:
        """`take` of a setting that cannot be left out."""
        value = self.take(name, kind)
        if value is None:
            raise InputError(f"{self._where()} needs {name!r}")
        return value

    @overload
    def spec(self, name: str, default: Spec) -> Spec: ...

    @overload
    def spec(self, name: str, default: None = None) -> Spec | None: ...

    def spec(self, name: str, default: Spec | None = None) -> Spec | None:
        """A setting that is a configuration itself."""
        value = self._left.pop(name, None)
        if value is None:
            return default
        if not isinstance(value, str | Mapping):
            raise InputError(f"{self._where()}: {name} is a name or a mapping, not {value!r}")
        return value

    def rest(self) -> dict[str, object]:
        """All that has not been taken."""
        left, self._left = self._left, {}
        return left

    def end(self) -> None:
        """Raise InputError where a setting is left that nobody knows."""
        if self._left:
            raise InputError(f"{self._where()} has no setting {', '.join(map(repr, sorted(self._left)))}")

    def _where(self) -> str:
        return f"{self._what} {self.kind!r}"
