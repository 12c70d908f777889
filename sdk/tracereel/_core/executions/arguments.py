"""Arguments of a traced call by name, and the run ids among them."""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final
from uuid import UUID
from weakref import WeakKeyDictionary

from tracereel._redact import safe_access, values
from tracereel._redact.content import CONTEXTS
from tracereel._redact.secret_patterns import is_sensitive_key
from tracereel._runtime import guard

IDS: Final = ("trace_id", "request_id", "session_id", "user_id", "parent_trace_id")
_PROPERTIES: Final = frozenset({property, cached_property})
_OF_CLASS: Final = _PROPERTIES | {str, int, UUID}
_TRACE_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")

Ids = dict[str, str]
Defaults = tuple[tuple[int, str, Any], ...]
"""Optional parameters: position, name, default."""


class Arguments:
    """Arguments of a call by parameter name, without `self` and `cls`."""

    __slots__ = ("_pairs", "args", "defaults", "kwargs", "names", "skip")

    def __init__(
        self,
        names: tuple[str, ...],
        skip: int,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        defaults: Defaults = (),
    ) -> None:
        self.names = names
        self.skip = skip
        self.args = args
        self.kwargs = kwargs
        self.defaults = defaults
        self._pairs: list[tuple[str, object]] | None = None

    def __iter__(self) -> Iterator[tuple[str, object]]:
        return iter(self.pairs())

    def pairs(self) -> list[tuple[str, object]]:
        """Return names and values as passed, then the defaults of the others."""
        found = self._pairs
        if found is None:
            names, args, kwargs = self.names, self.args, self.kwargs
            found = list(zip(names, args, strict=False))
            if len(args) > len(names):
                found += [(f"arg{index}", args[index]) for index in range(len(names), len(args))]
            if self.skip:
                del found[: self.skip]
            if kwargs:
                found += kwargs.items()
            for position, name, value in self.defaults:
                if position >= len(args) and name not in kwargs:
                    found.append((name, value))
            self._pairs = found
        return found

    def left_at_default(self) -> list[str]:
        """Return the names of the parameters that were not passed."""
        args, kwargs = self.args, self.kwargs
        return [
            name
            for position, name, _ in self.defaults
            if position >= len(args) and name not in kwargs
        ]

    @property
    def owner(self) -> object:
        """The object of a method, or None."""
        return self.args[0] if self.skip and self.args else None

    def find(self, *wanted: str) -> object:
        """Return the first of these arguments that has a value or a default, else `None`."""
        for name in wanted:
            value = self.kwargs.get(name)
            if value is None and name in self.names:
                index = self.names.index(name)
                value = self.args[index] if self.skip <= index < len(self.args) else None
            if value is not None:
                return value
        for position, name, value in self.defaults:
            if name in wanted and position >= len(self.args) and name not in self.kwargs:
                return value
        return None

    def fields(self, *wanted: str) -> dict[str, object]:
        """Return these arguments by name, else fields of these names that an argument has."""
        named: dict[str, object] = {}
        inside: dict[str, object] = {}
        for name, value in self.pairs():
            if name in wanted and value is not None:
                named[name] = value
            elif found := safe_access.attributes(value, wanted):
                inside = found | inside
        return inside | named if inside else named

    def first_text(self, *but: str) -> object:
        """Return the first text among the passed arguments; ids, secrets and these do not count."""
        passed = [*zip(self.names, self.args, strict=False)][self.skip :]
        for name, value in (*passed, *self.kwargs.items()):
            if not issubclass(type(value), str) or name in IDS or name in but:
                continue
            # Redaction hides a secret under its own name, but not under another.
            if not is_sensitive_key(name):
                return value
        return None

    def ids(self) -> Ids:
        """Return the run ids among the arguments, by name or on a context object."""
        found: Ids = {}
        for name, value in self.pairs():
            try:
                if name in IDS:
                    put(found, name, value)
                elif type(value) not in safe_access.PLAIN_TYPES and (
                    name in CONTEXTS or not issubclass(type(value), dict)
                ):
                    _put_fields(found, name, value)
            except Exception as error:  # noqa: BLE001 - a class that cannot be hashed or compared
                guard.pass_on(error)
        return found


def _put_fields(ids: Ids, argument: str, value: object) -> None:
    """Add the ids that an argument holds."""
    for known, item in safe_access.attributes(value, IDS).items():
        if known not in ids:
            put(ids, known, item)
    if of_class := _ids_of_class(type(value)):
        _put_inherited(ids, argument, value, of_class)


_class_ids: WeakKeyDictionary[type, tuple[str, ...]] = WeakKeyDictionary()
"""Type → ids that it defines as class attributes or properties; most have none."""


def _ids_of_class(kind: type) -> tuple[str, ...]:
    names = _class_ids.get(kind)
    if names is None:
        found = {name: values.class_attribute(kind, name) for name in IDS}
        names = tuple(name for name, item in found.items() if type(item) in _OF_CLASS)
        _class_ids[kind] = names
    return names


def _put_inherited(ids: Ids, argument: str, value: object, names: tuple[str, ...]) -> None:
    """Add ids that a class attribute or, on a context object, a property has."""
    kind = type(value)
    own = safe_access.own_fields(value)
    is_context = argument in CONTEXTS or "context" in values.type_name(value).lower()
    for name in names:
        if name in ids or name in own:
            continue
        item = values.class_attribute(kind, name)
        if type(item) in _PROPERTIES:
            if not is_context:
                continue  # code of an object that may be anything
            try:
                item = getattr(value, name)
            except Exception as error:  # noqa: BLE001 - code of the program
                guard.pass_on(error)
                continue
        put(ids, name, item)


NO_ARGUMENTS: Final = Arguments((), 0, (), {})


def put(ids: Ids, name: str, value: object) -> None:
    """Add an id if the value is text, an integer or a UUID."""
    if type(value) is not str:
        if type(value) not in (int, UUID) and not issubclass(type(value), str):
            return
        value = values.label(value)
    usable = check(name, value)
    if usable is not None:
        ids[name] = usable


def check(name: str, value: Any) -> str | None:
    """Return a valid id or `None`."""
    if not value:
        return None
    if name in ("trace_id", "parent_trace_id"):
        return value if _TRACE_ID.fullmatch(value) else None
    return values.text(value, values.SHORT_LIMIT)


def given(options: Mapping[str, object]) -> Ids:
    """Return the ids among the options of a decorator."""
    ids: Ids = {}
    for name, value in options.items():
        if value is not None:
            put(ids, name, value)
    return ids
