"""Confidence, decision type, reasoning and outcome of an execution, read from its result.

The result is an object of the program: only fields, keys and class attributes are read, no code of it
runs.
"""

from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from numbers import Real
from typing import Any, Final

from tracereel._redact import safe_access, values
from tracereel._runtime import guard

NamesByField = tuple[tuple[str, tuple[str, ...]], ...]
"""Field of the closing event → names of the result's fields or keys, in order of precedence."""


def confidence(value: object) -> float | None:
    """Return a number between 0 and 1, or None; text and booleans are not numbers."""
    return values.ratio(value) if issubclass(type(value), (Real, Decimal)) else None


def _label(value: object) -> str | None:
    return values.label(value) or None if issubclass(type(value), (str, Enum)) else None


def _text(value: object) -> str | None:
    return values.label(value, values.TEXT_LIMIT) if issubclass(type(value), str) else None


_PLAIN: Final = (float, int, str)
_CHECKS: Final[dict[str, Callable[[object], Any]]] = {
    "confidence": confidence,
    "decision_type": _label,
    "reasoning": _text,
    "outcome": _label,
}


class ResultReader:
    """Reader of the fields that a configuration names."""

    __slots__ = ("_names", "_wanted")

    def __init__(self, names: NamesByField) -> None:
        self._names = names
        self._wanted = tuple({name: None for _, given in names for name in given})

    def read(self, result: object) -> dict[str, Any]:
        """Return the usable fields of a result."""
        found = safe_access.attributes(result, self._wanted)
        if len(found) < len(self._wanted):
            found = _inherited(type(result), self._wanted) | found
        if not found:
            return found
        fields: dict[str, Any] = {}
        for field, names in self._names:
            for name in names:
                if name in found and (value := _checked(field, found[name])) is not None:
                    fields[field] = value
                    break
        return fields


def _inherited(kind: type, wanted: tuple[str, ...]) -> dict[str, Any]:
    """Return plain class attributes, such as the confidence of all results of a rule."""
    try:
        if kind in safe_access.PLAIN_TYPES or issubclass(kind, (dict, tuple)):
            return {}
    except Exception as error:  # noqa: BLE001 - code of a metaclass
        guard.pass_on(error)
        return {}
    known = ((name, values.class_attribute(kind, name)) for name in wanted)
    return {name: item for name, item in known if type(item) in _PLAIN}


def _checked(field: str, value: object) -> Any:
    try:
        return _CHECKS[field](value)
    except Exception as error:  # noqa: BLE001 - code of a metaclass
        guard.pass_on(error)
        return None


DEFAULT: Final = ResultReader(tuple((field, (field,)) for field in _CHECKS))
"""Reader of the default names, for code that runs with recording off."""
