"""Access to fields and items of objects without running their code."""

from collections import deque
from itertools import islice
from types import MemberDescriptorType
from typing import Any, Final
from weakref import WeakKeyDictionary

from tracereel._runtime import guard

_SEQUENCES: Final = (list, tuple, set, frozenset, deque)
PLAIN_TYPES: Final = frozenset(
    {str, int, float, bool, bytes, bytearray, list, tuple, set, frozenset, complex, type(None)}
)
"""Types without named fields."""

_slots: WeakKeyDictionary[type, frozenset[str]] = WeakKeyDictionary()
"""Type → names of its slots; cached because walking the bases is expensive."""
_fields: WeakKeyDictionary[type, tuple[str, ...]] = WeakKeyDictionary()
"""Named tuple type → its field names in order."""


def attributes(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return named keys of a mapping or fields of an object, without None.

    An object whose class cannot be hashed or compared has none.
    """
    try:
        return _attributes(value, names)
    except Exception as error:  # noqa: BLE001 - code of a metaclass
        guard.pass_on(error)
        return {}


def _attributes(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    kind = type(value)
    known: dict[str, Any] = {}
    if kind in PLAIN_TYPES:
        return known
    if issubclass(kind, dict):
        for name in names:
            if (item := dict.get(value, name)) is not None:
                known[name] = item
        return known
    if issubclass(kind, tuple):
        fields = _fields.get(kind)
        if fields is None:
            fields = _fields[kind] = _field_names(kind)
        own_values = dict(zip(fields, tuple.__iter__(value), strict=False))
        return {name: own_values[name] for name in names if own_values.get(name) is not None}
    if own := own_fields(value):
        for name in names:
            if (item := own.get(name)) is not None:
                known[name] = item
    slots = _slots.get(kind)
    if slots is None:
        slots = _slots[kind] = _slot_names(kind)
    if slots:
        for name in names:
            if name in slots:
                try:
                    item = object.__getattribute__(value, name)
                except AttributeError:  # an unset slot
                    continue
                if item is not None:
                    known[name] = item
    return known


def own_fields(value: Any) -> dict[str, Any]:
    """Return the instance dictionary of an object, which may be empty."""
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return own if type(own) is dict else {}


def items(value: Any, most: int) -> list[Any]:
    """Return the first items of a standard collection; an empty list for other types."""
    kind = type(value)
    for known in _SEQUENCES:
        if issubclass(kind, known):
            try:
                return list(islice(known.__iter__(value), most))
            except RuntimeError:  # another thread is changing it
                return []
    return []


def is_sequence(value: Any) -> bool:
    """Return whether a value is a standard collection or a subclass of one."""
    return issubclass(type(value), _SEQUENCES)


def length(value: Any) -> int | None:
    """Return the length of a standard collection; None for other types."""
    kind = type(value)
    for known in (*_SEQUENCES, dict):
        if issubclass(kind, known):
            return known.__len__(value)
    return None


def _field_names(kind: type) -> tuple[str, ...]:
    for base in type.__getattribute__(kind, "__mro__"):
        found = type.__getattribute__(base, "__dict__").get("_fields")
        if type(found) is tuple and all(type(name) is str for name in found):
            return found
    return ()


def _slot_names(kind: type) -> frozenset[str]:
    names: set[str] = set()
    for base in type.__getattribute__(kind, "__mro__"):
        for name, found in type.__getattribute__(base, "__dict__").items():
            if type(found) is MemberDescriptorType:
                names.add(name)
    return frozenset(names)
