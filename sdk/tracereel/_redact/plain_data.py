"""Bounded traversal of arbitrary values without running their code.

An argument of a traced call may raise in `__repr__`, refer to itself, hold 50 MB, or query a
database when iterated. So the walk calls no `repr`, `str`, `len`, `__iter__` or property of unknown
types: known types are read through their base class, other objects through their fields.

Subclasses of `Walk` define the result: JSON data, a size, a summary, redacted data.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import islice
from pathlib import PosixPath, PurePosixPath, PureWindowsPath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any, Final, Generic, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

_AS_STR: Final = frozenset(
    id(kind)
    for kind in (
        *(datetime, date, time, timedelta, Decimal, UUID, ZoneInfo, complex, range),
        *(PosixPath, PurePosixPath, PureWindowsPath),
    )
)
"""Ids of standard types with a short, cheap `str`.

By id, because a class whose metaclass defines `__eq__` may not be hashable.
"""
_SEQUENCES: Final = (list, tuple, set, frozenset, deque)
BYTES: Final = (bytes, bytearray, memoryview)
CALLABLES: Final = (FunctionType, BuiltinFunctionType, MethodType)
_SCALARS: Final = (NoneType, int, float, Enum, *BYTES, type, *CALLABLES, ModuleType)

Result = TypeVar("Result")
Pairs = Sequence[tuple[Any, Any]]


class NotPlainError(Exception):
    """A value is not JSON data, or not within the limits of the walk."""


class Walk(Generic[Result]):
    """Depth-first pass over one value, with cycle detection and a budget of nodes.

    Without `fields` and the last four hooks it accepts plain JSON data only.
    """

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self._path: set[int] = set()

    def visit(self, value: Any, depth: int) -> Result:
        """Return the result for a value and at most `depth` levels of containers."""
        self.nodes -= 1
        kind = type(value)
        if kind is str:
            return self.text(value)
        if kind is not dict and kind is not list:
            if issubclass(kind, str):
                return self.text(value)
            if issubclass(kind, _SCALARS) or id(kind) in _AS_STR:
                return self.scalar(value, kind)
        path, identity = self._path, id(value)
        if identity in path:
            return self.cycle()
        most = self.room()
        if depth <= 0 or most <= 0:
            return self.cut()
        path.add(identity)
        try:
            if issubclass(kind, dict):
                pairs = take(dict.items(value), most)
                return self.mapping(value, pairs, dict.__len__(value), depth - 1)
            for known in _SEQUENCES:
                if issubclass(kind, known):
                    items = take(known.__iter__(value), most)
                    return self.sequence(value, items, known.__len__(value), depth - 1)
            fields = self.fields(value, kind, most)
            if fields is None:
                return self.opaque(value)
            return self.record(value, fields, depth - 1)
        finally:
            path.discard(identity)

    def room(self) -> int:
        """Return how many parts of the next container to read; 0 to cut it."""
        return self.nodes

    def fields(self, value: Any, kind: type, most: int) -> Pairs | None:  # noqa: ARG002 - a hook
        """Return names and values of an object's readable fields, or None."""
        return None

    def text(self, value: str) -> Result:
        """Return the result for a string."""
        raise NotImplementedError

    def scalar(self, value: Any, kind: type) -> Result:
        """Return the result for None, a number, enum, bytes, date, class or function."""
        raise NotImplementedError

    def mapping(self, value: Any, pairs: Pairs, length: int, depth: int) -> Result:
        """Return the result for a dictionary with `length` items, of which `pairs` were read."""
        raise NotImplementedError

    def sequence(self, value: Any, items: Sequence[Any], length: int, depth: int) -> Result:
        """Return the result for a list, tuple, set or deque."""
        raise NotImplementedError

    def record(self, value: Any, fields: Pairs, depth: int) -> Result:  # noqa: ARG002 - a hook
        """Return the result for an object with fields."""
        raise NotPlainError

    def opaque(self, value: Any) -> Result:  # noqa: ARG002 - a hook
        """Return the result for an object without readable fields."""
        raise NotPlainError

    def cut(self) -> Result:
        """Return the result for a container beyond the depth or the budget."""
        raise NotPlainError

    def cycle(self) -> Result:
        """Return the result for a container inside itself."""
        raise NotPlainError


def take(items: Iterable[Any], most: int) -> list[Any]:
    """Return the first items, even if another thread is changing the collection."""
    taken: list[Any] = []
    try:
        taken.extend(islice(items, most))
    except RuntimeError:
        pass
    return taken
